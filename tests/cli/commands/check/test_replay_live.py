"""`refold replay` with something live: 0, 1, or 4 if it had to stop."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from refold.engine.runners.recording import record
from tests.support.forks import TOOLS, factor, model, report
from tests.support.schemas import validate

Invoke = Callable[..., Result]
PROGRAM = ("--program", "tests.support.forks:report")
RECORDED = ("--source", "model=recorded")
GIVEN = (*PROGRAM, "--tools", "tests.support.forks:TOOLS")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """The world is put back as it was."""
    yield
    factor["value"] = 1


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A recorded run."""
    return record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        (("--live", *RECORDED), "--tools FILE.py:NAME"),
        (("--source", "children=live"), "--program"),
        (("--live", "--source", "children=live", *GIVEN), "--model SPEC"),
    ],
)
def test_what_is_missing_is_named_by_its_option(
    log: Path, invoke: Invoke, given: tuple[str, ...], needed: str
) -> None:
    said = invoke("replay", log, *given)

    assert said.exit_code == 2
    assert needed in said.stderr


@pytest.mark.parametrize("words", [("replay", "--live"), ("replay", "--source", "tools=live")])
def test_no_drift_is_fine(log: Path, invoke: Invoke, words: tuple[str, ...]) -> None:
    said = invoke(words[0], log, *words[1:], *GIVEN, "--source", "model=recorded")

    assert said.exit_code == 0, said.output
    assert "no drift" in said.stdout


def test_what_did_not_run_is_named(log: Path, invoke: Invoke) -> None:
    """Or a tool that changes the world would count as the same without having been asked."""
    without = invoke("replay", log, "--live", *GIVEN, "--source", "model=recorded")
    with_it = invoke("replay", log, "--live", *GIVEN, "--source", "model=recorded", "--yes")
    recorded = invoke(
        "replay",
        log,
        "--live",
        *PROGRAM,
        "--source",
        "tools=recorded",
        "--source",
        "model=recorded",
    )

    assert (
        "not run, recorded results used instead: put (1); to run them, add --yes" in without.stderr
    )
    assert "not run" not in with_it.stderr + recorded.stderr


def test_drift_is_one_and_a_missing_outcome_four(log: Path, invoke: Invoke) -> None:
    factor["value"] = 2

    drifted = invoke("replay", log, "--live", *GIVEN, "--source", "model=stub", "--yes")
    stopped = invoke("replay", log, "--live", *GIVEN, "--source", "model=recorded")

    assert drifted.exit_code == 1, drifted.output
    assert 'result_changed: a different result  report > get#1 in 0/1 (key="a")' in drifted.stdout
    assert stopped.exit_code == 4, stopped.output
    assert "the most similar recorded one is model" in stopped.stdout


def test_the_document_is_as_its_schema_says(log: Path, invoke: Invoke) -> None:
    factor["value"] = 2

    document: Any = json.loads(
        invoke("replay", log, "--live", *GIVEN, "--source", "model=recorded", "--json").stdout
    )

    validate(document, "replay-live")
    assert document["counts"]["result_changed"] >= 2
    assert document["missing"]


@pytest.mark.parametrize("words", [("replay", "--live"), ("replay", "--source", "tools=live")])
def test_what_is_volatile_is_passed_over_and_listed(
    log: Path, invoke: Invoke, words: tuple[str, ...]
) -> None:
    """§12.7: also where `replay` has something live."""
    factor["value"] = 2
    given = (*GIVEN, "--source", "model=stub:three", "--yes", "--source", "children=recorded")
    paths = ("tool:get/result", "tool:put/arguments/value", "tool:put/result", "run/output")
    volatile = [
        word for path in (*paths, "model:*/added/0/content") for word in ("--volatile", path)
    ]

    without = invoke(words[0], log, *words[1:], *given)
    said = invoke(words[0], log, *words[1:], *given, *volatile)
    document: Any = json.loads(
        invoke(words[0], log, *words[1:], *given, *volatile, "--json").stdout
    )

    assert without.exit_code == 1, without.output
    assert said.exit_code == 0, said.output
    assert "ignored: " in said.stdout
    assert "tool:get at 0/1#1  /result: 1 → 2" in said.stdout
    assert document["ignored_count"] == len(document["ignored"]) > 0
    validate(document, "replay-live")


def test_a_volatile_path_that_matches_nothing_is_noted(log: Path, invoke: Invoke) -> None:
    """With the nearest; it would be an all-clear for a misspelt path."""
    given = (*GIVEN, *RECORDED, "--volatile", "tool:gte/result", "--volatile", "tool:get/result")

    said = invoke("replay", log, "--live", *given)

    assert said.exit_code == 0, said.output
    assert said.stdout.count("matches nothing") == 1
    assert "'tool:gte/result' matches nothing in this run, did you mean 'tool:get'?" in said.stdout


def test_junit_is_written_too(log: Path, tmp_path: Path, invoke: Invoke) -> None:
    invoke(
        "replay", log, "--live", *GIVEN, "--source", "model=recorded", "--junit", tmp_path / "d.xml"
    )

    assert b"<testsuite " in (tmp_path / "d.xml").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "LOG", "--live", *PROGRAM),  # tools that are to run live were not passed
        (
            "replay",
            "LOG",
            "--live",
            *GIVEN,
        ),  # the model's name in the record is none that can be made
        ("replay", "LOG", "--live", *GIVEN, "--source", "model=recorded", "--compare", "get=fuzzy"),
        ("replay", "LOG", "--live", *GIVEN, "--source", "model=recorded", "--compare", "gte=text"),
        ("replay", "LOG", "--live", *GIVEN, "--source", "model=recorded", "--compare", "text"),
        (
            "replay",
            "LOG",
            "--live",
            *GIVEN,
            "--source",
            "model=recorded",
            "--volatile",
            "get/result",
        ),
        ("replay", "LOG", "LOG", "--source", "tools=live", *GIVEN),
    ],
)
def test_what_cannot_be_done_is_usage(log: Path, invoke: Invoke, words: tuple[str, ...]) -> None:
    said = invoke(*(log if word == "LOG" else word for word in words))

    assert said.exit_code == 2, said.output


def test_a_way_to_compare_needs_the_name_of_a_tool(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("replay", survey_log, "--live", "--compare", "exact")

    assert said.exit_code == 2
    assert "'exact': expected NAME=RULE" in said.stderr
