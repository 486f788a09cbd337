"""Reading entries and chains (CONTRACT.md §3, §5)."""

import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from refold.engine.errors import EventMalformed, LogDamaged, LogMissing, LogUnsupported
from refold.engine.events.events import NoteAdded, RunStarted
from refold.engine.log.line import NO_HASH, stored_hash, trailer
from refold.engine.log.reader import entry_of, read_entries, scan
from refold.engine.log.writer import LogWriter


def _rehash(lines: list[bytes]) -> bytes:
    """Return lines chained anew: what someone who knows the rules would write."""
    previous, out = NO_HASH, []
    for line in lines:
        body = line[: line.rindex(b',"hash":"')]
        line = body + trailer(previous, body)  # noqa: PLW2901 - the same line, hashed
        previous = stored_hash(line) or b""
        out.append(line)
    return b"".join(out)


def test_a_scan_says_where_a_log_stands(make_log: Callable[[int], Path]) -> None:
    """Entries, head and size, without parsing a line."""
    path = make_log(7)

    found = scan(path)

    assert (found.entries, found.offset) == (7, path.stat().st_size)
    assert found.head == list(read_entries(path))[-1].hash
    assert (found.damage, found.torn, found.sealed) == (None, None, False)


def test_a_torn_tail_ends_the_entries_only_when_that_is_wanted(
    make_log: Callable[[int], Path],
) -> None:
    """All whole entries come first; then the tail is told, unless `torn_ok`."""
    path = make_log(4)
    os.truncate(path, path.stat().st_size - 1)

    assert len(list(read_entries(path, torn_ok=True))) == 3
    entries = read_entries(path)
    assert [next(entries).seq for _ in range(3)] == [0, 1, 2]
    with pytest.raises(LogDamaged) as torn:
        next(entries)
    assert (torn.value.what, torn.value.line) == ("torn tail", 4)


def test_no_entry_is_yielded_before_its_own_bytes_verify(make_log: Callable[[int], Path]) -> None:
    """Without `verify`, hashes are not looked at; sequence and shape still are."""
    path = make_log(4)
    path.write_bytes(path.read_bytes().replace(b'"hit":2', b'"hit":3'))

    with pytest.raises(LogDamaged) as damaged:
        list(read_entries(path))

    assert (damaged.value.what, damaged.value.line) == ("hash", 3)
    assert len(list(read_entries(path, verify=False))) == 4


def test_all_entries_before_damage_come_first(make_log: Callable[[int], Path]) -> None:
    """Wherever it lies: lines are verified some at a time, and that shows nowhere."""
    path = make_log(40)
    lines = path.read_bytes().splitlines(keepends=True)

    for at in range(1, 40):
        altered = lines[at].replace(b'"wall_us":', b'"wall_us":-')
        path.write_bytes(b"".join([*lines[:at], altered, *lines[at + 1 :]]))
        entries = read_entries(path)
        assert [next(entries).line for _ in range(at)] == lines[:at]
        with pytest.raises(LogDamaged) as damaged:
            next(entries)
        assert (damaged.value.what, damaged.value.line) == ("hash", at + 1)


def test_reading_changes_nothing(make_log: Callable[[int], Path]) -> None:
    """A log that may only be read, in a folder that may only be read, is enough."""
    path = make_log(4)
    path.chmod(0o400)
    path.parent.chmod(0o500)
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))

    scan(path)
    list(read_entries(path, resolve=True))

    path.parent.chmod(0o700)
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())) == before


def test_a_blob_is_given_back_or_its_absence_told(tmp_path: Path, started: RunStarted) -> None:
    """A missing blob is damage at the line that names it; unresolved reading does not need it."""
    path = tmp_path / "audit.jsonl"
    with LogWriter.create(path, started) as log:
        log.append(NoteAdded("x" * 40_000))
    assert list(read_entries(path, resolve=True))[1].data["text"] == "x" * 40_000

    next((tmp_path / "audit.blobs").glob("*/*")).unlink()

    assert set(list(read_entries(path))[1].data["text"]) == {"$blob", "bytes"}
    with pytest.raises(LogDamaged) as damaged:
        list(read_entries(path, resolve=True))
    assert (damaged.value.what, damaged.value.line) == ("blob missing", 2)


def test_a_newer_format_is_refused_by_its_number(make_log: Callable[[int], Path]) -> None:
    """Case 85: its first line may chain by our rules or its own; an altered digit is damage."""
    path = make_log(2)
    first, second = path.read_bytes().splitlines(keepends=True)
    newer = first.replace(b'"format":1', b'"format":2')
    body = newer[: newer.rindex(b',"hash":"')]
    own = b'%b,"hash":"%b"}\n' % (body, sha256(b"refold/2 header\n" + body).hexdigest().encode())

    for log in (_rehash([newer, second]), own + second):
        path.write_bytes(log)
        for read in (scan, lambda path: list(read_entries(path))):
            with pytest.raises(LogUnsupported, match="format 2"):
                read(path)
    path.write_bytes(newer + second)
    damage = scan(path).damage
    assert damage is not None
    assert (damage.what, damage.line) == ("hash", 1)


