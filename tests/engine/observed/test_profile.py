"""What a profile says of requests: who asks, and what says nothing (CONTRACT.md §16.13)."""

import json

from refold.engine.observed.profile import Profile, Whose
from refold.proxy.profiles import shipped
from tests.support.loops import for_each

PROFILE = Profile(
    name="P",
    thread=("x-turn/thread", "x-thread"),
    above=("x-above",),
    agent=("x-turn/name",),
    left_out=(r"<reminder>[^<]*</reminder>",),
)


@for_each(
    "headers, expected",
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


@for_each("pattern", ["(a+)+$", "(a|a)*$", "a*a*a*a*a*!", "[z-a]", "("])
def test_a_pattern_of_a_log_that_takes_for_ever_is_left_out(pattern: str) -> None:
    """Anybody can have written a log: names are longer then, and nothing hangs."""
    letters = "a" * 5000 + "?"
    told = {"name": "a", "left_out": [pattern, "b+"], "asides": [pattern, "aa"]}

    profile = Profile.in_rules({"profile": told})

    assert profile.plain(f"{letters}bb") == letters
    assert profile.is_aside(letters)


def test_the_patterns_of_our_profiles_are_all_taken_from_logs() -> None:
    """None that an earlier version wrote is left out."""
    for profile in shipped():
        again = Profile.in_rules(json.loads(json.dumps({"profile": profile.as_json()})))
        for name in ("left_out", "asides", "failures"):
            assert getattr(again, name) == getattr(profile, name)
