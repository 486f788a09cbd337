"""What the page reads of a log, and where it ends."""

import shutil
from pathlib import Path

from refold.engine.log.reader import read_entries
from refold.page.entries import large_texts, read_times, sound
from tests.support.fixtures import LOGS


def test_a_log_is_read_up_to_its_damage_and_no_further_than_asked(
    survey_log: Path, tmp_path: Path
) -> None:
    log = Path(shutil.copy(survey_log, tmp_path / "log.jsonl"))
    whole = [entry.seq for entry in read_entries(survey_log)]
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], b"{}\n", *lines[5:]]))

    assert [entry.seq for entry in sound(log)] == whole[:4]
    assert [entry.seq for entry in sound(log, 2)] == whole[:2]
    times, scopes = read_times(survey_log, (0, 0), 1_000)
    assert len(times) == len(scopes) == len(whole)
    assert times == sorted(times)


def test_large_texts_are_those_that_the_log_keeps_beside_it() -> None:
    kept = {path.name: path.stat().st_size for path in LOGS.glob("*.blobs/??/*")}
    named = {
        name: size for log in LOGS.glob("*.jsonl") for name, size in large_texts(log, 1_000).items()
    }

    assert named
    assert named == {name: kept[name] for name in named}
