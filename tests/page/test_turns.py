"""The turns of an agent as plain data."""

from pathlib import Path

from refold.engine.wire.parts.exchange import Asked
from refold.page.document import page
from refold.page.turns import TEXT_MAX, Turns, cut, left_out, without_content
from refold.replay.run.opened_run import OpenedRun
from tests.support.watched import Exchange, record, says, talk, user


def test_what_did_not_change_is_the_same_object(survey_log: Path) -> None:
    """So a patch compares by identity."""
    run, turns = OpenedRun(survey_log), Turns()
    for agent in run.agents:
        before, after = turns.of(agent), Turns(turns.known).of(agent)
        assert all(a is b for a, b in zip(before, after, strict=True))


def test_a_page_keeps_of_those_before_it_only_what_it_shows(tmp_path: Path) -> None:
    """Turns with requests beside the work are made anew for each page of a run that grows."""
    head = Asked(api="other", model="", parameters={"method": "HEAD", "path": "/", "body": None})
    asked = [Exchange(head, None, error="http_404"), *talk(user("Tidy up."), says("Done."))]
    log = record(tmp_path / "a.jsonl", asked)

    made = page(log)
    for _ in range(3):
        made = page(log, before=made)
        turns = [turn for agent in made.document["agents"] for turn in agent["turns"]]
        assert any(step["kind"] == "aside" for turn in turns for step in turn["steps"])
        shown = len(turns) + sum(len(turn["steps"]) for turn in turns)
        assert len(made.sides[0].turns.known) == shown


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
