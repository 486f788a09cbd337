"""A run comes out of a store whole and checked, or not at all (CONTRACT.md §4.8)."""

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pytest

from refold.engine.errors import LogExists, LogLocked, LogMissing, StoreDamaged, UsageError
from refold.engine.log.lock import lock
from refold.replay.audit.verify import verify
from refold.replay.bulk.bulk import find_logs
from refold.store import pull as pulling
from refold.store.place import StoredRun
from refold.store.pull import fetched, pull, stored
from refold.store.push import Moved
from tests.support.stores import Stopped, Traffic, content_of, pulled, pushed, record_run


def _object_of(store: Path, content: bytes) -> Path:
    (found,) = (path for path in store.rglob("objects/*/*") if path.read_bytes() == content)
    return found


def test_a_pulled_run_has_the_bytes_of_the_pushed_one(log: Path, url: str, tmp_path: Path) -> None:
    """Readable by their owner alone, and nothing is left beside it."""
    pushed(log, url)

    assert pulled(url, log.name, tmp_path / "got").status == "pulled"

    assert content_of(tmp_path / "got") == content_of(log.parent)
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("got/**/*")}
    assert modes == {True: 0o700, False: 0o600}
    assert pulled(url, log.name, tmp_path / "got").status == "already there"


def test_all_runs_are_pulled_where_none_is_named(log: Path, url: str, tmp_path: Path) -> None:
    other = record_run(log.with_name("other.jsonl"), 2)
    pushed(log, url)
    pushed(other, url)

    outcomes = dict(pull(url, [], tmp_path / "got"))

    assert outcomes.keys() == {"audit.jsonl", "other.jsonl"}
    assert content_of(tmp_path / "got") == content_of(log.parent)
    assert [run for run, _ in stored(url, [])] == ["audit.jsonl", "other.jsonl"]


def test_a_pull_stopped_at_any_request_reads_as_no_run_and_goes_on(
    log: Path, url: str, tmp_path: Path, traffic: Traffic
) -> None:
    """What had come is not fetched again."""
    pushed(log, url)
    traffic.reset()
    pulled(url, log.name, tmp_path / "got")
    requests = len(traffic.seen)
    assert requests >= 5

    for number in range(1, requests + 1):
        folder = tmp_path / f"got-{number}"
        traffic.reset(before=number)
        with pytest.raises(Stopped):
            pulled(url, log.name, folder)
        if folder.exists():
            with pytest.raises(LogMissing, match="no root logs"):
                find_logs([folder])
        traffic.reset()
        pulled(url, log.name, folder)
        assert content_of(folder) == content_of(log.parent)


