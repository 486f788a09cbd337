"""Which runs were recorded on this machine is kept beside the logs, and nowhere else."""

import os
import stat
import threading
from pathlib import Path

import pytest

from refold.engine.log.reader import read_entries
from refold.proxy import recorded_here
from refold.proxy.recorded_here import is_recorded_here, remember
from refold.proxy.sessions import fork_command, record_command, replay_command
from tests.support.fixtures import LOGS

HEAD = "ab" * 32
DEFAULT = Path(".local", "state", "refold", "recorded")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home of its own, in which no state was kept yet."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path / "home"


def head_of(log: Path) -> str:
    """Return the hash of a log's last entry."""
    return list(read_entries(log))[-1].hash


def test_a_run_is_known_by_its_head(home: Path) -> None:
    """In an empty file that nobody else may read."""
    assert not is_recorded_here(HEAD)

    remember(HEAD)
    remember(HEAD)

    assert is_recorded_here(HEAD)
    assert not is_recorded_here("cd" * 32)
    (file,) = (home / DEFAULT).iterdir()
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_size) == (0o600, 0)
    assert stat.S_IMODE((home / DEFAULT).stat().st_mode) == 0o700


def test_where_it_is_kept_is_the_environments_to_say(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative folder is none (XDG): no state is kept in working directories."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remember(HEAD)
    assert (tmp_path / "state" / "refold" / "recorded" / HEAD).is_file()

    monkeypatch.setenv("XDG_STATE_HOME", "state")
    remember("cd" * 32)
    assert (home / DEFAULT / ("cd" * 32)).is_file()


@pytest.mark.parametrize("value", ["", "relative", None])
def test_without_a_home_nothing_is_known(
    value: str | None, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if value is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", value)

    remember(HEAD)

    assert not is_recorded_here(HEAD)
    assert list(tmp_path.iterdir()) == []
    assert not home.exists()


@pytest.mark.parametrize("name", ["", "../../x", "/etc/passwd", "ab" * 31, HEAD + "\n", "AB" * 32])
def test_what_is_no_head_names_no_file(name: str, home: Path) -> None:
    remember(name)

    assert not is_recorded_here(name)
    assert not home.exists()


def test_a_folder_that_cannot_be_written_is_no_error(home: Path) -> None:
    """There is a file in its place, or another in that of the run."""
    home.mkdir()
    (home / ".local").write_text("")
    remember(HEAD)
    assert not is_recorded_here(HEAD)

    (home / ".local").unlink()
    (home / DEFAULT / HEAD).mkdir(parents=True)
    remember(HEAD)
    assert not is_recorded_here(HEAD)


def test_so_many_are_kept_and_no_more(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were recorded, or said to be known, last."""
    monkeypatch.setattr(recorded_here, "_MOST", 3)
    heads = [f"{number:064x}" for number in range(5)]
    for at, head in enumerate(heads):
        remember(head)
        os.utime(home / DEFAULT / head, (at, at))

    assert [is_recorded_here(head) for head in heads] == [False, False, True, True, True]


def test_an_eighth_more_are_kept_before_any_is_removed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that to find out which are the last is not the work of each run."""
    monkeypatch.setattr(recorded_here, "_MOST", 16)
    counts = []
    for number in range(24):
        remember(f"{number:064x}")
        counts.append(len(list((home / DEFAULT).iterdir())))

    assert counts == [*range(1, 19), 16, 17, 18, 16, 17, 18]


def test_many_may_write_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is refused, and the bound holds."""
    monkeypatch.setattr(recorded_here, "_MOST", 20)
    heads = [f"{number:064x}" for number in range(100)]

    def some(at: int) -> None:
        for head in heads[at::4]:
            remember(head)

    threads = [threading.Thread(target=some, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    remember(HEAD)

    assert is_recorded_here(HEAD)
    assert 20 <= len(list((home / DEFAULT).iterdir())) <= 22


@pytest.mark.usefixtures("home")
def test_what_is_recorded_here_is_known(tmp_path: Path) -> None:
    """Also what a replay or a fork records, and whatever the log is called; no other log is."""
    log, again, forked = (tmp_path / f"{name}.jsonl" for name in ("log", "again", "forked"))
    record_command(["true"], log=log, workspace="none", write=lambda _: None)
    replay_command(log, ["true"], into=again, write=lambda _: None)
    fork_command(log, ["true"], at=0, into=forked, write=lambda _: None)

    assert all(is_recorded_here(head_of(each)) for each in (log, again, forked))
    assert not is_recorded_here(head_of(LOGS / "watched.jsonl"))
