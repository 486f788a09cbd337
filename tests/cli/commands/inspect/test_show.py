"""`refold show`: the tree, the entries, one entry whole; of a root, of a child, of a packed log."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from refold.engine.log.names import tree
from refold.engine.log.pack import pack
from refold.engine.log.reader import read_entries
from refold.engine.models import ScriptedModel
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from tests.support.fixtures import LOGS
from tests.support.schemas import validate

Invoke = Callable[..., Result]


def test_the_tree_says_who_was_asked_what_and_how_it_ended(
    survey_log: Path, invoke: Invoke
) -> None:
    said = invoke("show", survey_log)

    lines = said.stdout.splitlines()
    assert said.exit_code == 0
    assert lines[0].startswith("completed survey_tree")
    assert lines[1].startswith("├─ completed survey_package 1")
    assert lines[1].endswith("survey package beta")
    assert lines[3].startswith("└─ completed survey_package 3")


@pytest.mark.parametrize("part", ["--failed", "--notable", "--details", "--prices"])
@pytest.mark.parametrize("form", [("--events",), ("--entry", "1"), ("--files",)])
def test_an_option_of_the_tree_is_refused_without_it(
    part: str, form: tuple[str, ...], survey_log: Path, invoke: Invoke
) -> None:
    said = invoke("show", survey_log, *form, part)

    assert said.exit_code == 2
    assert "--failed, --notable and --prices need the whole tree" in said.stderr


@pytest.mark.parametrize("words", ["export --to html", "export --to refold", "show", "show --at 1"])
def test_a_folder_without_runs_is_refused(
    words: str, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (".", "/"):
        said = invoke(*words.split(), folder)

        assert said.exit_code == 2
        assert f"{folder} is a folder with no run; to list: refold ls {folder}" in said.stderr


def test_details_add_limits_tools_and_files(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", survey_log, "--details").stdout

    assert "timeout_seconds 120" in said
    assert "list_files ×1, parse_source ×1" in said
    assert str(survey_log.with_name("survey.1.jsonl")) in said


def test_the_entries_stand_one_on_a_line(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", survey_log, "--events").stdout.splitlines()

    assert len(said) == 1 + len(survey_log.read_bytes().splitlines())
    assert "run.started" in said[1]
    assert "list_files(" in said[2]
    assert "completed a tree: 4 files" in said[-1]


def test_a_child_is_shown_like_a_root(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", survey_log.with_name("survey.2.jsonl")).stdout

    assert said.startswith("completed survey_package")


def test_a_packed_log_is_shown_like_a_plain_one(
    survey_log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    packed = pack(survey_log, tmp_path / "survey.refold")

    assert invoke("show", packed).stdout == invoke("show", survey_log).stdout


def test_an_entry_is_shown_whole_by_its_number_from_either_end(
    survey_log: Path, invoke: Invoke
) -> None:
    first = json.loads(invoke("show", survey_log, "--entry", "0").stdout)
    last = json.loads(invoke("show", survey_log, "--entry", "-1").stdout)

    assert (first["kind"], last["kind"]) == ("run.started", "run.finished")


def test_what_is_missing_is_said_beside_what_is_shown(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """A tree with a hole in it is shown, and is not fine."""
    log = tmp_path / "runs" / survey_log.name
    shutil.copytree(survey_log.parent, log.parent)
    log.with_name("survey.2.jsonl").unlink()
    damaged = log.with_name("survey.3.jsonl")
    damaged.write_bytes(damaged.read_bytes().replace(b'"survey', b'"purvey', 1))
    large = record(echo, "x" * 40_000, log=tmp_path / "large.jsonl").log
    next((tmp_path / "large.blobs").glob("*/*")).unlink()

    holed, bare = invoke("show", log), invoke("show", large, "--json")

    assert (holed.exit_code, bare.exit_code) == (3, 3)
    assert holed.stdout.startswith("completed survey_tree")
    assert "survey.2.jsonl: its log is missing" in holed.stderr
    assert "survey.3.jsonl: its log is damaged" in holed.stderr
    assert "large.jsonl:1: blob missing" in bare.stderr


async def echo(_: Any, text: str) -> int:
    """Return how long a text is."""
    return len(text)


@pytest.mark.parametrize("at", ["999", "-999"])
def test_an_entry_that_is_not_there_is_usage(at: str, survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", survey_log, "--entry", at)

    assert said.exit_code == 2
    assert f"has no entry {at}" in said.stderr


def test_one_view_at_a_time(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("show", survey_log, "--events", "--entry", "1").exit_code == 2


async def of_two_one_fails(run: Run, _input: None) -> None:
    for name in ("echo", "breaks"):
        await run.delegate(Delegation(program=echo if name == "echo" else breaks, input=name))


async def breaks(_run: Run, _input: Any) -> None:
    raise ValueError("broken")


def test_counts_say_how_many_ended_how_and_failed_shows_those(
    tmp_path: Path, invoke: Invoke
) -> None:
    log = record(of_two_one_fails, None, log=tmp_path / "a.jsonl").log

    whole, part = (invoke("show", log, *more).stdout for more in ((), ("--failed",)))

    assert "2 subagents: 1 completed, 1 failed" in whole
    assert "completed echo" in whole
    assert "completed echo" not in part
    assert "failed    breaks" in part
    assert "2 subagents: 1 completed, 1 failed" in part
    assert "failed first" not in part


async def of_three_all_fail(run: Run, _input: None) -> None:
    first, second = [await run.start(Delegation(program=breaks, input=None)) for _ in range(2)]
    await run.join(second)
    (await run.join(first))[0].result()


def test_of_several_failures_the_first_is_marked(tmp_path: Path, invoke: Invoke) -> None:
    """By when each run ended, not by when its parent was told, nor by the order of starts."""
    log = record(of_three_all_fail, None, log=tmp_path / "a.jsonl").log
    ends = {at: [*read_entries(path)][-1].meta["wall_us"] for at, path in enumerate(tree(log))}
    ended = sorted((1, 2), key=ends.__getitem__)

    lines = invoke("show", log, "--failed").stdout.splitlines()

    assert [line for line in lines if "failed first" in line] == [
        line for line in lines if f"breaks {ended[0]}" in line
    ]


def test_where_nothing_failed_the_counts_alone_are_shown(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("show", survey_log, "--failed").stdout.startswith("3 subagents: 3 completed · ")


def test_entries_before_a_torn_tail_are_shown(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """By a look at the last ones, too."""
    log = tmp_path / "a.jsonl"
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2]) + lines[2][:-9])

    shown, ended = invoke("show", log, "--events"), invoke("show", log, "--events", "-n", 9)

    assert (shown.exit_code, ended.exit_code) == (0, 0), shown.output + ended.output
    assert shown.stdout.count("tool.called") == ended.stdout.count("tool.called") == 1


def test_of_what_did_not_fail_the_document_has_the_root_alone(
    survey_log: Path, invoke: Invoke
) -> None:
    document = json.loads(invoke("show", survey_log, "--failed", "--json").stdout)

    assert (document["status"], document["children"]) == ("completed", [])


async def speechless(_run: Run, _input: Any) -> str:
    return ""


async def of_two_one_says_nothing(run: Run, _input: None) -> None:
    for program in (echo, speechless):
        await run.delegate(Delegation(program=program, input=program.__name__))


def test_notable_shows_the_runs_whose_answers_leave_something_out(
    tmp_path: Path, survey_log: Path, invoke: Invoke
) -> None:
    """And `--failed` beside it shows those that failed, too."""
    log = record(of_two_one_says_nothing, None, log=tmp_path / "a.jsonl").log
    both = record(of_two_one_fails, None, log=tmp_path / "b.jsonl").log

    part = invoke("show", log, "--notable").stdout
    document = json.loads(invoke("show", log, "--notable", "--json").stdout)

    assert "completed speechless" in part
    assert "its answer is empty" in part
    assert "echo" not in part
    assert document["totals"]["notable"] == 1
    assert [each["name"] for each in document["children"]] == ["speechless"]
    assert invoke("show", survey_log, "--notable").stdout.startswith("3 subagents: 3 completed · ")
    assert "breaks" in invoke("show", both, "--notable", "--failed").stdout
    assert "breaks" not in invoke("show", both, "--notable").stdout.partition("\n2 ")[0]


OLD = Path(__file__).parents[4] / "fixtures" / "logs" / "engine-2" / "watched.jsonl"
"""Without prices."""

UNPRICED = """
import sys
sys.modules["genai_prices"] = None  # as where the extra is not installed
import refold
from refold.cli import main
from refold.engine.models import FunctionModel
from refold.engine.events.outcome import Usage
from refold.engine.ports.ports import ModelReply

