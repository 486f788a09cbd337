"""The turns of an agent as plain data."""

from pathlib import Path

from refold.engine.events.outcome import Priced, Usage
from refold.page.turns import TEXT_MAX, Turns, cut, left_out, spending, without_content
from refold.replay.run.opened_run import OpenedRun


def test_what_did_not_change_is_the_same_object(survey_log: Path) -> None:
    """So a patch compares by identity."""
    run, turns = OpenedRun(survey_log), Turns()
    for agent in run.agents:
        before, after = turns.of(agent), turns.of(agent)
        assert all(a is b for a, b in zip(before, after, strict=True))


def test_without_content_a_turn_has_sizes_alone(survey_log: Path) -> None:
    run = OpenedRun(survey_log)
    steps = [
        (step, shown)
        for agent in run.agents
        for turn, made in zip(agent.turns, without_content(Turns().of(agent)), strict=True)
        for step, shown in zip(turn.steps, made["steps"], strict=True)
        if step.kind == "tool"
    ]

    assert steps
    for step, shown in steps:
        assert shown["name"] == step.name
        assert shown["about"] == left_out(step.about)
        assert shown["result"].endswith("bytes left out)")


def test_long_values_are_cut_and_say_so() -> None:
    assert cut("x" * TEXT_MAX) == "x" * TEXT_MAX
    assert cut("x" * (TEXT_MAX + 1)) == f"{'x' * TEXT_MAX}…"
    assert len(cut({"a": "x" * TEXT_MAX})) == TEXT_MAX + 1
    assert cut({"a": 1}) == {"a": 1}


def test_spending_is_in_numbers_and_in_words() -> None:
    spent = spending(Usage(input_tokens=1_200, output_tokens=34), Priced(usd_micros=5, unpriced=1))

    assert spent["input_tokens"] == 1_200
    assert "1,2" in spent["tokens"]
