"""A replay needs no network, and is given none (CONTRACT.md §13.14)."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from refold.engine.errors import OutsideLoop
from refold.replay.network import NetworkWatch


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    """The address of a socket that accepts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def _connect(address: tuple[str, int]) -> None:
    socket.create_connection(address, timeout=10).close()


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
        begin.wait(30)
        _connect(listening)
        found.append("connected")

    thread = threading.Thread(target=connect)
    thread.start()
    with NetworkWatch() as watch:
        begin.set()
        thread.join()

    assert (found, watch.seen) == (["connected"], [])
