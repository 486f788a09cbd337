"""`refold diff`: 0 where two runs did the same, 1 and what differs where they did not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from refold.engine.log.pack import pack
from refold.engine.recording import record

Invoke = Callable[..., Result]


async def program(_: Any, given: Any) -> Any:
    """Return what it was given."""
    return given


def test_a_run_and_itself_do_not_differ(survey_log: Path, invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("diff", survey_log, pack(survey_log, tmp_path / "s.refold"))

    assert said.exit_code == 0
    assert "no differences" in said.stdout


def test_what_differs_is_told_and_is_one(tmp_path: Path, invoke: Invoke) -> None:
    one = record(program, 1, log=tmp_path / "a.jsonl").log
    other = record(program, 2, log=tmp_path / "b.jsonl").log

    said = invoke("diff", one, other, "--json")

    assert said.exit_code == 1
    assert {each["category"] for each in json.loads(said.stdout)["differences"]} >= {"output"}


def test_the_modes_are_passed_on(survey_log: Path, invoke: Invoke) -> None:
    words = ("diff", survey_log, survey_log, "--match", "subset", "--arguments", "ignore")

    document = json.loads(invoke(*words, "--json").stdout)

    assert (document["match"], document["arguments"]) == ("subset", "ignore")
    assert invoke("diff", survey_log, survey_log, "--match", "vague").exit_code == 2
