"""What commands that run something live understand of their options (§12.10)."""

from pathlib import Path
from typing import Any

import pytest

from refold.cli.arguments.live import Live, edits_of, live_of
from refold.cli.arguments.logs import OpenedLog
from refold.engine.errors import ForkRefused, UsageError
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.partial.sources import Sources
from tests.support.forks import TOOLS, model, report
from tests.support.loops import for_each

PROGRAM = "tests.support.forks:report"


@pytest.fixture
def log(tmp_path: Path) -> OpenedLog:
    """A recorded run, opened."""
    path = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log
    return OpenedLog(path, path)


def test_what_is_not_said_is_recorded_or_live(log: OpenedLog) -> None:
    assert live_of(log, PROGRAM, Live())["sources"] == Sources()
    found = live_of(log, PROGRAM, Live(is_live=True, source={"model": "stub"}))
    assert found["sources"].tools == "live"


def test_a_live_model_is_the_recorded_one(log: OpenedLog) -> None:
    """A script is none that can be asked again by its name alone."""
    with pytest.raises(ForkRefused, match="the model of this run was 'scripted': add --model SPEC"):
        live_of(log, PROGRAM, Live(source={"model": "live"}))


def test_options_name_sources_and_what_they_need(log: OpenedLog, tmp_path: Path) -> None:
    """A mode, or the thing itself; a model that is named is asked."""
    script = tmp_path / "s.yaml"
    script.write_text("- hello\n")
    said = Live(
        models=(f"scripted:{script}",), tools="tests.support.forks:TOOLS",
        source={"tools": "live", "children": 'stub:"x"', "put": "recorded", "get": "stub:7"},
        may_change=True,
    )  # fmt: skip

    found = live_of(log, PROGRAM, said)

    sources = found["sources"]
    assert (sources.model, sources.tools, sources.children) == ("live", "live", "stub")
    assert dict(sources.tool) == {"put": "recorded", "get": "stub"}
    assert dict(sources.stubs) == {"child": "x", "get": 7}
    assert sources.may_change
    assert {tool.name for tool in found["tools"]} == {"get", "put"}
    assert list(found["models"]) == [""]


@for_each(
    "said, is_so",
    [
        ({}, True),
        ({"tools": "app:TOOLS"}, True),
        ({"source": {"tools": "recorded", "get": "recorded"}}, True),
        ({"models": ("openai:x",)}, False),
        ({"is_live": True}, False),
        ({"source": {"model": "stub"}}, False),
        ({"source": {"children": "live"}}, False),
        ({"source": {"get": "stub:1"}}, False),
    ],
)
def test_whether_anything_but_the_record_is_asked_for(said: dict[str, Any], *, is_so: bool) -> None:
    """Tools that are only named are types for a replay, not a wish to run them."""
    assert Live(**said).is_all_recorded is is_so


@for_each("given", [{"get": "lively"}, {"gte": "recorded"}, {"gte": "stub:1"}, {"model": "x"}])
def test_a_source_of_nothing_is_refused(given: dict[str, str], log: OpenedLog) -> None:
    """With what was expected."""
    with pytest.raises(UsageError, match=r"^--source .*: expected "):
        live_of(log, PROGRAM, Live(source=given))


def test_edits_are_json_or_files_of_it(tmp_path: Path) -> None:
    """As answers are: `@` means a file, and what is no JSON is a text."""
    (tmp_path / "r.json").write_text('{"a": 1}')
    (tmp_path / "r.txt").write_text("just text")

    found = edits_of(
        {
            "0#1": "42",
            "0#2": '"x"',
            "0#3": "plain",
            "0#4": f"@{tmp_path}/r.json",
            "0#5": f" @{tmp_path}/r.txt",
        }
    )

    assert found == {"0#1": 42, "0#2": "x", "0#3": "plain", "0#4": {"a": 1}, "0#5": "just text"}
    with pytest.raises(UsageError, match=r"missing\.json"):
        edits_of({"0#1": "@missing.json"})


def test_the_name_of_a_file_is_not_taken_for_a_text(tmp_path: Path) -> None:
    """Who writes one means what it holds; the message says how that is written, and the text."""
    (tmp_path / "r.json").write_text('{"a": 1}')

    with pytest.raises(UsageError, match=r"to read it, write '@.*r\.json'"):
        edits_of({"0#1": f"{tmp_path}/r.json"})
    assert edits_of({"0#1": f'"{tmp_path}/r.json"'}) == {"0#1": f"{tmp_path}/r.json"}


def test_a_tool_that_was_passed_as_a_function_can_be_a_stub(tmp_path: Path) -> None:
    """It was called, and not offered by `tools=`."""

    async def calls(run: Run, _input: Any) -> Any:
        return await run.tool(TOOLS[0], key="a")

    path = record(calls, None, log=tmp_path / "b.jsonl").log
    live = Live(source={"get": "stub:1"})

    found = live_of(OpenedLog(path, path), PROGRAM, live)

    assert dict(found["sources"].stubs) == {"get": 1}
