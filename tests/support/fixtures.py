"""Writes the recorded fixtures anew: `python -m tests.support.fixtures`.

That is `fixtures/logs/engine-<version>`, of the programs of `kept_programs`, the command of
`kept_watched` and one that works in a folder, and `fixtures/conformance`. Read what `git diff`
shows of it.
"""

import os
import platform
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from click.testing import Result

import refold
from refold.engine.events.flags import ENGINE_VERSION
from tests.support import conformance, kept_watched
from tests.support.here import refold_here
from tests.support.kept_programs import INPUTS, LIMITS, MODELS, OFFERED, PROGRAMS, TOOLS
from tests.support.upstream import Upstream
from tests.support.watched import record

LOGS: Final = conformance.SET.parent / "logs" / f"engine-{ENGINE_VERSION}"


WORKS: Final = """
import json, os, pathlib, urllib.request
said = (("system", "the weather desk"), ("user", "Hello"))
messages = [{"role": role, "content": text} for role, text in said]
body = {"model": "gpt-5-mini", "messages": messages}
headers = {"content-type": "application/json", "authorization": "Bearer none"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
with urllib.request.urlopen(request) as response:
    answer = json.load(response)["choices"][0]["message"]["content"]
pathlib.Path("kept.txt").write_text(answer)
os.remove("gone.txt")
os.mkdir("new")
os.symlink("../kept.txt", "new/link")
"""
"""A command that asks once; and changes, removes and links files where it is started."""

ANSWERS: Final = {"0#1": True, "0#2": False}
"""What a person says, in a process of its own each time; `waiting` has the first answer alone."""


def works(folder: Path, *words: object, **variables: str) -> Result:
    """Run `refold` with the command that works in a folder."""
    told = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), **variables}
    return refold_here(*words, "--", "python3", "-c", WORKS, folder=folder, environment=told)


def write(folder: Path) -> None:
    """Record a log of each program; and of the two commands."""
    for name, given in INPUTS.items():
        refold.record(
            PROGRAMS[name],
            given,
            log=folder / f"{name}.jsonl",
            tools=OFFERED.get(name, TOOLS),
            model=MODELS.get(name),
            models={"openai:gpt-4o": MODELS[name]} if name == "delegating" else {},
            limits=LIMITS.get(name),
        )
    refold.fork(
        folder / "plainly.jsonl",
        program=PROGRAMS["forked"],
        into=folder / "forked.jsonl",
        edits={"0#2": 50},
        sources=refold.Sources(tools="live"),
        tools=TOOLS,
    )
    answered, program = folder / "answered.jsonl", PROGRAMS["answered"]
    for key, answer in ANSWERS.items():
        shutil.copy(answered, folder / "waiting.jsonl")
        refold.resume(answered, program, answers={key: answer}, by="ada", tools=TOOLS)
    record(folder / "watched.jsonl", kept_watched.EXCHANGES)
    with TemporaryDirectory() as place:
        (work := Path(place, "work")).mkdir()
        for name in ("kept.txt", "gone.txt"):
            (work / name).write_text("here before\n")
        with Upstream() as models:
            log = folder.resolve() / "folder.jsonl"
            works(work, "record", "--log", log, **models.environment())


if __name__ == "__main__":
    os.uname = lambda: os.uname_result(("", "host", "", "", ""))  # logs name the machine
    platform.node = lambda: "host"
    for target, make in ((LOGS, write), (conformance.SET, conformance.write)):
        shutil.rmtree(target, ignore_errors=True)
        make(target)
