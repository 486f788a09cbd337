"""What the tests of the command line share: a way to call it, and a recorded survey."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from refold.cli.group import refold
from refold.engine.ports.clock import FixedClock
from refold.engine.runners.recording import record
from refold.programs.survey import survey_tools
from tests.support.hints import (
    EXECUTING,
    READING,
    failed_hints,
    filled,
    problems_of_hints,
    runnable_hints,
)

Invoke = Callable[..., Result]

SOURCES = {
    "alpha.py": "import os\n\n\ndef small() -> int:\n    return 1\n",
    "beta/__init__.py": '"""Beta counts."""\nfrom os import path\nimport json.decoder\n',
    "beta/deep.py": "class A:\n    def long(self):\n        a = 1\n        b = 2\n        a\n",
    "beta/test/skipped.py": "def never(): ...\n",
    "gamma/broken.py": "def (:\n",
    "gamma/.hidden/no.py": "x = 1\n",
    "notes.txt": "no source\n",
}


@pytest.fixture(autouse=True)
def _in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show texts in full; `tests/cli/output/test_output.py` has the tests of where they are cut."""
    monkeypatch.setenv("COLUMNS", "10000")


@pytest.fixture
def invoke(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Invoke]:
    """Return a call of `refold` with these arguments, in this process.

    Commands that it prints on standard error have to exist, with their options, and have to run,
    with values for their placeholders: those that execute a program, at the end of the test.
    """
    left: dict[tuple[str, ...], None] = {}

    def call(*arguments: object, stdin: str = "") -> Result:
        words = [str(each) for each in arguments]
        done = CliRunner().invoke(refold, words, input=stdin)
        assert problems_of_hints(done.stderr) == []
        if "--help" not in words:
            fill = functools.partial(filled, given=words, folder=tmp_path_factory.getbasetemp())
            hints = runnable_hints(done.stderr, READING, fill)
            assert failed_hints(each for each in hints if each != words) == []
            left.update(dict.fromkeys(map(tuple, runnable_hints(done.output, EXECUTING, fill))))
        return done

    yield call
    monkeypatch.setenv("REFOLD_CHECK", "0")
    assert failed_hints(each for each in left if Path(each[1]).exists()) == []


@pytest.fixture
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a file with the program of this module."""
    path = tmp_path / str(request.module.PROGRAM_NAME)
    path.write_text(request.module.PROGRAM)
    return path


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small source tree."""
    root = tmp_path_factory.mktemp("sources")
    for name, text in SOURCES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(scope="session")
def survey_log(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a survey of `sources`, recorded in this process; not to be changed."""
    log = tmp_path_factory.mktemp("survey") / "survey.jsonl"
    task = {"title": "a tree", "skip": ["test"], "jobs": 2, "parts": 3}
    recording = record(
        "survey_tree", task, log=log, tools=survey_tools(sources), seed=1, clock=FixedClock()
    )
    assert recording.ok
    return log
