"""`run_bounded` ends in time with a plain answer, and leaves nothing alive (CONTRACT.md §7.3)."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from refold.engine.ports.ports import CancelSignal
from refold.engine.process.bounded import run_bounded
from refold.engine.process.bounds import Bounds, Ended
from refold.engine.process.start import child_environment
from tests.support.descriptors import open_descriptors
from tests.support.loops import for_each

CHILDREN = Path(__file__).parents[3] / "fixtures" / "children"
MARK = "CHILD_OF_TEST"
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Mark all descendants of a test; none may live, nor be a zombie of ours, when it is over."""
    text = uuid.uuid4().hex
    monkeypatch.setenv(MARK, text)
    before = set(psutil.Process().children())
    descriptors = open_descriptors()

    yield text

    assert living(text) == []
    assert set(psutil.Process().children()) <= before
    # Fewer where the collector closed an earlier test's.
    assert open_descriptors() <= descriptors


def living(mark: str) -> list[int]:
    """Return the processes, but this one, that carry the mark and are no zombies."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for process in psutil.process_iter():
        environment = Path(f"/proc/{process.pid}/environ")
        try:
            marked = needle in environment.read_bytes().split(b"\0")
        except OSError:
            continue
        if marked and process.pid != os.getpid():
            found.append(process.pid)
    return found


def child(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-I", "-S", str(CHILDREN / script), *map(str, arguments)]


def bounded(
    argv: list[str],
    bounds: Bounds | None = None,
    *,
    request: bytes = b"",
    cancel: CancelSignal | None = None,
    env: dict[str, str] | None = None,
) -> Ended:
    return run_bounded(
        argv,
        env=child_environment([MARK]) if env is None else env,
        cwd=CHILDREN,
        request=request,
        bounds=bounds or Bounds(deadline_seconds=60),
        cancel=cancel or CancelSignal(),
    )


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A FIFO that a child opens when it is ready."""
    path = tmp_path / "ready"
    os.mkfifo(path)
    return path


def when_ready(fifo: Path, act: object) -> threading.Thread:
    """Start a thread that calls `act` when a child has opened the FIFO."""

    def wait() -> None:
        fifo.read_bytes()
        assert callable(act)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


# --- ends of the child's own ---------------------------------------------------------------


def test_an_exit_code_and_both_streams_come_back() -> None:
    ended = bounded(["sh", "-c", "echo out; echo err >&2; exit 3"])

    assert (ended.how, ended.code, ended.signal) == ("exited", 3, None)
    assert (ended.stdout.kept, ended.stderr.kept) == (b"out\n", b"err\n")
    assert ended.stdout.sha256 == hashlib.sha256(b"out\n").hexdigest()
    assert not ended.stdout.truncated
    assert ended.swept == 0


def test_a_child_that_ends_at_once_is_no_special_case() -> None:
    for _ in range(20):
        ended = bounded(["true"])

        assert (ended.how, ended.code) == ("exited", 0)


def test_a_signal_is_told_from_an_exit_code() -> None:
    ended = bounded(["sh", "-c", "kill -USR1 $$"])

    assert (ended.how, ended.code, ended.signal) == ("signalled", None, signal.SIGUSR1)


@for_each("argv", [["/no/such/program"], [str(CHILDREN)], ["true", "nul\0byte"], []])
def test_what_cannot_start_is_an_answer_too(argv: list[str]) -> None:
    ended = bounded(argv)

    assert (ended.how, ended.code, ended.signal) == ("spawn_failed", None, None)
    assert ended.error


def test_a_missing_folder_is_a_spawn_failure() -> None:
    ended = run_bounded(
        ["true"],
        env={},
        cwd="/no/such/folder",
        request=b"",
        bounds=Bounds(),
        cancel=CancelSignal(),
    )

    assert ended.how == "spawn_failed"
    assert "/no/such/folder" in ended.error


def test_a_child_that_closes_everything_is_still_waited_for() -> None:
    ended = bounded(child("hangs_up.py"))

    assert (ended.how, ended.code) == ("exited", 7)
    assert ended.duration_seconds > 0.2


