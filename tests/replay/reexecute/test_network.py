"""A replay needs no network, and is given none (CONTRACT.md §12.13, §13.14)."""

import contextlib
import logging.handlers
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import Diverged, OutsideLoop
from refold.replay.reexecute.network import NetworkWatch, program_watch


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    """The address of a socket that accepts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def _connect(address: tuple[str, int]) -> None:
    socket.create_connection(address, timeout=60).close()


def test_a_connection_is_refused_and_remembered(listening: tuple[str, int]) -> None:
    """Host, port, file and line; whoever swallows it does not hide it."""
    with NetworkWatch() as watch, pytest.raises(OutsideLoop) as refused:
        _connect(listening)

    assert watch.seen == [refused.value]
    assert refused.value.method == f"network access to 127.0.0.1:{listening[1]}"
    assert refused.value.file == __file__
    assert "create_connection" in Path(__file__).read_text().splitlines()[refused.value.line - 1]


def test_the_name_of_a_host_is_not_looked_up(listening: tuple[str, int]) -> None:
    """A name server is the network; port and host are told."""
    del listening
    with NetworkWatch() as watch:
        for look in (
            lambda: socket.getaddrinfo("example.invalid", 443),
            lambda: socket.gethostbyname("example.invalid"),
            lambda: socket.getaddrinfo(b"example.invalid", None),
        ):
            with pytest.raises(OutsideLoop):
                look()

    told = [each.method.removeprefix("network access to ") for each in watch.seen]
    assert told == ["example.invalid:443", "example.invalid", "example.invalid"]


def test_a_datagram_and_a_local_socket_are_refused(tmp_path: Path) -> None:
    """Another process is the world, wherever it is."""
    with NetworkWatch() as watch:
        with socket.socket(type=socket.SOCK_DGRAM) as sender, pytest.raises(OutsideLoop):
            sender.sendto(b"x", ("127.0.0.1", 9))
        with socket.socket(socket.AF_UNIX) as local, pytest.raises(OutsideLoop):
            local.connect(str(tmp_path / "s"))

    assert watch.seen[1].method == f"network access to {tmp_path / 's'}"


@pytest.mark.parametrize("allowed", ["loopback", "any"])
def test_the_loopback_may_be_allowed(allowed: str, listening: tuple[str, int]) -> None:
    """By whoever says so; names of other hosts are still refused."""
    with NetworkWatch(allowed) as watch:  # type: ignore[arg-type]  # one of a closed set
        _connect(listening)
        _connect(("localhost", listening[1]))

    assert watch.seen == []


def test_a_host_that_only_looks_like_the_loopback_is_refused() -> None:
    """`localhost.example` is somebody's machine."""
    for host in ("localhost.example", "127.0.0.1.example", "10.0.0.1"):
        with NetworkWatch("loopback"), pytest.raises(OutsideLoop):
            socket.getaddrinfo(host, 80)


def test_outside_a_watch_nothing_is_refused(listening: tuple[str, int]) -> None:
    """The hook stays, and does nothing."""
    with NetworkWatch(), pytest.raises(OutsideLoop):
        _connect(listening)

    _connect(listening)


def test_a_thread_that_is_started_meanwhile_is_watched(listening: tuple[str, int]) -> None:
    """A program that leaves its loop does not leave the watch."""
    found: list[BaseException] = []

    def connect() -> None:
        try:
            _connect(listening)
        except OutsideLoop as error:
            found.append(error)

    with NetworkWatch() as watch:
        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()

    assert watch.seen == found
    assert len(found) == 1


def test_a_thread_that_was_there_before_is_left_alone(listening: tuple[str, int]) -> None:
    """It is the test's own business: a server that it started, say."""
    begin, found = threading.Event(), list[str]()

    def connect() -> None:
        begin.wait(60)
        _connect(listening)
        found.append("connected")

    thread = threading.Thread(target=connect)
    thread.start()
    with NetworkWatch() as watch:
        begin.set()
        thread.join()

    assert (found, watch.seen) == (["connected"], [])


def test_a_watch_within_another_gives_way_to_it(listening: tuple[str, int]) -> None:
    """A program that is re-executed may re-execute one itself."""
    told = list[str]()

    with program_watch(lambda _: told.append("outer")):
        with program_watch(lambda _: told.append("inner")), pytest.raises(OutsideLoop):
            _connect(listening)
        with pytest.raises(OutsideLoop):
            _connect(listening)
    _connect(listening)

    assert told == ["inner", "outer"]


# --- programs that are re-executed -------------------------------------------------------------


@pytest.fixture
def asking(listening: tuple[str, int]) -> Callable[[refold.Run, Any], Any]:
    """A program that connects by itself, and swallows whatever comes of that."""

    async def asks(run: refold.Run, _input: Any) -> int:
        with contextlib.suppress(Exception):
            _connect(listening)
        found: int = await run.tool(look, x=1)
        return found

    return asks


@refold.tool(effect="reads")
def look(x: int) -> int:
    """Look."""
    return x


def test_a_program_that_connects_is_an_extra_call(asking: Any, tmp_path: Path) -> None:
    """What is in no log would be asked again, live: host, port, line and what to do are told."""
    log = refold.record(asking, log=tmp_path / "a.jsonl", tools=[look]).log

    (found,) = refold.reexecute(log, asking).divergences

    assert (found.category, found.file) == ("extra_call", __file__)
    assert "create_connection" in Path(__file__).read_text().splitlines()[found.line - 1]
    assert found.now["name"].startswith("127.0.0.1:")
    assert "Make it a tool" in found.cause
    assert "run.model" in found.cause


