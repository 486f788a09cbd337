"""Large strings beside the log (CONTRACT.md §3.6)."""

import fcntl
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold.engine.encoding.canonical import loads
from refold.engine.errors import NotCanonical
from refold.engine.log.blobs import (
    BLOB_MIN,
    BLOB_MIN_CROWDED,
    DATA_MAX,
    BlobBroken,
    BlobStore,
    digest_only,
    encode_data,
    externalised,
    resolved,
)
from refold.engine.log.names import blobs_of
from refold.engine.log.writer import LogWriter
from tests.support.loops import for_each

LARGE = "é" * (BLOB_MIN // 2)


def test_a_string_of_the_threshold_is_put_elsewhere_and_one_byte_less_is_not() -> None:
    """Bytes of UTF-8 count, not characters."""
    assert set(externalised({"a": LARGE})["a"]) == {"$blob", "bytes"}
    assert externalised({"a": LARGE[:-1]}) == {"a": LARGE[:-1]}


def test_what_needs_nothing_is_not_copied() -> None:
    """The value itself comes back, so that it need not be encoded twice."""
    value = {"a": ["$x", {"b": 1}]}

    assert externalised(value) is value


@for_each(
    "value",
    [
        {"$blob": "0" * 64, "bytes": 3},
        {"$esc": {"$esc": {"$blob": 1}}},
        {"a": [{"$ref": "#"}, {"$defs": {"$x": LARGE}}], "b": LARGE},
        {"$": None},
    ],
)
def test_the_users_own_dollar_members_come_back_as_they_were(
    tmp_path: Path, value: dict[str, Any]
) -> None:
    """Nothing that a user writes can pass for a marker of ours."""
    store = BlobStore(tmp_path / "a.blobs")

    written = loads(encode_data(value, store.put))

    assert written != value
    assert resolved(written, store.get) == value


@pytest.mark.parametrize("sync", [True, False])
def test_a_blob_is_durable_before_the_line_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sync: bool
) -> None:
    """§3.6: its bytes, its name, and the names of the folders that were made for it."""
    synced, really = [], os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        really(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    name = BlobStore(tmp_path / "a.blobs", sync=sync).put(b"x" * 40_000)

    inner = tmp_path / "a.blobs" / name[:2]
    places = [tmp_path, inner.parent, inner / name, inner]
    assert synced == ([path.stat().st_ino for path in places] if sync else [])


@pytest.mark.parametrize("least", BLOB_MIN_CROWDED)
def test_of_data_that_fit_into_no_line_smaller_strings_are_put_elsewhere_too(
    tmp_path: Path, least: int
) -> None:
    """No smaller ones than it takes: a conversation of a thousand messages is one entry."""
    store = BlobStore(tmp_path / "a.blobs", sync=False)
    count = 2 * DATA_MAX // least * 3 // 4
    messages = [{"role": "user", "content": f"{n:0{least - n % 2}}"} for n in range(count)]
    value = {"added": messages, "large": LARGE, "small": "x" * (BLOB_MIN_CROWDED[-1] - 1)}

    written = encode_data(value, store.put)

    assert written == encode_data(value)
    assert resolved(loads(written), store.get) == value
    found = loads(written)
    assert set(found["added"][0]["content"]) == {"$blob", "bytes"}
    assert found["added"][1]["content"] == messages[1]["content"]
    assert found["small"] == value["small"]


def test_what_fits_into_no_line_even_so_is_refused() -> None:
    """Many small things are no text that could be kept apart."""
    with pytest.raises(NotCanonical, match="of 1024 bytes or more"):
        encode_data({"rows": ["x" * 1023] * 1100})
    with pytest.raises(NotCanonical, match="of 32768 bytes or more"):
        encode_data({"rows": ["x" * 2000] * 600}, is_crowded=False)


def test_what_is_written_does_not_depend_on_writing_it(tmp_path: Path) -> None:
    """Replay makes the same bytes and keeps nothing."""
    store = BlobStore(tmp_path / "a.blobs")
    value = {"a": LARGE, "b": {"$c": 1}}

    assert encode_data(value) == encode_data(value, store.put)


def test_a_blob_lies_under_its_digest_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    """`<stem>.blobs/<aa>/<sha256>`; files 0600, folders 0700; nothing unfinished stays."""
    folder = tmp_path / "a.blobs"

    name = BlobStore(folder).put(b"content")

    file = folder / name[:2] / name
    assert file.read_bytes() == b"content"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == [name]


def test_the_same_content_is_kept_once(tmp_path: Path) -> None:
    """Content-addressed: a second put changes nothing."""
    store = BlobStore(tmp_path / "a.blobs")
    name = store.put(b"content")
    before = (tmp_path / "a.blobs" / name[:2] / name).stat().st_ino

    assert store.put(b"content") == name
    assert (tmp_path / "a.blobs" / name[:2] / name).stat().st_ino == before


def test_a_missing_and_an_altered_blob_are_told_apart(tmp_path: Path) -> None:
    """Size and digest are checked on every read."""
    store = BlobStore(tmp_path / "a.blobs")
    name = store.put(b"content")
    file = tmp_path / "a.blobs" / name[:2] / name

    file.write_bytes(b"kontent")
    with pytest.raises(BlobBroken, match="damaged"):
        store.get(name, 7)
    file.write_bytes(b"more content")
    with pytest.raises(BlobBroken, match="damaged"):
        store.get(name, 7)
    file.unlink()
    with pytest.raises(BlobBroken, match="missing"):
        store.get(name, 7)


@pytest.mark.parametrize("linked", ["a.blobs", "a.blobs/{aa}"])
def test_links_are_never_followed(tmp_path: Path, linked: str) -> None:
    """Neither a folder nor a blob may lead elsewhere, in writing or in reading."""
    name = digest_only(b"content")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    BlobStore(elsewhere / "a.blobs").put(b"content")
    link = tmp_path / linked.format(aa=name[:2])
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere / linked.format(aa=name[:2]))
    store = BlobStore(tmp_path / "a.blobs")

    with pytest.raises(OSError, match=r"symbolic|directory"):
        store.put(b"content")
    with pytest.raises(BlobBroken):
        store.get(name, 7)


