"""A view shows processes as they are, and kills the one it is told to and no other (§7.3)."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from refold.engine.process.psutil_view import PsutilView
from refold.engine.process.tree import system_view
from refold.engine.process.views import TAGS, View


@pytest.fixture(params=[system_view, PsutilView])
def view(request: pytest.FixtureRequest) -> View:
    made: View = request.param()
    return made


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has gone through its exec: it has answered."""
    environment = {TAGS: "one:two", "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=environment,
        bufsize=0,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\n")
        process.stdout.read(1)
        yield process
        process.kill()


def test_a_living_process_is_shown(view: View, sleeper: subprocess.Popen[bytes]) -> None:
    member = view.member(sleeper.pid)

    assert member
    assert (member.pid, member.parent) == (sleeper.pid, os.getpid())
    assert (member.group, member.session) == (sleeper.pid, sleeper.pid)
    assert view.tags(sleeper.pid) == "one:two"
    assert view.resident_bytes(sleeper.pid) > 0
    assert sleeper.pid in view.pids()
    assert sleeper.pid in view.children(os.getpid())


def test_a_zombie_and_nobody_are_not_shown(view: View, sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert view.member(sleeper.pid) is None
    sleeper.wait()

    assert view.member(sleeper.pid) is None
    assert list(view.children(sleeper.pid)) == []
    assert view.tags(sleeper.pid) is None
    assert view.resident_bytes(sleeper.pid) == 0


def test_a_kill_hits_the_process_that_was_meant(
    view: View, sleeper: subprocess.Popen[bytes]
) -> None:
    """A later owner of the pid was born later."""
    member = view.member(sleeper.pid)
    assert member

    view.kill(member._replace(born=member.born - 1))
    assert sleeper.poll() is None

    view.kill(member)
    assert sleeper.wait() == -9
