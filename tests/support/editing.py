"""A coding agent of the standard library, scripted: its tools change files, and start subagents.

`steps` makes the rules by which an `Upstream` plays its model: a task is a list of steps, each a
list of calls; calls of one step are carried out at once.
"""

import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.folders import repository
from tests.support.here import refold_here
from tests.support.traffic import Call, Reply, Rule
from tests.support.upstream import Upstream

Step = Sequence[tuple[str, Mapping[str, Any]]]

AGENT: Final = """
    import concurrent.futures, http.client, json, os, pathlib, subprocess, sys, urllib.parse

    base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])

    def ask(messages):
        connection = http.client.HTTPConnection(base.netloc, timeout=60)
        headers = {"authorization": "Bearer " + os.environ.get("OPENAI_API_KEY", "sk-placeholder")}
        body = json.dumps({"model": "m", "messages": messages})
        connection.request("POST", base.path + "/chat/completions", body, headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            sys.exit(f"API Error: {answer.status} {said.decode()}")
        return json.loads(said)["choices"][0]["message"]

    def read(path):
        return pathlib.Path(path).read_text()

    def write(file_path, text):
        file = pathlib.Path(file_path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return "written"

    def edit(file_path, old, new):
        file = pathlib.Path(file_path)
        text = file.read_text()
        if old not in text:
            return "not found: " + old
        file.write_text(text.replace(old, new))
        return "edited"

    def bash(command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        return done.stdout + done.stderr + f"exit {done.returncode}"

    def task(prompt, subagent_type="worker"):
        return run(prompt)

    def run(prompt):
        system = "You change files. Task: " + prompt
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        while True:
            said = ask(messages)
            messages.append(said)
            calls = said.get("tool_calls") or []
            if not calls:
                return said["content"]
            with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
                results = list(pool.map(do, calls))
            for call, result in zip(calls, results):
                told = {"role": "tool", "tool_call_id": call["id"], "content": result}
                messages.append(told)

    def do(call):
        known = {"Read": read, "Write": write, "Edit": edit, "Bash": bash, "Task": task}
        named = call["function"]
        return known[named["name"]](**json.loads(named["arguments"]))

    print(run(sys.argv[1]))
    if "LATE" in os.environ:  # after its last request
        write("late.txt", os.environ["LATE"])
"""


def agent(folder: Path, task: str) -> list[str]:
    """Write the agent into a folder, and return the command that does a task."""
    file = folder / "agent.py"
    file.write_text(textwrap.dedent(AGENT))
    return [sys.executable, str(file), task]


def steps(task: str, listed: Sequence[Step]) -> list[Rule]:
    """Return the rules by which a model does a task: one reply a step, and `done`."""
    rules, shown = [], 0
    for number, step in enumerate([*listed, ()]):
        calls = tuple(
            Call(id=f"call_{task}_{number}_{place}", name=name, arguments=json.dumps(given))
            for place, (name, given) in enumerate(step)
        )
        reply = Reply(text="" if calls else "done", calls=calls)
        when = {"system": f"Task: {task}", "user": task, "results": [""] * shown}
        rules.append(Rule(name=f"{task}-{number}", when=when, then=reply))
        shown += len(calls)
    return rules


def record_edits(folder: Path, name: str, edit: dict[str, str]) -> Path:
    """Record a run whose main agent edits a file and whose subagent adds one and removes one."""
    top = repository(folder / name, {"a.py": "one\n", "b.py": "bee\n", "pkg/x.py": "x\n"})
    (top / "big").write_bytes(b"\0" * 100)
    helped = ("Task", {"prompt": "helper", "subagent_type": "helper"})
    rules = steps("main", [[("Edit", {"file_path": "a.py", "old": "one", **edit})], [helped]])
    rules += steps("helper", [[("Bash", {"command": "rm b.py; echo new > pkg/new.py"})]])
    log = folder / f"{name}.jsonl"
    with Upstream(rules) as upstream:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), **upstream.environment()}
        words = ["record", "--log", log, "--", *agent(folder, "main")]
        done = refold_here(*words, folder=top, environment=env)
    assert done.exit_code == 0, done.stderr
    return log