def reply(request):
    usage = Usage(input_tokens=1_000_000, output_tokens=0, requests=1)
    message = {"role": "assistant", "content": "x"}
    return ModelReply(message=message, usage=usage, stop_reason="stop")

async def child(run, text):
    return (await run.model([{"role": "user", "content": text}])).message["content"]

async def lead(run, text):
    await child(run, text)
    return (await run.delegate(refold.Delegation(program=child, input=text))).result()

refold.record(lead, "a", log="a.jsonl", model=FunctionModel(reply, name="openai:gpt-4o-mini"))
main(["show", "a.jsonl", "--prices"])
"""


@pytest.mark.long
def test_costs_that_were_not_recorded_are_computed_and_marked(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the run, for children, and in the document; a recorded cost stays."""
    pytest.importorskip("genai_prices")
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", UNPRICED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install 'refold[prices]'" in done.stderr

    plain, now = invoke("show", "a.jsonl"), invoke("show", "a.jsonl", "--prices")
    document = json.loads(invoke("show", "a.jsonl", "--prices", "--json").stdout)
    other = invoke("show", "a.1.jsonl", "--details", "--prices")

    assert "2,000,000 tokens, cost \u2013 (its own: 1,000,000 tokens, cost \u2013)" in plain.stdout
    assert plain.stderr.endswith("refold show a.jsonl --prices\n")
    assert "2,000,000 tokens, $0.3000 (its own: 1,000,000 tokens, $0.1500)" in now.stdout
    assert "cost of 2 answers computed now, not recorded: genai-prices " in now.stdout
    assert document["totals"]["all"]["cost_usd_micros"] == 300_000
    assert document["priced_now"]["answers"] == 2
    assert document["priced_now"]["prices"] == document["usage"]["prices"]
    validate(document, "show")
    assert "1,000,000 tokens, $0.1500" in other.stdout


