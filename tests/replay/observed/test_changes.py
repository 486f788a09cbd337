"""What two requests differ in is told by messages, tools and parameters."""

import attrs
import pytest

from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.changes import change_of, item_of, may_use_network
from tests.support.loops import for_each
from tests.support.watched import ask, result, says, system, user

CALLS = (("c1", "look", {"at": "a"}), ("c2", "look", {"at": "b"}))
BEFORE = ask(system("S"), user("U"), says("", *CALLS), result("c1", "one"), result("c2", "two"))


def with_messages(*messages: dict[str, object]) -> Asked:
    """Return the request with other messages."""
    return ask(*messages)


@for_each(
    "command, was, now, may",
    [
        ("cd /srv/app && make && curl -s example.org", "page", "", True),
        ("pip install x", "done", "error", True),
        ("git pull", "up to date", "fatal", True),
        ("make deps", "done", "npm ERR! getaddrinfo EAI_AGAIN", True),
        ("cat notes", "one", "two", False),
        ("git status", "one", "two", False),
    ],
)
def test_a_call_that_may_have_used_the_network(
    command: str, was: str, now: str, *, may: bool
) -> None:
    """By its words, or by the error that it got; only the call whose result differs."""
    calls = says("", ("c1", "Bash", {"command": command}), ("c2", "Bash", {"command": "curl x"}))
    then, here = (
        ask(user("U"), calls, result("c1", text), result("c2", "same")) for text in (was, now)
    )

    found = change_of(then, here, "0/1#1")

    assert may_use_network(found.diff, item_of(here, "0/1#1")) is may


@for_each(
    "at, message, cause",
    [
        (0, system("T"), "the system prompt was changed"),
        (1, user("V"), "the prompt was changed (message 1)"),
        (2, says("x", *CALLS), "the program sends back a changed answer of the model (message 2)"),
        (3, result("c1", "three"), 'the tool look(at="a") returned something else (message 3)'),
        (4, result("c2", "three"), 'the tool look(at="b") returned something else (message 4)'),
        (1, system("U"), "message 1 has a different role: user → system"),
    ],
)
def test_the_role_of_a_message_says_what_was_changed(
    at: int, message: dict[str, object], cause: str
) -> None:
    """And only that message is shown."""
    messages = list(BEFORE.messages)
    messages[at] = message

    found = change_of(BEFORE, ask(*messages), "0/1#1")

    assert found.cause == cause
    assert found.texts[0].what.startswith(f"message {at} (")


def test_results_in_another_order_are_no_other_results() -> None:
    """Parallel tools ended otherwise."""
    *before, one, two = BEFORE.messages

    found = change_of(BEFORE, ask(*before, two, one), "0/1#1")

    assert found.cause == "the same messages are in a different order, from message 3 on"


def test_messages_that_changed_places_are_told_with_the_option_that_lets_them() -> None:
    """A program puts down as they come what parallel agents report."""
    one, two = user("Report of a: done."), user("Report of b: done.")

    found = change_of(ask(user("U"), one, two), ask(user("U"), two, one), "0/1#1")

    assert found.cause.startswith("the same messages are in a different order, from message 1 on; ")
    assert found.cause.endswith("--volatile 'order:Report of '")


def test_several_changes_are_told_together() -> None:
    """At most three of a kind, and how many more."""
    now = ask(*({**each, "content": "x"} for each in BEFORE.messages), temperature=1)

    found = change_of(BEFORE, now, "0/1#1")

    assert found.cause.count(";") == 4
    assert "and 2 messages more" in found.cause
    assert found.cause.endswith("the parameter temperature was added: 1")


def test_another_interface_is_told_before_what_follows_from_it() -> None:
    """The same conversation, in the words of another provider's."""
    found = change_of(BEFORE, attrs.evolve(BEFORE, api="messages"), "0/1#1")

    assert found.cause == "the API changed: chat → messages"


DATED = ask(system("Today is 2024-01-02."), user("Plan."))


@pytest.mark.parametrize(
    ("question", "told"),
    [("Plan.", "it looks like a date"), ("Plan a day.", "part of it looks like a date")],
)
def test_what_could_be_ignored_is_said_of_all_or_of_a_part(question: str, told: str) -> None:
    """With what leaves it out: matched in both, so that it says nothing of which is which."""
    now = ask(system("Today is 2025-03-04."), user(question))

    cause = change_of(DATED, now, "0/1#1").cause

    assert f"; {told}" in cause
    assert "--volatile 'text:" in cause


def test_how_many_messages_more_there_are_is_said() -> None:
    more = [user(str(at)) for at in range(3)]
    causes = [
        change_of(BEFORE, attrs.evolve(BEFORE, messages=(*BEFORE.messages, *more[:count])), "0/1#1")
        .cause for count in (1, 2, 3)
    ]  # fmt: skip

    assert [" after it" in cause for cause in causes] == [False, True, True]
    assert "and 1 message after it" in causes[1]


def test_tools_that_have_no_names_are_compared_by_place() -> None:
    """As of a server's own tools."""
    one, other = ask(user("x"), tools=[{"type": "a"}]), ask(user("x"), tools=[{"type": "b"}])

    found = change_of(one, other, "0/1#1")

    assert found.cause == "the tools offered were changed"
    assert [each.pointer for each in found.diff] == ["/arguments/tools/0/type"]


def test_tools_in_another_order_are_another_request() -> None:
    """Their order is part of what the model sees."""
    one = ask(user("x"), tools=[{"name": "a"}, {"name": "b"}])
    other = ask(user("x"), tools=[{"name": "b"}, {"name": "a"}])

    found = change_of(one, other, "0/1#1")

    assert found.cause == (
        "the same 2 tools are offered in a different order; if the order is random, ignore it "
        "with --volatile 'order:model:*/tools'"
    )
    (place,) = found.diff
    assert str(place) == "/arguments/tools: the same 2 items in a different order"


def test_a_set_in_another_order_is_said_to_be_that() -> None:
    """The lines of a system prompt, and the values of an argument; the rules make them equal."""
    skills = [f"- {name}\n" for name in ("draw", "sing", "walk")]
    asked = [
        ask(
            system("Skills:\n" + "".join(each)),
            user("x"),
            tools=[{"name": "go", "schema": {"enum": each}}],
        )
        for each in (skills, skills[::-1])
    ]

    found = change_of(asked[0], asked[1], "0/1#1")

    assert found.cause == (
        "the system prompt says the same 4 lines in a different order; "
        "the definition of the tool go was changed (/schema/enum: the same 3 items in a different "
        "order); if the order is random, ignore it with "
        "--volatile 'order:model:*/messages/0/content' "
        "--volatile 'order:model:*/tools/*/schema/enum'"
    )
    assert [each.lines for each in found.texts] == [(" the same 4 lines in a different order",)]
    rules = VolatileRules(unordered=["model:*/messages/0/content", "model:*/tools/*/schema/enum"])
    assert rules.applied(asked[0]) == rules.applied(asked[1])
    assert rules.applied(asked[0]) != rules.applied(ask(system("Skills:\n- draw"), user("x")))


def test_an_item_holds_the_whole_request() -> None:
    """For machines."""
    item = item_of(ask(user("x"), temperature=1), "0/1#1")

    assert item["arguments"] == {
        "added": [user("x")],
        "api": "chat",
        "parameters": {"temperature": 1},
        "tools": [],
    }
