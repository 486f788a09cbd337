"""A run goes into a store whole or not at all, and once (CONTRACT.md §4.8)."""

import contextlib
from hashlib import sha1
from pathlib import Path
from typing import Any

import obstore
import pytest

from refold.engine.errors import (
    LogDamaged,
    LogLocked,
    LogMissing,
    LogNameRefused,
    LogUnsealed,
    RunExists,
    StoreDamaged,
    StoreFailed,
    UsageError,
)
from refold.engine.events.events import RunStarted
from refold.engine.log.names import files_of
from refold.engine.log.pack import pack
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.runners.recording import record
from refold.store.push import Moved, push
from tests.support.stores import (
    Stopped,
    Traffic,
    content_of,
    folder_store,
    leading,
    pulled,
    pushed,
    record_run,
)


def test_a_push_stopped_at_any_request_and_repeated_leaves_the_same_bytes(
    log: Path, url: str, tmp_path: Path, traffic: Traffic
) -> None:
    """Before the request is made, or after the store has done it; a run is seen whole or not."""
    pushed(log, url)
    whole, requests = content_of(tmp_path / "store"), len(traffic.seen)
    assert requests >= 6

    for number in range(1, requests + 1):
        for moment in ("before", "after"):
            store = tmp_path / f"{moment}-{number}"
            traffic.reset(**{moment: number})
            with pytest.raises(Stopped):
                pushed(log, folder_store(store))
            traffic.reset()
            with contextlib.suppress(LogMissing):
                pulled(store.as_uri(), log.name, tmp_path / f"got-{moment}-{number}")
                assert content_of(tmp_path / f"got-{moment}-{number}") == content_of(log.parent)
            pushed(log, store.as_uri())
            assert content_of(store) == whole


def test_what_is_there_is_not_sent_again(
    log: Path, url: str, tmp_path: Path, traffic: Traffic
) -> None:
    """Large texts of other runs, and the run itself."""
    pushed(log, url)
    other = record_run(tmp_path / "runs" / "other.jsonl", 2)
    before = content_of(tmp_path / "store")
    traffic.reset()

    second, again = pushed(other, url), pushed(log, url)

    large = {each for each in before if len(before[each]) == 40_000}
    assert len(large) == 1
    assert not large & {path for call, path in traffic.seen if call == "put"}
    assert second.status == "pushed"
    assert 0 < second.moved_bytes == second.bytes - 40_000
    assert (again.status, again.moved_bytes) == ("already there", 0)


def test_contents_of_files_are_stored_only_where_that_is_asked_for(
    log: Path, url: str, tmp_path: Path
) -> None:
    """As packs; a run with them is not another one."""
    whole = content_of(log.parent)
    (pack_of_git := tmp_path / "0.pack").write_bytes(b"PACK" + sha1(b"PACK").digest())
    pushed(log, url)
    pulled(url, log.name, tmp_path / "bare")
    assert content_of(tmp_path / "bare") == whole
    with pytest.raises(RunExists):
        pushed(log, url, objects=lambda _: [pack_of_git])

    other = folder_store(tmp_path / "other")
    pushed(log, other, objects=lambda _: [pack_of_git])
    pulled(other, log.name, tmp_path / "full")

    found = {
        each.name: each.read_bytes()
        for each in files_of(tmp_path / "full" / log.name).rglob("*")
        if each.is_file()
    }
    assert found == {"0.pack": pack_of_git.read_bytes()}
    assert pushed(log, other).status == "already there"


def test_a_second_writer_of_a_name_is_refused(log: Path, url: str, tmp_path: Path) -> None:
    """And what is there stays byte for byte."""
    pushed(log, url)
    before = content_of(tmp_path / "store" / "runs")
    other = record_run(tmp_path / "others" / "audit.jsonl", 2)

    with pytest.raises(RunExists, match=r"already has a different audit\.jsonl"):
        pushed(other, url)

    assert content_of(tmp_path / "store" / "runs") == before


