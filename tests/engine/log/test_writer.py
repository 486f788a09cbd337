"""Appending to a log (CONTRACT.md §4.1, §4.3, §4.4, §4.5)."""

import errno
import os
import pickle
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import (
    LogDamaged,
    LogExists,
    LogLocked,
    LogMissing,
    LogNameRefused,
    LogPoisoned,
    LogSealed,
    NotCanonical,
    UsageError,
)
from refold.engine.events.events import (
    Extension,
    NoteAdded,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from refold.engine.log.line import LINE_MAX, plain
from refold.engine.log.reader import read_entries, scan
from refold.engine.log.writer import LogWriter, SystemDisk
from refold.engine.ports.ports import Durability
from tests.support.descriptors import open_descriptors

NOTE = NoteAdded("n")


class FailingDisk(SystemDisk):
    """A disk that counts, and fails from a given write or sync on."""

    def __init__(self, *, write_at: int = -1, sync_at: int = -1, short: int = -1) -> None:
        self.writes = self.syncs = 0
        self._write_at = write_at
        self._sync_at = sync_at
        self._short = short

    def write(self, descriptor: int, content: bytes, /) -> int:
        """Write all, a part, or nothing."""
        self.writes += 1
        if self.writes - 1 == self._write_at:
            if self._short >= 0:
                return os.write(descriptor, content[: self._short])
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, content)

    def sync(self, _: int, /) -> None:
        """Count a sync, or fail."""
        self.syncs += 1
        if self.syncs - 1 == self._sync_at:
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


# --- what is written -----------------------------------------------------------------------------


def test_entries_are_numbered_chained_and_read_back(path: Path, started: RunStarted) -> None:
    """What was appended is what is read: seq, kind, call, cause, event."""
    with LogWriter.create(path, started) as log:
        first = log.head
        assert log.append(ToolCalled("t", {"b": 1, "a": None}, "pure"), "0#1") == 1
        assert log.append(ToolReturned("ok", [1.5]), "0#1", 1) == 2

    entries = list(read_entries(path))

    assert [(e.seq, e.kind, e.call, e.cause) for e in entries] == [
        (0, "run.started", None, None),
        (1, "tool.called", "0#1", None),
        (2, "tool.returned", "0#1", 1),
    ]
    assert entries[0].event == started
    assert entries[1].event == ToolCalled("t", {"b": 1, "a": None}, "pure")
    assert (entries[0].hash, entries[2].hash) == (first, log.head)


def test_the_writer_knows_the_bytes_it_wrote(path: Path, started: RunStarted) -> None:
    """`last_data` and `encode` are what a reader finds."""
    event = ToolReturned("ok", {"$x": "y" * 40_000})
    with LogWriter.create(path, started) as log:
        log.append(event, "0#1")
        last = list(read_entries(path))[-1]

        assert log.last_data == log.encode(event) == last.data_bytes
    assert [entry.event for entry in read_entries(path, resolve=True)] == [started, event]


def test_the_first_line_says_who_writes(path: Path, started: RunStarted) -> None:
    """`meta` has clocks everywhere, process and host at a beginning, and what a caller adds."""
    with LogWriter.create(path, started, meta={"runner": "in-process"}) as log:
        log.append(NOTE, "0#1", meta={"duration_ms": 3})
    first, second = read_entries(path)

    assert list(first.meta) == ["wall_us", "mono_us", "pid", "host", "runner"]
    assert first.meta["pid"] == os.getpid()
    assert list(second.meta) == ["wall_us", "mono_us", "duration_ms"]


def test_a_third_partys_event_is_carried(path: Path, started: RunStarted) -> None:
    """A kind `x-…` is chained like any other; another unknown name is refused."""
    with LogWriter.create(path, started) as log:
        log.append(Extension("x-mine.seen", {"$a": [1]}))
        with pytest.raises(NotCanonical):
            log.append(Extension('x-","kind', {}))
    entries = list(read_entries(path, resolve=True))

    assert entries[1].event == Extension("x-mine.seen", {"$a": [1]})
    assert scan(path).damage is None


@pytest.mark.parametrize(
    "value",
    [float("nan"), 2**64, "\ud800", {1: 2}, object(), ["x" * 1000] * 1200],
    ids=["nan", "wide", "surrogate", "key", "object", "line"],
)
def test_what_a_log_cannot_hold_is_refused_before_anything_is_written(
    path: Path, started: RunStarted, value: object
) -> None:
    """The file does not change, and the writer goes on."""
    with LogWriter.create(path, started) as log:
        before = path.read_bytes()

        with pytest.raises(NotCanonical):
            log.append(NoteAdded("n", value))

        assert path.read_bytes() == before
        assert log.append(NOTE) == 1
    assert scan(path).entries == 2


