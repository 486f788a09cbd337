"""What an exploration says, to people and to machines (CONTRACT.md §12.8)."""

import json
from pathlib import Path
from typing import Any

from refold.replay.difference.pointer_diff import Difference
from refold.replay.what_if.order_report import ExploreReport, OrderFinding, OrderStep

MOVE = OrderStep(
    deliver="f#1 in 0/2", relation="before", other="f#1 in 0/1", call="0/2#1", other_call="0/1#1"
)
OTHER = OrderFinding(
    kind="output",
    moves=(MOVE,),
    orders=3,
    digest="0" * 64,
    end={"status": "completed", "reason": "done", "output": 2},
    diff=(Difference("/output", "changed", 1, 2),),
    file="race.py",
    line=9,
    order=("0/2#1", "0/1#1"),
)
MISSING = OrderFinding(
    kind="missing",
    moves=(),
    orders=1,
    digest="1" * 64,
    end={},
    diff=(),
    missing={"kind": "tool", "name": "f", "call": "0#1", "arguments": {}, "label": "f#1"},
)


def report(*findings: OrderFinding, **more: Any) -> ExploreReport:
    given: dict[str, Any] = {"orders": 6, "is_exhaustive": False, "outstanding": 3} | more
    return ExploreReport(
        log=Path("a.jsonl"),
        where="race",
        as_recorded=given["orders"] - sum(each.orders for each in findings),
        findings=findings,
        given_up=more.pop("given_up", ()),
        timers=False,
        **{name: value for name, value in given.items() if name != "given_up"},
    )


def test_nothing_found_is_said_in_one_line() -> None:
    """Whether there are more orders is part of it."""
    assert str(report()) == "race: 6 orders tried (there are more): every one ends as recorded"
    assert "6 orders tried (all possible orders)" in str(report(is_exhaustive=True))
    assert "no other order" in str(report(orders=1, is_exhaustive=True))


def test_findings_say_what_to_do_to_see_them() -> None:
    text = str(report(OTHER, MISSING))

    assert text == (
        "race: 6 orders tried (there are more): 3 end differently than recorded, "
        "1 leads to something that was never recorded\n"
        "\n"
        "an order changes the output (3 orders)\n"
        "  order     deliver f#1 in 0/2 before f#1 in 0/1\n"
        "  awaited   race.py:9\n"
        "  differs   /output: 1 → 2\n"
        "\n"
        "an order leads to a call that was never recorded (1 order)\n"
        "  asks for  f#1  0#1"
    )


def test_only_other_ends_are_changes() -> None:
    """What was never recorded is a finding, and no change."""
    assert not report(MISSING).identical
    assert not report(MISSING).changes
    assert report(OTHER).changes


def test_what_was_given_up_is_named() -> None:
    said = str(report(untried=("a#1", "b#1", "c#1", "d#1")))

    assert "cancelled in the recording, and therefore left out: a#1, b#1, c#1 and 1 more" in said


def test_what_could_not_be_seen_keeps_a_report_from_reading_as_an_all_clear() -> None:
    """Timers that did not race, children that were not explored: never "no other order", bare."""
    said = str(report(orders=1, is_exhaustive=True, timers_armed=2, children_left=1))

    assert said == (
        "race: no other order of the raced outcomes is possible\n"
        "  not varied: 2 timers; to vary them, use timers=True (--timers)\n"
        "  not explored: 1 child run; to explore one, pass its log"
    )
    assert "(all possible orders)" not in str(report(is_exhaustive=True, timers_armed=2))


def test_the_first_few_findings_are_told() -> None:
    said = str(report(*[OTHER] * 6, orders=20))

    assert said.count("an order changes the output") == 4
    assert said.endswith("and 2 more ends, in 6 orders: to list them, add --all")


def test_a_report_is_a_document() -> None:
    document = report(OTHER, MISSING).as_json()

    assert json.loads(json.dumps(document)) == document
    assert document["findings"][0]["moves"][0]["deliver"] == "f#1 in 0/2"
    assert document["findings"][1]["missing"]["call"] == "0#1"
