"""The descendants of a child are found by tag, session and sight, and killed (CONTRACT.md §7.3)."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

from refold.engine.process.psutil_view import PsutilView
from refold.engine.process.tree import Tree, system_view, work_of
from refold.engine.process.views import TAGS, View


@pytest.fixture(params=[system_view, PsutilView])
def view(request: pytest.FixtureRequest) -> View:
    made: View = request.param()
    return made


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    """A shell that starts what it reads, in a session of its own."""
    with subprocess.Popen(
        ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        yield shell
        os.killpg(shell.pid, signal.SIGKILL)


def started(leader: subprocess.Popen[bytes], command: str) -> psutil.Process:
    """Let the leader run a command that prints a pid; return that process."""
    assert leader.stdin
    assert leader.stdout
    leader.stdin.write(command.encode() + b"\n")
    leader.stdin.flush()
    return psutil.Process(int(leader.stdout.readline()))


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_tagged_process_is_swept_wherever_it_stands(
    view: View, leader: subprocess.Popen[bytes]
) -> None:
    tag = uuid.uuid4().hex
    environment = {TAGS: f"above:{tag}:below", "PATH": os.environ["PATH"]}
    with subprocess.Popen(["sleep", "60"], start_new_session=True, env=environment) as tagged:
        swept = Tree(leader.pid, tag, view).sweep(time.monotonic() + 60)

        assert swept == 1
        assert tagged.wait() == -9


def test_another_tag_is_another_child(view: View, leader: subprocess.Popen[bytes]) -> None:
    """Part of a tag is no tag."""
    tag = uuid.uuid4().hex
    environment = {TAGS: f"{tag}0", "PATH": os.environ["PATH"]}
    with subprocess.Popen(["sleep", "60"], start_new_session=True, env=environment) as other:
        assert Tree(leader.pid, tag, view).sweep(time.monotonic() + 60) == 0

        assert other.poll() is None
        other.kill()


def test_who_was_seen_below_is_swept_after_being_cut_loose(
    view: View, leader: subprocess.Popen[bytes]
) -> None:
    tree = Tree(leader.pid, "no-such-tag", view)
    loose = started(leader, "setsid sh -c 'echo $$; exec sleep 60' &")
    tree.find_descendants()
    leader.kill()
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)

    assert tree.leader_ended()
    assert tree.sweep(time.monotonic() + 60) == 1
    assert gone(loose)


def test_a_member_of_the_session_is_swept_and_counts_as_of_the_group_or_not(
    view: View, leader: subprocess.Popen[bytes]
) -> None:
    inside = started(leader, "sleep 60 & echo $!")

    assert Tree(leader.pid, "no-such-tag", view).sweep(time.monotonic() + 60) == 0
    assert gone(inside)


def test_memory_is_that_of_leader_and_descendants(
    view: View, leader: subprocess.Popen[bytes]
) -> None:
    tree = Tree(leader.pid, "no-such-tag", view)
    alone = tree.resident_bytes()
    started(leader, "sleep 60 & echo $!")

    tree.find_descendants()

    assert 0 < alone < tree.resident_bytes()


@pytest.mark.skipif(not View.is_there(), reason="only Linux says what a process computed")
def test_what_computes_below_a_process_is_its_work(leader: subprocess.Popen[bytes]) -> None:
    """Shells that wait do none; the time that a processor gave to those below them counts."""
    view = system_view()
    while work_of(leader.pid, view) is not None:  # it starts
        pass
    busy = started(leader, "(while :; do :; done) & echo $!")

    before = work_of(leader.pid, view)
    assert before is not None
    while (work_of(leader.pid, view) or 0) <= before:
        pass
    busy.kill()
    while work_of(leader.pid, view) is not None:
        pass


def test_where_the_system_does_not_say_there_is_no_work() -> None:
    view = PsutilView()

    assert work_of(os.getpid(), view) is None
    assert view.cpu_seconds(os.getpid()) > 0
