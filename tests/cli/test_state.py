"""`refold state`: what a run had done after any entry, and whether that is what was recorded."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_the_state_at_the_end_is_as_recorded(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("state", survey_log)

    assert said.exit_code == 0
    assert "status     completed" in said.stdout
    assert "tool       list_files: 3 calls" in said.stdout
    assert "child    1 completed  survey package beta" in said.stdout
    assert "as recorded" in said.stdout


def test_a_state_on_the_way_has_what_was_open_then(survey_log: Path, invoke: Invoke) -> None:
    document = json.loads(invoke("state", survey_log, "--at", "1", "--json").stdout)

    assert document["at"] == 1
    assert document["state"]["entries"] == 2
    assert [call["name"] for call in document["state"]["open"]] == ["list_files"]
    assert (
        "open       tool list_files asked at 1" in invoke("state", survey_log, "--at", "1").stdout
    )


def test_numbers_from_the_end_mean_the_same_entry(survey_log: Path, invoke: Invoke) -> None:
    entries = len(survey_log.read_bytes().splitlines())

    last = json.loads(invoke("state", survey_log, "--at", "-1", "--json").stdout)
    same = json.loads(invoke("state", survey_log, "--at", str(entries - 1), "--json").stdout)

    assert last == same


def test_an_entry_that_is_not_there_is_usage(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("state", survey_log, "--at", "999").exit_code == 2
