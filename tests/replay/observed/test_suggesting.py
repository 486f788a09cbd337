"""What looks like a date or an id is told with the option that ignores it, as to be typed."""

import shlex
from typing import Any

import pytest

from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.suggesting import in_any_order, suggestions
from tests.support.loops import for_each
from tests.support.watched import ask, result, says, system, user


def rules_in(options: tuple[str, ...]) -> VolatileRules:
    """Return what a shell would make of these options."""
    words = [shlex.split(option) for option in options]
    return VolatileRules(
        [value for _, value in words if not value.startswith(("text:", "order:"))],
        [value[5:] for _, value in words if value.startswith("text:")],
        [value[6:] for _, value in words if value.startswith("order:")],
    )


def both(one: str, other: str) -> tuple[Asked, Asked]:
    """Return requests with these system prompts."""
    return ask(system(one), user("Hello")), ask(system(other), user("Hello"))


@for_each(
    "before, after",
    [
        ("Today is 2026-11-21.", "Today is 2027-01-02."),
        ("Today is Saturday, 21 November 2026.", "Today is Friday, 1 May 2027."),
        ("It is November 21, 2026.", "It is May 1, 2027."),
        ("Now: 2026-11-21T14:15:00Z", "Now: 2027-01-02T03:04:05.678+00:00"),
        ("Now: 2026-11-21 14:15", "Now: 2027-01-02 03:04"),
        ("It is 2:15 PM on Monday", "It is 11:45 AM on Friday"),
        (
            "Session 123e4567-e89b-12d3-a456-426614174000.",
            "Session 00000000-e89b-12d3-a456-426614174fff.",
        ),
        ("cwd: /tmp/tmpab12cd/work", "cwd: /tmp/tmpzz99xx/work"),
        ("object at 0x7f12ab34cd56", "object at 0x7f99aa88bb77"),
        ("run_8fK2mZpQ7wXv3t", "run_1aB2cD3eF4gH5i"),
        ("at http://127.0.0.1:41233/x", "at http://127.0.0.1:50000/x"),
        ("took 0.53s", "took 12.1s"),
        ("Due 11/21/2026, asked 2026-11-21.", "Due 12/22/2026, asked 2026-11-22."),
    ],
)
def test_what_is_another_at_each_run_gets_an_option_that_ignores_it(
    before: str, after: str
) -> None:
    """With these very options, the two requests are the same."""
    recorded, now = both(before, after)

    options, is_all = suggestions(recorded, now)

    assert is_all
    rules = rules_in(options)
    assert rules.applied(recorded) == rules.applied(now)
    assert rules.applied(recorded) != recorded


def test_no_more_is_ignored_than_has_to_be() -> None:
    """A date that stayed the same may matter."""
    recorded, now = both("On 2026-11-21 it took 0.53s.", "On 2026-11-21 it took 12.1s.")

    options, is_all = suggestions(recorded, now)

    assert is_all
    applied = rules_in(options).applied(now)
    assert "2026-11-21" in str(applied.messages[0])
    assert "12.1s" not in str(applied.messages[0])


@for_each(
    "before, after",
    [
        ("Be brief.", "Be short."),
        ("Today is 2026-11-21. Be brief.", "Today is 2026-11-22. Be short."),
        ("Answer in 3 lines.", "Answer in 4 lines."),
        ("Today is 2026-11-21.", "Today."),
        ("Be self-contradictory.", "Be self-explanatory."),
    ],
)
def test_a_changed_prompt_gets_none(before: str, after: str) -> None:
    """An option is told only where it would help."""
    assert suggestions(*both(before, after)) == ((), False)


@for_each(
    "before, after, pointer",
    [
        ({"user": "ann"}, {"user": "bob"}, "/parameters/user"),
        ({"metadata": {"user_id": "u1"}}, {"metadata": {"user_id": "u2"}}, None),
        ({"seed": 1}, {"seed": 2}, "/parameters/seed"),
    ],
)
def test_a_parameter_that_says_who_asks_gets_its_place(
    before: dict[str, Any], after: dict[str, Any], pointer: str | None
) -> None:
    """As `--volatile`, for any model."""
    options, is_all = suggestions(ask(user("a"), **before), ask(user("a"), **after))

    assert is_all
    assert options == (f"--volatile 'model:*{pointer or '/parameters/metadata/user_id'}'",)


def test_a_parameter_of_substance_gets_none() -> None:
    """Temperature is what somebody chose."""
    assert suggestions(ask(user("a"), temperature=0), ask(user("a"), temperature=1)) == ((), False)


