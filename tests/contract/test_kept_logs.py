"""Logs of released versions are read, folded and re-executed by every later one (§15.2).

`fixtures/logs/engine-<version>/` holds what was recorded of `tests.support.kept_programs`, by
`python -m tests.support.fixtures`.  From version 1.0 on, no file there is edited: whatever no
longer passes is a break of the format, or of the kernel's rules, and needs a version of its own.
"""

import shutil
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import refold
from refold.engine.errors import LogUnsupported
from refold.engine.events.codec import structure, unstructure
from refold.engine.events.events import KIND_OF, KINDS, Event
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.replay.audit.refolding import refold_log
from refold.replay.run.opened_run import delegation_tree
from tests.support.fixtures import LOGS, works
from tests.support.kept_programs import PROGRAMS, TOOLS
from tests.support.kept_watched import EXCHANGES
from tests.support.watched import replayed

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = sorted(path for path in LOGS.parent.glob("*/*.jsonl") if path.stem in PROGRAMS)
WATCHED: Final = sorted(LOGS.parent.glob("*/watched.jsonl"))


def _name(log: Path) -> str:
    return f"{log.parent.name}-{log.stem}"


@pytest.mark.parametrize("log", KEPT, ids=_name)
def test_a_kept_log_is_whole_and_reexecuted(log: Path) -> None:
    """Cases 4, 90: its bytes and state are as they were; its program does the same on any Python.

    Delegation tools need not be passed: the log says how they were set up.
    """
    report = refold.verify(log)

    assert report.intact, report
    assert report.complete, report
    assert refold_log(log).agrees is True
    assert report.tree_digest != ""
    assert refold.reexecute(log, PROGRAMS[log.stem], tools=TOOLS).identical


@pytest.mark.parametrize("log", WATCHED, ids=_name)
def test_a_kept_log_of_a_watched_command_is_replayed(log: Path) -> None:
    """Its requests are matched, its tree is told, its bytes are as they were (§16.2)."""
    verified = refold.verify(log)
    asked = [one.asked for one in EXCHANGES]

    report = replayed(log, asked)

    assert verified.intact, verified
    assert verified.complete, verified
    assert refold_log(log).agrees is True
    assert report.identical, report
    assert report.served == len(asked)
    lead, *_ = delegation_tree(log).children
    assert [(child.name, child.how) for child in lead.children] == [
        ("hiker", "prompt"),
        ("cook", "prompt"),
    ]


def test_a_kept_log_of_a_run_that_waits_is_resumed(tmp_path: Path) -> None:
    """Its question is the second; what was answered before is not asked again."""
    log = Path(shutil.copy(LOGS / "waiting.jsonl", tmp_path))

    waiting = refold.verify(log)
    done = refold.resume(log, PROGRAMS["answered"], answers={"0#2": False}, by="ada", tools=TOOLS)

    assert waiting.intact
    assert not waiting.complete
    assert done.output == "1.0: [True, False]"


def test_a_kept_log_of_a_command_that_worked_in_a_folder_is_replayed(tmp_path: Path) -> None:
    """Its files are given back, and what it made of them is compared."""
    log = Path(shutil.copy(LOGS / "folder.jsonl", tmp_path))
    shutil.copytree(LOGS / "folder.files", tmp_path / "folder.files")
    (here := tmp_path / "work").mkdir()

    replayed = works(here, "replay", "--yes", log)  # there may be no sandbox

    assert "identical" in replayed.stderr, replayed.stderr
    assert replayed.exit_code == 0
    assert not list(here.iterdir())


def test_there_are_logs_of_this_version() -> None:
    """Each program once, with children, blobs and a failure among them."""
    assert {log.stem for log in KEPT if log.parent == LOGS} == set(PROGRAMS)
    assert (LOGS / "everything.2.jsonl").is_file()
    assert list((LOGS / "everything.blobs").glob("??/*"))
    assert LOGS / "watched.jsonl" in WATCHED
    assert list((LOGS / "folder.files").glob("*.pack"))


@pytest.mark.parametrize("name", ["plainly", "watched"])
def test_a_log_of_before_1_0_is_verified_and_not_run(name: str, tmp_path: Path) -> None:
    """§15.2: the refusal says what to do."""
    started: Any = next(iter(read_entries(LOGS / f"{name}.jsonl"))).event
    older = attrs.evolve(started, versions={**started.versions, "engine": 1})
    LogWriter.create(log := tmp_path / "a.jsonl", older).close()
    run: Any = replayed if name == "watched" else refold.reexecute

    assert refold.verify(log).intact
    with pytest.raises(LogUnsupported, match=r"version before 1\.0; record it again"):
        run(log, [] if name == "watched" else PROGRAMS[name])


def test_a_member_is_renamed_as_contributing_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old log is read by the new class, and each run writes the member that its flag says."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    members = text.partition("```python\n")[2].partition("```")[0]
    block = "".join(f"    {line}\n" for line in members.splitlines())
    known: dict[str, Any] = {"attrs": attrs}
    exec(  # the class as a maintainer writes it
        "@attrs.frozen(weakref_slot=False)\nclass Asked:\n"
        f"{block}    arguments: dict\n    effect: str\n    delegates: bool | None = None\n",
        known,
    )
    asked: Any = known["Asked"]
    renamed: type[Event] = asked
    monkeypatch.setitem(KINDS, "x-renamed", renamed)
    monkeypatch.setitem(KIND_OF, renamed, "x-renamed")
    log = LOGS / "plainly.jsonl"
    calls = [entry for entry in read_entries(log) if entry.kind == "tool.called"]

    read: list[Any] = [structure("x-renamed", entry.data) for entry in calls]
    new = asked(name="add", arguments={"a": 1}, effect="pure")

    assert [each.called for each in read] == ["add", "add", "add"]
    assert [unstructure(each) for each in read] == [entry.data for entry in calls]
    assert list(unstructure(new)) == ["name", "arguments", "effect"]
    assert structure("x-renamed", unstructure(new)).called == "add"  # type: ignore[union-attr]  # it is `asked`