def test_a_line_may_be_as_long_as_the_cap(path: Path, started: RunStarted) -> None:
    """One MiB, counted with the newline, is written and read."""
    piece = "x" * 30_000
    with LogWriter.create(path, started) as log:
        log.append(NoteAdded("", [piece] * 34))
        log.append(NOTE)
    entries = list(read_entries(path))

    assert 1_000_000 < len(entries[1].line) < LINE_MAX
    assert len(entries) == 3


def test_a_log_is_safe_to_print(path: Path, started: RunStarted) -> None:
    """No control, bidi or invisible character of the data is in the file as such."""
    nasty = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0xAD, 0x2028, 0x202E, 0xFEFF]))
    with LogWriter.create(path, started) as log:
        log.append(NoteAdded(nasty, {nasty: nasty}))
    text = path.read_bytes().decode()

    assert set(text) & set(nasty) == {"\n"}
    assert list(read_entries(path))[1].event == NoteAdded(nasty, {nasty: nasty})


# --- files ---------------------------------------------------------------------------------------


def test_a_log_is_its_owners_alone(tmp_path: Path, started: RunStarted) -> None:
    """Files 0600 and folders 0700, whatever the umask."""
    path = tmp_path / "new" / "deeper" / "audit.jsonl"
    mask = os.umask(0)
    try:
        LogWriter.create(path, started).close()
    finally:
        os.umask(mask)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_an_existing_log_is_never_overwritten(path: Path, started: RunStarted) -> None:
    """Neither a log nor whatever else has its name, a dangling link included."""
    path.write_bytes(b"mine")
    link = path.with_name("link.jsonl")
    link.symlink_to("nowhere.jsonl")

    with pytest.raises(LogExists):
        LogWriter.create(path, started)
    with pytest.raises(LogExists):
        LogWriter.create(link, started)

    assert path.read_bytes() == b"mine"
    assert not path.with_name("nowhere.jsonl").exists()


def test_a_path_that_cannot_be_made_is_a_usage_error(tmp_path: Path, started: RunStarted) -> None:
    """A file where a folder should be, or a child's name for a root."""
    (tmp_path / "file").touch()

    with pytest.raises(LogNameRefused):
        LogWriter.create(tmp_path / "file" / "audit.jsonl", started)
    with pytest.raises(LogNameRefused):
        LogWriter.create(tmp_path / "audit.1.jsonl", started)


