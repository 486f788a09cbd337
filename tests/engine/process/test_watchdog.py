"""A child limits itself, keeps its protocol to itself, and leaves with its parent (§7.3).

That the children of a killed parent are gone in time is in `test_bounded`: it needs both sides.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refold.engine.process.watchdog import take_protocol

CHILDREN = Path(__file__).parents[3] / "fixtures" / "children"


def test_limits_are_lowered_and_never_raised() -> None:
    told = subprocess.run(
        [sys.executable, CHILDREN / "limits.py"], capture_output=True, check=True, text=True
    )

    assert told.stdout == "(0, 0) 64\n"


def test_the_descriptors_are_taken_out_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what the child starts does not inherit them."""
    ends = os.pipe()
    for fd, name in zip(ends, ("REFOLD_REQUEST_FD", "REFOLD_REPLY_FD"), strict=True):
        os.set_inheritable(fd, True)  # noqa: FBT003  the function takes it by position alone
        monkeypatch.setenv(name, str(fd))

    assert take_protocol() == ends
    assert not any(map(os.get_inheritable, ends))
    assert take_protocol() is None
    for fd in ends:
        os.close(fd)


def test_the_end_of_the_stream_ends_the_group_and_more_data_does_not() -> None:
    code = (
        "import subprocess, sys, time\n"
        "from refold.engine.process.watchdog import leave_with_parent\n"
        "subprocess.Popen(['sleep', '60'])\n"
        "leave_with_parent(0)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        assert child.stdin
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        child.stdin.write(b"more")
        child.stdin.flush()
        assert child.poll() is None

        child.stdin.close()

        assert child.stdout.read() == b""  # The sleeper held it too.
        assert child.wait() == -9


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no pidfds")
def test_the_end_of_the_parent_ends_a_child_whose_stream_another_holds() -> None:
    """As what the parent forked does; the child held its log, and nobody could go on with it."""
    child = (
        "import time; from refold.engine.process.watchdog import leave_with_parent\n"
        "leave_with_parent(0); print('ready', flush=True)\n"
        "time.sleep(30); print('stayed')\n"
    )
    parent = (
        "import os, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE)\n"
        "sys.stdin.readline()\n"
        "if os.fork():\n"
        "    os._exit(0)\n"  # the fork goes on, and with it the stream is open
        "os.close(1)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as run:
        assert run.stdin
        assert run.stdout
        assert run.stdout.readline() == b"ready\n"
        run.stdin.write(b"fork\n")
        run.stdin.flush()

        assert run.stdout.read() == b""  # until the child has ended, it has its own end of this
        run.stdin.close()


def test_what_comes_first_comes_before_anything_is_ended() -> None:
    """A run that sees its own children being ended would write that down as what became of them."""
    code = (
        "import subprocess, sys, time\n"
        "from refold.engine.process.watchdog import leave_with_parent\n"
        "below = subprocess.Popen(['sleep', '60'])\n"
        "leave_with_parent(0, lambda: print('first', below.poll(), flush=True))\n"
        "time.sleep(60)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], input=b"", capture_output=True, check=False,
        start_new_session=True,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (-9, b"first None\n")


def test_a_process_that_leads_no_group_ends_alone() -> None:
    """Or a stub started by hand would end its shell's job."""
    code = (
        "import time; from refold.engine.process.watchdog import leave_with_parent\n"
        "leave_with_parent(0); time.sleep(60)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, check=False)

    assert ended.returncode == -9


def test_the_child_side_imports_nothing_heavy() -> None:
    code = (
        "import refold.engine.process.watchdog, sys\n"
        "print(sorted({'attrs', 'attr', 'orjson', 'cattrs', 'psutil', 'asyncio', 'structlog'}"
        " & set(sys.modules)))"
    )

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert told.stdout == b"[]\n"