# --- the protocol --------------------------------------------------------------------------


def test_the_request_arrives_and_its_stream_stays_open() -> None:
    """Its end would tell the child that the parent is gone."""
    ended = bounded(child("answers.py"), request=b'{"brief": 1}\n')

    assert ended.reply == b'open {"brief": 1}\n'


def test_a_request_larger_than_any_pipe_arrives_whole() -> None:
    request = b"q" * (5 * MIB) + b"\n"

    ended = bounded(child("answers.py"), Bounds(frame_bytes=6 * MIB), request=request)

    assert ended.reply == b"open " + request


def test_a_child_that_never_reads_its_request_blocks_nobody() -> None:
    assert bounded(["true"], request=b"q" * (5 * MIB)).how == "exited"

    ended = bounded(["sleep", "60"], Bounds(deadline_seconds=0.2), request=b"q" * (5 * MIB))

    assert ended.how == "timed_out"


def test_a_partial_reply_comes_back_as_it_is() -> None:
    ended = bounded(child("replies.py", 17, "die"))

    assert (ended.how, ended.signal, ended.reply) == ("signalled", signal.SIGKILL, b"r" * 17)


@pytest.mark.parametrize(("size", "how"), [(4096, "exited"), (4097, "frame_overflow")])
def test_a_reply_over_the_cap_is_named_even_if_the_child_ended_well(size: int, how: str) -> None:
    ended = bounded(child("replies.py", size), Bounds(frame_bytes=4096))

    assert (ended.how, ended.reply) == (how, b"r" * 4096)


def test_a_reply_without_end_kills() -> None:
    ended = bounded(child("replies.py", 1 << 40), Bounds(frame_bytes=4096))

    assert (ended.how, ended.signal, len(ended.reply)) == ("frame_overflow", signal.SIGKILL, 4096)


# --- what a child is given -----------------------------------------------------------------


def test_a_child_sees_the_declared_environment_and_descriptors_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Inherited descriptors and thirty planted variables do not get through."""
    for n in range(30):
        monkeypatch.setenv(f"CANARY_{n}", f"canary-{n}")
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)  # noqa: FBT003  the function takes it by position alone

    shown = json.loads(bounded([*child("shows.py"), "$HOME; *"]).reply)
    os.close(leak)

    ours = {int(shown["environment"].pop(f"REFOLD_{name}_FD")) for name in ("REQUEST", "REPLY")}
    assert set(shown["descriptors"]) == {0, 1, 2} | ours
    assert set(shown["pipes"]) == {1, 2} | ours
    assert "canary" not in json.dumps(shown)
    allowed = set(child_environment([MARK])) | {"REFOLD_PROCESS_TAGS", "LC_CTYPE"}
    assert set(shown["environment"]) <= allowed
    assert shown["argv"] == ["$HOME; *"]
    assert shown["leads"]
    assert (shown["input"], shown["cwd"]) == ("/dev/null", str(CHILDREN))


def test_the_tags_of_all_above_are_handed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever sweeps finds the children of its children too."""
    monkeypatch.setenv("REFOLD_PROCESS_TAGS", "top:middle")

    shown = json.loads(bounded(child("shows.py")).reply)

    top, middle, own = shown["environment"]["REFOLD_PROCESS_TAGS"].split(":")
    assert (top, middle, len(own)) == ("top", "middle", 32)


def test_a_host_that_ignores_its_children_gets_no_invented_exit_code() -> None:
    """Under SIG_IGN the system reaps; the exit code is lost, and 0 would be a lie."""
    code = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from refold.engine.process.bounded import run_bounded\n"
        "from refold.engine.process.bounds import Bounds\n"
        "from refold.engine.process.start import child_environment\n"
        "from refold.engine.ports.ports import CancelSignal\n"
        "ended = run_bounded(['false'], env=child_environment(), cwd='/', request=b'',"
        " bounds=Bounds(), cancel=CancelSignal())\n"
        "print(ended.how, ended.code, ended.signal)\n"
    )

    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    assert told.stdout == b"exited None None\n"


