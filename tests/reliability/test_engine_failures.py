"""Where the engine cannot go on, the run ends with that error (CONTRACT.md §9.5).

Whichever kind the program is and whatever it makes of the error.  A plain program stands inside its
call then, and once waited for ever for a child that had never been started.
"""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import Delegation, PlainRun, Run, tool
from refold.engine.log.reader import read_entries
from refold.engine.recording import workers
from refold.errors import ChildStopped, InDoubt
from refold.replay.partial.sources import Sources

SECONDS = 30.0
CHILDREN = 3


@tool(effect="reads")
def look() -> int:
    """Look once."""
    return 1


@tool(effect="changes")
def pay() -> int:
    """Pay once."""
    return 1


def plain_child(_run: PlainRun, n: int) -> int:
    """Say a number again."""
    return n


async def async_child(_run: Run, n: int) -> int:
    """Say a number again."""
    return n


def plain(run: PlainRun, _n: int) -> list[str]:
    """Look, and start children that are told what was seen."""
    seen = run.tool("look")
    return [
        run.delegate(Delegation(program=plain_child, input=seen + at)).status
        for at in range(CHILDREN)
    ]


async def asynchronous(run: Run, _n: int) -> list[str]:
    """Do the same, asynchronously."""
    seen = await run.tool("look")
    return [
        (await run.delegate(Delegation(program=async_child, input=seen + at))).status
        for at in range(CHILDREN)
    ]


def plain_deaf(run: PlainRun, n: int) -> str:
    """Pay, and take no error for an answer."""
    for ask in (lambda: run.tool(pay), run.now, lambda: plain(run, n)):
        with contextlib.suppress(Exception):
            ask()
    return "done"


async def async_deaf(run: Run, n: int) -> str:
    """Do the same, asynchronously."""
    for ask in (lambda: run.tool(pay), run.now, lambda: asynchronous(run, n)):
        with contextlib.suppress(Exception):
            asked: Any = ask()
            if hasattr(asked, "__await__"):
                await asked
    return "done"


def _ended(work: Callable[[], Any]) -> Any:
    """Return what `work` returns or raises; on a thread, for it might never end."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except refold.RefoldError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert found, "it did not end, or raised no error of its own"
    return found[0]


def _cut(log: Path, kind: str, count: int) -> None:
    """Keep of a log what stands before the `count`-th line of a kind."""
    lines = [entry for entry in read_entries(log) if entry.kind == kind]
    keep = lines[count - 1].seq
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:keep]))


KINDS = pytest.mark.parametrize("program", [plain, asynchronous])


@KINDS
def test_a_drift_whose_child_was_not_recorded(tmp_path: Path, program: Any) -> None:
    """Its child is asked for other things than in the record: that is missing, and said."""
    log = refold.record(program, 1, log=tmp_path / "a.jsonl", tools=[look]).log

    @tool(effect="reads", name="look")
    def another() -> int:
        return 7

    served = Sources(tools="live", children="recorded")
    report = _ended(lambda: refold.drift(log, program, tools=[another], sources=served))
    live = _ended(lambda: refold.drift(log, program, tools=[another]))

    assert ["child" in str(each) for each in report.missing] == [True]
    assert live.missing == (), "it runs, as children do by default"


@KINDS
def test_a_fork_whose_child_was_not_recorded(tmp_path: Path, program: Any) -> None:
    """The same where the result that the children are told of was edited."""
    log = refold.record(program, 1, log=tmp_path / "a.jsonl", tools=[look]).log
    sources = Sources(tools="recorded", children="recorded")

    forked = _ended(
        lambda: refold.fork(
            log, program=program, into=tmp_path / "b.jsonl", edits={"0#1": 7},
            sources=sources, tools=[look],
        )
    )  # fmt: skip

    assert ["child" in str(each) for each in forked.missing] == [True]


@KINDS
def test_a_resume_with_a_childs_log_in_its_way(tmp_path: Path, program: Any) -> None:
    """A tail was lost: the second child has its log, and its start is not in its parent's."""
    log = refold.record(program, 1, log=tmp_path / "a.jsonl", tools=[look]).log
    _cut(log, "child.started", 2)

    error = _ended(lambda: refold.resume(log, program, tools=[look]))

    assert "belongs to a different run" in str(error)


@pytest.mark.parametrize("program", [plain_deaf, async_deaf])
@pytest.mark.parametrize("kind", ["tool.returned", "child.finished"])
def test_a_program_that_is_deaf_to_errors(tmp_path: Path, program: Any, kind: str) -> None:
    """It cannot swallow that its run is not to go on; nothing more is written."""
    log = refold.record(program, 1, log=tmp_path / "a.jsonl", tools=[look, pay]).log
    _cut(log, kind, 1)
    if kind == "child.finished":
        (tmp_path / "a.1.jsonl").write_bytes((tmp_path / "a.2.jsonl").read_bytes())

    ended = _ended(lambda: refold.resume(log, program, tools=[look, pay]))

    error = InDoubt if kind == "tool.returned" else ChildStopped
    assert isinstance(ended, error)
    last = [entry.kind for entry in read_entries(log)][-1]
    assert last == ("tool.called" if kind == "tool.returned" else "run.resumed")


@KINDS
def test_a_machine_without_threads(
    tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children that cannot be started have failed; tools run all the same."""
    monkeypatch.setattr(workers, "_spare", [])  # earlier tests may have left threads
    before = threading.stack_size()
    ended: list[refold.Recording] = []

    def record() -> None:
        threading.stack_size(1 << 46)  # more than there is: no thread can be started
        try:
            ended.append(refold.record(program, 1, log=tmp_path / "a.jsonl", tools=[look]))
        finally:
            threading.stack_size(before)

    _ended(record)

    assert ended[0].output == ["failed"] * CHILDREN
