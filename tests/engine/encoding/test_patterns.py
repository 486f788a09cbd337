import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.patterns import LINE_MAX, LINE_MIN, PatternRefusedError, compiled


@pytest.mark.parametrize(
    "pattern",
    [
        r"def \w+\(",
        "TODO|FIXME",
        "(?i)todo",
        r"\d{3}-\d{4}",
        "(ab)+c",
        "[]a]+",
        r"[^\]*+]{2,}\]",
        r"\(a\)+",
        "(?P<name>x)(?:y)?",
        "a{,",
        "",
    ],
)
def test_what_is_fast_may_look_at_whole_lines(pattern: str) -> None:
    """One loop or none costs little, whatever the line."""
    found = compiled(pattern)

    assert found.line_max == LINE_MAX
    assert found.expression.pattern == pattern


def test_more_loops_look_at_less_of_a_line() -> None:
    """So that the steps for one line stay the same."""
    sizes = [compiled(".*" * loops + "x").line_max for loops in range(5)]

    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes[1:])) == 4
    assert sizes[-1] >= LINE_MIN


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a+)+$", "repeats"),
        ("(a*){2,}", "repeats"),
        ("(a|aa)+$", "chooses"),
        ("((a?)b)*", "repeats"),
        ("(?:x{2,9})*", "repeats"),
        (r"(a)\1", "backreferences"),
        ("(?P<a>x)(?P=a)", "groups"),
        ("(?=a)", "groups"),
        ("a?" * 30 + "a" * 30, "too often"),
        ("(a|b)" * 40, "too often"),
        (".*" * 9, "too often"),
        ("(", "no regular expression"),
        ("a**", "no regular expression"),
        ("a{99999999999}", "no regular expression"),
    ],
)
def test_what_could_take_for_ever_is_refused(pattern: str, why: str) -> None:
    """With the reason, for whoever wrote it."""
    with pytest.raises(PatternRefusedError, match=why):
        compiled(pattern)


@given(st.text(alphabet="ab()[]{}|*+?^$.\\,01]-" + string.whitespace, max_size=12))
def test_any_text_is_taken_or_refused(pattern: str) -> None:
    """Nothing else comes out; what is taken is what Python takes."""
    try:
        found = compiled(pattern)
    except PatternRefusedError:
        return

    assert found.expression == re.compile(pattern)
    assert LINE_MIN <= found.line_max <= LINE_MAX


@pytest.mark.parametrize("pattern", [".*.*x", "a*a*a*b", "(a|a)(a|a)(a|a)a*a*b", "a?a?a?a?a*a*b"])
def test_the_worst_line_ends(pattern: str) -> None:
    """The longest line that a pattern may look at, made to fail late, is over soon."""
    found = compiled(pattern)

    assert found.expression.search("a" * found.line_max) is None
