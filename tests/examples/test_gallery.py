"""Each program of the gallery is short, runs, replays, forks, and has the tree of its snapshot."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from syrupy.assertion import SnapshotAssertion

import refold
from refold.engine.log.reader import read_entries
from refold.replay import render_text
from tests.support.simulated import record_simulated

GALLERY: Final = Path(__file__).parents[2] / "examples" / "gallery"
PROGRAMS: Final = sorted(GALLERY.glob("*.py"))
LINES_MAX: Final = 60


def loaded(path: Path) -> ModuleType:
    """Return a program's module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(module: ModuleType, log: Path) -> refold.Recording:
    """Record a program in simulated time, and answer for the person that it asks."""
    model = getattr(module, "MODEL", None)
    recording = record_simulated(module.program, module.INPUT, log, model=model, seed=1)
    answers: dict[str, Any] = getattr(module, "ANSWERS", {})
    return refold.resume(log, module.program, answers=answers) if answers else recording


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_replays_and_has_its_tree(
    path: Path, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    module, log = loaded(path), tmp_path / "run.jsonl"

    recording = recorded(module, log)

    assert recording.ok, recording.error
    assert len(path.read_text().splitlines()) <= LINES_MAX
    assert refold.reexecute(log, module.program).identical
    tree = render_text(refold.delegation_tree(log))
    assert f"{json.dumps(recording.output)}\n{tree}" == snapshot


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_forks_from_its_first_child(path: Path, tmp_path: Path) -> None:
    """With the same outcome, it does the same."""
    module, log = loaded(path), tmp_path / "run.jsonl"
    recording = recorded(module, log)
    ends = [entry for entry in read_entries(log) if entry.kind == "child.finished"]
    first = next(each for each in ends if each.data["outcome"]["status"] == "completed")
    edits: dict[str, Any] = {str(first.call): first.data["outcome"]["output"]}

    fork = refold.fork(log, program=module.program, into=tmp_path / "fork.jsonl", edits=edits)

    assert fork.recording is not None
    assert fork.recording.output == recording.output
