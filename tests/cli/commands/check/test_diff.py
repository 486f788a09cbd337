"""`refold diff`: 0 where two runs did the same, 1 and what differs where they did not."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from refold.engine.log.pack import pack
from refold.engine.models.scripted import ScriptedModel
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool
from tests.replay.audit.test_verify import rechained

Invoke = Callable[..., Result]


async def program(_: Any, given: Any) -> Any:
    """Return what it was given."""
    return given


def test_a_run_and_itself_do_not_differ(survey_log: Path, invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("diff", survey_log, pack(survey_log, tmp_path / "s.refold"))

    assert said.exit_code == 0
    assert "no differences" in said.stdout


@pytest.mark.parametrize("suffix", ["", ".1"])
def test_entries_that_say_nonsense_are_no_likeness(
    survey_log: Path, invoke: Invoke, tmp_path: Path, suffix: str
) -> None:
    """§5.1: the chain holds, of the root or of a child, and what stands in it is no entry."""
    log = shutil.copytree(survey_log.parent, tmp_path / "copy") / survey_log.name
    rechained(
        log.with_name(f"{log.stem}{suffix}.jsonl"),
        lambda body: re.sub(rb'"meta":\{.*', b'"meta":"x"', body) if b'"seq":0,' in body else body,
    )

    for other in (log, survey_log):
        said = invoke("diff", log, other)

        assert said.exit_code == 3
        assert f"{log.stem}{suffix}.jsonl" in said.stderr


def test_a_child_without_its_log_is_no_likeness(
    survey_log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """§13.8: what could not be compared may differ."""
    log = shutil.copytree(survey_log.parent, tmp_path / "copy") / survey_log.name
    log.with_name(f"{log.stem}.1.jsonl").unlink()

    for other in (log, survey_log):
        said = invoke("diff", log, other)

        assert said.exit_code == 3
        assert f"{log.stem}.1.jsonl: its log is missing" in said.stderr


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


async def remarks(run: Any, given: Any) -> None:
    """Call as many tools as it is told, each otherwise."""
    for at in range(250):
        await run.tool(say, text=f"{given} {at}")


@tool(effect="reads")
def say(text: str) -> str:
    """Return a text again."""
    return text


def test_many_differences_are_cut_and_counted(tmp_path: Path, invoke: Invoke) -> None:
    """Those that come first are listed, and the others counted; all are listed with `--all`."""
    one = record(remarks, 1, log=tmp_path / "a.jsonl", tools=[say]).log
    other = record(remarks, 2, log=tmp_path / "b.jsonl", tools=[say]).log

    said = invoke("diff", one, other).stdout
    document = json.loads(invoke("diff", one, other, "--json").stdout)
    whole = invoke("diff", one, other, "--all")

    assert said.startswith("501 differences: ")
    assert "root: input\n    (the value itself): 1 → 2\n  then      500 later differences" in said
    assert ": arguments" not in said
    assert len(document["differences"]) == document["count"] == 501
    (cause,) = document["causes"]
    assert (cause["what"], cause["follows"]) == ("input", 500)
    assert "left out" not in whole.stdout
    assert whole.stdout.count(": arguments") == 250


async def asks(run: Any, _given: Any) -> None:
    """Ask a model once."""
    await run.model([{"role": "user", "content": "Hello"}])


def test_what_runs_spent_stands_in_diff_and_ls(tmp_path: Path, invoke: Invoke) -> None:
    """A cost that nobody knows is a dash, and null, in words and documents: never 0."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    known = ScriptedModel([{"text": "a", "usage": {**usage, "cost_usd_micros": 12300}}])
    unknown = ScriptedModel([{"text": "a", "usage": usage}])
    for name, model in (("a", known), ("b", unknown)):
        assert record(asks, log=tmp_path / f"{name}.jsonl", model=model).ok

    logs = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    said, listed = invoke("diff", *logs).stdout, invoke("ls", tmp_path).stdout
    spent = json.loads(invoke("diff", *logs, "--json").stdout)["spent"]
    rows = json.loads(invoke("ls", tmp_path, "--json").stdout)["runs"]

    assert "a used scripted: 10 tokens, $0.0123 including descendants" in said
    assert "b used scripted: 10 tokens, cost \u2013 including descendants" in said
    assert [listed.count(each) for each in ("10 tokens, $0.0123", "10 tokens, cost \u2013")] == [
        1,
        1,
    ]
    assert [spent[name]["usage"]["cost_usd_micros"] for name in "ab"] == [12300, None]
    assert {row["usage"]["cost_usd_micros"] for row in rows} == {12300, None}
    assert "$0.00 " not in said + listed
