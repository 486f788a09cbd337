"""What a profile says of requests: who asks, and what says nothing (CONTRACT.md §16.13)."""

import json

import pytest

from refold.engine.observed.profile import Profile, Whose

PROFILE = Profile(
    name="P",
    thread=("x-turn/thread", "x-thread"),
    above=("x-above",),
    agent=("x-turn/name",),
    left_out=(r"<reminder>[^<]*</reminder>",),
)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-turn": json.dumps({"thread": "t", "name": "ann"})}, Whose("t", "", "ann")),
        ({"x-thread": "u", "x-above": "t"}, Whose("u", "t", "")),
        ({"x-turn": "no json", "x-thread": "u"}, Whose("u", "", "")),
        ({"x-turn": json.dumps({"thread": 3})}, Whose()),
        ({}, Whose()),
    ],
)
def test_requests_say_who_asks(headers: dict[str, str], expected: Whose) -> None:
    """By the first place that holds a text."""
    assert PROFILE.whose(lambda name: headers.get(name, "")) == expected


def test_what_says_nothing_is_left_out() -> None:
    assert PROFILE.plain("<reminder>date</reminder>\nCount words.\n") == "Count words."


def test_words_of_a_command_say_how_its_output_is_compared() -> None:
    """Claude Code prints the events of all its agents with `--output-format stream-json`."""
    known = Profile(name="P", outputs={"stream-json": "lines"})
    inside = ["bash", "-c", "p --output-format=stream-json | tee events"]

    assert known.printing(["p", "--output-format", "stream-json"]) == "lines"
    assert known.printing(inside) == "lines"
    assert known.printing(["p", "--output-format", "json"]) == ""