def test_a_newer_format_is_refused_however_it_is_spelled(make_log: Callable[[int], Path]) -> None:
    path = make_log(2)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(_rehash([first.replace(b'"format":1', b'"\\u0066ormat":2'), second]))

    with pytest.raises(LogUnsupported, match="format 2"):
        scan(path)


@pytest.mark.parametrize("stated", [1, 2])
@pytest.mark.parametrize("inside", [b'{"format":1,"n":2}', b'{"format":2}', b'"\\"format\\":1,"'])
def test_an_input_may_have_a_format_of_its_own(
    make_log: Callable[[int], Path], stated: int, inside: bytes
) -> None:
    """The log's is that of its versions."""
    path = make_log(2)
    lines = path.read_bytes().splitlines(keepends=True)
    first = lines[0].replace(b'{"ask":"why"}', inside)
    first = first.replace(b'"versions":{"format":1', b'"versions":{"format":%d' % stated)
    path.write_bytes(_rehash([first, lines[1]]))

    if stated == 1:
        assert scan(path).damage is None
    else:
        with pytest.raises(LogUnsupported, match="format 2"):
            scan(path)


def test_numbers_are_looked_at_though_the_chain_holds(make_log: Callable[[int], Path]) -> None:
    """A gap that was hashed anew is still a gap, to a scan and to a reader."""
    path = make_log(4)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(_rehash([*lines[:2], lines[2].replace(b'"seq":2', b'"seq":7'), lines[3]]))

    damage = scan(path).damage

    assert damage is not None
    assert (damage.line, damage.expected, damage.found) == (3, "seq 2", "seq 7")
    with pytest.raises(LogDamaged):
        list(read_entries(path))


@pytest.mark.parametrize(
    "row",
    [
        b'{"seq":1,"x":}',
        b'{"seq":1,"kind":"note.added","data":[],"meta":{}',
        b'{"seq":1,"kind":"note.added","data":{},"meta":""',
        b'{"seq":1,"kind":"note.added","call":7,"data":{},"meta":{}',
        b'{"seq":1,"kind":7,"data":{},"meta":{}',
    ],
)
def test_a_line_that_chains_but_is_no_entry_is_damage(
    make_log: Callable[[int], Path], row: bytes
) -> None:
    """Hashes are no proof of sense."""
    path = make_log(2)
    first, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(_rehash([first, row + b',"hash":"']))

    assert scan(path).damage is None
    with pytest.raises(LogDamaged) as damaged:
        list(read_entries(path))
    assert damaged.value.what == "no entry"
    line = path.read_bytes().splitlines(keepends=True)[1]
    with pytest.raises(LogDamaged, match="no entry"):
        entry_of(line, str(path), 1, len(first))


def test_data_of_another_shape_is_told_with_its_place(make_log: Callable[[int], Path]) -> None:
    """The event of an entry is exact or refused; an unknown kind is refused by name."""
    path = make_log(2)
    first, second = path.read_bytes().splitlines(keepends=True)

    path.write_bytes(_rehash([first, second.replace(b'"effect":"reads"', b'"effect":1')]))
    with pytest.raises(EventMalformed, match="/effect"):
        _ = list(read_entries(path))[1].event
    path.write_bytes(_rehash([first, second.replace(b"tool.called", b"tool.dreamt")]))
    with pytest.raises(LogUnsupported, match=r"tool\.dreamt"):
        _ = list(read_entries(path))[1].event


def test_what_is_no_file_is_no_log(tmp_path: Path) -> None:
    """A folder, a pipe, nothing: a usage error, and no waiting."""
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe", "\0"):
        with pytest.raises(LogMissing):
            scan(path)


def test_a_file_that_cannot_be_read_is_named() -> None:
    """It opens, and gives no byte: the system's error would not say of which file."""
    for read in (scan, lambda path: list(read_entries(path))):
        with pytest.raises(LogMissing, match="/proc/self/mem"):
            read("/proc/self/mem")


def test_verifying_a_chain_needs_neither_codec_nor_writer(make_log: Callable[[int], Path]) -> None:
    """The libraries of the codec are not imported for it."""
    program = (
        "import sys; from refold.engine.log.reader import scan; "
        f"print(scan({str(make_log(3))!r}).entries); "
        "print(sorted({'cattrs', 'structlog', 'asyncio'} & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert out.stdout == "3\n[]\n"
