"""What is said of a run that was recorded, or went on: its output, and where to go from here."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

import refold
from refold.cli.output.exit_codes import NOT_COMPLETED
from refold.cli.output.output import note_json
from refold.cli.output.recorded import answer, describe
from refold.engine.models import ScriptedModel
from tests.support.schemas import validate


def echo(_run: refold.PlainRun, given: object) -> object:
    """Return what was given."""
    return given


def asks(run: refold.PlainRun, _given: object) -> object:
    """Ask."""
    return run.ask("Go on?", {"type": "boolean"})


@pytest.mark.parametrize(
    ("given", "printed"), [("two\nlines", "two\nlines\n"), ({"a": 1}, '{"a":1}\n'), (None, "")]
)
def test_the_output_is_printed(
    given: object, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text as it is, another value as JSON; the rest is on standard error."""
    recording = refold.record(echo, given, log=tmp_path / "a.jsonl")

    describe(recording, again="refold resume a")

    shown = capsys.readouterr()
    assert shown.out == printed
    assert recording.head in shown.err
    assert "refold resume" not in shown.err


def fails(_run: refold.PlainRun, _given: object) -> object:
    """Fail."""
    raise ValueError("no")


def test_the_document_of_a_failed_run_is_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exception of the program is for Python alone."""
    recording = refold.record(fails, log=tmp_path / "a.jsonl")

    with click.Context(click.Command("run"), obj=None) as context:
        note_json(context, click.Option(["--json"]), is_asked=True)
        assert answer(recording, again="") == NOT_COMPLETED
    validate(json.loads(capsys.readouterr().out), "run")
    assert recording.cause is not None


def test_a_suspended_run_says_what_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the command that goes on."""
    recording = refold.record(asks, log=tmp_path / "a.jsonl")

    describe(recording, again="refold resume a")

    shown = capsys.readouterr()
    assert "--answer '0#1=true'" in shown.out
    assert "refold resume a" in shown.err


def asks_twice(run: refold.PlainRun, _given: object) -> None:
    """Ask a model that fails the second time."""
    asked: list[Any] = [{"role": "user", "content": "a"}]
    asked.append(run.model(asked).message)
    with contextlib.suppress(refold.ModelError):
        run.model(asked)


def test_a_failed_request_is_counted_as_show_counts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], invoke: Callable[..., Result]
) -> None:
    """Each request that was made counts, and the failed ones are named with their reason."""
    model = ScriptedModel(["b", {"error": {"code": "rate_limit", "message": "slow"}}])
    recording = refold.record(asks_twice, log=tmp_path / "a.jsonl", model=model)

    describe(recording, again="refold resume a")
    counted = "2 requests (1 failed: rate_limit), 0 tokens"
    assert counted in capsys.readouterr().err
    assert counted in invoke("show", recording.log).stdout
