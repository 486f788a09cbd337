"""The folder at any entry: negative entries and missing ones; the rest is in test_files."""

from pathlib import Path

import pytest

from refold.engine.errors import EntryMissing, UsageError
from refold.replay.observed.folder import folder_at, folder_diffs
from tests.support.watched import record, says, talk, user


def test_a_log_without_a_folder_and_an_entry_that_is_not_there(tmp_path: Path) -> None:
    """Each is refused with what is wrong."""
    log = record(tmp_path / "a.jsonl", talk(user("Hello"), says("Hi.")))

    with pytest.raises(UsageError, match="no folder was recorded"):
        folder_at(log)
    with pytest.raises(EntryMissing):
        folder_at(log, 99)
    with pytest.raises(EntryMissing):
        folder_at(log, -99)
    assert list(folder_diffs(log)) == []
