"""What is wrong, and where (CONTRACT.md §5)."""

import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from refold.engine.log.damage import Damage
from refold.engine.log.line import LINE_MAX
from refold.engine.log.reader import scan


@pytest.fixture
def path(make_log: Callable[[int], Path]) -> Path:
    return make_log(12)


def _damage(path: Path, lines: list[bytes]) -> Damage:
    path.write_bytes(b"".join(lines))
    damage = scan(path).damage
    assert damage is not None
    return damage


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_a_deleted_line_is_told_with_the_numbers_that_are_gone(path: Path) -> None:
    """At the line that stands in its place."""
    lines = _lines(path)

    one = _damage(path, lines[:4] + lines[5:])
    more = _damage(path, lines[:4] + lines[7:])

    assert (one.what, one.line, one.expected, one.found) == ("line deleted", 5, "seq 4", "seq 5")
    assert one.byte == sum(map(len, lines[:4]))
    assert (more.what, more.expected) == ("line deleted", "seq 4 to 6")


def test_a_duplicated_line_is_told_at_its_second_place(path: Path) -> None:
    """Right after itself or later."""
    lines = _lines(path)

    for at in (5, 8):
        damage = _damage(path, [*lines[:at], lines[4], *lines[at:]])
        assert (damage.what, damage.line) == ("line duplicated", at + 1)


def test_a_copy_is_told_with_the_line_that_it_copies(path: Path) -> None:
    """Whether it stands behind that line or before it; the number counts lines of this file."""
    lines = _lines(path)

    behind = _damage(path, [*lines[:9], lines[4], *lines[9:]])
    before = _damage(path, [*lines[:4], lines[9], *lines[4:]])

    assert (behind.what, behind.line, behind.found) == (
        "line duplicated", 10, "seq 4, a copy of line 5",
    )  # fmt: skip
    assert (before.what, before.line, before.found) == (
        "line duplicated", 5, "seq 9, a copy of line 11",
    )  # fmt: skip


def test_swapped_lines_are_told_at_the_first_of_them(path: Path) -> None:
    """The number that should stand there comes later."""
    lines = _lines(path)
    lines[3], lines[6] = lines[6], lines[3]

    damage = _damage(path, lines)

    assert (damage.what, damage.line, damage.found) == ("lines swapped", 4, "seq 6")


def test_an_older_line_of_another_log_is_told_as_out_of_place(
    path: Path, make_log: Callable[[int], Path]
) -> None:
    """It is no copy of a line of this one."""
    lines = _lines(path)
    path.unlink()
    other = _lines(make_log(12))

    damage = _damage(path, [*lines[:8], other[3], *lines[8:]])

    assert (damage.what, damage.line) == ("line out of place", 9)
    assert (damage.expected, damage.found) == ("seq 8", "seq 3")


def test_an_altered_number_is_not_taken_for_a_deletion(path: Path) -> None:
    """The line's own hash says which number it had."""
    lines = _lines(path)
    lines[4] = lines[4].replace(b'"seq":4', b'"seq":6')

    damage = _damage(path, lines)

    assert (damage.what, damage.line, damage.found) == ("seq", 5, "seq 6")


def test_lines_of_another_log_do_not_chain(path: Path, make_log: Callable[[int], Path]) -> None:
    """Not even where all numbers fit."""
    lines = _lines(path)
    path.unlink()
    other = _lines(make_log(12))

    damage = _damage(path, lines[:6] + other[6:])

    assert (damage.what, damage.line) == ("hash", 7)
    previous, line = lines[5][-67:-3], other[6]
    assert damage.expected == sha256(b"refold/1 event\n" + previous + line[:-76]).hexdigest()
    assert damage.found == line[-67:-3].decode()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'"}\n{"seq":5', b'"}{"seq":5', "two entries on one line"),
        (b'"}\n{"seq":5', b'"}\n\n{"seq":5', "no entry"),
        (b'"}\n{"seq":5', b'"}\r\n{"seq":5', "no entry"),
        (b'{"seq":5', b'{"sEq":5', "no entry"),
        (b'{"seq":5', b'{"seq":5 ', "no entry"),
        (b'"q":"4"', b'"q":"\x00"', "NUL bytes"),
        (b'"q":"4"', b'"q":"' + b"x" * LINE_MAX + b'"', "line too long"),
        (b'"q":"4"', b'"q":"5"', "hash"),
        (b"{", b"#!", "not a log"),
    ],
)
def test_each_sort_of_damage_has_a_name(path: Path, old: bytes, new: bytes, what: str) -> None:
    """Said in a few words, with what was expected and what was found."""
    damage = _damage(path, [path.read_bytes().replace(old, new, 1)])

    assert damage.what == what
    assert str(damage.as_error()).startswith(f"{path}:{damage.line} (byte {damage.byte}): {what}")
    assert damage.as_json()["what"] == what


@pytest.mark.parametrize(("more", "what"), [(0, "hash"), (1, "line too long")])
def test_a_line_may_have_a_mebibyte(path: Path, more: int, what: str) -> None:
    """Its newline counts."""
    lines = _lines(path)
    (at,) = [at for at, line in enumerate(lines) if b'"q":"4"' in line]
    filling = b"x" * (LINE_MAX + more - len(lines[at]))
    lines[at] = lines[at].replace(b'"q":"', b'"q":"' + filling)

    assert len(lines[at]) == LINE_MAX + more
    assert _damage(path, lines).what == what


@pytest.mark.parametrize("filling", [b"x", b"\0", b"{}\n"])
def test_memory_is_bounded_whatever_follows(path: Path, filling: bytes) -> None:
    """Some lines' worth, though the rest of the file is 32 MiB of anything."""
    with path.open("ab") as file:
        for _ in range(32):
            file.write((filling * (1024 * 1024))[: 1024 * 1024])
    tracemalloc.start()

    found = scan(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found.entries == 12
    assert found.damage or found.torn
    assert peak < 12 * LINE_MAX


def test_a_report_is_safe_to_print(path: Path) -> None:
    """Bytes of the file are shown escaped."""
    damage = _damage(path, [b"\x1b]0;title\x07\n"])

    assert str(damage.as_error()).isprintable()


def test_of_a_line_without_a_sound_end_the_end_is_shown(path: Path) -> None:
    """Whole: what an editor did to the ends of lines is the last thing in it."""
    damage = _damage(path, [line.replace(b"\n", b"\r\n") for line in _lines(path)])

    assert (damage.what, damage.line) == ("no entry", 1)
    assert damage.found.endswith("}\\r\\n'")


@pytest.mark.parametrize("after", [b"", b"no entry\n", b"no newline"])
def test_a_hole_is_not_read(make_log: Callable[[int], Path], after: bytes) -> None:
    """A file says of itself that it has terabytes: the report is there at once, and the same."""
    path = make_log(2)
    with path.open("r+b") as file:
        end = file.seek(0, 2)
        file.truncate(end + 2**42)
        file.seek(0, 2)
        file.write(after)

    found = scan(path)

    assert found.entries == 2
    assert found.damage is None
    assert found.torn is not None
    assert str(2**42 + len(after)) in found.torn.found
