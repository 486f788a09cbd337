"""`refold show --at N`: what a run had done after any entry, and if that was recorded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from click.testing import Result

from refold.engine.events.events import RunFinished, RunStarted
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.models import ScriptedModel
from refold.engine.program.run import Run
from refold.engine.runners.recording import record

Invoke = Callable[..., Result]


async def _nothing(_: Any, __: Any) -> None:
    """Do nothing."""


async def _talk(run: Run, turns: int) -> None:
    """Ask a model as often as said, in one conversation."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": str(turn)})
        messages.append((await run.model(messages)).message)


def test_the_state_at_the_end_is_as_recorded(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", survey_log, "--at", "-1")

    assert said.exit_code == 0
    assert "status     completed" in said.stdout
    assert "tool       list_files: 3 calls" in said.stdout
    assert "child    1 completed  survey package beta" in said.stdout
    assert "as recorded" in said.stdout


def test_a_state_on_the_way_has_what_was_open_then(survey_log: Path, invoke: Invoke) -> None:
    document = json.loads(invoke("show", survey_log, "--at", "1", "--json").stdout)

    assert document["at"] == 1
    assert document["state"]["entries"] == 2
    assert [call["name"] for call in document["state"]["open"]] == ["list_files"]
    assert "open       tool list_files asked at 1" in invoke("show", survey_log, "--at", "1").stdout


def test_numbers_from_the_end_mean_the_same_entry(survey_log: Path, invoke: Invoke) -> None:
    entries = len(survey_log.read_bytes().splitlines())

    last = json.loads(invoke("show", survey_log, "--at", "-1", "--json").stdout)
    same = json.loads(invoke("show", survey_log, "--at", str(entries - 1), "--json").stdout)

    assert last == same


def test_an_entry_that_is_not_there_is_usage(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("show", survey_log, "--at", "999").exit_code == 2


def test_at_the_last_entry_the_digest_is_compared_too(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    lines = survey_log.read_bytes().splitlines(keepends=True)
    whole = json.loads(invoke("show", survey_log, "--at", "-1", "--json").stdout)
    for at in ("-1", str(len(lines) - 1)):
        assert json.loads(invoke("show", survey_log, "--at", at, "--json").stdout) == whole
    assert whole["agrees"]
    assert whole["recorded_digest"] == whole["digest"]
    before = json.loads(invoke("show", survey_log, "--at", "-2", "--json").stdout)
    assert before["agrees"] is None

    (tmp_path / "open.jsonl").write_bytes(b"".join(lines[:-1]))
    unsealed = json.loads(invoke("show", tmp_path / "open.jsonl", "--at", "-1", "--json").stdout)
    assert unsealed["agrees"] is None


def test_what_is_left_is_counted_in_plain_words(tmp_path: Path, invoke: Invoke) -> None:
    log = record(_nothing, None, log=tmp_path / "a.jsonl", limits=Limits(max_depth=1)).log

    (left,) = [
        line for line in invoke("show", log, "--at", "-1").stdout.splitlines() if "left " in line
    ]

    assert "1 level," in left
    assert "1,000 children" in left


def test_two_states_are_compared_by_pointers(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", survey_log, "--at", "1", "--to", "2")
    document = json.loads(invoke("show", survey_log, "--at", "1", "--to", "2", "--json").stdout)
    back = json.loads(invoke("show", survey_log, "--at", "2", "--to", "1", "--json").stdout)

    assert said.exit_code == 0
    assert "survey_tree from after entry 1 to after entry 2" in said.stdout
    assert "  /entries: 2 → 3" in said.stdout.splitlines()
    assert "the same state" not in said.stdout
    assert any(line.startswith("  /open/0: removed") for line in said.stdout.splitlines())
    assert (document["before"], document["after"]) == (1, 2)
    assert {one["pointer"] for one in document["differences"]} >= {"/entries", "/open/0"}
    assert (back["before_digest"], back["after_digest"]) == (
        document["after_digest"],
        document["before_digest"],
    )


def test_of_many_places_that_came_the_first_and_the_last_are_shown(
    tmp_path: Path, invoke: Invoke
) -> None:
    log = record(_talk, 30, log=tmp_path / "a.jsonl", model=ScriptedModel(["yes"] * 30)).log

    on = invoke("show", log, "--at", "2", "--to", "-2").stdout.splitlines()
    back = invoke("show", log, "--at", "-2", "--to", "2").stdout.splitlines()
    found = json.loads(invoke("show", log, "--at", "2", "--to", "-2", "--json").stdout)[
        "differences"
    ]

    assert "  /conversations/0/turns/2: added [3,3]" in on
    assert "  … 50 more added in /conversations/0/turns" in on
    assert "  /conversations/0/turns/59: added [60,60]" in on
    assert len([line for line in on if "/turns" in line]) == 9
    assert "  … 50 more removed in /conversations/0/turns" in back
    assert len([one for one in found if "/turns/" in one["pointer"]]) == 58


def test_a_state_does_not_differ_from_itself(survey_log: Path, invoke: Invoke) -> None:
    entries = len(survey_log.read_bytes().splitlines())

    said = invoke("show", survey_log, "--at", "-1", "--to", str(entries - 1))

    assert said.exit_code == 0
    assert "the same state" in said.stdout


def test_both_states_have_to_be_there(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("show", survey_log, "--at", "1", "--to", "999").exit_code == 2
    assert "--to needs --at" in invoke("show", survey_log, "--to", "1").stderr
    assert "use only one of" in invoke("show", survey_log, "--at", "1", "--events").stderr


def test_what_was_recorded_otherwise_is_said(tmp_path: Path, invoke: Invoke) -> None:
    """The digest at the end, of a log that somebody wrote anew."""
    first, last = read_entries(record(_nothing, None, log=tmp_path / "a.jsonl").log)
    assert isinstance(first.event, RunStarted)
    assert isinstance(last.event, RunFinished)
    with LogWriter.create(tmp_path / "b.jsonl", first.event) as writer:
        writer.append(attrs.evolve(last.event, state_digest="0" * 64))

    said = invoke("show", tmp_path / "b.jsonl", "--at", "-1")
    document = json.loads(invoke("show", tmp_path / "b.jsonl", "--at", "-1", "--json").stdout)

    assert said.exit_code == 1
    assert "NOT as recorded: 0000000000000000\n" in said.stdout
    assert (document["agrees"], document["recorded_digest"]) == (False, "0" * 64)
