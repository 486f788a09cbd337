"""What commands keep of long logs: the same answers as without, whatever became of the log."""

import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import RefoldError
from refold.engine.log.descriptors import holding
from refold.engine.log.reader import read_entries
from refold.replay.audit.verify import verify
from refold.replay.audit.why import causes
from refold.replay.index import kept_folds
from refold.replay.index.kept_folds import (
    KeptFolds,
    LogFold,
    cache_folder,
    entries_at,
    fold_log,
    keeping,
)
from refold.replay.run.opened_run import delegation_tree
from tests.support.fixtures import LOGS as FIXTURES

LOGS = sorted(FIXTURES.glob("*.jsonl"))
ROOTS = [each for each in LOGS if "." not in each.stem]


def _answers(log: Path, kept: KeptFolds | None, seq: int) -> Any:
    """Return the tree of a log, and what led to an entry; or the error."""
    answers: list[Any] = []
    for ask in (
        lambda: delegation_tree(log).as_json(),
        lambda: causes(log, seq, most=7),
    ):
        try:
            with holding(), keeping(kept):
                answers.append(ask())
        except RefoldError as error:
            answers.append(repr(error))
    return answers


class _Place:
    """A log that changes: its times differ after each change, as they do between commands."""

    def __init__(self, folder: Path) -> None:
        self.log, self._cache, self._now = folder / "run.jsonl", folder / "cache" / "refold", 10**18

    def kept(self) -> KeptFolds:
        return KeptFolds(self._cache / "folds", least=0)

    def write(self, content: bytes, *, anew: bool = False) -> None:
        if anew and self.log.exists():  # the old one stays, so that its number is not used again
            self.log.rename(self.log.with_name(f"was.{self._now}"))
        self.log.write_bytes(content)
        self._now += 10**9
        os.utime(self.log, ns=(self._now, self._now))

    def check(self, seq: int) -> int:
        """Hold what is kept, first and once more, against reading all; return what was not read."""
        off = _answers(self.log, None, seq)
        assert _answers(self.log, self.kept(), seq) == off
        warm = self.kept()
        assert _answers(self.log, warm, seq) == off
        return sum(warm.skipped.values())

    def unread(self) -> int:
        """Read the tree; return how many entries of the log were not read for it."""
        with holding(), keeping(kept := self.kept()):
            delegation_tree(self.log)
        return sum(kept.skipped.values())


@pytest.fixture
def place(tmp_path: Path) -> _Place:
    return _Place(tmp_path)


def _changed(content: bytes, at: int) -> bytes:
    at %= len(content)
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _is_behind(content: bytes, was: bytes) -> bool:
    """Return whether a log seems to have grown, but what it had is not the same: see below."""
    end = was.rfind(b"\n") + 1
    return len(content) > len(was) and content[:end] != was[:end]


@given(st.data())
def test_answers_are_the_same_with_what_is_kept_and_without(data: st.DataObject) -> None:
    """For logs that grow, tear, are damaged, or are replaced by others of the same size."""
    source = data.draw(st.sampled_from(ROOTS))
    lines = source.read_bytes().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))
        for child in source.parent.glob(f"{source.stem}.*.jsonl"):
            shutil.copy(child, place.log.with_name(child.name.replace(source.stem, "run", 1)))
        if source.with_suffix(".blobs").is_dir():
            shutil.copytree(source.with_suffix(".blobs"), place.log.with_suffix(".blobs"))
        past = [b""]
        for _ in range(2):
            whole = b"".join(lines[: data.draw(st.integers(1, len(lines)))])
            torn = whole + lines[-1][: data.draw(st.integers(0, 20))]
            at = data.draw(st.integers(0, len(whole) - 1))
            same_size = _changed(past[-1], at) if past[-1] else b""
            content = data.draw(st.sampled_from([whole, torn, _changed(whole, at), same_size]))
            is_anew = data.draw(st.booleans()) or any(_is_behind(content, was) for was in past)
            place.write(content, anew=is_anew)
            past = [*([] if is_anew else past), content]
            place.check(data.draw(st.integers(-len(lines), len(lines))))


def test_only_new_entries_of_a_log_that_grew_are_read(place: _Place) -> None:
    lines = ROOTS[0].read_bytes().splitlines(keepends=True)
    place.write(b"".join(lines[:5]))
    place.check(-1)
    place.write(b"".join(lines))
    fold, kept = LogFold(place.log), place.kept()
    with keeping(kept):
        fold_log(fold)

    assert fold.entries == len(lines)
    assert not kept.skipped  # nobody counted before
    assert place.check(-1) == len(lines)


