"""What is not compared, and when two requests are the same (CONTRACT.md §16.6, §16.7)."""

from typing import Any

import pytest

from refold.engine.errors import UsageError
from refold.engine.observed.volatile import VolatileRules, match_key
from refold.engine.wire.parts.exchange import Asked
from tests.support.loops import for_each


def _asked(text: str = "Today is 2026-01-02.", **more: Any) -> Asked:
    message = {"role": "user", "content": text}
    return Asked(**{"api": "chat", "model": "gpt", "messages": (message,), **more})


def test_nothing_is_ignored_by_default() -> None:
    """Whatever differs."""
    asked = _asked()

    assert match_key(VolatileRules().applied(asked)) == match_key(asked)
    assert match_key(asked) != match_key(_asked("Today is 2026-01-03."))
    assert match_key(asked) != match_key(_asked(model="other"))
    assert match_key(asked) != match_key(_asked(api="responses"))
    assert match_key(asked) != match_key(_asked(parameters={"user": "1"}))
    assert match_key(asked) != match_key(_asked(tools=({"name": "f"},)))


def test_a_text_rule_makes_its_matches_equal() -> None:
    """And nothing else."""
    rules = VolatileRules(texts=[r"\d{4}-\d\d-\d\d"])
    keys = [
        match_key(rules.applied(_asked(text)))
        for text in ("Today is 2026-01-02.", "Today is 2026-11-21.", "Today is Monday.")
    ]

    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("path", ["model:gpt/parameters/user", "model:*/parameters/user"])
def test_a_place_is_not_compared(path: str) -> None:
    """Of the models that it names."""
    rules = VolatileRules([path])
    one, two = _asked(parameters={"user": "1", "n": 1}), _asked(parameters={"user": "2", "n": 1})

    assert match_key(rules.applied(one)) == match_key(rules.applied(two))
    assert match_key(rules.applied(one)) != match_key(
        rules.applied(_asked(parameters={"user": "1", "n": 2}))
    )


def test_a_place_of_another_model_is_compared() -> None:
    """Names are not prefixes."""
    rules = VolatileRules(["model:gp/parameters/user"])

    assert rules.applied(_asked(parameters={"user": "1"})) == _asked(parameters={"user": "1"})


def test_rules_are_listed_and_joined() -> None:
    """Each once."""
    one = VolatileRules(["model:*/parameters/user"], ["a+"])

    assert one.plus(VolatileRules(["model:*/parameters/user"], ["b+"])).as_json() == {
        "volatile": ["model:*/parameters/user"],
        "volatile_texts": ["a+", "b+"],
    }
    assert VolatileRules().as_json() == {}


@for_each(
    "rules",
    [{"paths": ["parameters/user"]}, {"texts": ["("]}, {"texts": ["x*"]}, {"texts": ["(a+)+b"]}],
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, Any]) -> None:
    """A place of nothing, a pattern that is none, a pattern that matches everywhere."""
    with pytest.raises(UsageError):
        VolatileRules(**rules)


def test_what_a_record_lists_and_nobody_would_take_is_left_out_and_said() -> None:
    """An earlier version took patterns that could take for ever; more is compared without them."""
    rules, notes = VolatileRules.recorded(
        {"volatile": ["model:*/parameters/user"], "volatile_texts": ["(a+)+b", "[0-9]+", 5, ""]}
    )

    assert rules == VolatileRules(["model:*/parameters/user"], ["[0-9]+"])
    assert len(notes) == 3
    assert (
        "'(a+)+b' is not used: a group with a repeat or alternatives is itself repeated" in notes[0]
    )
    assert all("--volatile text:" in note for note in notes)