def test_of_two_writers_at_once_the_store_decides(
    log: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run comes between the look and the write."""
    other = record_run(tmp_path / "others" / "audit.jsonl", 2)
    put = obstore.put
    waiting = [other]

    def between(store: Any, path: str, *arguments: Any, **options: Any) -> Any:
        if path.startswith("runs/") and waiting:
            pushed(waiting.pop(), url)
        return put(store, path, *arguments, **options)

    monkeypatch.setattr(obstore, "put", between)

    with pytest.raises(RunExists):
        pushed(log, url)

    pulled(url, "audit.jsonl", tmp_path / "got")
    assert content_of(tmp_path / "got") == content_of(other.parent)


def test_a_refused_run_stops_no_other(log: Path, url: str, tmp_path: Path) -> None:
    """In the order of the logs: damaged, without an end, being written, a child's, as it should."""
    damaged = record_run(log.with_name("damaged.jsonl"))
    damaged.write_bytes(damaged.read_bytes().replace(b"leading", b"reading"))
    open_ended = record_run(log.with_name("open.jsonl"))
    open_ended.write_bytes(b"".join(open_ended.read_bytes().splitlines(keepends=True)[:-1]))
    written = log.with_name("written.jsonl")
    first = next(read_entries(log)).event
    assert isinstance(first, RunStarted)
    child = log.with_name("audit.1.jsonl")

    with LogWriter.create(written, first):
        outcomes = dict(push([damaged, open_ended, written, child, log], url))

    assert isinstance(outcomes[damaged], LogDamaged)
    assert isinstance(outcomes[open_ended], LogUnsealed)
    assert isinstance(outcomes[written], LogLocked)
    assert isinstance(outcomes[child], LogNameRefused)
    assert isinstance(outcomes[log], Moved)
    assert set(content_of(tmp_path / "store" / "runs")) == {"audit.json"}


def test_a_kept_torn_tail_goes_along(log: Path, url: str, tmp_path: Path) -> None:
    """What recovery cut off and kept is a file of the run."""
    log.with_name("audit.1.jsonl.torn-1234-0123abcd").write_bytes(b"half a li")
    log.with_name("other.jsonl.torn-1234-0123abcd").write_bytes(b"of another run")

    pushed(log, url)
    pulled(url, log.name, tmp_path / "got")

    assert (tmp_path / "got" / "audit.1.jsonl.torn-1234-0123abcd").read_bytes() == b"half a li"
    assert not (tmp_path / "got" / "other.jsonl.torn-1234-0123abcd").exists()


def test_a_packed_run_is_pushed_like_its_logs(log: Path, url: str, tmp_path: Path) -> None:
    packed = pack(log, tmp_path / "report.refold")

    assert pushed(packed, url).run == "audit.jsonl"
    assert pushed(log, url).status == "already there"


@pytest.mark.long
def test_a_text_of_several_pieces_comes_back(url: str, tmp_path: Path) -> None:
    """No object has more than 4 MiB."""
    log = record_run(tmp_path / "runs" / "large.jsonl", text="0123456789" * 1_000_000)

    pushed(log, url)
    pulled(url, log.name, tmp_path / "got")

    assert content_of(tmp_path / "got") == content_of(log.parent)
    assert max(map(len, content_of(tmp_path / "store").values())) == 4 * 1024 * 1024


def test_the_head_is_kept_before_the_run_is_seen(
    log: Path, url: str, tmp_path: Path, traffic: Traffic
) -> None:
    """And another head of that name is refused, though the store has no such run."""
    heads = folder_store(tmp_path / "heads")

    pushed(log, url, heads=heads)
    puts = [path for call, path in traffic.seen if call == "put"]
    other = record_run(tmp_path / "others" / "audit.jsonl", 2)

    assert puts.index("heads/audit.json") < puts.index("runs/audit.json")
    with pytest.raises(RunExists, match="head of audit"):
        pushed(other, folder_store(tmp_path / "new"), heads=heads)
    assert not (tmp_path / "new" / "runs").exists()
    assert pushed(log, folder_store(tmp_path / "new"), heads=heads).status == "pushed"


def test_a_store_that_overwrites_is_refused(
    log: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers that speak S3 do not know conditional writes, and say nothing."""
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, path, content, **_: put(store, path, content))

    with pytest.raises(StoreFailed, match="overwrites"):
        pushed(log, url)

    assert not (tmp_path / "store" / "objects").exists()


def test_a_piece_cut_short_in_the_store_is_not_built_upon(
    log: Path, url: str, tmp_path: Path
) -> None:
    """Of another size than its bytes have: whoever made it so, a run is not whole with it."""
    pushed(record_run(tmp_path / "runs" / "other.jsonl", 2), url)
    large = next(path for path in (tmp_path / "store").rglob("*") if path.stat().st_size == 40_000)
    large.write_bytes(b"y" * 39_999)

    with pytest.raises(StoreDamaged, match="expected 40000 bytes, found 39999 bytes"):
        pushed(log, url)

    assert not (tmp_path / "store" / "runs" / "audit.json").exists()


def test_a_log_that_changes_while_it_is_pushed_is_refused(
    log: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored is what was verified."""
    get = obstore.get

    def change(store: Any, path: str, **options: Any) -> Any:
        if path.startswith("runs/"):
            log.write_bytes(log.read_bytes().replace(b"leading", b"reading"))
        return get(store, path, **options)

    monkeypatch.setattr(obstore, "get", change)

    with pytest.raises(UsageError, match="was changed while it was pushed"):
        pushed(log, url)

    assert not (tmp_path / "store" / "runs").exists()


def test_a_name_that_no_store_takes_is_refused(url: str, tmp_path: Path) -> None:
    log = record(leading, [1, "y"], log=tmp_path / "a\x01.jsonl").log

    with pytest.raises(LogNameRefused, match="printable"):
        pushed(log, url)