def test_a_parameter_that_was_not_given_gets_none() -> None:
    """No rule makes a place of nothing, so the option would not help."""
    assert suggestions(ask(user("a")), ask(user("a"), prompt_cache_key="x")) == ((), False)


@for_each(
    "before, after, touched",
    [
        ("Built 2026-01-01. Today is 2026-11-21.", "Built 2026-01-01. Today is 2026-11-22.", 1),
        ("Run run_8fK2mZpQ7wXv3t at 14:15", "Run run_1aB2cD3eF4gH5i at 03:04", 2),
        ("a 2026-11-21 b 2026-11-21 c 2020-02-02", "a 2026-11-22 b 2026-11-22 c 2020-02-02", 2),
    ],
)
def test_what_is_the_same_is_not_touched(before: str, after: str, touched: int) -> None:
    """A pattern that matches more than what differs has the words before it; each part its own."""
    options, is_all = suggestions(*both(before, after))

    assert is_all
    assert rules_in(options).text(before).count("[volatile]") == touched


def test_a_date_elsewhere_in_the_request_is_not_touched() -> None:
    """It is somebody's to change, and to see."""
    recorded, now = both("Today is 2026-11-21.", "Today is 2026-11-22.")
    fixed = user("I was born on 1990-01-01.")
    recorded, now = (ask(*each.messages, fixed) for each in (recorded, now))

    options, is_all = suggestions(recorded, now)

    assert is_all
    assert rules_in(options).text(fixed["content"]) == fixed["content"]


def test_a_member_of_a_message_is_what_the_agent_said() -> None:
    """Its date is ignored wherever it stands, not whatever stands in that place."""
    recorded, now = (
        ask(user("When?"), says("", ("c1", "look", {"date": date})), result("c1", "Then."))
        for date in ("2026-11-21", "2026-11-22")
    )

    options, is_all = suggestions(recorded, now)

    assert is_all
    assert [shlex.split(option)[1][:5] for option in options] == ["text:"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("at 2026-11-21, at 2020-02-02", "at 2026-11-22, at 2020-02-02"),
        ("Monday 12:15", "13:15 Monday"),
    ],
    ids=["the words before it are the same, too", "the same day stands elsewhere"],
)
def test_a_text_that_nothing_tells_from_another_gets_none(before: str, after: str) -> None:
    assert suggestions(*both(before, after)) == ((), False)


def test_a_whole_body_is_never_suggested() -> None:
    """Embeddings of other texts would be served."""
    recorded, now = (
        Asked(api="other", model="", parameters={"method": "POST", "path": "/x", "body": body})
        for body in (
            {"input": "noted 2026-11-21", "user": "a"},
            {"input": "noted 2026-11-22", "user": "b"},
        )
    )

    options, _ = suggestions(recorded, now)

    assert sorted(shlex.split(option)[1][:5] for option in options) == ["model", "text:"]
    assert "--volatile 'model:*/parameters/body/user'" in options


def test_messages_that_changed_places_get_an_option_where_they_begin_alike() -> None:
    """It was tried: with it the two requests are the same, and a changed word is none of it."""
    reports = [user(f"Report (of {name}): done.") for name in ("ann", "bob", "cy")]
    recorded, now = (ask(user("Go."), *each) for each in (reports, reports[::-1]))

    options = in_any_order(recorded, now)

    assert options == (r"--volatile 'order:Report \(of '",)
    rules = rules_in(options)
    assert rules.applied(recorded) == rules.applied(now)
    other = ask(user("Go."), *reports[:2], user("Report (of cy): not done."))
    assert rules.applied(recorded) != rules.applied(other)


def test_a_long_beginning_is_cut_between_words() -> None:
    reports = [user(f"{'Of another agent: ' * 4}{name}") for name in ("ann", "bob")]

    options = in_any_order(ask(*reports), ask(*reports[::-1]))

    assert options == ("--volatile 'order:Of another agent: Of another agent: Of another'",)


@pytest.mark.parametrize(
    "moved",
    [
        [user("Ann: done."), user("Bob: done.")],  # they begin with nothing in common
        [user("Report: a"), system("Report: b")],  # the option is for what a user says
    ],
)
def test_what_no_option_would_put_in_order_gets_none(moved: list[dict[str, Any]]) -> None:
    assert in_any_order(ask(*moved), ask(*reversed(moved))) == ()
