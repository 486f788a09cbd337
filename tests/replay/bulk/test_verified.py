"""Many logs verified: each as it would be alone, wherever that is done (CONTRACT.md §14.13)."""

import shutil
from pathlib import Path

import pytest

import refold
from refold.engine.errors import LogMissing
from refold.engine.log.pack import pack
from refold.replay.audit.verify import Verification
from refold.replay.bulk.bulk import verified
from tests.support import bulk_programs as programs


def _logs(folder: Path) -> list[Path]:
    logs = [folder / f"{number}-log.jsonl" for number in range(5)]
    first = refold.record(programs.doubling, 1, tools=[programs.double], log=logs[0]).log
    shutil.copy(first, logs[1])
    logs[2].write_text("no log")
    lines = first.read_bytes().splitlines(keepends=True)
    logs[3].write_bytes(b"".join(lines[:-1]))
    logs[4].write_bytes(b"".join([lines[0], *lines[2:]]))
    return logs


def test_each_is_verified_as_it_would_be_alone(tmp_path: Path) -> None:
    """In their order; what is no log is not intact, and stops no other."""
    logs = _logs(tmp_path)

    trees = refold.verify([tmp_path])

    assert trees == tuple(map(refold.verify, logs))
    assert [tree.intact for tree in trees] == [True, True, False, True, False]
    assert [tree.complete for tree in trees] == [True, True, False, False, False]


@pytest.mark.long
def test_the_verdicts_are_the_same_wherever_they_are_given(tmp_path: Path) -> None:
    """Here and in processes; packed logs by their own names; each told once."""
    log = _logs(tmp_path)[0]
    pack(log, tmp_path / "packed.refold")
    (tmp_path / "text.refold").write_text("no archive")
    told: list[Verification] = []

    here = refold.verify([tmp_path])
    apart = refold.verify([tmp_path], jobs=2, on_verdict=told.append)

    assert apart == here
    assert sorted(map(repr, told)) == sorted(map(repr, here))
    packed, text = here[-2:]
    assert packed.intact
    assert packed.root.path == f"{tmp_path / 'packed.refold'}:{log.name}"
    assert "text.refold" in text.damage[0].path


def test_a_damaged_archive_is_named_as_it_was_given(tmp_path: Path) -> None:
    """Never by where it would be unpacked."""
    path = tmp_path / "cut.refold"
    pack(_logs(tmp_path)[0], path)
    path.write_bytes(path.read_bytes()[:200])

    tree = verified(path)

    assert not tree.intact
    assert tree.root.path == str(path)
    assert tree.damage[0].what == "not a log"  # and of no newer format


def test_nothing_to_verify_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogMissing, match="no root logs"):
        refold.verify([tmp_path])
