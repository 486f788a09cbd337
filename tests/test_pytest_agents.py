"""An agent of a real client is recorded once, and its delegation tested with the server off.

What a user of the plugin does from beginning to end: the OpenAI client, a local server, an agent
that hands a task to a subagent, a snapshot; then a prompt changes (CONTRACT.md §13.12).
"""

import json
from importlib.util import find_spec
from typing import Any

import pytest

from tests.support.model_server import OPENAI_PATH, Answer, ModelServer
from tests.support.suites import Suite

pytest_plugins = ["pytester"]
if find_spec("openai") is None:  # to import it here would take each worker a second
    pytest.skip("needs openai", allow_module_level=True)

AGENT = '''
import refold
from refold.engine.program.agent import agent

PROMPT = """You write reports about the sea.
Give each question of fact to a subagent.
Answer in one sentence."""

@refold.tool(effect="reads")
def search(query: str) -> str:
    """Search the almanac."""
    return f"{query}: twice a day"

async def reporter(run, question):
    asked = {"name": "reporter", "system": PROMPT, "tools": ["subagent"]}
    report = await agent(run, {"agent": asked, "task": question})
    return report.output
'''

TEST = """
import os
from agent import reporter, search
from refold.engine.models import OpenAICompatibleModel
from refold.tools.delegation.subagent import subagent_tool

def test_reporter(refold_run, delegation_snapshot):
    model = OpenAICompatibleModel("small-1", base_url=os.environ["MODEL_URL"], max_retries=0)
    tools = [search, subagent_tool(tools=("search",))]
    recording = refold_run(reporter, "How often is high tide?", tools=tools, model=model)
    assert recording.output == "High tide is twice a day."
    assert recording == delegation_snapshot
"""


def _answer(**message: Any) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "small-1"}
    return Answer(body=body | {"choices": [choice], "usage": usage})


def _call(name: str, **arguments: str) -> Answer:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return _answer(content=None, tool_calls=[call])


ANSWERS = [
    _call("subagent", task="Find out how often high tide is."),
    _call("search", query="high tide"),
    _answer(content="Twice a day."),
    _answer(content="High tide is twice a day."),
]


@pytest.fixture
def recorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """The suite, recorded with the server on; it is off from then on."""
    suite = Suite(pytester)
    suite.write(agent=AGENT, test_it=TEST)
    with ModelServer({OPENAI_PATH: ANSWERS}) as server:
        monkeypatch.setenv("MODEL_URL", server.openai_url)
        suite.passes("--refold-record=once", "--snapshot-update")
        assert len(server.received) == 4
    return suite


def test_an_agents_delegation_is_tested_with_the_server_off(recorded: Suite) -> None:
    """Recorded once, it is replayed: no request, no tool, no child; the snapshot can be read."""
    recorded.passes()

    assert recorded.logs() == ["test_reporter.1.jsonl", "test_reporter.jsonl"]
    (snapshot,) = (recorded.folder / "__snapshots__").rglob("*.delegation.txt")
    text = snapshot.read_text(encoding="utf-8")
    assert "brief: Find out how often high tide is." in text
    assert "tokens" not in text


@pytest.mark.long
def test_a_snapshot_counts_tokens_where_it_is_told_to(recorded: Suite) -> None:
    """And one of a time when all did says what is left out now, and how to accept that."""
    recorded.edit(
        "test_it", "def test", "import pytest\n@pytest.mark.refold(tokens=True)\ndef test"
    )
    recorded.passes("--snapshot-update")
    (snapshot,) = (recorded.folder / "__snapshots__").rglob("*.delegation.txt")
    counted = snapshot.read_text(encoding="utf-8")
    assert "tokens: 80 in, 20 out, with all below" in counted
    recorded.passes()

    recorded.edit("test_it", "@pytest.mark.refold(tokens=True)\n", "")
    said = recorded.fails()
    _, _, shown = said.partition("delegation: what changed")
    assert "- tokens: 80 in, 20 out, with all below" in shown
    assert "Only the token counts differ" in shown
    assert "To include them, use @pytest.mark.refold(tokens=True)" in shown
    assert "update the snapshot: pytest test_it.py::test_reporter --snapshot-update" in shown

    snapshot.write_text(counted.replace("search x1", "search x2"), encoding="utf-8")
    assert "Only the token counts differ" not in recorded.fails()
    recorded.passes("--snapshot-update")
    assert "tokens" not in snapshot.read_text(encoding="utf-8")


def test_a_changed_prompt_fails_with_a_report_to_act_on(recorded: Suite) -> None:
    """Which request, which message, which words, which line of the program, and what to do."""
    recorded.edit("agent", "Answer in one sentence.", "Answer in one short sentence.")

    said = recorded.fails()

    assert "args_changed: a call is made with different arguments" in said
    assert "where reporter > openai:small-1#1" in said
    assert "Answer in one sentence." in said
    assert "Answer in one short sentence." in said
    assert "(entry 1 of recordings/test_it/test_reporter.jsonl)" in said
    assert "pytest test_it.py::test_reporter --refold-accept" in said


@pytest.mark.long
def test_a_prompt_is_recorded_again_when_that_is_meant(
    recorded: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the server off the old recording stays; with it on the new one takes its place."""
    recorded.edit("agent", "Answer in one sentence.", "Answer in one short sentence.")
    old = (recorded.recordings / "test_reporter.jsonl").read_bytes()

    said = recorded.fails("--refold-record=rewrite")
    assert (
        "not used, because its run did not complete: recordings/test_it/test_reporter.failed.jsonl"
        in said
    )
    assert (recorded.recordings / "test_reporter.jsonl").read_bytes() == old

    with ModelServer({OPENAI_PATH: ANSWERS}) as server:
        monkeypatch.setenv("MODEL_URL", server.openai_url)
        recorded.passes("--refold-record=rewrite")
    recorded.passes()
    assert (recorded.recordings / "test_reporter.jsonl").read_bytes() != old
