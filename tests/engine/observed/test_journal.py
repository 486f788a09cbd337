"""The log of a watched command: named as such, sealed, without secrets (§16.2, §16.8)."""

from pathlib import Path

import pytest

import refold
from refold.engine.errors import LogExists
from refold.engine.events.events import ModelAsked, NoteAdded
from refold.engine.log.reader import read_entries
from refold.engine.observed.journal import ObservedLog
from refold.engine.secrets.redaction import Redaction
from refold.engine.secrets.vault import Vault


def _log(path: Path, vault: Vault | None = None) -> ObservedLog:
    given = {"command": ["python", "agent.py"]}
    return ObservedLog(path, program="agent.py", input=given, vault=vault or Vault())


def test_the_first_entry_names_the_guarantee(tmp_path: Path) -> None:
    """Who reads the log knows what a replay of it is worth."""
    with _log(tmp_path / "a.jsonl") as log:
        log.seal("completed", "done", {"exit_code": 0})

    first = next(read_entries(log.path)).data

    assert first["guarantee"] == "matched"
    assert first["input"] == {"command": ["python", "agent.py"]}


def test_a_sealed_log_verifies(tmp_path: Path) -> None:
    """Intact and complete, with its digests; what has no answer is in doubt."""
    with _log(tmp_path / "a.jsonl") as log:
        asked = log.append(ModelAsked("m", "", 0, [], {"api": "chat"}), "0/1#1")
        log.append(NoteAdded("hello"), cause=asked)
        log.seal("failed", "error", {"exit_code": 1})

    verification = refold.verify(log.path)

    assert (verification.intact, verification.complete) == (True, True)
    assert [entry.data for entry in read_entries(log.path)][-1]["in_doubt"] == ["0/1#1"]
    assert refold.state(log.path).status == "failed"


def test_a_log_without_an_end_is_intact(tmp_path: Path) -> None:
    """As far as the command came."""
    with _log(tmp_path / "a.jsonl") as log:
        log.append(NoteAdded("hello"))

    verification = refold.verify(log.path)

    assert (verification.intact, verification.complete) == (True, False)


def test_no_secret_is_written(tmp_path: Path) -> None:
    """Neither in the first entry nor in the last, nor between; also of one met on the way."""
    vault = Vault(Redaction(secrets=["hunter2hunter2"]))
    given = {"command": ["agent", "--password=hunter2hunter2"]}
    with ObservedLog(tmp_path / "a.jsonl", program="agent", input=given, vault=vault) as log:
        log.append(NoteAdded("it is hunter2hunter2"))
        vault.learn("authorization", "sk-abcdefgh")
        log.append(NoteAdded("and sk-abcdefgh"))
        log.seal("completed", "done", {"stdout": "hunter2hunter2 sk-abcdefgh"})

    text = log.path.read_text()

    assert "hunter2" not in text
    assert "sk-abcdefgh" not in text
    assert "[redacted:authorization]" in text
    assert refold.verify(log.path).intact


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    """Whatever stands in it."""
    (tmp_path / "a.jsonl").write_text("mine")

    with pytest.raises(LogExists):
        _log(tmp_path / "a.jsonl")
