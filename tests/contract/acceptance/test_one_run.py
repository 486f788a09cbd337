"""One run with all five delegation tools, nested, as a user of `refold run` has it.

In process and in subprocesses mixed, with a script in the model's place and with a server on
loopback that speaks OpenAI's protocol: recorded, verified, replayed, recorded again and diffed.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refold.cli.group import refold
from refold.engine.log.reader import read_entries
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from refold.tools import POLICIES
from tests.support.model_server import OPENAI_PATH, Answer, ModelServer, Received

LEAD = """---
name: lead
description: Leads.
tools: [look, subagent, dispatch_subagent, dispatch_subagents, subagent_dispatch, spawn,
  spawn_await]
---
You lead.
"""
OWN = """
import refold
from refold.tools import subagent_tool


@refold.tool(effect="reads")
def look(at: str) -> str:
    \"\"\"Look at a file.\"\"\"
    return f"saw {{at}}"


TOOLS = [look, subagent_tool(runner="{runner}")]
"""


def calls(*named: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": given} for name, given in named]}


FORKED = {"mode": "ad_hoc", "prompt_ns": "agents", "prompt_key": "scribe", "instructions": "write"}
PLANS = [{"objective": "one", "steps": ["a", "b"]}, {"objective": "two", "steps": []}]
SCRIPT: dict[str, list[Any]] = {
    "lead": [
        calls(
            ("subagent", {"task": "count"}),
            ("dispatch_subagent", FORKED),
            ("dispatch_subagents", {"tasks": PLANS}),
            ("subagent_dispatch", {"agent_id": "reviewer", "task": "review"}),
            ("spawn", {"task": "dig"}),
            ("spawn", {"task": "mine", "profile": "miner"}),
        ),
        calls(("spawn_await", {"job_ids": "*"})),
        "done",
    ],
    "subagent": [calls(("look", {"at": "a.txt"}), ("subagent", {"task": "count"})), "counted"],
    "agents/scribe": [calls(("spawn", {"task": "dig"}), ("subagent", {"task": "count"})),
                      calls(("spawn_await", {"job_ids": "*"})), "written"],
    "run-delegation": [calls(("planning_read_plan", {}), ("subagent", {"task": "count"})),
                       "planned"],
    "reviewer": [calls(("subagent_dispatch", {"agent_id": "scribe", "task": "fix"}),
                       ("dispatch_subagents", {"tasks": PLANS[:1]})), "reviewed"],
    "scribe": [calls(("subagent", {"task": "count"})), "fixed"],
    "spawn": [calls(("subagent", {"task": "count"})), "dug"],
    "miner": ["mined"],
}  # fmt: skip
"""What each agent says; each tool once for the lead, and once more inside another's child."""
TASKS = {
    "go": "lead", "count": "subagent", "write": "agents/scribe", "one": "run-delegation",
    "two": "run-delegation", "review": "reviewer", "fix": "scribe", "dig": "spawn",
    "mine": "miner",
}  # fmt: skip
"""Who is given which task: all that a server is told of an agent."""
NESTED = {
    *(("", tool) for tool in POLICIES),
    # In a child of its own it is not offered.
    *((tool, "subagent") for tool in POLICIES if tool != "subagent"),
    ("dispatch_subagent", "spawn"),
    ("subagent_dispatch", "subagent_dispatch"),
    ("subagent_dispatch", "dispatch_subagents"),
}
"""Whose child started which."""


class ScriptedServer(ModelServer):
    """Gives the n-th reply of the script to a request that holds n-1 replies: it keeps nothing."""

    def next_answer(self, request: Received) -> Answer:
        """Return the reply as OpenAI's API has it."""
        self.received.append(request)
        messages = request.body["messages"]
        (task, *_) = (one["content"] for one in messages if one["role"] == "user")
        said = sum(one["role"] == "assistant" for one in messages)
        return Answer(body=_completion(SCRIPT[TASKS[task]][said], number=said))


def _completion(reply: Any, *, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(reply, str):
        message["content"] = reply
    else:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{place}",
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }
            for place, call in enumerate(reply["tool_calls"])
        ]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "stop" if isinstance(reply, str) else "tool_calls",
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the agents, profiles, and a script; the working directory."""
    monkeypatch.chdir(tmp_path)
    for agent, text in (
        ("lead", LEAD),
        ("reviewer", "---\ndescription: Reviews.\n---\nYou review.\n"),
        ("scribe", "---\ndescription: Writes.\n---\nYou write.\n"),
    ):
        (tmp_path / "agents" / agent).mkdir(parents=True)
        (tmp_path / "agents" / agent / "AGENT.md").write_text(text)
    (tmp_path / "refold.yaml").write_text(
        "agents: agents\n"
        "tools: {spawn: {enabled: true, profiles: {miner: {system_prompt: You mine.}}}}\n"
    )
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return tmp_path


@pytest.fixture
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """How the command names the model: a script's file, or a server that is there meanwhile."""
    if request.param == "scripted":
        yield ["--model", "scripted:script.json"]
        return
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ScriptedServer({OPENAI_PATH: []}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        yield ["--model", "openai:any-model"]
        assert len(server.received) == 2 * 37, "two recordings ask, and no replay"


def refolded(*words: object) -> Result:
    return CliRunner().invoke(refold, [str(word) for word in words])


@pytest.mark.long  # eight recordings, each with a dozen processes
@pytest.mark.parametrize("model", ["scripted", "openai"], indirect=True)
@pytest.mark.parametrize(
    ("runner", "of_subagents"), [("in-process", "subprocess"), ("subprocess", "in-process")]
)
def test_all_five_tools_in_one_run_of_the_command(
    project: Path, model: list[str], runner: str, of_subagents: str
) -> None:
    (project / "own.py").write_text(OWN.format(runner=of_subagents))
    recording = ["run", "agents/lead", "--task", "go", *model, "--runner", runner]
    for log in ("one/run.jsonl", "two/run.jsonl"):
        said = refolded(*recording, "--tools", "own.py:TOOLS", "--log", log)
        assert said.exit_code == 0, said.output
        assert said.stdout == "done\n"

    root = delegation_tree("one/run.jsonl")
    ran = [node for node in all_below(root) if node.status != "rejected"]
    assert {node.status for node in ran} == {"completed"}
    assert {(above.tool, node.tool) for above, node in pairs_of(root)} == NESTED
    on = {(node.tool, next(read_entries(node.log)).meta["runner"]) for node in ran}
    assert on == {(tool, of_subagents if tool == "subagent" else runner) for tool, _ in on}
    answers = {
        ("verify", "one/run.jsonl"): r"complete +yes",
        ("replay", "one/run.jsonl", "--tools", "own.py:TOOLS"): "identical: .*executed: 0",
        ("replay", "two/run.jsonl"): "identical: .*executed: 0",
        ("diff", "one/run.jsonl", "two/run.jsonl"): "no differences: .* in 18 runs compared",
    }
    for words, expected in answers.items():
        said = refolded(*words)
        assert said.exit_code == 0, said.output
        assert re.search(expected, said.stdout), said.output


def pairs_of(node: RunNode) -> Iterator[tuple[RunNode, RunNode]]:
    """Yield each run that was started, with the one that asked for it."""
    for child in node.children:
        yield node, child
        yield from pairs_of(child)


def all_below(node: RunNode) -> list[RunNode]:
    return [child for _, child in pairs_of(node)]