def test_a_folder_that_cannot_be_synced_leaves_no_file(
    path: Path, started: RunStarted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that may be lost is refused in words, no descriptor stays; `fast` asks for none."""
    sync = os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    before = open_descriptors()
    with pytest.raises(LogNameRefused, match="its folder cannot be synced"):
        LogWriter.create(path, started)

    assert not path.exists()
    assert open_descriptors() <= before  # fewer where the collector closed an earlier test's
    LogWriter.create(path, started, durability="fast").close()


def test_a_name_with_a_nul_is_refused(tmp_path: Path, started: RunStarted) -> None:
    """As any other that the system does not take; nothing is left."""
    path = tmp_path / "new" / "a\0b.jsonl"

    with pytest.raises(LogNameRefused, match="null"):
        LogWriter.create(path, started)
    with pytest.raises(LogMissing, match="null"):
        LogWriter.resume(path)

    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_child_may_have_a_childs_name(tmp_path: Path, started: RunStarted) -> None:
    """The rule for roots holds for roots."""
    child = attrs.evolve(started, parent={"run": "r", "call": "0#1", "hash": "0" * 64}, depth=1)

    LogWriter.create(tmp_path / "audit.1.jsonl", child).close()

    assert scan(tmp_path / "audit.1.jsonl").entries == 1


def test_a_first_line_that_fails_leaves_no_file(path: Path, started: RunStarted) -> None:
    """Nothing was acknowledged, so nothing stays in the way of the next attempt."""
    with pytest.raises(LogPoisoned):
        LogWriter.create(path, started, disk=FailingDisk(write_at=0))
    with pytest.raises(NotCanonical):
        LogWriter.create(path, attrs.evolve(started, input=float("inf")))

    LogWriter.create(path, started).close()


# --- one writer ----------------------------------------------------------------------------------


def test_a_second_writer_is_refused_by_whatever_name(path: Path, started: RunStarted) -> None:
    """Case 62: the same process, a symbolic and a hard link; the error names the holder."""
    soft, hard = path.with_name("soft.jsonl"), path.with_name("hard.jsonl")
    with LogWriter.create(path, started):
        soft.symlink_to(path)
        hard.hardlink_to(path)
        for name in (path, soft, hard):
            with pytest.raises(LogLocked) as creating:
                LogWriter.create(name, started)
            with pytest.raises(LogLocked) as resuming:
                LogWriter.resume(name)
            assert creating.value.pid == resuming.value.pid == os.getpid()


def test_another_process_is_refused(path: Path, started: RunStarted) -> None:
    """Case 62: and gets the log once it is closed, without waiting."""
    program = f"from refold.engine.log.writer import LogWriter; LogWriter.resume({str(path)!r})"
    with LogWriter.create(path, started):
        refused = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
    granted = subprocess.run([sys.executable, "-c", program], check=False)

    assert f"LogLocked: {path} is being written by process {os.getpid()}" in refused.stderr
    assert granted.returncode == 0


def test_a_forked_process_cannot_append(path: Path, started: RunStarted) -> None:
    """The log stays with the process that opened it, lock and all; closing frees it."""
    log = LogWriter.create(path, started)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            log.append(NOTE)
        except LogLocked as locked:
            os.write(writing, pickle.dumps(locked))
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    error = pickle.loads(os.read(reading, 65536))
    os.close(reading)

    assert (error.path, error.pid) == (str(path), os.getpid())
    assert log.append(NOTE) == 1
    log.close()
    LogWriter.resume(path).writer.close()


def test_a_closed_writer_takes_nothing(path: Path, started: RunStarted) -> None:
    """Closing twice is fine; to append afterwards, or to make sure of it, is a misuse."""
    for end in (NOTE, RunFinished("completed", "done")):
        log = LogWriter.create(path, started)
        log.append(end)
        log.close()
        log.close()

        for use in (lambda log: log.append(NOTE), LogWriter.barrier):
            with pytest.raises(LogSealed if end is not NOTE else UsageError):
                use(log)
        path.unlink()


def test_what_is_no_event_is_refused(path: Path, started: RunStarted) -> None:
    """By its type; nothing is written."""
    wrong: Any = Path("x")
    with LogWriter.create(path, started) as log:
        with pytest.raises(NotCanonical, match="an event"):
            log.append(wrong)
        assert log.entries == 1


def test_an_entry_says_when_it_was_written(path: Path, started: RunStarted) -> None:
    """In millionths of a second, by the wall and since the machine began."""
    began = time.time_ns() // 1000, time.monotonic_ns() // 1000
    with LogWriter.create(path, started) as log:
        log.append(NOTE)
        log.append(NOTE, "0#1", 0)
        log.append_call(b"tool.called", b"0#2", 1, b'{"tool":"t","arguments":{},"effect":"reads"}')
    ended = time.time_ns() // 1000, time.monotonic_ns() // 1000

    for entry in read_entries(path):
        wall_us, mono_us = entry.meta["wall_us"], entry.meta["mono_us"]
        assert began[0] <= wall_us <= ended[0]
        assert began[1] <= mono_us <= ended[1]
        who = {"pid": os.getpid(), "host": plain(os.uname().nodename)}
        assert (who.items() <= entry.meta.items()) is (entry.seq == 0), "said once"


def test_what_a_log_had_is_durable_once_it_goes_on(make_log: Callable[[int], Path]) -> None:
    """Though the writer before may have been killed between a line and its sync."""
    path = make_log(3)

    with LogWriter.resume(path).writer as log:
        assert log.durable_seq == log.entries - 1 == 2


# --- the end -------------------------------------------------------------------------------------


def test_nothing_follows_the_end(path: Path, started: RunStarted) -> None:
    """After `run.finished`, neither this writer nor a later one appends."""
    with LogWriter.create(path, started) as log:
        log.append(RunFinished("completed", "done"))
        log.barrier()
        with pytest.raises(LogSealed):
            log.append(NOTE)

    with pytest.raises(LogSealed):
        LogWriter.resume(path)
    assert scan(path).sealed


def test_no_tail_is_taken_off_behind_the_end(path: Path, started: RunStarted) -> None:
    """No crash leaves bytes there: they stay for whoever wants to know who did."""
    with LogWriter.create(path, started) as log:
        log.append(RunFinished("completed", "done"))
    with path.open("ab") as file:
        file.write(b" ")

    with pytest.raises(LogSealed):
        LogWriter.resume(path)

    assert path.read_bytes().endswith(b"\n ")
    assert (scan(path).sealed, scan(path).ended) == (False, True)


# --- durability ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "syncs", "durable"), [("fast", 0, -1), ("group", 3, 600), ("strict", 601, 600)]
)
def test_each_mode_syncs_as_it_promises(
    path: Path, started: RunStarted, mode: Durability, syncs: int, durable: int
) -> None:
    """`fast` never; `group` at the start, every 256 entries and at barriers; `strict` each time."""
    disk = FailingDisk()
    with LogWriter.create(path, started, durability=mode, disk=disk) as log:
        for _ in range(600):
            log.append(NOTE)
        before = disk.syncs
        log.barrier()

        assert before == syncs
        assert log.durable_seq == durable


@pytest.mark.parametrize("at", range(1, 5))
def test_a_failed_sync_poisons_for_good(path: Path, started: RunStarted, at: int) -> None:
    """It is never retried; the error names the last durable entry; nothing more is appended."""
    disk = FailingDisk(sync_at=at)
    log = LogWriter.create(path, started, durability="strict", disk=disk)
    for _ in range(at - 1):
        log.append(NOTE)
    with pytest.raises(LogPoisoned) as poisoned:
        log.append(NOTE)
    size, syncs = path.stat().st_size, disk.syncs

    for again in (lambda: log.append(NOTE), log.barrier):
        with pytest.raises(LogPoisoned) as later:
            again()
        assert later.value.durable_seq == poisoned.value.durable_seq == at - 1
    assert (path.stat().st_size, disk.syncs) == (size, syncs)
    log.close()
    assert scan(path).damage is None


@pytest.mark.parametrize("short", [0, 1, 50])
def test_a_short_write_is_gone_on_with(path: Path, started: RunStarted, short: int) -> None:
    """The system may take a part of a line; the rest follows."""
    with LogWriter.create(path, started, disk=FailingDisk(write_at=1, short=short)) as log:
        log.append(NOTE)
        log.append(NOTE)

    assert scan(path).entries == 3


def test_a_failed_write_leaves_whole_entries(path: Path, started: RunStarted) -> None:
    """Case 61: what was acknowledged stays, byte for byte; the writer is poisoned."""
    log = LogWriter.create(path, started, disk=FailingDisk(write_at=2))
    log.append(NOTE)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(LogPoisoned):
            log.append(NOTE)
    log.close()

    assert path.read_bytes() == before
    assert scan(path).entries == 2


class InterruptedDisk(FailingDisk):
    """A disk during whose third write Ctrl-C is pressed, after so many bytes."""

    def __init__(self, taken: int | None) -> None:
        super().__init__()
        self._taken = taken

    def write(self, descriptor: int, content: bytes, /) -> int:
        """Write, and be interrupted before the writer hears of it."""
        self.writes += 1
        if self.writes == 3:
            os.write(descriptor, content[: self._taken])
            raise KeyboardInterrupt
        return os.write(descriptor, content)


@pytest.mark.parametrize(("taken", "entries"), [(None, 4), (0, 3), (7, 2)])
def test_an_interrupt_never_breaks_the_chain(
    path: Path, started: RunStarted, taken: int | None, entries: int
) -> None:
    """A line written whole counts, one not begun does not, a part is taken off and poisons."""
    log = LogWriter.create(path, started, disk=InterruptedDisk(taken))
    log.append(NOTE)
    with pytest.raises(KeyboardInterrupt):
        log.append(NOTE)
    if taken == 7:
        with pytest.raises(LogPoisoned):
            log.append(NOTE)
    else:
        log.append(NOTE)
    log.close()

    found = scan(path)
    assert (found.entries, found.damage, found.torn) == (entries, None, None)


@pytest.mark.parametrize("change", ["removed", "replaced", "moved", "folder", "cut", "grown"])
@pytest.mark.parametrize("mode", ["fast", "group"])
def test_a_log_changed_under_the_writer_is_noticed(
    tmp_path: Path, started: RunStarted, mode: Durability, change: str
) -> None:
    """Case 62: at the next barrier, in every mode, and it poisons."""
    path = tmp_path / "runs" / "audit.jsonl"
    log = LogWriter.create(path, started, durability=mode)
    log.append(NOTE)
    match change:
        case "removed":
            path.unlink()
        case "replaced":
            path.with_name("other").write_bytes(path.read_bytes())
            path.with_name("other").rename(path)
        case "moved":
            path.rename(tmp_path / "elsewhere.jsonl")
        case "folder":
            path.parent.rename(tmp_path / "elsewhere")
        case "cut":
            os.truncate(path, 10)
        case _:
            with path.open("ab") as file:
                file.write(b"x")

    with pytest.raises(LogPoisoned) as poisoned:
        log.barrier()
    with pytest.raises(LogPoisoned):
        log.append(NOTE)
    log.close()
    is_lost = mode == "fast" or change in (
        "removed",
        "replaced",
        "cut",
    )  # what was on disk went with the file
    assert poisoned.value.durable_seq == (-1 if is_lost else 0)
    assert ("No entry is known" in str(poisoned.value)) is is_lost


# --- going on ------------------------------------------------------------------------------------


def test_a_resumed_log_goes_on_with_the_chain(make_log: Callable[[int], Path]) -> None:
    """After a clean end nothing is cut, and what follows chains to what was there."""
    path = make_log(5)
    before = path.read_bytes()

    resumed = LogWriter.resume(path)
    resumed.writer.append(RunResumed(2))
    resumed.writer.close()

    assert resumed.cut is None
    assert path.read_bytes().startswith(before)
    assert scan(path).entries == 6
    assert scan(path).damage is None


def test_a_damaged_log_is_not_resumed_and_not_changed(make_log: Callable[[int], Path]) -> None:
    """Damage is refused with its place; nothing is repaired silently."""
    path = make_log(5)
    broken = bytearray(path.read_bytes())
    broken[len(broken) // 2] ^= 1
    path.write_bytes(broken)

    with pytest.raises(LogDamaged):
        LogWriter.resume(path)

    assert path.read_bytes() == broken
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_only_a_plain_file_is_resumed(tmp_path: Path, make_log: Callable[[int], Path]) -> None:
    """No link, no folder, no pipe, nothing."""
    path = make_log(2)
    (tmp_path / "link.jsonl").symlink_to(path)
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")

    for name in ("link", "folder", "pipe", "none"):
        with pytest.raises(LogMissing):
            LogWriter.resume(tmp_path / f"{name}.jsonl")


def test_a_resume_that_fails_lets_go_of_the_log(make_log: Callable[[int], Path]) -> None:
    """The lock is free again, and no descriptor stays open."""
    path = make_log(3)
    whole = path.read_bytes()
    path.write_bytes(b"not a log\n")
    before = open_descriptors()
    with pytest.raises(LogDamaged):
        LogWriter.resume(path)

    assert open_descriptors() <= before  # fewer where the collector closed an earlier test's
    path.write_bytes(whole)
    LogWriter.resume(path).writer.close()
    path.unlink()
    os.mkfifo(path)
    for opening in (LogWriter.resume, scan):
        with pytest.raises(LogMissing, match="not a plain file"):
            opening(path)
    assert open_descriptors() <= before  # fewer where the collector closed an earlier test's


HELD = """
import sys, threading
from refold.engine.events.events import NoteAdded
from refold.engine.log.writer import LogWriter
from refold.engine.log.writer import hold_writers

before = LogWriter.resume(sys.argv[1]).writer
hold_writers()
after = LogWriter.resume(sys.argv[2]).writer
threads = [
    threading.Thread(target=lambda each=each: each.append(NoteAdded("n"), "0#9", 0), daemon=True)
    for each in (before, after)
]
for thread in threads:
    thread.start()
    thread.join(0.2)
print([thread.is_alive() for thread in threads])
"""


def test_a_process_that_is_about_to_end_writes_nothing_more(
    tmp_path: Path, make_log: Callable[[int], Path]
) -> None:
    """§7.3: whoever wants to waits for that end, in a log that is opened later, too."""
    logs = [make_log(4).rename(tmp_path / f"{name}.jsonl") for name in "ab"]
    before = [log.read_bytes() for log in logs]

    told = subprocess.run(
        [sys.executable, "-c", HELD, *logs], capture_output=True, check=True, text=True
    )

    assert told.stdout == "[True, True]\n"
    assert [log.read_bytes() for log in logs] == before