async def asks(run: Run, text: str) -> str:
    return str((await run.model([{"role": "user", "content": text}])).message["content"])


def test_a_model_without_a_price_is_named(tmp_path: Path, invoke: Invoke) -> None:
    pytest.importorskip("genai_prices")
    script = ScriptedModel([{"text": "a", "usage": {"input_tokens": 7}}])
    log = record(asks, "a", log=tmp_path / "a.jsonl", model=script).log

    said = invoke("show", log, "--prices").stdout

    assert "no price for model 'scripted': genai-prices " in said
    assert "0 answers" not in said


def test_the_costs_of_an_old_watched_log_are_computed(invoke: Invoke) -> None:
    """By the provider of the API that was asked."""
    pytest.importorskip("genai_prices")

    now = invoke("show", OLD, "--prices").stdout

    assert "cost of 5 answers computed now" in now
    assert "105 tokens, at least $0.000310 (3 answers not counted)" in now


def test_the_failed_part_of_a_folder_has_a_line_for_a_damaged_run(
    tmp_path: Path, invoke: Invoke
) -> None:
    def fails(_run: object, _given: object) -> None:
        raise ValueError("gone")

    for name in ("a", "b", "c"):
        record(fails, log=tmp_path / f"{name}.jsonl")
    damaged = tmp_path / "b.jsonl"
    damaged.write_bytes(damaged.read_bytes().replace(b'"seq":0', b'"seq":9', 1))

    said = invoke("show", tmp_path, "--failed")

    assert said.exit_code == 3
    assert "2 runs with a failed part" in said.stdout
    assert "damaged  " in said.stdout
    assert invoke("show", tmp_path).exit_code == 2


def test_a_turn_is_printed_with_what_changed(invoke: Invoke) -> None:
    log = LOGS / "watched.jsonl"

    last = invoke("show", log, "--turn", "-1").stdout
    first = invoke("show", log, "--turn", "2", "--against", "2").stdout
    failed = invoke("show", log, "--turn", "1", "--agent", "hiker").stdout

    assert "turn 2 of 2 · gpt-5 · entry 23 · 3 kept, 3 added, 0 dropped since turn 1" in last
    assert "+     the fish hall\n" in last
    assert "      calls weather" in last
    assert "answered in entry 25" in last
    assert "6 kept, 0 added, 1 dropped since turn 2" in first
    assert "no answer: error: http_429" in failed


def test_a_turn_that_the_agent_lacks_is_refused(invoke: Invoke) -> None:
    log = LOGS / "watched.jsonl"

    assert (
        "the agent cook has 1 turn" in invoke("show", log, "--turn", "2", "--agent", "cook").stderr
    )
    assert "--turn 0" in invoke("show", log, "--turn", "0").stderr
    assert "need --turn" in invoke("show", log, "--agent", "cook").stderr
