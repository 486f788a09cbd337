"""What `record` takes, every reader takes (CONTRACT.md §3.5): each edge, in Python and by command.

A reader that is added to Refold is added to `IN_PYTHON` or `COMMANDS`.
"""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import refold
from refold.cli.group import refold as command_line
from refold.engine.encoding.canonical import DEPTH_MAX
from refold.engine.errors import NotCanonical
from refold.engine.log.names import NAME_MAX
from refold.engine.log.pack import pack
from refold.engine.log.salvaging import salvage
from refold.page.document import page
from refold.replay import open_ends
from refold.replay.audit.refolding import refold_log
from refold.replay.run.tree_text import render_text
from refold.replay.testing.snapshot import log_text
from tests.support import edges, watched
from tests.support.edges import EDGES, MODEL, TOOLS, at_edge
from tests.support.loops import for_each

Reader = Callable[[Path, Path], Any]
"""Reads a log, with a folder for what it makes."""

_LIVE: Final = refold.Sources(model="live", tools="live", may_change=True)
_GIVEN: Final[dict[str, Any]] = {"tools": TOOLS, "model": MODEL}


def _torn(log: Path, folder: Path) -> Path:
    """Return a copy of a log whose last line is torn."""
    shutil.copytree(log.parent, folder / "torn")
    copy = folder / "torn" / log.name
    copy.write_bytes(copy.read_bytes()[:-10])
    return copy


def _forked(log: Path, folder: Path, **options: Any) -> bool:
    at = options.pop("at", 2)
    forked = refold.fork(log, at, at_edge, into=folder / "fork.jsonl", **_GIVEN, **options)
    return forked.recording is not None and forked.recording.ok


async def _changed(run: refold.Run, name: str) -> Any:
    """Do what was recorded after a call more."""
    await run.tool(edges.listed, v=EDGES[name]()["arguments"])
    return await at_edge(run, name)


def _diverged(log: Path, _: Path) -> bool:
    report = refold.reexecute(log, _changed, tools=TOOLS)
    return not report.identical and "listed" in str(report)


def _compared(log: Path, folder: Path) -> bool:
    assert _forked(log, folder, at=None, edits={"0#5": "another"})
    fork = folder / "fork.jsonl"
    found = refold.diff(log, fork)
    return not found.identical and bool(str(found)) and bool(page(log, fork).document["diff"])


IN_PYTHON: Final[dict[str, Reader]] = {
    "verify": lambda log, _: refold.verify(log).intact,
    "verify a packed log": lambda log, to: refold.verify([pack(log, to / "a.refold")])[0].intact,
    "salvage": lambda log, to: salvage(_torn(log, to), to / "new.jsonl").head,
    "delegation tree": lambda log, _: render_text(refold.delegation_tree(log)),
    "log snapshot": lambda log, _: log_text(log),
    "state": lambda log, _: refold.state(log),
    "state digest": lambda log, _: refold_log(log).agrees,
    "state diff": lambda log, _: refold.state(log, 0, -1),
    "why": lambda log, _: refold.why(log, -1),
    "diff": lambda log, _: refold.diff(log, log).identical,
    "reexecute": lambda log, _: refold.reexecute(log, at_edge, tools=TOOLS).identical,
    "divergence": _diverged,
    "drift": lambda log, _: refold.drift(log, at_edge, sources=_LIVE, **_GIVEN).identical,
    "drift twice": lambda log, _: (
        refold.drift(log, at_edge, sources=_LIVE, twice=True, **_GIVEN).identical
    ),
    "fork": _forked,
    "fork live": functools.partial(_forked, sources=_LIVE),
    "fork with an edit": lambda log, to: _forked(log, to, at=None, edits={"0#6": _answer(log)}),
    "diff with a fork": _compared,
    "explore": lambda log, _: refold.explore(log, at_edge, orders=20).identical,
    "sensitivity": lambda log, _: refold.sensitivity(log, at_edge).calls,
    "resume": lambda log, to: refold.resume(_torn(log, to), at_edge, **_GIVEN).ok,
    "open ends": lambda log, to: not open_ends(_torn(log, to)).doubts,
    "page": lambda log, _: page(log).document,
    "page of two runs": lambda log, _: page(log, log, content=False).document,
}
"""What returns something false, or raises, does not read the log."""

_PROGRAM: Final = "--program tests.support.edges:at_edge"
_FROM_RECORD: Final = "--source tools=recorded --source model=recorded"

COMMANDS: Final = (
    "verify {log}", "show {log}", "show {log} --details",
    "show {log} --events", "show {log} --events -n 9", "ls {log.parent}", "show {log} --at -1",
    "show {log} --at 0 --to -1", "why {log} -1", "why {log} -1 --all", "diff {log} {log}",
    "ls {log} --diff {log}",
    f"replay {{log}} {_PROGRAM}", f"replay {{log}} --live {_PROGRAM} {_FROM_RECORD}",
    f"explore {{log}} {_PROGRAM}", f"explore {{log}} --results {_PROGRAM}",
    f"fork {{log}} --at 2 {_PROGRAM} --into {{to}}/f.jsonl",
    "export {log} --to refold -o {to}/p.refold",
    "push {log} file://{to}", "export {log} --to html -o {to}/a.html",
    "export {log} --to html --diff {log} -o {to}/b.html",
    "export {log} --to markdown --diff {log} -o {to}/b.md",
    "export {log} --to perfetto -o {to}/a.json",
)  # fmt: skip
_WHOLE: Final = ("show {log} --entry 1", "show {log} --entry 2", "show {log} --entry -1")

