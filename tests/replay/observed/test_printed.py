"""What a command printed in another order is told, with the option that lets it (§16.6)."""

from pathlib import Path
from typing import Any

from tests.support.loops import for_each
from tests.support.watched import ask, record, replayed, result, says, talk, user

CALLS = says("", ("c1", "count", {"path": "a"}), ("c2", "count", {"path": "b"}))
MESSAGES = [user("Go."), CALLS, result("c1", "6"), result("c2", "4"), says("six and four")]
PRINTED = "6|4|six| and four|\n"


def _end(text: str) -> dict[str, Any]:
    return {"exit_code": 0, "stdout": text, "stdout_bytes": len(text)}


def _cause(tmp_path: Path, now: str, was: str = PRINTED) -> str:
    log = record(tmp_path / "a.jsonl", talk(*MESSAGES), output=_end(was))
    asked = [ask(*MESSAGES[:1]), ask(*MESSAGES[:4])]
    (found,) = replayed(log, asked, output=_end(now)).divergences
    return found.cause


def test_results_of_parallel_calls_that_are_printed_as_they_end_are_named(tmp_path: Path) -> None:
    cause = _cause(tmp_path, "4|6|six| and four|\n")

    assert (
        "the same words appear in a different order, in which these parallel calls ended: " in cause
    )
    assert 'count(path="a"), count(path="b")' in cause
    assert cause.endswith("--volatile output:words")


@for_each(
    "now, option",
    [
        ("6|4| and four|six|\n", "--volatile output:words"),  # of no call
        ("six and four\n6|4|\n", ""),
        ("4|5|six| and four|\n", ""),
    ],
)
def test_what_moved_otherwise_is_of_no_call(now: str, option: str, tmp_path: Path) -> None:
    """And an option is named where the words are the same."""
    cause = _cause(tmp_path, now)

    assert "parallel calls" not in cause
    assert cause.endswith(option or "its recorded answer")


def test_lines_are_suggested_before_words(tmp_path: Path) -> None:
    """What lets less pass: the calls are named all the same."""
    cause = _cause(tmp_path, "4\n6\n", was="6\n4\n")

    assert (
        'ended: count(path="a"), count(path="b"); to ignore that: --volatile output:lines' in cause
    )


@for_each("output", ["lines", "words", "letters"])
def test_a_changed_word_is_a_difference_in_any_order(output: str, tmp_path: Path) -> None:
    """And so are blanks between words, and a word that is there twice."""
    log = record(tmp_path / "a.jsonl", talk(*MESSAGES), output=_end("one two\nthree\n"))
    asked = [ask(*MESSAGES[:1]), ask(*MESSAGES[:4])]

    def said(text: str) -> bool:
        return replayed(log, asked, output=_end(text), how=output).identical

    assert said("three\none two\n")
    assert said("two one\nthree\n") == (output != "lines")
    assert said("ttwhro oeen\ne\n") == (output == "letters")
    for text in ("three\none twx\n", "three\none  two\n", "three\none two two\n", "three\n"):
        assert not said(text), text