def test_a_pull_stopped_while_files_get_their_names_reads_as_no_run_and_goes_on(
    log: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traffic: Traffic
) -> None:
    """The root's log is the last to have its name."""
    pushed(log, url)
    link, left = os.link, [0]

    def stopping(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        link(source, target)

    monkeypatch.setattr(os, "link", stopping)
    for count in range(3):
        left[0] = count
        folder = tmp_path / f"got-{count}"
        with pytest.raises(Stopped):
            pulled(url, log.name, folder)
        with contextlib.suppress(LogMissing):
            assert not [each for each in find_logs([folder]) if each.exists()]
        left[0] = 9
        traffic.reset()
        pulled(url, log.name, folder)
        assert content_of(folder) == content_of(log.parent)
        assert not [path for _, path in traffic.seen if path.startswith("objects")]


def test_a_second_pull_of_a_run_into_a_folder_is_refused_while_one_is_under_way(
    log: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(log, url)
    get, refused = obstore.get, list[LogLocked]()

    def between(store: Any, path: str, **options: Any) -> Any:
        if path.startswith("objects/") and not refused:
            with pytest.raises(LogLocked) as caught:
                pulled(url, log.name, tmp_path / "got")
            refused.append(caught.value)
        return get(store, path, **options)

    monkeypatch.setattr(obstore, "get", between)

    assert pulled(url, log.name, tmp_path / "got").status == "pulled"
    assert refused
    assert content_of(tmp_path / "got") == content_of(log.parent)


@pytest.mark.parametrize("change", ["flipped", "cut", "grown", "gone"])
def test_an_object_that_was_changed_is_named_and_nothing_is_made_of_it(
    change: str, log: Path, url: str, tmp_path: Path
) -> None:
    pushed(log, url)
    content = log.with_name("audit.1.jsonl").read_bytes()
    changed = _object_of(tmp_path / "store", content)
    if change == "gone":
        changed.unlink()
    else:
        kinds = {"flipped": content[:50] + b"~" + content[51:], "cut": content[:-1]}
        changed.write_bytes(kinds.get(change, content + b"\n"))

    with pytest.raises(StoreDamaged, match=f"store/objects/../{changed.name}: expected"):
        pulled(url, log.name, tmp_path / "got")

    assert not [path for path in (tmp_path / "got").iterdir() if not path.name.startswith(".")]


def _stored_instead(store: Path, log: Path, content: bytes) -> None:
    """Put another content of a run's log into a store, with a manifest that says so."""
    log.write_bytes(content)
    piece = hashlib.sha256(content).hexdigest()
    place = store / "objects" / piece[:2] / piece
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content)
    path = store / "runs" / "audit.json"
    found = verify(log)
    document = json.loads(path.read_bytes()) | {"head": found.head, "entries": found.entries}
    document["files"][0] |= {"size": len(content), "pieces": [piece]}
    path.write_bytes(json.dumps(document, separators=(",", ":")).encode())


def test_a_run_that_does_not_verify_is_not_made(log: Path, url: str, tmp_path: Path) -> None:
    """Each object may be what its name says, and the manifest another's head."""
    pushed(log, url)
    path = tmp_path / "store" / "runs" / "audit.json"
    head = verify(log).head
    path.write_bytes(path.read_bytes().replace(head.encode(), b"0" * 64))

    with pytest.raises(StoreDamaged, match=f"expected the head {'0' * 64}, found {head}"):
        pulled(url, log.name, tmp_path / "got")

    assert not (tmp_path / "got" / log.name).exists()


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda lines: lines[:-1], "expected only complete logs, found an incomplete one"),
        (lambda lines: lines[:1] + lines[2:], "expected seq 1, found .*"),
    ],
    ids=["without its end", "without an entry"],
)
def test_a_run_that_no_push_would_take_is_not_made(
    edit: Callable[[list[bytes]], list[bytes]],
    problem: str,
    log: Path,
    url: str,
    tmp_path: Path,
) -> None:
    """Even where the store's own manifest has its head: a folder may be filled by hand."""
    pushed(log, url)
    lines = log.read_bytes().splitlines(keepends=True)
    _stored_instead(tmp_path / "store", log, b"".join(edit(lines)))

    with pytest.raises(StoreDamaged, match=problem):
        pulled(url, log.name, tmp_path / "got")

    assert not (tmp_path / "got" / log.name).exists()


def test_a_run_written_anew_is_found_by_the_head_kept_elsewhere(
    log: Path, url: str, tmp_path: Path
) -> None:
    """It is intact, and its manifest fits it."""
    heads = tmp_path / "heads"
    heads.mkdir()
    pushed(log, url, heads=heads.as_uri())
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").mkdir()
    pushed(record_run(tmp_path / "others" / "audit.jsonl", 2), url)

    with pytest.raises(StoreDamaged, match="expected the head"):
        pulled(url, log.name, tmp_path / "got", heads=heads.as_uri())

    assert pulled(url, log.name, tmp_path / "got").status == "pulled"


def test_what_is_there_is_never_overwritten(log: Path, url: str, tmp_path: Path) -> None:
    """Neither the run nor a file of it, and links are not followed."""
    pushed(log, url)
    other = record_run(tmp_path / "others" / "audit.jsonl", 2)
    before = content_of(other.parent)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "audit.1.jsonl").symlink_to(tmp_path / "elsewhere")
    through = tmp_path / "through"
    through.mkdir()
    (through / "audit.blobs").symlink_to(tmp_path / "others")

    for folder in (other.parent, linked, through):
        with pytest.raises(LogExists):
            pulled(url, log.name, folder)

    assert content_of(other.parent) == before
    assert not (tmp_path / "elsewhere").exists()
    assert not (linked / log.name).exists()
    assert not (through / log.name).exists()


def test_a_root_log_without_its_files_is_not_taken_for_an_interrupted_pull(
    log: Path, url: str
) -> None:
    pushed(log, url)
    shutil.rmtree(log.with_name("audit.blobs"))

    with pytest.raises(LogExists):
        pulled(url, log.name, log.parent)


