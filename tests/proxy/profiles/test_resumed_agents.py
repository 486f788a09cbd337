"""Coding agents that were broken at random ask for what is missing, and end well (§16.21).

Each is skipped where its program is not on PATH.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import attrs
import pytest

from tests.proxy.profiles.test_agents import KEYS, TITLE, _calls, _folder, _home
from tests.proxy.test_sessions import refold_does
from tests.support.traffic import Refusal, Reply, Rule
from tests.support.upstream import Upstream

pytestmark = pytest.mark.long

WORDS: Final = ("ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX")
CLAUDE: Final = ("claude", "-p", "SURVEY the notes", "--allowedTools", "Read,Agent")
OPENCODE: Final = ("opencode", "run", "-m", "anthropic/claude-sonnet-4-5", "SURVEY the notes")
FAULTS: Final = ("429", "529", "cut", "kill")


def _rules(words: tuple[str, ...], tool: str, more: dict[str, object], reading: str, path: str
           ) -> list[Rule]:  # fmt: skip
    """Return rules by which an agent hands work to one subagent a word, who reads a file each."""
    handed = [
        {"description": f"count {word}", "prompt": f"{word}: count the words of a.txt", **more}
        for word in words
    ]
    rules = [
        Rule(name="titles", when={"user": "Write the title"}, then=TITLE),
        Rule(name="names", when={"system": "title generator"}, then=TITLE),
        Rule(name="hands", when={"user": "SURVEY"}, then=_calls(tool, *handed)),
        Rule(name="ends", when={"user": "SURVEY", "results": [f"{word} has" for word in words]},
             then=Reply(text="all counted")),
        Rule(name="gives up", when={"user": "SURVEY", "results": [""] * len(words)},
             then=Reply(text="some failed")),
    ]  # fmt: skip
    for word in words:
        reads = _calls(reading, {path: "a.txt"})
        counts = Reply(text=f"{word} has six words")
        rules += [
            Rule(name=f"reads {word}", when={"user": word}, then=reads),
            Rule(name=f"counts {word}", when={"user": word, "results": ["one"]}, then=counts),
        ]
    return rules


AGENTS: Final = {
    "claude-code": (CLAUDE, _rules(WORDS, "Agent", {"subagent_type": "general-purpose",
                    "run_in_background": False}, "Read", "file_path")),
    "opencode": (OPENCODE, _rules(WORDS[:3], "task", {"subagent_type": "general"}, "read",
                                  "filePath")),
}  # fmt: skip


def _broken(rule: Rule, fault: str) -> Rule:
    if fault.isdigit():
        return attrs.evolve(rule, then=Refusal(status=int(fault), message="limit"))
    return attrs.evolve(rule, manner={"cut_after": 1} if fault == "cut" else {"hold": True})


def _asked(upstream: Upstream) -> Counter[str]:
    """Return how often each rule answered, without what any run asks as it likes."""
    return Counter(one.rule for one in upstream.received if one.api and one.rule != "names")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_was_broken_ends_as_it_would_have(
    name: str, seed: int, tmp_path: Path
) -> None:
    """By a limit, an overload, a cut stream or a kill, in several subagents at once."""
    command, rules = AGENTS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    draw, log, new = Random(seed), str(tmp_path / "run.jsonl"), str(tmp_path / "new.jsonl")
    folder, home = _folder(tmp_path / "one"), {"HOME": str(_home(tmp_path / "home")), **KEYS}
    home["CLAUDE_CODE_MAX_RETRIES"] = "0"
    fault = FAULTS[seed % len(FAULTS)]
    steps = [rule.name for rule in rules if rule.name.startswith(("reads", "counts"))]
    breaks = {*draw.sample(steps, 2)}
    with Upstream([_broken(r, fault) if r.name in breaks else r for r in rules]) as upstream:
        started = subprocess.Popen(
            [sys.executable, "-m", "refold", "record", "--log", log, "--", *command],
            cwd=folder, env={"PATH": os.environ["PATH"], **upstream.environment(), **home},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:  # opencode retries for ever, and what is held never ends: both are killed
            started.wait(40)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
    words = ["resume", log, "--into", new, "--json", "--", *command]
    with Upstream(rules) as upstream:
        done = refold_does(*words, folder=folder, more={**upstream.environment(), **home})
        asked = _asked(upstream)
    document = json.loads(done.stdout)

    assert (done.returncode, document["status"]) == (0, "completed"), done.stderr
    assert "all counted" in done.stderr
    needed = {step for step in steps if step in breaks or _follows(step, breaks)}
    if fault != "kill":  # then others had not come to their end either
        assert set(asked) - {"titles"} == {*needed, "ends"}
    assert set(asked) >= {*needed, "ends"}
    assert max(asked.values()) == 1
    again = refold_does("replay", new, "--", *command, folder=folder, more=home)
    assert again.returncode == 0, again.stderr


def _follows(step: str, breaks: set[str]) -> bool:
    """Return whether a subagent takes a step after one that is broken."""
    return step.startswith("counts") and step.replace("counts", "reads") in breaks