def test_a_plain_program_that_connects_at_its_end_is_found(
    listening: tuple[str, int], tmp_path: Path
) -> None:
    """Though nothing comes after it, and it swallows the refusal."""

    def asks(_run: refold.PlainRun, _input: Any) -> int:
        with contextlib.suppress(Exception):
            _connect(listening)
        return 1

    log = refold.record(asks, log=tmp_path / "a.jsonl").log

    assert refold.reexecute(log, asks).divergences[0].category == "extra_call"


@pytest.mark.parametrize("call", [refold.explore, refold.sensitivity])
def test_a_rehearsal_refuses_it_too(call: Any, asking: Any, tmp_path: Path) -> None:
    """It is no replay of what the log says."""
    log = refold.record(asking, log=tmp_path / "a.jsonl", tools=[look]).log

    with pytest.raises(Diverged, match="network access"):
        call(log, asking)


def test_a_resume_refuses_it_where_it_re_executes(asking: Any, tmp_path: Path) -> None:
    """Behind the end of the record it is as when it was recorded; the log is as it was."""
    log = refold.record(asking, log=tmp_path / "a.jsonl", tools=[look]).log
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(whole[0] + whole[1])

    with pytest.raises(OutsideLoop, match=r"run\.model"):
        refold.resume(log, asking, tools=[look])

    assert log.read_bytes() == whole[0] + whole[1]
    log.write_bytes(whole[0])
    with pytest.raises(OutsideLoop):
        refold.resume(log, asking, tools=[look])


def test_what_runs_live_may_connect(
    asking: Any, listening: tuple[str, int], tmp_path: Path
) -> None:
    """A drift and the tools of a fork ask the world on purpose, and so does what is resumed."""

    @refold.tool(effect="reads")
    def fetch() -> str:
        _connect(listening)
        return "there"

    async def fetches(run: refold.Run, _input: Any) -> str:
        await run.tool(look, x=1)
        found: str = await run.tool(fetch)
        return found

    drifting = refold.record(asking, log=tmp_path / "a.jsonl", tools=[look]).log
    log = refold.record(fetches, log=tmp_path / "b.jsonl", tools=[look, fetch]).log
    live = refold.Sources(tools="live")
    log_of_fork = tmp_path / "c.jsonl"

    assert not refold.drift(drifting, asking, tools=[look]).missing
    forked = refold.fork(
        log, 2, fetches, into=log_of_fork, tools=[look, fetch], sources=live
    ).recording

    assert forked is not None
    assert forked.output == "there"


def test_other_threads_and_handlers_of_logging_are_left_alone(
    listening: tuple[str, int], tmp_path: Path
) -> None:
    """A thread may be anybody's; a line of diagnostics is no part of a run."""
    logger = logging.getLogger("tests.network")
    logger.propagate = False

    async def program(_run: refold.Run, _input: Any) -> None:
        thread = threading.Thread(target=_connect, args=(listening,))
        thread.start()
        thread.join()
        handler = logging.handlers.SysLogHandler(("127.0.0.1", 9))
        logger.addHandler(handler)
        logger.warning("said")
        logger.removeHandler(handler)
        handler.close()

    log = refold.record(program, log=tmp_path / "a.jsonl").log

    assert refold.reexecute(log, program).identical


def test_a_test_may_allow_its_program_the_loopback(asking: Any, tmp_path: Path) -> None:
    """The marker's `network` holds for the programs that the test replays."""
    log = refold.record(asking, log=tmp_path / "a.jsonl", tools=[look]).log

    with NetworkWatch("loopback"):
        assert refold.reexecute(log, asking).identical


_AT_THE_END = """
import gc, sys, types

class Late:
    def __init__(self, audit):
        self.audit = audit
    def __del__(self):
        self.audit("socket.connect", None, ("192.0.2.1", 1))

first = types.ModuleType("first")
first.late, first.itself = Late(sys.audit), first
sys.modules["first"] = first

from refold.replay.reexecute.network import NetworkWatch
with NetworkWatch():
    pass
gc.freeze()
"""
"""Uses the network at the end of a module that is older than ours, and ends after them."""


def test_the_end_of_python_is_quiet() -> None:
    """The hook stays to the end, when the names of its module are gone."""
    command = [sys.executable, "-c", _AT_THE_END]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert ended.stderr == ""


_AUDITED = """
import sys
import refold

@refold.tool(effect="reads")
def fetch(n: int) -> int:
    return n

async def asking(run, calls):
    for n in range(calls):
        await run.tool(fetch, n=n)

counts = []
sys.addaudithook(lambda *_: counts and counts.append(counts.pop() + 1))
for calls in (10, 110):
    log = f"{sys.argv[1]}/{calls}.jsonl"
    refold.record(asking, calls, log=log, tools=[fetch], check=False)
    refold.reexecute(log, asking)
    counts.append(1)
    refold.reexecute(log, asking)
    print(counts.pop())
"""


@pytest.mark.long
def test_a_call_passes_the_hook_three_times(tmp_path: Path) -> None:
    """It costs as much as a function each time: for the frame that waits, and the code of two."""
    command = [sys.executable, "-c", _AUDITED, str(tmp_path)]
    counted = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    few, many = map(int, counted.stdout.split())
    assert many - few <= 3 * 100 + 10
