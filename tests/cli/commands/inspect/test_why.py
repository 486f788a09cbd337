"""`refold why`: the chain of causes for people, the same for machines."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from refold.engine.log.pack import pack
from refold.engine.program.run import PlainRun
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool

Invoke = Callable[..., Result]


def test_the_chain_is_indented_from_the_entry_to_the_root(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("why", survey_log, "4")

    lines = said.stdout.splitlines()
    assert said.exit_code == 0
    assert lines[0] == str(survey_log)
    assert lines[1].split()[:2] == ["4", "tool.returned"]
    assert lines[2].split()[:3] == ["answers", "3", "tool.called"]
    assert lines[-1].split()[:3] == ["after", "0", "run.started"]
    indents = [len(line) - len(line.lstrip()) for line in lines[2:]]
    assert indents == sorted(indents)


def test_a_call_is_its_outcome_and_what_is_neither_is_explained(
    survey_log: Path, invoke: Invoke
) -> None:
    call = json.loads(survey_log.read_text().splitlines()[4])["call"]

    assert invoke("why", survey_log, call).stdout == invoke("why", survey_log, "4").stdout
    for wrong in ("0#99", "last"):
        said = invoke("why", survey_log, wrong)
        assert said.exit_code == 2
        assert f"{wrong}: expected the number of an entry, or a call of `refold show" in said.stderr


def test_a_childs_chain_goes_on_in_its_parents_log(survey_log: Path, invoke: Invoke) -> None:
    child = survey_log.with_name("survey.2.jsonl")

    lines = invoke("why", child, "-1").stdout.splitlines()

    assert lines[0] == str(child)
    assert str(survey_log) in lines
    assert any(line.split()[:2] == ["started", "by"] for line in lines)


def test_a_child_alone_says_that_its_parent_is_not_here(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    alone = tmp_path / "survey.2.jsonl"
    alone.write_bytes(survey_log.with_name("survey.2.jsonl").read_bytes())

    said = invoke("why", alone, "1")

    assert said.exit_code == 0
    assert (
        said.stdout.splitlines()[-1] == "the parent's log is missing or belongs to a different run"
    )


def test_all_that_can_have_led_there_is_counted(survey_log: Path, invoke: Invoke) -> None:
    """Of the end of a root run, whose children were all joined, that is every entry."""
    entries = sum(
        len(log.read_bytes().splitlines()) for log in survey_log.parent.glob("survey*.jsonl")
    )

    said = invoke("why", survey_log, "-1", "--all")

    assert said.stdout.splitlines()[-1] == f"{entries} entries"
    assert len(said.stdout.splitlines()) == entries + 4 + 1  # and a line a log


def test_a_packed_log_is_named_by_itself(survey_log: Path, tmp_path: Path, invoke: Invoke) -> None:
    packed = pack(survey_log, tmp_path / "s.refold")

    document = json.loads(invoke("why", packed, "-1", "--json").stdout)

    assert document["log"] == str(packed)
    assert document["entry"] == survey_log.read_bytes().count(b"\n") - 1
    assert {cause["log"] for cause in document["causes"]} >= {f"{packed}:survey.jsonl"}


def test_an_entry_that_is_not_there_is_usage(survey_log: Path, invoke: Invoke) -> None:
    for number in ("999", "-999", "two"):
        said = invoke("why", survey_log, number)
        assert said.exit_code == 2
        assert "Traceback" not in said.output
    assert invoke("why", survey_log).exit_code == 2
    assert invoke("why", survey_log, "1", "--nonsense").exit_code == 2


@tool(effect="reads")
def look(n: int) -> int:
    """Return a number again."""
    return n


def looks(run: PlainRun, n: int) -> None:
    """Look so many times."""
    for at in range(n):
        run.tool(look, n=at)


def test_a_long_chain_is_cut_and_says_so(tmp_path: Path, invoke: Invoke) -> None:
    """At most 200 lines, those nearest to the entry; all of them with `--all`."""
    log = record(looks, 300, log=tmp_path / "a.jsonl", tools=[look]).log

    lines = invoke("why", log, "-1").stdout.splitlines()
    document = json.loads(invoke("why", log, "-1", "--json").stdout)

    assert len(lines) == 200
    assert lines[1].split()[:2] == ["601", "run.finished"]
    links = 602 - 198
    assert lines[-1] == f"left out: 2 lines and {links - 2} links; to list everything, add --all"
    assert (len(document["causes"]), document["count"]) == (200, 602)
    assert len(invoke("why", log, "-1", "--all").stdout.splitlines()) > 600
    short = invoke("why", log, "20").stdout
    assert "left out" not in short


def test_each_link_says_when_it_was_written(survey_log: Path, invoke: Invoke) -> None:
    lines = invoke("why", survey_log, "-1").stdout.splitlines()

    assert re.search(r" run\.started  \+0 ms  ", lines[-1])
    assert all(re.search(r"\+[0-9.]+ (ms|s)  ", line) for line in lines if ".jsonl" not in line)