# --- floods --------------------------------------------------------------------------------


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def flooded(size: int) -> None:
    cap = MIB
    Path("/proc/self/clear_refs").write_text("5")  # Resets the peak to what is resident now.
    before = peak_bytes()

    ended = bounded(child("flood.py", size), Bounds(stream_bytes=cap))

    assert peak_bytes() - before <= 16 * MIB + 2 * 2 * cap
    assert ended.how == "exited"
    for stream in (ended.stdout, ended.stderr):
        assert stream.seen_bytes == size
        assert stream.truncated
        assert stream.kept == b"x" * cap
        assert stream.head_bytes == cap // 2
    assert ended.stdout.sha256 == ended.stderr.sha256


@pytest.mark.parametrize(
    "size_mib", [256, *(pytest.param(size, marks=pytest.mark.long) for size in (1024, 10 * 1024))]
)
def test_a_flood_costs_the_host_no_memory(size_mib: int) -> None:
    """Half of it on each stream; counted and hashed to the last byte."""
    flooded(size_mib // 2 * MIB)


def test_the_hash_of_a_flood_is_that_of_all_its_bytes() -> None:
    size = 3 * MIB + 17

    ended = bounded(child("flood.py", size), Bounds(stream_bytes=100))

    assert ended.stdout.sha256 == hashlib.sha256(b"x" * size).hexdigest()
    assert len(ended.stdout.kept) == 100


def test_a_flood_under_the_kill_policy_ends_soon_after_the_cap() -> None:
    ended = bounded(child("flood.py", 1 << 40), Bounds(stream_bytes=MIB, streams="kill"))

    assert (ended.how, ended.signal) == ("stream_overflow", signal.SIGKILL)
    assert MIB < max(ended.stdout.seen_bytes, ended.stderr.seen_bytes) < 16 * MIB


def test_memory_of_the_whole_tree_is_bounded() -> None:
    for argv in (child("eats.py"), child("eats.py", "deeper")):
        ended = bounded(argv, Bounds(memory_bytes=100 * MIB, deadline_seconds=60))

        assert (ended.how, ended.signal) == ("memory", signal.SIGKILL)


# --- ends of our doing ---------------------------------------------------------------------


def test_at_the_deadline_a_child_that_ignores_term_is_killed_after_the_grace() -> None:
    """From its first instruction on: what is ignored here is ignored by what is started here."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        ended = bounded(["sleep", "60"], Bounds(deadline_seconds=0.3, grace_seconds=0.3))
    finally:
        signal.signal(signal.SIGTERM, before)

    assert (ended.how, ended.signal) == ("timed_out", signal.SIGKILL)
    assert ended.duration_seconds >= 0.6


def test_a_cancelled_child_has_its_grace(fifo: Path) -> None:
    """It may say goodbye, which is kept; how it ended is still our doing."""
    cancel = CancelSignal()
    thread = when_ready(fifo, cancel.set)

    ended = bounded(child("gentle.py", fifo), Bounds(grace_seconds=30), cancel=cancel)
    thread.join()

    assert (ended.how, ended.code) == ("cancelled", 9)
    assert ended.stdout.kept == b"goodbye\n"


def test_a_cancelled_child_that_ignores_it_is_killed(fifo: Path) -> None:
    cancel = CancelSignal()
    thread = when_ready(fifo, cancel.set)

    ended = bounded(child("stubborn.py", fifo), Bounds(grace_seconds=0.1), cancel=cancel)
    thread.join()

    assert (ended.how, ended.signal) == ("cancelled", signal.SIGKILL)


def test_what_is_cancelled_before_it_starts_never_starts(tmp_path: Path) -> None:
    cancel = CancelSignal()
    cancel.set()

    ended = bounded(["touch", str(tmp_path / "trace")], cancel=cancel)

    assert (ended.how, ended.code) == ("cancelled", None)
    assert not (tmp_path / "trace").exists()


def test_a_signal_set_after_the_end_disturbs_nobody() -> None:
    cancel = CancelSignal()

    assert bounded(["true"], cancel=cancel).how == "exited"
    cancel.set()


def test_a_stopped_child_ends_without_waiting_for_the_grace() -> None:
    ended = bounded(child("stops.py"), Bounds(deadline_seconds=0.3, grace_seconds=30))

    assert (ended.how, ended.duration_seconds < 30) == ("timed_out", True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_from_outside_ends_the_child_first(fifo: Path, mark: str) -> None:
    """An interrupt, say; it is raised on, and nothing is left.

    It may come between a call and its `with`: then Python closes what was opened, and warns.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = when_ready(fifo, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(KeyboardInterrupt):
            bounded(child("stubborn.py", fifo))
    finally:
        signal.signal(signal.SIGUSR1, before)
        thread.join()

    assert living(mark) == []


# --- nothing is left alive -----------------------------------------------------------------


def test_a_grandchild_that_holds_the_pipes_delays_nothing() -> None:
    ended = bounded(child("holds.py"))

    assert (ended.how, ended.code) == ("exited", 0)
    assert ended.stdout.kept == b"the last word\n"
    assert ended.swept == 0  # It stood in the group, and went with it.
    assert ended.duration_seconds < 30  # it stays for a minute


def test_a_descendant_in_a_session_of_its_own_is_swept() -> None:
    ended = bounded(child("escapes.py", "twice"))

    assert (ended.how, ended.code, ended.swept) == ("exited", 0, 1)


def test_a_descendant_without_environment_is_swept_if_it_was_seen(fifo: Path) -> None:
    cancel = CancelSignal()
    thread = when_ready(fifo, cancel.set)

    ended = bounded(child("escapes.py", "bare", fifo), Bounds(grace_seconds=0.1), cancel=cancel)
    thread.join()

    escaped = int(ended.stdout.kept)
    assert ended.swept == 1
    assert not psutil.pid_exists(escaped) or psutil.Process(escaped).status() == "zombie"


@pytest.mark.long
def test_nothing_is_left_however_often_one_looks() -> None:
    for _ in range(200):
        assert bounded(child("escapes.py", "twice")).swept == 1
        assert bounded(child("holds.py")).stdout.kept == b"the last word\n"
        assert bounded(child("stubborn.py"), Bounds(deadline_seconds=0.1, grace_seconds=0)).signal


@pytest.mark.long
def test_without_process_descriptors_all_holds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an old kernel or another system: the end is polled for, and psutil looks."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)

    ended = bounded(["sh", "-c", "echo out; exit 3"])
    assert (ended.how, ended.code, ended.stdout.kept) == ("exited", 3, b"out\n")
    assert bounded(child("escapes.py", "twice")).swept == 1
    assert bounded(["sleep", "60"], Bounds(deadline_seconds=0.2)).how == "timed_out"
    eats = Bounds(memory_bytes=100 * MIB, deadline_seconds=60)
    assert bounded(child("eats.py", "deeper"), eats).how == "memory"


def test_eight_at_once_from_threads_do_not_mix() -> None:
    def one(n: int) -> Ended:
        if n % 2:
            return bounded(child("escapes.py", "twice"))
        return bounded(child("replies.py", n))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))

    assert [len(ended.reply) for ended in answers] == [0, 0, 2, 0, 4, 0, 6, 0]
    assert [ended.swept for ended in answers] == [0, 1] * 4


def test_when_the_parent_is_killed_its_children_are_gone(fifo: Path, mark: str) -> None:
    """Two levels of children, and a descendant of the deepest in a session of its own.

    They are told by the system: within two seconds, were this machine another one's.
    """
    parent = subprocess.Popen([sys.executable, CHILDREN / "nests.py", "2", fifo])
    fifo.read_bytes()
    while len(living(mark)) < 4:  # The last may still be in its exec, and show no mark.
        pass

    parent.kill()
    parent.wait()
    until = time.monotonic() + 60
    while living(mark) and time.monotonic() < until:
        pass

    assert living(mark) == []
