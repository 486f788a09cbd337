import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.patterns import (
    LINE_MAX,
    LINE_MIN,
    PatternRefusedError,
    compiled,
    glob_of,
)
from tests.support.loops import for_each, some


@for_each(
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
        "(ab|b|cd)" * 40,
        "(Mon|Tues|Sun)day,? [0-9]{1,2} [a-z]*",
        "a" * 4096,
        "([0-9a-f]{2}:){5}[0-9a-f]{2}",
        "(?:){100}",
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


@for_each(
    "pattern, why",
    [
        ("(a+)+$", "itself repeated"),
        ("(a*){2,}", "itself repeated"),
        ("(a|aa)+$", "itself repeated"),
        ("((a?)b)*", "itself repeated"),
        ("(?:x{2,9})*", "itself repeated"),
        (r"(a)\1", "backreferences"),
        ("(?P<a>x)(?P=a)", "groups"),
        ("(?=a)", "groups"),
        ("a?" * 30 + "a" * 30, "too many repeats"),
        ("(a|a)" * 40, "too many repeats"),
        ("(a|ab)" * 40, "too many repeats"),
        ("(a|[ab])" * 40, "too many repeats"),
        ("a{1,8}" * 20, "too many repeats"),
        (".*" * 9, "too many repeats"),
        ("(", "not a regular expression"),
        ("(?:(?:){65535}){65535}", "too many repeats"),
        ("a" * 4097, "expected at most 4096 characters, found 4097"),
        ("a**", "not a regular expression"),
        ("a{99999999999}", "not a regular expression"),
    ],
)
def test_what_could_take_for_ever_is_refused(pattern: str, why: str) -> None:
    """With the reason, for whoever wrote it."""
    with pytest.raises(PatternRefusedError, match=why):
        compiled(pattern)


@for_each(
    "pattern, path, fits",
    [
        ("*.py", "src/a.py", True),
        ("src/*", "src/a.py", True),
        ("a*/b", "b", False),
        ("*.PY", "a.py", False),
        ("[" * 256, "[" * 256, True),
    ],
)
def test_a_shell_pattern_is_for_names_or_for_paths(pattern: str, path: str, fits: bool) -> None:  # noqa: FBT001 - a table
    """For paths where it has a `/`."""
    assert glob_of(pattern)(path) is fits


@for_each("part", ["[", "[!", "[a-", "*", "*a"])
def test_a_long_shell_pattern_is_refused(part: str) -> None:
    """`fnmatch` takes two minutes to read 60,000 brackets."""
    with pytest.raises(PatternRefusedError, match="at most 256 characters, found 60000"):
        glob_of(part * (60_000 // len(part)))


@given(st.text(alphabet="ab()[]{}|*+?^$.\\,01]-" + string.whitespace, max_size=12))
def test_any_text_is_taken_or_refused(pattern: str) -> None:
    """Nothing else comes out; what is taken is what Python takes."""
    try:
        found = compiled(pattern)
    except PatternRefusedError:
        return

    assert found.expression == re.compile(pattern)
    assert LINE_MIN <= found.line_max <= LINE_MAX


@pytest.mark.parametrize(
    "pattern", some(2, [".*.*x", "a*a*a*b", "(a|a)(a|a)(a|a)a*a*b", "a{1,3}a{,5}a?a*b"])
)
def test_the_worst_line_ends(pattern: str) -> None:
    """The longest line that a pattern may look at, made to fail late, is over soon."""
    found = compiled(pattern)

    assert found.expression.search("a" * found.line_max) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}-\d\d-\d\d", r"req_[a-z0-9]+", r"data:[^;]*", r"\d+$", "^b", "é",
        r"r?eq_[0-9a-z]+", "req_|b", r"data*:", r"data{1}:x+", r"\; \d+", r"; é\n", "(?i)DATA",
    ],
)  # fmt: skip
def test_matches_are_replaced_in_texts_of_any_length(pattern: str) -> None:
    """As Python does it, though a long text is looked at piece by piece; ends are those of all."""
    text = ("b req_0af 2026-11-22 " * 40 + "data:" + "x" * 700 + "; é\n") * 20 + "17"
    text += " " * (LINE_MAX // 2) + "data:" + "x" * 20_000 + "; 2026"
    for each in (text, text[:2000], text + "17" * 3000, text * 20):
        assert compiled(pattern).replaced(each, "[x]") == re.sub(pattern, "[x]", each)


@pytest.mark.parametrize(("length", "is_found"), [(100_000, True), (120_000, False)])
def test_a_text_may_be_too_long_for_a_pattern(length: int, is_found: bool) -> None:  # noqa: FBT001 - a table
    """Two loops cost n^2 / 6 steps for each letter: at 120,000 of them, n would be below 80."""
    text = "x" * (length // 2)

    replaced = compiled("b*c*d").replaced(f"{text}bcd{text}", "[x]")

    assert replaced == text + ("[x]" if is_found else "bcd") + text


@pytest.mark.parametrize(
    "pattern", some(1, ["a*a*a*b", "a*b", "(a|a)(a|a)(a|a)a*a*b", "a?a?a?a?a*a*b"])
)
def test_in_the_worst_text_they_are_as_well(pattern: str) -> None:
    """In bounded time; where that finds nothing, the text stays."""
    began, text = time.process_time(), "a" * 100_000

    assert compiled(pattern).replaced(text, "[x]") == text
    assert time.process_time() - began < 20


@for_each("pattern", ["ba*a*c", "baba*a*c", "aa*a*a*c"])
def test_behind_a_beginning_they_are_as_well(pattern: str) -> None:
    """However often that stands there."""
    for text in ("a" * 100_000, "ba" * 50_000, "b" + "a" * 100_000):
        began = time.process_time()

        assert compiled(pattern).replaced(text, "[x]") == text
        assert time.process_time() - began < 20


def test_what_begins_with_a_text_is_found_in_a_text_of_any_length() -> None:
    """Windows stand only where that stands; it may be of any signs but for a repeated one."""
    for pattern in (r'"took": ?\d+\.\d+(e-?\d+)?', r"\[took\] \w+\d+ \w+", r"to{1}ok+ \d+"):
        text = '"took": 1.5e-7 [took] a1 b took 17'

        replaced = compiled(pattern).replaced("x" * 300_000 + text + "1 " * 300_000, "[x]")

        assert replaced == "x" * 300_000 + re.sub(pattern, "[x]", text + "1 " * 300_000)


@for_each(
    "pattern, choices", [("(a|aa)", 2), ("(a|aa|aaa)", 3), ("(a|aa)(a|aa)", 4), ("a|aa|b", 3)]
)
def test_choices_multiply(pattern: str, choices: int) -> None:
    """Each branch that may begin as another does is one."""
    assert compiled(pattern).choices == choices
