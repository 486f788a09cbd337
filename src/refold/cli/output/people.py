"""Asks people, and reads their answers on the command line.

An answer is a JSON value, a file of one (`@FILE`), or a text. Open questions are listed with the
options that settle them, ready to paste. Rules: CONTRACT.md §9.9, §14.
"""

import contextlib
import functools
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from refold.cli.output import output
from refold.engine.encoding.canonical import Json, loads
from refold.engine.errors import AnswerRefused, Unanswered, UsageError
from refold.engine.log.reader import scan
from refold.engine.plain_files import plain_file
from refold.engine.ports.people import check_answer
from refold.engine.ports.ports import Question
from refold.replay.resume.open_ends import Doubt, open_ends

_INDENT: Final = "    "


def parse_decisions(
    option: str,
    given: Mapping[str, str],
    fits: Callable[[str, Json], object] = lambda _key, _value: None,
) -> dict[str, Json]:
    """Parse the JSON, `@FILE` or text that an option gives to each key.

    `fits` raises AnswerRefused for a value of the wrong type. JSON that does not fit is a text, if
    that fits: `4711` where a text is expected.

    Raises:
        AnswerRefused: as of `fits`.
        UsageError: a file cannot be read.
    """
    return {
        key: _value(text.strip(), f"{option} {key}", functools.partial(fits, key))
        for key, text in given.items()
    }


def answers(given: Mapping[str, str], log: Path) -> dict[str, Json]:
    """Parse `--answer`; `yes` and `no` answer a question that expects a boolean.

    Raises:
        AnswerRefused: the log has no such open question.
        UsageError: as for `parse_decisions`.
    """
    open_questions = {each.key: each for each in open_ends(log).questions} if given else {}

    def fits(key: str, answer: Json) -> None:
        if key in open_questions:
            answer = _as_boolean(open_questions[key], answer)
            check_answer(open_questions[key], answer)
        elif not scan(log).ended:
            raise AnswerRefused(key, ", ".join(open_questions) or "none", "")

    found = parse_decisions("--answer", given, fits)
    return {
        key: _as_boolean(open_questions[key], answer) if key in open_questions else answer
        for key, answer in found.items()
    }


def _value(text: str, place: str, fits: Callable[[Json], object]) -> Json:
    if text.startswith("@"):
        path = Path(text[1:])
        try:
            text = plain_file(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"{place}: {output.shown_path(path)}: {why}") from None
    value = value_of(text)
    if isinstance(value, str) and text[:1] in ("{", "[", '"') and value == text:
        output.hint(f"{place} is not valid JSON, so it was taken as a text: {text:.60}")
    return fitting(text, fits)


def fitting(text: str, fits: Callable[[Json], object]) -> Json:
    """Return the JSON value of a text, or the text itself, if only that fits.

    Raises:
        AnswerRefused: neither fits; `fits` raises it.
    """
    value = value_of(text)
    try:
        fits(value)
    except AnswerRefused as refused:
        try:
            fits(text)
        except AnswerRefused:
            raise refused from None
        return text
    return value


def value_of(text: str) -> Json:
    """Return a JSON value; anything else is a text."""
    try:
        return loads(text.encode())
    except ValueError:
        return text


# --- asking ----------------------------------------------------------------------------------


_at_the_terminal: Final = threading.Lock()
"""Questions come from several threads, and are asked one after the other."""


def ask(question: Question) -> Json:
    """Ask at the terminal until the answer fits; an empty line leaves the question open.

    Raises:
        Unanswered: an empty line, or the end of the input.
    """
    with _at_the_terminal:
        output.hint(f"\n{question.key}  {question.question}")
        fits = f"expected: {expected(question)}; " if question.schema is not None else ""
        output.hint(f"{fits}an empty line leaves the question open")
        while True:
            try:
                answer = _fitting(question, _typed())
            except AnswerRefused as refused:
                output.complain(f"{refused.found}; expected {refused.expected}")
            else:
                return answer


def _typed() -> str:
    """Return the next line of the terminal.

    Raises:
        Unanswered: it is empty.
    """
    sys.stderr.write("> ")
    sys.stderr.flush()
    line = sys.stdin.readline().strip()
    if not line:
        raise Unanswered("left open at the terminal")
    return line


def asked(questions: Iterable[Question]) -> dict[str, Json]:
    """Return answers to questions that nobody was asked yet, by key."""
    found: dict[str, Json] = {}
    for question in questions:
        if not question.problem:
            with contextlib.suppress(Unanswered):
                found[question.key] = ask(question)
    return found


def _fitting(question: Question, text: str) -> Json:
    """Return the typed answer: `y` and `no` are a boolean if one is asked for."""
    if isinstance(answer := _as_boolean(question, text), bool):
        return answer
    return fitting(text, functools.partial(check_answer, question))


def _as_boolean(question: Question, answer: Json) -> Json:
    is_boolean = (question.schema or {}).get("type") == "boolean" and isinstance(answer, str)
    return _WORDS.get(answer.lower(), answer) if is_boolean else answer


_WORDS: Final = {"y": True, "yes": True, "n": False, "no": False}


def _choices(question: Question) -> list[str]:
    """Return the answers that fit, as JSON, if there is a list of them."""
    schema = question.schema or {}
    listed = [True, False] if schema.get("type") == "boolean" else schema.get("enum")
    return [_json(each) for each in listed] if isinstance(listed, list) else []


def expected(question: Question) -> str:
    """Return what answers fit, for people."""
    schema = _json(question.schema or {})
    return " or ".join(_choices(question)) or f"a value that matches the schema {schema}"


# --- listing ---------------------------------------------------------------------------------


def describe_questions(questions: Iterable[Question]) -> None:
    """Print questions, each with the options that answer it."""
    for question in questions:
        output.line("  ", (question.key, "bold"), f"  {question.question}")
        if question.problem:
            output.line(f"  {_INDENT}not answered: {question.problem}")
        if question.schema is not None:
            output.line(f"  {_INDENT}expected: {expected(question)}")
        output.line(f"  {_INDENT}{'   or   '.join(_answers(question))}")


def lines_of_doubts(doubts: Iterable[Doubt]) -> list[str]:
    """Return lines that name effects in doubt, each with the options that decide it."""
    found: list[str] = []
    for doubt in doubts:
        options = [_option("--settle", f"{doubt.key}={how}") for how in _SETTLED]
        found += [f"  {doubt}", f"  {_INDENT}{'   or   '.join(options)}"]
    return found


_SETTLED: Final = ("retry", "fail", "result:JSON")


def _answers(question: Question) -> list[str]:
    is_text = not question.schema or question.schema.get("type") == "string"
    values = _choices(question) or ["TEXT" if is_text else "JSON"]
    return [_option("--answer", f"{question.key}={value}") for value in values]


def _option(name: str, value: str) -> str:
    return f"{name} {shlex.quote(value)}"


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
