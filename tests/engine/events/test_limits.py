"""Limits only narrow, and nonsense is none (CONTRACT.md §8)."""

import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.errors import LimitRefused
from refold.engine.events.limits import CEILINGS, Limits
from tests.support.loops import for_each

NAMES = [field.name for field in attrs.fields(Limits)]
SECONDS = ("timeout_seconds", "join_seconds")
SOME = st.builds(
    Limits,
    **{name: st.none() | st.integers(int(name != "max_depth"), 5) for name in NAMES},
)


def caps(limits: Limits) -> list[float]:
    """Return all caps, no cap as infinity."""
    found = (getattr(limits, name) for name in NAMES)
    return [float("inf") if cap is None else cap for cap in found]


def test_the_contract_names_every_limit() -> None:
    """§8: who adds a cap says there what it caps."""
    contract = (Path(__file__).parents[3] / "CONTRACT.md").read_text(encoding="utf-8")
    section = contract.partition("\n## §8 ")[2].partition("\n**§8.1 ")[0]

    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == NAMES


def test_the_page_on_subagents_names_every_limit() -> None:
    page = (Path(__file__).parents[3] / "docs/subagents.md").read_text(encoding="utf-8")
    table = page.partition("| limit | what it limits |")[2].partition("\n\n")[0]
    firsts = " ".join(row.split("|")[1] for row in table.splitlines() if "|" in row)

    assert set(re.findall(r"`(\w+)`", firsts)) == set(NAMES)


@settings(deadline=None)
@given(SOME, SOME)
def test_narrowing_takes_the_tighter_cap_of_each(one: Limits, other: Limits) -> None:
    """Cap by cap, whichever way round; no cap is the widest."""
    narrowed = one.narrowed(other)

    assert narrowed == other.narrowed(one)
    assert caps(narrowed) == [min(pair) for pair in zip(caps(one), caps(other), strict=True)]


@settings(deadline=None)
@given(SOME, SOME, SOME)
def test_narrowing_again_changes_nothing_more(one: Limits, other: Limits, third: Limits) -> None:
    """In any order and grouping."""
    assert one.narrowed(other).narrowed(third) == one.narrowed(other.narrowed(third))
    assert one.narrowed(one) == one


@settings(deadline=None)
@given(SOME)
def test_limits_come_back_from_a_log(limits: Limits) -> None:
    """Caps that are not set are not written."""
    written = limits.as_json()

    assert None not in written.values()
    assert Limits.from_json(written) == limits


@settings(deadline=None)
@given(SOME)
def test_a_root_gets_the_ceilings_where_it_says_nothing(limits: Limits) -> None:
    """§8.1: and what it says stands, above a ceiling or below."""
    completed = limits.completed(CEILINGS)

    for name in NAMES:
        own = getattr(limits, name)
        assert getattr(completed, name) == (getattr(CEILINGS, name) if own is None else own)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cap", [-1, True, "3", float("nan"), float("inf"), [1]])
def test_nonsense_is_no_limit(name: str, cap: Any) -> None:
    """Neither negative nor a flag, a text or no number."""
    with pytest.raises(LimitRefused) as caught:
        Limits.from_json({name: cap})

    assert caught.value.limit == name


@for_each("name", NAMES)
def test_zero_is_a_limit_where_nothing_may_be_started(name: str) -> None:
    """For depth and children; all else needs at least something."""
    if name in ("max_depth", "max_children"):
        assert Limits.from_json({name: 0}).as_json() == {name: 0}
    else:
        with pytest.raises(LimitRefused):
            Limits.from_json({name: 0})


@for_each("name", [name for name in NAMES if name not in (*SECONDS, "cost_usd")])
def test_only_seconds_and_money_have_fractions(name: str) -> None:
    """Counts and bytes are integers."""
    with pytest.raises(LimitRefused):
        Limits.from_json({name: 1.5})


def test_an_unknown_limit_is_refused_by_name() -> None:
    """With the names that there are."""
    with pytest.raises(LimitRefused, match=r"max_depht.*one of .*max_depth"):
        Limits.from_json({"max_depht": 1})
