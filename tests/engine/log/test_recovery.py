"""Torn tails (CONTRACT.md §4.5)."""

import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from refold.engine.errors import LogDamaged
from refold.engine.events.events import NoteAdded, RunResumed
from refold.engine.log.reader import read_entries, scan
from refold.engine.log.recovery import TAIL_MAX
from refold.engine.log.writer import LogWriter

SECTOR = 512
BLOCK = 4096


def test_a_torn_tail_is_kept_beside_the_log_and_cut_off(make_log: Callable[[int], Path]) -> None:
    """`<log>.torn-<offset>-<sha8>` holds the bytes; `run.resumed` can say what they were."""
    path = make_log(4)
    whole = path.read_bytes()
    tail = b'{"seq":4,"kind":"note.added","da'
    path.write_bytes(whole + tail)

    resumed = LogWriter.resume(path)
    resumed.writer.close()
    cut = resumed.cut

    assert path.read_bytes() == whole
    assert cut is not None
    assert cut.as_json() == {
        "bytes": len(tail),
        "sha256": sha256(tail).hexdigest(),
        "offset": len(whole),
    }
    assert cut.kept.name == f"audit.jsonl.torn-{len(whole)}-{sha256(tail).hexdigest()[:8]}"
    assert cut.kept.read_bytes() == tail
    assert stat.S_IMODE(cut.kept.stat().st_mode) == 0o600


def test_a_resume_records_what_was_cut(make_log: Callable[[int], Path]) -> None:
    """The log then verifies to its end, the resume included."""
    path = make_log(4)
    os.truncate(path, path.stat().st_size - 3)

    resumed = LogWriter.resume(path)
    assert resumed.cut is not None
    resumed.writer.append(RunResumed(2, resumed.cut.as_json()))
    resumed.writer.close()

    assert [entry.kind for entry in read_entries(path)][-1] == "run.resumed"
    assert scan(path).entries == 4


def test_a_recovery_cut_short_is_done_again(make_log: Callable[[int], Path]) -> None:
    """A crash after the bytes were kept, before they were cut, loses nothing."""
    path = make_log(4)
    whole, tail = path.read_bytes(), b"{half"
    path.write_bytes(whole + tail)
    kept = path.with_name(f"{path.name}.torn-{len(whole)}-{sha256(tail).hexdigest()[:8]}")
    kept.write_bytes(b"{ha")

    LogWriter.resume(path).writer.close()

    assert kept.read_bytes() == tail
    assert path.read_bytes() == whole


@pytest.mark.parametrize("zeros", [1, 100, SECTOR, 5000])
def test_zeros_at_the_end_are_a_torn_tail(make_log: Callable[[int], Path], zeros: int) -> None:
    """A file system may give a file its length before its bytes."""
    path = make_log(4)
    with path.open("ab") as file:
        file.write(b"\0" * zeros)

    found = scan(path)

    assert found.entries == 4
    assert found.damage is None
    assert found.torn is not None


def _with_zeroed_sector(whole: bytes, sector: int) -> bytes:
    at = sector * SECTOR
    return whole[:at] + b"\0" * len(whole[at : at + SECTOR]) + whole[at + SECTOR :]


def test_a_zeroed_sector_is_torn_only_where_nothing_valid_follows(
    make_log: Callable[[int], Path],
) -> None:
    """With a later line that still chains, bytes were lost in the middle: that is damage."""
    path = make_log(40)
    whole = path.read_bytes()
    sectors = len(whole) // SECTOR
    path.write_bytes(_with_zeroed_sector(whole, sectors - 1))
    assert scan(path).torn is not None

    path.write_bytes(_with_zeroed_sector(whole, sectors // 2))
    found = scan(path)
    before = path.read_bytes()

    assert found.torn is None
    assert found.damage is not None
    assert found.damage.what == "NUL bytes"
    with pytest.raises(LogDamaged):
        LogWriter.resume(path)
    assert path.read_bytes() == before


def test_an_empty_log_is_torn_and_cannot_be_resumed(tmp_path: Path) -> None:
    """A crash between the making of the file and its first line leaves nothing to go on from."""
    path = tmp_path / "a.jsonl"
    path.touch()

    assert scan(path).torn is not None
    with pytest.raises(LogDamaged) as refused:
        LogWriter.resume(path)
    assert refused.value.what == "torn tail"


def _fill_block(path: Path) -> None:
    """Write notes until the log ends where a block of the file system does."""
    text, size = "", path.stat().st_size
    while size % BLOCK:
        with LogWriter.resume(path).writer as log:
            log.append(NoteAdded(text, None))
        before, size = size, path.stat().st_size
        text = "x" * ((len(text) + before - 2 * size) % BLOCK)


@pytest.mark.parametrize(
    ("end", "zeros"), [(b"half an entry", 5), (b"half an entry", 2**20 - 40), (b"half\n", 0)]
)
def test_of_a_long_tail_no_hole_is_read_or_filled(
    make_log: Callable[[int], Path],
    end: bytes,
    zeros: int,
) -> None:
    """Its digest is of the pieces that hold more than zeros, each behind its number.

    All that was lost may be in it: then no zeros stand beside the line that ends behind it.
    """
    path = make_log(40)
    if not zeros:
        _fill_block(path)
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(len(whole) + 2**40 + zeros)
        file.write(end)

    cut = LogWriter.resume(path).cut

    assert path.read_bytes() == whole
    assert cut is not None
    piece = b"\0" * zeros + end
    assert cut.bytes == 2**40 + len(piece)
    assert cut.sha256 == sha256((2**20).to_bytes(8, "big") + piece).hexdigest()
    assert cut.kept.stat().st_size == cut.bytes
    assert cut.kept.stat().st_blocks * 512 < 2**24
    with cut.kept.open("rb") as kept:
        kept.seek(2**40)
        assert kept.read() == piece


def test_zeros_in_a_long_tail_count_whether_they_are_a_hole_or_not(
    make_log: Callable[[int], Path],
) -> None:
    """A copy of the log that has bytes for its hole has the same digest."""
    cuts = []
    for is_hole in (True, False):
        path = make_log(4)
        with path.open("ab") as file:
            file.write(b"x")
            if is_hole:
                file.truncate(file.tell() + TAIL_MAX)
            else:
                file.write(bytes(TAIL_MAX))
        cuts.append(LogWriter.resume(path).cut)
        path.unlink()

    assert cuts[0] == cuts[1]
    assert cuts[0] is not None
    assert cuts[0].sha256 == sha256(bytes(8) + b"x" + bytes(2**20 - 1)).hexdigest()


@pytest.mark.parametrize("torn", [b'{"half', b'{"seq":3,"kind":"'])
def test_what_is_written_while_a_log_is_read_is_no_damage(
    make_log: Callable[[int], Path], torn: bytes
) -> None:
    """A reader has the half of an entry, whose writer goes on, or which a resume replaces."""
    path = make_log(4)
    *first, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(first) + torn)

    def write(_: object) -> None:
        with path.open("rb+") as file:
            file.truncate(len(b"".join(first)))
            file.seek(0, os.SEEK_END)
            file.write(last)

    found = scan(path, write)

    assert found.damage is None
    assert (found.entries, found.torn is None) == (3, False)
    assert scan(path).entries == 4
