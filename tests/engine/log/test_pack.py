"""One file of a tree (CONTRACT.md §4.6)."""

import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import attrs
import pytest

from refold.engine.errors import LogExists, LogMissing, LogNameRefused, LogUnsupported, UsageError
from refold.engine.events.events import NoteAdded, RunStarted
from refold.engine.log import pack as packing
from refold.engine.log.pack import opened, pack
from refold.engine.log.reader import read_entries, scan
from refold.engine.log.writer import LogWriter
from tests.support.loops import for_each


@pytest.fixture
def tree(tmp_path: Path, started: RunStarted) -> Path:
    """A root with a child and a blob, beside the log of another run."""
    root = tmp_path / "audit.jsonl"
    child = attrs.evolve(started, depth=1, parent={"run": "run", "call": "0#1", "hash": "0" * 64})
    with LogWriter.create(root, started) as log:
        log.append(NoteAdded("x" * 40_000))
    LogWriter.create(tmp_path / "audit.1.jsonl", child).close()
    LogWriter.create(tmp_path / "other.jsonl", started).close()
    return root


def test_a_packed_tree_reads_like_the_tree(tree: Path, tmp_path: Path) -> None:
    """Logs and blobs, byte for byte, and nothing of its neighbours."""
    packed = pack(tree, tmp_path / "report.refold")

    with opened(packed) as root:
        assert root.read_bytes() == tree.read_bytes()
        assert scan(root.with_name("audit.1.jsonl")).entries == 1
        assert list(read_entries(root, resolve=True))[1].data == {"text": "x" * 40_000}
        assert not root.with_name("other.jsonl").exists()
    assert not root.exists()
    assert stat.S_IMODE(packed.stat().st_mode) == 0o600


def test_of_a_damaged_tree_all_is_packed(tree: Path, tmp_path: Path) -> None:
    """Its large texts, too, that no line names any more: whoever looks at it may find one again."""
    whole = tree.read_bytes()
    tree.write_bytes(whole[: whole.index(b"\n") + 1])

    packed = pack(tree, tmp_path / "report.refold")

    names = zipfile.ZipFile(packed).namelist()
    assert sum(name.startswith("audit.blobs/") for name in names) == 1


def test_a_child_is_packed_with_what_lies_below_it(tmp_path: Path, started: RunStarted) -> None:
    """Its log, those of its own children, and the blobs that they name; none of its siblings'."""
    above = {"run": "run", "call": "0#1", "hash": "0" * 64}
    child = attrs.evolve(started, depth=1, parent=above)
    for name in ("audit.2.jsonl", "audit.2.1.jsonl", "audit.20.jsonl"):
        with LogWriter.create(tmp_path / name, child) as log:
            log.append(NoteAdded(name[-7] * 50_000))

    packed = pack(tmp_path / "audit.2.jsonl", tmp_path / "child.refold")

    names = zipfile.ZipFile(packed).namelist()
    assert names[:2] == ["audit.2.jsonl", "audit.2.1.jsonl"]
    assert len(names) == 4
    with opened(packed) as top:
        assert top.name == "audit.2.jsonl"
        assert len(list(read_entries(top, resolve=True))[1].data["text"]) == 50_000


def test_packing_twice_gives_the_same_bytes(tree: Path, tmp_path: Path) -> None:
    """No times, owners or orders of the file system go in."""
    one, two = pack(tree, tmp_path / "1.refold"), pack(tree, tmp_path / "2.refold")

    assert one.read_bytes() == two.read_bytes()
    assert zipfile.ZipFile(one).namelist()[:2] == ["audit.jsonl", "audit.1.jsonl"]


def test_a_log_that_is_not_packed_is_opened_as_it_is(tree: Path) -> None:
    """Every command takes either."""
    with opened(tree) as root:
        assert root == tree


def test_nothing_is_overwritten_and_nothing_is_left_behind(tree: Path, tmp_path: Path) -> None:
    """A refused packing leaves the folder as it was."""
    out = tmp_path / "report.refold"
    out.write_bytes(b"mine")
    before = sorted(tmp_path.iterdir())

    with pytest.raises(LogExists):
        pack(tree, out)
    with pytest.raises(LogNameRefused):
        pack(tree, tmp_path / "report.zip")
    with pytest.raises(LogNameRefused):
        pack(out, tmp_path / "again.refold")
    with pytest.raises(LogMissing):
        pack(tmp_path / "none.jsonl", tmp_path / "none.refold")

    assert out.read_bytes() == b"mine"
    assert sorted(tmp_path.iterdir()) == before


