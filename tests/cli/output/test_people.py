"""Answers are read from options and from a terminal; what is open is listed (§9.9, §14)."""

from pathlib import Path
from typing import Any

import pytest

from refold.cli.output.people import (
    ask,
    asked,
    describe_questions,
    expected,
    lines_of_doubts,
    parse_decisions,
)
from refold.engine.errors import Unanswered, UsageError
from refold.engine.ports.ports import Question
from refold.replay.resume.open_ends import Doubt
from tests.support.loops import for_each


def _question(schema: dict[str, Any] | None = None, problem: str = "") -> Question:
    return Question(key="0#1 > 0#2", question="Which\x1b[2J?", schema=schema, problem=problem)


@for_each(
    "text, value",
    [("1", 1), ('"1"', "1"), ("yes", "yes"), ("", ""), ('{"a":[1]}', {"a": [1]}), ("a=b", "a=b")],
)
def test_a_value_is_json_or_the_text_that_it_is(text: str, value: object) -> None:
    assert parse_decisions("--answer", {"0#1 > 0#2": text}) == {"0#1 > 0#2": value}


@pytest.mark.parametrize("text", ['{"a":', "[1,", '"a', "{", "[draft] Hello"])
def test_what_only_begins_like_json_is_said_to_be_a_text(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bracket was forgotten, or a shell took the quotes."""
    parse_decisions("--set", {"0#2": "a{", "0#3": '"{"', "0#1": text})

    told = f"--set 0#1 is not valid JSON, so it was taken as a text: {text}\n"
    assert capsys.readouterr().err == told


def test_a_file_that_is_not_there_is_named_with_its_option() -> None:
    with pytest.raises(UsageError, match=r"^--set 0#1: none\.json: No such file or directory$"):
        parse_decisions("--set", {"0#1": "@none.json"})


def test_a_file_holds_one_value(tmp_path: Path) -> None:
    """`@FILE`."""
    (tmp_path / "a").write_text('{"b": 1}\n')

    assert parse_decisions("--settle", {"0#1": f"@{tmp_path / 'a'}"}) == {"0#1": {"b": 1}}


@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        (None, "5\n", 5),
        (None, "five\n", "five"),
        ({"type": "boolean"}, "Yes\n", True),
        ({"type": "boolean"}, "perhaps\nn\n", False),
        ({"type": "string"}, "12\n", "12"),
        ({"type": "integer"}, "x\n12\n", 12),
    ],
)
def test_a_terminal_is_asked_until_the_answer_fits(
    schema: dict[str, Any] | None,
    typed: str,
    answer: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everything on standard error, and no control character of the question's."""
    monkeypatch.setattr("sys.stdin", _lines(typed))

    assert ask(_question(schema)) == answer
    shown = capsys.readouterr()
    assert "\x1b" not in shown.err
    assert (shown.out, "Which" in shown.err) == ("", True)


def test_an_empty_line_leaves_the_question_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the end of the input does; and a question left open is not asked again."""
    monkeypatch.setattr("sys.stdin", _lines("\n"))
    with pytest.raises(Unanswered):
        ask(_question())
    with pytest.raises(Unanswered):
        ask(_question())

    monkeypatch.setattr("sys.stdin", _lines("5\n6\n"))
    assert asked([_question(problem="left open")]) == {}
    assert asked([_question(problem="left open"), _question()]) == {"0#1 > 0#2": 5}


def _lines(text: str) -> Any:
    from io import StringIO  # noqa: PLC0415 - of this helper

    return StringIO(text)


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (None, ["--answer '0#1 > 0#2=TEXT'"]),
        ({"type": "integer"}, ["--answer '0#1 > 0#2=JSON'"]),
        ({"type": "boolean"}, ["--answer '0#1 > 0#2=true'", "--answer '0#1 > 0#2=false'"]),
        ({"enum": ["a b", 1]}, ["--answer '0#1 > 0#2=\"a b\"'", "--answer '0#1 > 0#2=1'"]),
    ],
)
def test_questions_are_listed_with_their_answers(
    schema: dict[str, Any] | None, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ready for a shell."""
    describe_questions([_question(schema, problem="nobody")])

    shown = capsys.readouterr().out
    assert "   or   ".join(options) in shown
    assert "not answered: nobody" in shown
    assert "\x1b" not in shown


def test_doubts_are_listed_with_three_decisions() -> None:
    """Retry, fail, result."""
    lines = lines_of_doubts([Doubt(key="0#1", tool="pay", arguments={"n": 1})])

    assert lines[0] == "  0#1  pay(n=1)"
    assert lines[1].split("   or   ")[2] == "--settle '0#1=result:JSON'"


def test_what_is_expected_is_said_in_words() -> None:
    """Where there is a short way."""
    assert expected(_question({"type": "boolean"})) == "true or false"
    assert expected(_question({"enum": ["a", 1]})) == '"a" or 1'
    assert "integer" in expected(_question({"type": "integer"}))
