"""A child's environment is an allowlist; a started process leads its own group (§7.3)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from refold.engine.process.start import child_environment, start
from tests.support.descriptors import open_descriptors

CHILDREN = Path(__file__).parents[3] / "fixtures" / "children"


def test_the_environment_is_an_allowlist_and_declared_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LC_ALL", "TZ", "TMPDIR", "API_KEY", "DECLARED", "PYTHONPATH", "XLC_ALL"):
        monkeypatch.setenv(name, "set")
    monkeypatch.delenv("HOME", raising=False)

    given = child_environment(["DECLARED", "MISSING"])

    assert {"LC_ALL", "TZ", "TMPDIR", "DECLARED", "PATH"} <= set(given)
    assert not {"API_KEY", "PYTHONPATH", "XLC_ALL", "HOME", "MISSING"} & set(given)


def test_a_started_process_leads_its_group_until_it_is_reaped() -> None:
    child = start(["sleep", "60"], env={}, cwd="/")

    assert os.getpgid(child.pid) == child.pid
    child.signal_group(signal.SIGKILL)
    assert child.reap(30) == -signal.SIGKILL
    child.close()


def test_of_one_that_the_host_reaped_no_status_is_known() -> None:
    """An embedding program that waits for all of its children takes it from us."""
    child = start(["true"], env={}, cwd="/")
    os.waitpid(child.pid, 0)

    child.signal_group(signal.SIGKILL)
    assert child.reap(30) is None
    child.close()


def test_a_failed_start_leaves_no_descriptor_open() -> None:
    before = open_descriptors()

    with pytest.raises(FileNotFoundError):
        start(["/no/such/program"], env={}, cwd="/")

    # Fewer where the collector closed an earlier test's.
    assert open_descriptors() <= before


def test_a_host_without_standard_streams_gives_its_child_sound_ones(tmp_path: Path) -> None:
    """A pipe of the protocol at 0, 1 or 2 would be lost to the child's own streams."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from refold.engine.process.start import start\n"
        "os.closerange(0, 3)\n"
        "child = start([sys.executable, '-I', '-S', sys.argv[2]], env={}, cwd='/')\n"
        "os.set_blocking(child.reply, True)\n"
        "Path(sys.argv[1]).write_bytes(os.read(child.reply, 65536))\n"
        "child.reap(30)\n"
    )
    found = tmp_path / "found"

    subprocess.run([sys.executable, "-c", code, found, CHILDREN / "shows.py"], check=True)

    shown = json.loads(found.read_bytes())
    assert len(shown["pipes"]) == 4
    assert shown["descriptors"][:3] == [0, 1, 2]
    assert shown["input"] == "/dev/null"