QUICK: Final = ("deep-wrapped",)
"""Edges of the default run; most others are larger."""


def _answer(log: Path) -> Any:
    return EDGES[log.stem]()["answer"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives the log of an edge, which is recorded once."""

    @functools.cache
    def log_of(edge: str) -> Path:
        log = tmp_path_factory.mktemp(edge) / f"{edge}.jsonl"
        recording = refold.record(
            at_edge, edge, log=log, ask=lambda _: _answer(log), seed=1, **_GIVEN
        )
        assert recording.ok, recording.message
        return log

    return log_of


_OF_EDGES: Final = pytest.mark.parametrize(
    "edge", [pytest.param(each, marks=() if each in QUICK else pytest.mark.long) for each in EDGES]
)


@_OF_EDGES
@for_each("reader", IN_PYTHON)
def test_what_record_takes_every_reader_takes(
    recorded: Callable[[str], Path], tmp_path: Path, edge: str, reader: str
) -> None:
    """§3.5: nothing is refused that stands in a log already."""
    assert IN_PYTHON[reader](recorded(edge), tmp_path)


@_OF_EDGES
@for_each("command", (*COMMANDS, *(f"{each} --json" for each in COMMANDS), *_WHOLE))
def test_what_record_takes_every_command_takes(
    recorded: Callable[[str], Path], tmp_path: Path, edge: str, command: str
) -> None:
    """§3.5: it ends with 0, and what is to be JSON is."""
    arguments = command.format(log=recorded(edge), to=tmp_path).split()

    said = CliRunner().invoke(command_line, arguments)

    assert said.exit_code == 0, said.output
    if command.endswith("--json") or "--entry" in command:
        assert json.loads(said.stdout)


@for_each("place", ["arguments", "result", "note", "parameter", "child"])
def test_one_level_more_is_refused_and_the_run_goes_on(tmp_path: Path, place: str) -> None:
    """§3.5: the edge is where this suite looks for it; what is refused harms no log."""
    values = edges.every(0) | {place: edges.deepest(more=1)[place]}
    refused: list[str] = []

    async def beyond(run: refold.Run, _: Any) -> Any:
        steps: dict[str, Callable[[], Any]] = {
            "arguments": lambda: run.tool(edges.same, v=values["arguments"]),
            "result": lambda: run.tool(edges.listed, v=values["result"]),
            "note": lambda: run.annotate("a note", values["note"]),
            "parameter": lambda: run.model([{"role": "user", "content": "x"}], x=values[place]),
            "child": lambda: run.start(
                refold.Delegation(program=edges.handed_back, input=values["child"], brief="x")
            ),
        }
        try:
            if (asked := steps[place]()) is not None:
                await asked
        except (NotCanonical, refold.ToolError) as error:
            refused.append(str(error))
        await run.tool(edges.same, v=1)

    recording = refold.record(beyond, None, log=tmp_path / "a.jsonl", **_GIVEN)

    assert "levels of nesting" in "".join(refused), recording
    assert recording.ok
    assert refold.verify(recording).complete
    assert refold.reexecute(recording, beyond, tools=TOOLS).identical


WATCHED: Final = (
    "verify {log}", "show {log} --details", "show {log} --events --json", "show {log} --at -1",
    "why {log} -1", "diff {log} {log}", "ls {log} --diff {log}", "show {log} --events -n 9",
    "export {log} --to html --diff {log} -o {to}/b.html",
    "export {log} --to refold -o {to}/p.refold",
)  # fmt: skip


@pytest.mark.parametrize("name", ["", "a"])
def test_what_a_watched_command_says_at_the_edge_is_read(tmp_path: Path, name: str) -> None:
    """§3.5: a message, a call's arguments and a parameter of the most levels."""

    def deep(levels_above: int) -> Any:
        return edges.nested(DEPTH_MAX - levels_above, name)

    asks = {**watched.user("look"), "provider": {"openai": deep(4)}}
    calls = watched.says("yes", ("c1", "look", {"v": deep(5)}))
    said = [asks, calls, watched.result("c1", "ok"), watched.says("done")]
    exchanges = watched.talk(*said, extra=deep(2))
    log = watched.record(tmp_path / "watched.jsonl", exchanges)

    for command in WATCHED:
        arguments = command.format(log=log, to=tmp_path).split()
        found = CliRunner().invoke(command_line, arguments)
        assert found.exit_code == 0, (command, found.output)
    assert watched.replayed(log, [one.asked for one in exchanges]).identical
    assert log_text(log)


def test_a_name_has_room_for_what_a_crash_leaves_beside_it(tmp_path: Path) -> None:
    """§4.0, §4.5: a root of the longest name is resumed; a longer one is refused at once."""
    log = tmp_path / f"{'n' * (NAME_MAX - 6)}.jsonl"
    recording = refold.record(edges.handed_back, 1, log=log)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:50])

    assert refold.resume(log, edges.handed_back).tree_digest == recording.tree_digest
    with pytest.raises(refold.UsageError, match=f"at most {NAME_MAX} bytes, found {NAME_MAX + 1}"):
        refold.record(edges.handed_back, 1, log=log.with_name(f"n{log.name}"))
