"""A log is opened and hashed once for the length of a command (CONTRACT.md §5)."""

import asyncio
import contextlib
import contextvars
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import LogDamaged, LogError, LogMissing
from refold.engine.events.events import NoteAdded, RunStarted
from refold.engine.log import reader
from refold.engine.log.descriptors import held_of, holding
from refold.engine.log.reader import lines_of, open_log, read_entries, scan
from refold.engine.log.writer import LogWriter


def _descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def _answers(path: Path) -> list[Any]:
    """Return what each way of reading says of a log: its entries, or what is wrong and where."""

    def entries() -> Iterator[Any]:
        try:
            yield from read_entries(path)
        except LogError as error:
            yield type(error), error.args

    def scanned() -> object:
        try:
            return scan(path)
        except LogError as error:
            return type(error), error.args

    first = [*itertools.islice(entries(), 2)]
    return [first, [*entries()], scanned(), [*entries()], scanned(), [*lines_of(path)]]


@pytest.fixture(scope="module", params=[(170, 0), (170, 2**18), (4, 2**18)])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Logs of several reads and of one, kept and not; its bytes would be too long for a report."""
    entries, kept_max = request.param
    path = tmp_path_factory.mktemp("held") / "audit.jsonl"
    started = RunStarted("p", None, 0, {}, "00", [], {"format": 1}, {}, {}, "", "run", "run")
    with LogWriter.create(path, started, durability="fast") as log:
        for at in range(entries):
            log.append(NoteAdded("noted " * 30, at), f"0#{at + 1}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reader, "_KEPT_MAX", kept_max)
        yield path


_EDITS = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "drop line", "copy line", "none"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 255),
)


def _edited(content: bytes, edit: tuple[str, float, int]) -> bytes:
    kind, part, value = edit
    at = int(part * len(content))
    lines = content.splitlines(keepends=True)
    line = int(part * len(lines))
    match kind:
        case "flip":
            flipped = bytes(each ^ value for each in content[at : at + 1])  # none of no content
            return content[:at] + flipped + content[at + 1 :]
        case "cut":
            return content[:at]
        case "insert":
            return content[:at] + bytes([value]) + content[at:]
        case "drop line":
            return b"".join(lines[:line] + lines[line + 1 :])
        case "copy line":
            return b"".join(lines[:line] + lines[line - 1 :])
        case _:
            return content


@given(st.lists(_EDITS, min_size=1, max_size=2))
def test_the_same_is_read_and_found_wrong_inside_a_block(
    whole: Path, edits: list[tuple[str, float, int]]
) -> None:
    """Whatever happened to the log: the same entries, verdict, place and text, at each look."""
    content = whole.read_bytes()
    for edit in edits:
        content = _edited(content, edit)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.jsonl"
        path.write_bytes(content)
        outside = _answers(path)

        with holding():
            assert _answers(path) == outside
            assert _answers(path) == outside


@given(st.lists(_EDITS, min_size=2, max_size=4))
def test_a_change_during_the_block_is_found(
    whole: Path, edits: list[tuple[str, float, int]]
) -> None:
    """Each look sees the file as it is: a proof is of one state of it."""
    with tempfile.TemporaryDirectory() as folder, holding():
        path = Path(folder) / "audit.jsonl"
        for moment, edit in enumerate(edits):
            path.write_bytes(_edited(whole.read_bytes(), edit))
            os.utime(path, ns=(moment, moment))  # a clock may tick less often than we write
            inside = _answers(path)
            other = Path(folder) / f"{moment}.jsonl"
            other.write_bytes(path.read_bytes())
            other.rename(path)

            assert inside == _answers(path)


def test_a_log_is_hashed_once(make_log: Callable[[int], Path]) -> None:
    """By whichever way its end was reached; one with a break has no proof."""
    path = make_log(7)
    with open_log(path) as file:
        assert held_of(file) is None

    with holding():
        with open_log(path) as file:
            held = held_of(file)
        assert held is not None
        list(read_entries(path, verify=False))
        assert not held.proof
        next(read_entries(path))  # all of it is read with the first
        assert held.proof == scan(path)
        assert held.proof.entries == 7
        with path.open("ab") as more:
            more.write(b"{")
        assert not held.proof
        assert scan(path).torn is not None
        assert not held.proof


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_log_of_several_parts_is_proved_at_its_end(
    make_log: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    """Its lines are kept unless they are too many."""
    path = make_log(300)
    monkeypatch.setattr(reader, "_KEPT_MAX", path.stat().st_size - (not is_kept))
    lines = path.read_bytes().splitlines(keepends=True)
    with holding():
        entries = read_entries(path)
        next(entries)
        with open_log(path) as file:
            held = held_of(file)
        assert held is not None
        assert not held.proof
        list(entries)
        assert held.proof == scan(path)
        assert held.proved(path.stat())[1] == (lines if is_kept else [])


def test_two_readings_at_once_have_their_own_place(make_log: Callable[[int], Path]) -> None:
    path = make_log(200)
    expected = list(read_entries(path))

    with holding():
        pairs = list(zip(read_entries(path), read_entries(path), strict=True))

    assert pairs == [(each, each) for each in expected]


def test_entries_that_are_appended_are_read_and_verified(make_log: Callable[[int], Path]) -> None:
    path = make_log(5)
    with holding():
        assert scan(path).entries == 5
        with LogWriter.resume(path, durability="fast").writer as log:
            log.append(NoteAdded("later", 1), "0#9")
        assert scan(path).entries == 6
        content = path.read_bytes().replace(b"later", b"LATER")
        path.write_bytes(content)
        with pytest.raises(LogDamaged, match="hash"):
            list(read_entries(path))


def test_a_name_that_leads_elsewhere_is_followed(make_log: Callable[[int], Path]) -> None:
    """A command that replaces or removes a log reads what is there then."""
    path = make_log(5)
    short = path.with_name("short.jsonl")
    short.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    with holding():
        entries = read_entries(path)
        next(entries)
        short.rename(path)
        assert scan(path).entries == 3
        assert len(list(entries)) == 4  # of the file that it began with
        path.unlink()
        with pytest.raises(LogMissing):
            scan(path)


def test_nothing_stays_open_after_a_block(make_log: Callable[[int], Path]) -> None:
    """Nor do more than a hundred logs inside; a task that outlives the block holds none."""
    path = make_log(3)
    copies = [path.with_name(f"{number}.jsonl") for number in range(130)]
    for each in copies:
        each.write_bytes(path.read_bytes())

    async def late(started: asyncio.Event) -> int:
        await started.wait()
        return scan(path).entries

    async def main() -> None:
        ended = asyncio.Event()
        before = _descriptors()
        with holding():
            task = asyncio.create_task(late(ended))
            await asyncio.sleep(0)
            with holding():
                assert [scan(each).entries for each in copies] == [3] * 130
            assert 0 < _descriptors() - before <= 100
        assert _descriptors() == before
        ended.set()
        assert await task == 3
        assert _descriptors() == before

    asyncio.run(main())


def test_a_block_may_end_in_another_context(whole: Path, tmp_path: Path) -> None:
    """As an exit stack does that a server's thread or task closes."""
    (tmp_path / "a.jsonl").write_bytes(whole.read_bytes())
    stack, elsewhere = contextlib.ExitStack(), contextvars.copy_context()
    elsewhere.run(stack.enter_context, holding())
    elsewhere.run(scan, tmp_path / "a.jsonl")

    stack.close()

    with elsewhere.run(open_log, tmp_path / "a.jsonl") as file:
        assert held_of(file) is None