@for_each(
    "marker",
    [
        {"$blob": "../../etc/passwd", "bytes": 3},
        {"$blob": digest_only(b"abc"), "bytes": "3"},
        {"$blob": digest_only(b"abc"), "bytes": 3.0},
        {"$blob": digest_only(b"abc")},
        {"$blob": digest_only(b"abc"), "bytes": 3, "x": 1},
        {"$esc": 3},
        {"$esc": {}, "x": 1},
        {"$other": 1},
    ],
)
def test_a_malformed_marker_is_refused(tmp_path: Path, marker: dict[str, Any]) -> None:
    """A marker is exactly one of two forms; no name in it can leave the folder."""
    store = BlobStore(tmp_path / "a.blobs")
    store.put(b"abc")

    with pytest.raises(BlobBroken, match="marker"):
        resolved({"a": marker}, store.get)


def test_who_reads_makes_nothing(tmp_path: Path) -> None:
    """Neither the store's folder nor one of those in it."""
    store = BlobStore(tmp_path / "a.blobs")

    with pytest.raises(BlobBroken, match="blob missing"):
        store.get(digest_only(b"abc"), 3)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("made", ["folder", "fifo"])
def test_what_is_no_plain_file_is_told_and_nothing_stays_open(tmp_path: Path, made: str) -> None:
    """By its name: the system's own words would name a descriptor."""
    store = BlobStore(tmp_path / "a.blobs")
    name = store.put(b"x" * BLOB_MIN)
    place = tmp_path / "a.blobs" / name[:2] / name
    place.unlink()
    place.mkdir() if made == "folder" else os.mkfifo(place)
    before = len(list(Path("/dev/fd").iterdir()))

    with pytest.raises(BlobBroken) as broken:
        store.get(name, BLOB_MIN)

    assert (broken.value.what, broken.value.found) == (
        "blob unreadable",
        f"not a plain file: {name}",
    )
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(
    make_log: Callable[[int], Path],
) -> None:
    """By its lock; nothing else in the folder is touched."""
    log = make_log(2)
    store = BlobStore(blobs_of(log))
    name = store.put(b"x" * BLOB_MIN)
    folder = blobs_of(log) / name[:2]
    left, alive = (folder / f".{name}.{end}" for end in ("00000000", "11111111"))
    other = folder / ".hidden"
    for path in (left, alive, other):
        path.write_bytes(b"half")

    with alive.open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        LogWriter.resume(log).writer.close()
        assert {path.name for path in folder.iterdir()} == {name, alive.name, other.name}

    LogWriter.resume(log).writer.close()
    assert {path.name for path in folder.iterdir()} == {name, other.name}


def test_who_is_swept_at_work_loses_nothing(tmp_path: Path) -> None:
    """Whoever writes and whoever sweeps may meet at any moment."""
    store, done = BlobStore(tmp_path / "a.blobs", sync=False), threading.Event()

    def sweeps() -> None:
        while not done.is_set():
            store.sweep()

    thread = threading.Thread(target=sweeps)
    thread.start()
    try:
        names = [store.put(b"%d" % number) for number in range(300)]
    finally:
        done.set()
        thread.join()

    assert [store.get(name, len(str(number))) for number, name in enumerate(names)] == [
        str(number) for number in range(300)
    ]
