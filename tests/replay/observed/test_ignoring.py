"""What is passed over is listed place by place, with the rule that allowed it."""

from pathlib import Path

from refold.engine.observed.volatile import VolatileRules
from refold.replay.observed.ignoring import places_of, same_but_for_redaction
from tests.support.watched import ask, record, replayed, result, says, system, talk, user

RULES = VolatileRules(["model:*/parameters/user"], [r"\d{4}-\d\d-\d\d"])


def test_each_place_is_listed_once_with_how_often(tmp_path: Path) -> None:
    """A conversation repeats its messages in each request."""
    messages = [user("Go."), says("Where?"), user("Home."), says("Home it is.")]
    recorded = talk(system("It is 2026-11-21."), *messages, user_id=1)
    now = talk(system("It is 2026-11-22."), *messages, user_id=1)

    report = replayed(
        record(tmp_path / "a.jsonl", recorded, rules=RULES), [one.asked for one in now]
    )

    assert report.identical
    (place,) = places_of(report.ignored)
    assert place.endswith(r"  (\d{4}-\d\d-\d\d, 2 times)")
    assert report.ignored_count == 2
    assert place.startswith('model:gpt-5  /messages/0/content: "It is 2026-11-21." → ')


def test_a_place_is_told_by_its_path(tmp_path: Path) -> None:
    """As `refold replay` tells it elsewhere."""
    log = record(tmp_path / "a.jsonl", talk(user("x"), says("y"), user="ann"), rules=RULES)

    report = replayed(log, [ask(user("x"), user="bob")])

    (one,) = report.ignored
    assert (one.rule, one.pointer) == ("model:*/parameters/user", "/parameters/user")
    assert (one.recorded, one.now) == ("ann", "bob")


def test_nothing_is_listed_where_nothing_differs(tmp_path: Path) -> None:
    """Rules alone ignore nothing."""
    exchanges = talk(user("x"), says("y"))

    report = replayed(
        record(tmp_path / "a.jsonl", exchanges, rules=RULES), [one.asked for one in exchanges]
    )

    assert report.ignored_count == 0
    assert report.ignored_lines() == []


def test_a_marker_stands_for_any_text_in_its_place_only() -> None:
    """What stands around it has to be the same."""
    recorded = ask(user("Use [redacted:KEY] for it"))

    assert same_but_for_redaction(recorded, ask(user("Use abc for it")))
    assert not same_but_for_redaction(recorded, ask(user("Use abc for that")))
    assert not same_but_for_redaction(recorded, ask(user("Use abc for it"), user("now")))
    assert not same_but_for_redaction(recorded, ask(user("Use abc for it"), model="other"))


def test_another_order_of_results_is_listed(tmp_path: Path) -> None:
    """And is no difference: which of two parallel calls ended first is another one each time."""
    calls = says("", ("a", "read", {}), ("b", "read", {}))
    talked = talk(user("go"), calls, result("a", "one"), result("b", "two"), says("done"))
    log = record(tmp_path / "order.jsonl", talked)
    first, second = (one.asked for one in talked)
    now = ask(*second.messages[:2], *reversed(second.messages[2:]))

    report = replayed(log, [first, now])

    assert report.identical
    assert [(one.pointer, one.rule) for one in report.ignored] == [
        ("/messages/2", "order of parallel results")
    ]