def test_a_run_that_there_is_no_room_for_is_refused_first(
    log: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traffic: Traffic
) -> None:
    pushed(log, url)
    traffic.reset()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))

    with pytest.raises(UsageError, match="has room for 1000"):
        pulled(url, log.name, tmp_path / "got")
    with pytest.raises(UsageError, match="has room for 1000"), fetched(StoredRun(url, log.name)):
        pass

    assert not [path for _, path in traffic.seen if path.startswith("objects")]


def test_a_copy_to_read_is_gone_afterwards(log: Path, url: str) -> None:
    """A child's log is fetched with its whole run."""
    pushed(log, url)

    with fetched(StoredRun(url, "audit.1.jsonl")) as path:
        assert path.read_bytes() == log.with_name("audit.1.jsonl").read_bytes()
        assert verify(path.with_name("audit.jsonl")).intact
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.parent.exists()


def test_a_run_that_is_too_large_to_read_in_place_is_refused_with_what_to_do(
    log: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(log, url)
    monkeypatch.setattr(pulling, "UNPACKED_MAX", 1000)

    with (
        pytest.raises(
            UsageError,
            match=r"up to 1000: copy it first with `refold pull .*audit\.jsonl --to DIR --large`",
        ),
        fetched(StoredRun(url, log.name)),
    ):
        pass


@pytest.mark.parametrize("what", ["refold-store.json", "runs/audit.json", "objects"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_opened(
    what: str, make: Callable[[Path], None], log: Path, url: str, tmp_path: Path
) -> None:
    """Who opens a pipe waits for ever, and a device never ends."""
    pushed(log, url)
    path = tmp_path / "store" / what
    if what == "objects":
        path = _object_of(tmp_path / "store", log.read_bytes())
    path.unlink()
    make(path)

    with pytest.raises(StoreDamaged, match="expected a file"):
        pulled(url, log.name, tmp_path / "got")


def test_what_a_refused_pull_left_is_removed_after_a_day(
    log: Path, url: str, tmp_path: Path
) -> None:
    """Unless it is under way, or no folder of ours."""
    pushed(log, url)
    _object_of(tmp_path / "store", log.read_bytes()).write_bytes(b"other")
    got = tmp_path / "got"
    with pytest.raises(StoreDamaged):
        pulled(url, log.name, got)
    (left,) = got.glob(".refold-pull-*")
    for name in ("busy", "linked"):
        (got / f".refold-pull-{name}").mkdir()
    (got / ".refold-pull-linked").rmdir()
    (got / ".refold-pull-linked").symlink_to(tmp_path / "store")
    for each in got.iterdir():
        os.utime(each, (0, 0), follow_symlinks=False)
    descriptor = os.open(got / ".refold-pull-busy", os.O_RDONLY)
    lock(descriptor, got)

    list(pull(url, ["nothing.jsonl"], got))
    os.close(descriptor)

    assert not left.exists()
    assert sorted(path.name for path in got.iterdir()) == [
        ".refold-pull-busy", ".refold-pull-linked",
    ]  # fmt: skip
    assert (tmp_path / "store" / "refold-store.json").is_file()


def test_a_large_run_is_pulled_when_it_is_asked_for(
    log: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(log, url)
    monkeypatch.setattr(pulling, "UNPACKED_MAX", 1000)

    [(_, refused)] = pull(url, [log.name], tmp_path / "got")
    [(_, taken)] = pull(url, [log.name], tmp_path / "got", large=True)

    assert "more than 1000: to copy it anyway, add --large" in str(refused)
    assert isinstance(taken, Moved)


def test_what_else_lies_in_a_store_is_told(log: Path, url: str, tmp_path: Path) -> None:
    """An object among the manifests that is none; objects that no run names are nobody's."""
    pushed(log, url)
    (tmp_path / "store" / "runs" / "notes.txt").write_bytes(b"mine")
    (tmp_path / "store" / "objects" / "more").write_bytes(b"mine")

    outcomes = dict(stored(url, []))

    assert isinstance(outcomes["audit.jsonl"], Moved)
    assert isinstance(outcomes["notes.txt.jsonl"], LogMissing)
    assert len(outcomes) == 2
