"""`refold mcp --delegate`: the subagents of an MCP client are recorded, capped and replayable."""

import asyncio
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import Result

import refold
from refold.cli.commands.more.mcp import recorded
from refold.engine.models import FunctionModel, ScriptedModel
from refold.engine.runners.recorded import Recording
from refold.tools.configuration.prepared_run import delegation_run, planned
from tests.support.later import Later

if find_spec("mcp") is None:
    pytest.skip("needs mcp", allow_module_level=True)
if TYPE_CHECKING:
    import mcp
else:
    mcp = Later("mcp")

KINDS = ("subagent", "spawn", "dispatch_subagents", "subagent_dispatch", "dispatch_subagent")
CALLS: dict[str, dict[str, Any]] = {
    "subagent": {"task": "the tide"},
    "spawn": {"task": "the tide"},
    "dispatch_subagents": {"tasks": [{"objective": "Dover"}, {"objective": "Calais"}]},
    "subagent_dispatch": {"agent_id": "pilot", "task": "the tide"},
    "dispatch_subagent": {
        "mode": "ad_hoc", "prompt_ns": "agents", "prompt_key": "pilot", "instructions": "Look.",
    },
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an agent."""
    pilot = tmp_path / "agents" / "pilot.md"
    pilot.parent.mkdir()
    pilot.write_text("---\ndescription: Knows the tides.\n---\nYou are a pilot.\n")
    return tmp_path


def session(
    project: Path,
    talk: "Callable[[mcp.Client], Any]",
    *,
    kinds: tuple[str, ...] = KINDS,
    program: Any = "agent",
    **options: Any,
) -> tuple[Any, Recording]:
    """Return what a client found, and the run of its session."""
    given = delegation_run(kinds, root=project, own=[arrive], program=program)
    options = {"model": FunctionModel(lambda _: "At noon."), "session": planned(), **options}

    async def both() -> Any:
        log = project / "run.jsonl"
        served = recorded(given.input, log=log, tools=given.tools, **options)
        async with served as (made, run), mcp.Client(made) as client:
            found = await talk(client)
        return found, run.result()

    return asyncio.run(both())  # type: ignore[no-any-return]  # a pair


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def test_each_kind_starts_children_that_are_recorded_and_replayed(project: Path) -> None:
    """§14.21: a session is one run; jobs of one call are there for the next."""

    async def talk(client: mcp.Client) -> list[Any]:
        results = await asyncio.gather(*(client.call_tool(*call) for call in CALLS.items()))
        waited = await client.call_tool("spawn_await", {"job_ids": "*"})
        return [*results, waited]

    found, run = session(project, talk)

    texts = [text_of(each) for each in found]
    assert [each.is_error for each in found] == [False] * 6
    assert [text for text in texts[:-1] if "noon" not in text] == [texts[1]]  # the id of a job
    assert texts[-1] == f"[{texts[1]}: OK]\nAt noon."
    assert (run.status, run.output) == ("completed", 6)
    assert len(list(project.glob("run.*.jsonl"))) == 6
    assert refold.verify(run.log).intact
    replayed = refold.reexecute(run.log)
    assert (replayed.identical, replayed.children) == (True, 6)


def test_a_client_is_offered_the_schema_that_a_model_would_be(project: Path) -> None:
    async def talk(client: mcp.Client) -> Any:
        return (await client.list_tools()).tools

    found, _ = session(project, talk, kinds=("subagent",))

    (offered,) = found
    assert (offered.name, offered.input_schema["required"]) == ("subagent", ["task"])


def test_limits_hold_for_the_session_and_refusals_are_errors_or_words(project: Path) -> None:
    """As for a model: a cap is told, an unknown tool is an error, and neither ends the session."""

    async def talk(client: mcp.Client) -> list[tuple[str, bool | None]]:
        calls = [("subagent", {"task": "one"}), ("subagent", {"task": "two"}), ("next_call", {})]
        found = [await client.call_tool(*call) for call in calls]
        return [(text_of(each), each.is_error) for each in found]

    limits = refold.Limits(max_children=1)
    (one, two, other), run = session(project, talk, kinds=("subagent",), limits=limits)

    assert "noon" in one[0]
    assert "max_children: this run may start no more children" in two[0]
    assert other == ("unknown_tool: no tool is named 'next_call'; there are: subagent", True)
    assert run.ok


ARRIVED = threading.Semaphore(0)


@refold.tool
def arrive() -> None:
    ARRIVED.release()


async def waits(run: refold.Run, _input: Any) -> None:
    await run.tool(arrive)
    await run.sleep(3600)


def test_a_call_that_the_client_gives_up_is_cancelled(project: Path) -> None:
    """The child ends as cancelled, and the session goes on; so it ends with the client, too."""

    async def talk(client: mcp.Client) -> None:
        for _ in range(2):
            call = asyncio.ensure_future(client.call_tool("subagent", {"task": "wait"}))
            await asyncio.to_thread(ARRIVED.acquire)
            call.cancel()
            await asyncio.wait([call])

    _, run = session(project, talk, kinds=("subagent",), program=waits)

    assert run.ok
    assert [child.status for child in refold.delegation_tree(run.log).children] == ["cancelled"] * 2
    again = delegation_run(("subagent",), root=project, own=[arrive], program=waits).tools
    assert refold.reexecute(run.log, tools=again).identical


def test_a_run_that_ended_answers_every_call(project: Path) -> None:
    async def talk(client: mcp.Client) -> list[bool | None]:
        first = await client.call_tool("subagent", {"task": "wait"})
        return [first.is_error, (await client.call_tool("subagent", {"task": "x"})).is_error]

    limits = refold.Limits(timeout_seconds=1)
    found, run = session(project, talk, kinds=("subagent",), program=waits, limits=limits)

    assert found == [True, True]
    assert run.status == "timed_out"


def test_a_run_that_cannot_begin_is_refused(project: Path) -> None:
    async def talk(_client: mcp.Client) -> None:
        raise AssertionError

    with pytest.raises(refold.UsageError, match="No module named 'no'"):
        session(project, talk, program="no.such:program", model=ScriptedModel([]), models={})


@pytest.mark.long
def test_a_client_starts_the_command(project: Path) -> None:
    """With the options of `refold run` and refold.yaml; the log is there at the end."""
    (project / "script.yaml").write_text("subagent: [At noon.]\n")
    (project / "refold.yaml").write_text("limits: {max_children: 1}\n")
    words = ["-m", "refold", "mcp", "runs", "--delegate", "subagent", "--model"]
    given = mcp.StdioServerParameters(
        command=sys.executable, args=[*words, "scripted:script.yaml"], cwd=project
    )

    async def talk() -> list[str]:
        async with mcp.Client(mcp.stdio_client(given)) as client:
            found = [await client.call_tool("subagent", {"task": "x"}) for _ in range(2)]
        return [text_of(each) for each in found]

    first, second = asyncio.run(talk())

    assert "At noon." in first
    assert "max_children" in second
    (log,) = (project / "runs").glob("*-mcp-??????.jsonl")
    assert refold.reexecute(log).identical


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--model", "openai:x"], "--model is for subagents: add --delegate"),
        (["--delegate", "subagent"], "no model: pass --model"),
        (["--delegate", "subagent_dispatch", "--model", "openai:x"], "agents': No such file"),
        (["s3://bucket/a", "--delegate", "subagent"], "expected a folder for the runs"),
    ],
)
def test_wrong_options_are_refused(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    invoke: Callable[..., Result],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)

    found = invoke("mcp", *words)

    assert found.exit_code == 2
    assert text in found.stderr