def test_a_link_among_blobs_is_not_packed(tree: Path, tmp_path: Path) -> None:
    """What is attached to a report is the run's, never what a link leads to."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (tmp_path / "audit.blobs" / "aa").mkdir()
    (tmp_path / "audit.blobs" / "aa" / ("a" * 64)).symlink_to(secret)

    packed = pack(tree, tmp_path / "report.refold")

    assert not any("aaaa" in name for name in zipfile.ZipFile(packed).namelist())


def test_nothing_behind_a_linked_folder_of_blobs_is_packed(tree: Path, tmp_path: Path) -> None:
    elsewhere = (tmp_path / "audit.blobs").rename(tmp_path / "elsewhere")
    (tmp_path / "audit.blobs").symlink_to(elsewhere)
    first = next(each for each in elsewhere.iterdir() if each.is_dir())

    packed = pack(tree, tmp_path / "report.refold")
    (tmp_path / "audit.blobs").unlink()
    (tmp_path / "audit.blobs").mkdir()
    (tmp_path / "audit.blobs" / first.name).symlink_to(first)
    again = pack(tree, tmp_path / "again.refold")

    for each in (packed, again):
        assert not any("blobs" in name for name in zipfile.ZipFile(each).namelist())


@for_each(
    "names",
    [
        ["../audit.jsonl"],
        ["/audit.jsonl"],
        ["audit.jsonl", "../evil.jsonl"],
        ["audit.jsonl", "evil.jsonl"],
        ["audit.jsonl", "audit.blobs/../../evil"],
        ["audit.jsonl", "audit.blobs/aa/" + "b" * 64],
        ["audit.jsonl", "other.blobs/aa/" + "a" * 64],
        ["audit.jsonl", "audit.sh"],
        ["audit.1.jsonl", "audit.jsonl"],
        ["audit.1.jsonl", "audit.2.jsonl"],
        ["audit.1.jsonl", "audit.10.jsonl"],
        ["audit.1.jsonl", "audit.1.blobs/aa/" + "a" * 64],
        ["readme.txt"],
        [],
    ],
)
def test_names_that_the_rule_does_not_give_are_refused(tmp_path: Path, names: list[str]) -> None:
    """An archive writes nowhere but where its logs and blobs belong."""
    packed = tmp_path / "evil.refold"
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    if not names:
        packed.write_bytes(b"PK\x03\x04" + packed.read_bytes())

    with pytest.raises(LogUnsupported), opened(packed):
        pass


def test_a_bomb_is_refused(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written: its directory states the sizes."""
    packed = pack(tree, tmp_path / "report.refold")
    monkeypatch.setattr(packing, "UNPACKED_MAX", 41_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TMPDIR", "set")

    with pytest.raises(LogUnsupported, match="bytes, more than 41000"), opened(packed):
        pass


@pytest.mark.parametrize(
    ("name", "most", "said"),
    [("UNPACKED_MAX", 41_000, "bytes; .* of them in audit.blobs/"), ("FILES_MAX", 2, "files")],
)
def test_nothing_is_packed_that_is_not_opened(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int, said: str
) -> None:
    """It says how much it is and what the most of it is, and writes nothing."""
    monkeypatch.setattr(packing, name, most)

    with pytest.raises(UsageError, match=f"can have at most {most} {said}"):
        pack(tree, tmp_path / "report.refold")

    assert not [each for each in tmp_path.iterdir() if "report" in each.name]
    monkeypatch.setattr(packing, name, 10 * most)
    with opened(pack(tree, tmp_path / "report.refold")) as root:
        assert root.read_bytes() == tree.read_bytes()


@pytest.mark.long
def test_a_bomb_of_five_megabytes_costs_nothing(tmp_path: Path) -> None:
    """It would unpack to 5 GiB of zeros."""
    packed, zeros = tmp_path / "report.refold", bytes(2**24)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("audit.jsonl", "audit.1.jsonl"):
            with archive.open(name, "w", force_zip64=True) as file:
                for _ in range(160):
                    file.write(zeros)
    free, began = shutil.disk_usage(tmp_path).free, time.process_time()

    with pytest.raises(LogUnsupported, match=f"bytes, more than {packing.UNPACKED_MAX}"):
        opened(packed).__enter__()

    assert time.process_time() - began < 1
    assert free - shutil.disk_usage(tmp_path).free < 2**30


@pytest.mark.long
def test_as_many_files_as_a_pack_may_hold_are_unpacked_in_seconds(tree: Path) -> None:
    """99,990 of them, none with more than a few bytes; and the folder is gone after it."""
    packed = pack(tree, tree.with_name("report.refold"))
    with zipfile.ZipFile(packed, "a") as archive:
        for number in range(99_990 - len(archive.namelist())):
            name = sha256(b"%d" % number).hexdigest()
            archive.writestr(f"audit.blobs/{name[:2]}/{name}", b"%d" % number)
    began = time.process_time()

    with opened(packed) as root:
        assert sum(1 for _ in root.parent.rglob("*") if _.is_file()) == 99_990
        assert time.process_time() - began < 30

    assert not root.parent.exists()


def test_a_bomb_that_states_less_is_refused(tree: Path, tmp_path: Path) -> None:
    """No more is read of a file than its directory says."""
    packed = pack(tree, tmp_path / "report.refold")
    content = bytearray(packed.read_bytes())
    at = content.index(b"PK\x01\x02")  # of the first file in the directory: its size, 24 bytes on
    content[at + 24 : at + 28] = (10).to_bytes(4, "little")
    packed.write_bytes(content)

    with pytest.raises(LogUnsupported), opened(packed):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_is_stopped_leaves_no_folder(tree: Path, tmp_path: Path, number: int) -> None:
    """And ends by the signal."""
    packed = pack(tree, tmp_path / "report.refold")
    code = """
import signal, sys, time
from refold.engine.log.pack import opened
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # below nohup, SIGHUP would be ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
with opened(sys.argv[1]) as root:
    print(root.parent, flush=True)
    while True:
        time.sleep(0.05)  # a signal right before a pause would be heeded after it
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(packed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        was_there = folder.is_dir()
        process.send_signal(number)
        ended = process.wait(60)

    assert was_there
    assert not folder.exists()
    assert ended == -number


def test_small_files_go_where_they_are_quick(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into memory, unless the place of temporary files is said, or there is too much."""
    packed = pack(tree, tmp_path / "report.refold")
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(packing, "_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    monkeypatch.delenv("TMPDIR", raising=False)

    with opened(packed) as root:
        first = root.parent.parent
    monkeypatch.setattr(packing, "_IN_MEMORY_MAX", 100)
    with opened(packed) as root:
        second = root.parent.parent
    monkeypatch.undo()

    assert (first, second) == (memory, disk)
    assert [*memory.iterdir(), *disk.iterdir()] == []


def test_a_broken_archive_is_refused(tree: Path, tmp_path: Path) -> None:
    """Wherever it is cut or altered: our error, or the same bytes as before."""
    packed = pack(tree, tmp_path / "report.refold")
    whole, log = packed.read_bytes(), tree.read_bytes()

    for at in range(4, len(whole), 7):
        for broken in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            packed.write_bytes(broken)
            try:
                with opened(packed) as root:
                    assert root.read_bytes() == log
            except LogUnsupported:
                pass


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_method_of_compression_is_refused(tree: Path, tmp_path: Path, method: int) -> None:
    """Each has errors of its own, and a later Python has more of them."""
    packed = tmp_path / "report.refold"
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.write(tree, tree.name)

    with pytest.raises(LogUnsupported, match="deflate"), opened(packed):
        pass


def test_what_is_named_like_an_archive_and_is_none_is_refused(
    make_log: Callable[[int], Path],
) -> None:
    """Not read as a log, all of whose lines would be damaged."""
    log = make_log(2)
    named = log.rename(log.with_suffix(".refold"))

    with pytest.raises(LogUnsupported, match="not a complete archive"), opened(named):
        pass


def test_an_archive_with_anything_around_it_is_refused(tree: Path, tmp_path: Path) -> None:
    """Readers of archives skip what stands there, and nobody would have looked at it."""
    packed = pack(tree, tmp_path / "report.refold")
    whole = packed.read_bytes()
    comment = whole[:-2] + b"\x05\x00hello"

    for more in (whole + b"hello", whole + bytes(22), comment, whole[:-1] + b"\1", whole + whole):
        packed.write_bytes(more)
        with pytest.raises(LogUnsupported, match=r"bytes (after|before) its"), opened(packed):
            pass


def test_a_log_is_opened_from_anywhere(make_log: Callable[[int], Path]) -> None:
    """A text path will do."""
    path = make_log(2)

    with opened(str(path)) as root:
        assert scan(root).entries == 2


@pytest.mark.parametrize("name", ["a\nb.jsonl", ".hidden.jsonl", "n\udcff.jsonl"])
def test_a_name_that_no_packed_file_is_read_with_is_refused(
    tree: Path, tmp_path: Path, name: str
) -> None:
    """Before anything is made: else nobody could open what was."""
    tree.rename(tmp_path / name)

    with pytest.raises(LogNameRefused, match="printable"):
        pack(tmp_path / name, tmp_path / "report.refold")

    assert not list(tmp_path.glob("*.refold"))