def test_a_change_behind_what_is_kept_is_found_by_verify(place: _Place) -> None:
    """Only the entry at its end is looked at: what used it says so."""
    lines = ROOTS[0].read_bytes().splitlines(keepends=True)
    place.write(b"".join(lines[:5]))
    place.check(-1)
    place.write(lines[0] + _changed(lines[1], 30) + b"".join(lines[2:]))

    kept = place.kept()
    with holding(), keeping(kept):
        assert delegation_tree(place.log).log_state == "read"
        assert verify(place.log).damage
    assert kept.skipped[place.log] == 5


def test_a_log_that_grew_over_another_end_is_read_anew(place: _Place) -> None:
    lines = ROOTS[0].read_bytes().splitlines(keepends=True)
    place.write(b"".join(lines[:5]))
    place.check(-1)
    place.write(_changed(b"".join(lines[:5]), -90) + b"".join(lines[5:]))

    place.check(-1)
    with keeping(kept := place.kept()):
        assert delegation_tree(place.log).log_state == "damaged"
    assert not kept.skipped


def _states(place: _Place) -> Iterator[Path]:
    place.write(ROOTS[0].read_bytes())
    place.check(-1)
    yield from place.kept()._folder.iterdir()  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "link", "folder", "pickled"])
def test_a_damaged_state_is_none_and_is_made_anew(place: _Place, damage: str) -> None:
    for state in [*_states(place)]:
        content = state.read_bytes()
        if damage == "link":
            state.rename(state.with_name("elsewhere." + state.name))
            state.symlink_to(state.with_name("elsewhere." + state.name))
        elif damage == "folder":
            state.unlink()
            state.mkdir()
        else:
            told = {"cut": content[:-1], "changed": _changed(content, 100), "empty": b""}
            state.write_bytes(told.get(damage, pickle.dumps(print)))
    assert place.unread() == 0
    assert damage == "folder" or place.check(-1) > 0


def test_a_state_of_which_a_text_changed_is_not_used(place: _Place) -> None:
    """It can still be read, but as another run."""
    name = ROOTS[0].stem.encode()
    states = {state: state.read_bytes() for state in _states(place)}
    assert any(name in content for content in states.values())
    for state, content in states.items():
        state.write_bytes(content.replace(name, name.swapcase()))

    assert _answers(place.log, place.kept(), -1) == _answers(place.log, None, -1)


def test_a_state_names_no_other_code(place: _Place) -> None:
    """A file of a cache that somebody else made runs nothing, though its digest holds."""

    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(place.log.with_name("burst")),)

    for state in [*_states(place)]:
        content = pickle.dumps((Bomb(),))
        state.write_bytes(sha256(content).digest() + content)
    assert place.unread() == 0
    assert not place.log.with_name("burst").exists()


def test_states_are_private_and_bounded(place: _Place, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [*_states(place)]
    assert [stat.S_IMODE(each.stat().st_mode) for each in states] == [0o600] * len(states)
    assert {stat.S_IMODE(each.parent.stat().st_mode) for each in states} == {0o700}

    monkeypatch.setattr(kept_folds, "_TOTAL_MAX", 1)
    place.write(ROOTS[1].read_bytes(), anew=True)
    place.unread()
    assert not any(each.exists() for each in states)


def test_what_is_kept_of_a_removed_log_goes(place: _Place) -> None:
    states = [*_states(place)]
    place.kept().forget([place.log, place.log.with_name("none.jsonl")])

    assert not any(each.exists() for each in states)


@pytest.mark.parametrize("kind", ["link", "writable", "file"])
def test_a_folder_that_is_not_private_is_not_used(place: _Place, kind: str) -> None:
    folder = place.kept()._folder
    assert folder is not None
    if kind == "link":
        folder.parent.mkdir(parents=True)
        (other := place.log.with_name("other")).mkdir(mode=0o700)
        folder.symlink_to(other)
    elif kind == "writable":
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    else:
        folder.parent.parent.mkdir()
        folder.parent.write_bytes(b"")
    place.write(ROOTS[0].read_bytes())

    assert place.check(-1) == 0


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() is None
    monkeypatch.setenv("HOME", "/home/me")
    assert str(cache_folder()).endswith("/refold/folds")


@given(st.data())
def test_entries_are_found_by_number(data: st.DataObject) -> None:
    log = data.draw(st.sampled_from(LOGS))
    entries = [*read_entries(log)]
    numbers = sorted(data.draw(st.sets(st.integers(0, len(entries) - 1))))
    near = data.draw(st.integers(0, 3))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_folds, "_NEAR", near)
        found = [*entries_at(log, numbers, log.stat().st_size)]
        beyond = [*entries_at(log, [len(entries)], log.stat().st_size)]

    assert found == [entries[number] for number in numbers]
    assert not beyond
