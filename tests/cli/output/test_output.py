"""No content can send a terminal anything but printable characters, nor be read as markup."""

import contextlib
import io
import json
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from refold.cli.output import output

EVIL = (
    "\x1b[31mred\x1b]0;title\x07\x9b31m\x85\x7f\r\n\t\x08\x0e"
    "\u202eltr\u2066\u200b\u200f\u2028\u2029\ufeff\xad\U000e0041\ud800[bold]x[/bold]"
)


def test_safe_text_is_printable_and_on_one_line() -> None:
    shown = output.safe(EVIL)

    assert shown.isprintable()
    assert r"\x1b[31mred" in shown
    assert "[bold]x[/bold]" in shown
    assert output.safe("caf\u00e9\n") == "caf\u00e9\\n"


def test_ordinary_text_stays_as_it_is() -> None:
    assert output.safe("tides ✓ 潮 é — ok") == "tides ✓ 潮 é — ok"


def test_a_line_holds_content_as_it_is_and_nothing_of_it_is_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.line(EVIL, (EVIL, "red"))

    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said[:-1].isprintable()
    assert said.count("[bold]x[/bold]") == 2


@pytest.mark.parametrize(
    ("columns", "shown"),
    [("40", f"{'x' * 39}…"), ("", f"{'x' * 79}…"), ("0", "x" * 100), ("100", "x" * 100)],
)
@pytest.mark.parametrize("color", ["", "1"])
def test_a_line_may_be_cut_to_a_terminal_and_the_same_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    columns: str,
    shown: str,
    color: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", color)

    output.line("x" * 100, cut=True)

    assert capsys.readouterr().out == f"{shown}\n"


def test_a_complaint_goes_to_standard_error_and_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    output.complain(EVIL)

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err[:-1].isprintable()


def test_what_is_told_beside_an_answer_goes_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.note("beside it")

    assert capsys.readouterr() == ("", "beside it\n")


def test_several_lines_keep_their_ends_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    output.lines("one\n\ttwo\x1b\nthree")

    assert capsys.readouterr().out == "one\n        two\\x1b\nthree\n"


def test_a_document_is_ascii_and_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    output.document({"text": EVIL, "n": 1})

    said = capsys.readouterr().out
    assert said.isascii()
    assert all(each.isprintable() for each in said.splitlines())
    assert json.loads(said) == {"text": EVIL, "n": 1}


def test_columns_are_aligned_by_cells_and_not_by_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.table([["name", "is"], ["潮", "x"], ["tide", "y"]])

    assert capsys.readouterr().out == "name  is\n潮    x\ntide  y\n"


def test_a_path_that_is_no_text_can_be_told() -> None:
    assert output.shown_path("a\udcff.jsonl") == r"a\xff.jsonl"


def test_what_others_print_meanwhile_is_no_part_of_the_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with output.stdout_kept():
        sys.stdout.write("chatter\n")

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "chatter\n")


def test_a_wrapped_text_is_whole_and_indented_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    monkeypatch.setenv("COLUMNS", "40")
    output.wrapped(["    "], text)
    assert capsys.readouterr().out == f"    {text}\n"

    monkeypatch.setenv("FORCE_COLOR", "1")
    output.wrapped(["    "], (text, "red"))

    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert all(line.startswith("    ") and len(line) <= 40 for line in said)
    assert " ".join(line.strip() for line in said) == text


@pytest.mark.parametrize("name", ["short", "a name that leaves too little room"])
def test_the_last_column_may_be_whole_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Below itself, where it does not fit; elsewhere a row is a line."""
    text = " ".join(f"word{number}" for number in range(12))
    rows: list[list[output.Part]] = [["call", "n", "why"], [name, "1", (text, "red")]]
    monkeypatch.setenv("COLUMNS", "40")
    output.table(rows, wrap=True)
    assert capsys.readouterr().out.splitlines()[1].endswith(text)

    monkeypatch.setenv("FORCE_COLOR", "1")
    output.table(rows, wrap=True)

    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, said)) <= 40
    assert text in " ".join(" ".join(said).split())


@settings(deadline=None)
@given(
    st.lists(st.text() | st.tuples(st.text(), st.sampled_from(["red", "dim", "bold red"]))),
)
def test_a_line_is_the_same_with_and_without_the_console_of_terminals(
    parts: list[output.Part],
) -> None:
    """A pipe gets what rich would print without styles."""
    plain, styled = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(plain):
        output.line(*parts)
    text = Text()
    for part in parts:
        text.append(output.safe(part if isinstance(part, str) else part[0]), "red")
    Console(file=styled, force_terminal=False).print(text, soft_wrap=True)

    assert plain.getvalue() == styled.getvalue()
