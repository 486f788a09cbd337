"""Trace events whose rows do not overlap, and a summary in which a log's words are no markup."""

import itertools
import shutil
from pathlib import Path

import attrs

from refold.engine.events.events import scope_of
from refold.engine.log.reader import read_entries
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.page.document import page
from refold.page.other_forms import summary, trace_events
from tests.support.fixtures import LOGS


async def hostile(_run: Run, _value: int) -> None:
    raise ValueError("</td><script>alert(1)</script> | [x](javascript:y) @everyone\n# boo")


def test_every_call_is_an_event_and_none_of_a_row_overlap(survey_log: Path) -> None:
    made = page(survey_log)

    events = [each for each in trace_events(made.sides[0]) if each["ph"] == "X"]

    assert "document" not in vars(made)  # which takes many times the memory
    agents = made.document["agents"]
    kinds = [step["kind"] for each in agents for turn in each["turns"] for step in turn["steps"]]
    asked = sum(turn["n"] > 0 for each in agents for turn in each["turns"])
    timed = [kind for kind in kinds if kind in ("tool", "child", "input", "timer", "aside")]
    assert len(events) == len(agents) + asked + len(timed)
    rows = itertools.groupby(
        sorted(events, key=lambda each: (each["pid"], each["tid"], each["ts"])),
        key=lambda each: (each["pid"], each["tid"]),
    )
    for _, row in rows:
        for one, then in itertools.pairwise(list(row)):
            assert one["ts"] + one["dur"] <= then["ts"]


def test_the_bar_of_a_conversation_names_its_first_entry() -> None:
    log = LOGS / "watched.jsonl"
    calls = {entry.seq: scope_of(entry.call or "") for entry in read_entries(log)}
    made = page(log)
    document = made.document

    events = [each for each in trace_events(made.sides[0]) if each.get("cat") == "run"]
    firsts = [each["args"]["entry"] for each in events]

    assert firsts == [each["seq"] for each in document["agents"]]
    assert [calls[seq] for seq in firsts] == [each["scope"] for each in document["agents"]]


def test_a_summary_says_counts_and_verdict(survey_log: Path) -> None:
    made = page(survey_log)

    text = summary(made)

    assert "document" not in vars(made)
    assert "intact: yes, complete: yes" in text
    assert "| 4 | 3 | 0 |" in text
    assert "Did not complete" not in text


def test_what_a_log_says_is_no_markup(tmp_path: Path) -> None:
    log = record(hostile, 1, log=tmp_path / "a.jsonl").log

    text = summary(page(log))

    assert "**Did not complete:**" in text
    assert "<script" not in text
    assert "[x]" not in text
    assert "@everyone" not in text
    assert "\n#" not in text


def test_two_runs_are_a_table(survey_log: Path) -> None:
    text = summary(page(survey_log, survey_log))

    assert "No difference." in text
    assert "| runs | 4 | 4 |" in text


def _copied(log: Path, folder: Path) -> Path:
    return shutil.copytree(log.parent, folder / "copy") / log.name


def test_what_was_not_compared_is_in_the_summary(survey_log: Path, tmp_path: Path) -> None:
    """Or a run without a child's log would read as the same."""
    log = _copied(survey_log, tmp_path)
    log.with_name("survey.2.jsonl").unlink()

    text = summary(page(log, survey_log))

    assert "not compared, because a log is missing: " in text


def test_damage_is_said_in_words_and_what_is_left_out_is_counted(
    survey_log: Path, tmp_path: Path
) -> None:
    log = _copied(survey_log, tmp_path)
    child = log.with_name("survey.1.jsonl")
    child.write_bytes(child.read_bytes().replace(b'"mono_us":', b'"mono_uz":', 1))
    made = page(log)

    assert "survey.1.jsonl:1: hash: the line was altered or replaced" in summary(made)
    found = made.sides[0].verification
    assert found is not None
    made.sides[0].verification = attrs.evolve(found, logs=found.logs * 60)
    assert "- and 10 more\n" in summary(made)
