"""Whatever goes wrong ends in one message and a code that means something; never a traceback."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from refold.cli.group import refold
from refold.cli.output.exit_codes import (
    DAMAGED,
    DIFFERS,
    FAULT,
    INTERRUPTED,
    NOT_COMPLETED,
    USAGE,
    code_of,
    report_error,
)
from refold.engine.errors import (
    ChildStopped,
    Diverged,
    LogDamaged,
    LogExists,
    LogLocked,
    LogPoisoned,
    LogUnsupported,
    RefoldError,
    RunEnded,
)
from tests.support.loops import for_each

Invoke = Callable[..., Result]


@for_each(
    "error, code",
    [
        (Diverged("somewhere"), DIFFERS),
        (LogExists("a.jsonl"), USAGE),
        (LogLocked("a.jsonl", 12), USAGE),
        (LogDamaged("a.jsonl", 2, 10, "x", "y", "hash"), DAMAGED),
        (LogUnsupported("a.jsonl", "format 1", "format 2"), DAMAGED),
        (LogPoisoned("a.jsonl", 3, "disk full"), NOT_COMPLETED),
        (RunEnded("stuck", "no more"), NOT_COMPLETED),
    ],
)
def test_each_error_has_its_exit_code(error: RefoldError, code: int) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), INTERRUPTED),
        (click.Abort(), INTERRUPTED),
        (click.UsageError("no"), USAGE),
        (PermissionError(13, "Permission denied", "a.jsonl"), USAGE),
        (ZeroDivisionError("a fault"), FAULT),
    ],
)
def test_nothing_that_a_command_raises_becomes_a_traceback(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_error(error) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err


@pytest.mark.parametrize("command", ["show", "verify", "replay", "export --to refold", "why"])
@pytest.mark.parametrize(
    "content", [None, b"", b"\x00" * 600, b"no log\n", b"\x89PNG\r\n", b"PK\x03\x04x"]
)
def test_bad_files_give_one_message_and_never_a_traceback(
    command: str, content: bytes | None, invoke: Invoke, tmp_path: Path
) -> None:
    """Missing, empty, zeroed, text, binary, a broken archive: code 2 or 3, one short message."""
    log = tmp_path / "bad.jsonl"
    if content is not None:
        log.write_bytes(content)

    more: dict[str, list[object]] = {
        "why": ["-1"],
        "export --to refold": ["-o", tmp_path / "bad.refold"],
    }
    said = invoke(*command.split(), log, *more.get(command, []))

    is_packed = "export" in command and content is not None and not content.startswith(b"PK")
    assert said.exit_code in ((0, 3) if is_packed else (2, 3))  # packed all the same, and said
    assert "Traceback" not in said.output
    assert "fault of Refold" not in said.output


def test_a_fault_shows_where_only_when_asked(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("refold.cli.commands.more.schema.schema", broken)

    short = invoke("schema", "verify")
    long = invoke("--log-level", "debug", "schema", "verify")

    assert (short.exit_code, long.exit_code) == (FAULT, FAULT)
    assert "Traceback" not in short.stderr
    assert "Traceback" in long.stderr


def test_the_report_of_a_stopped_child_has_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Not one line with escapes."""
    report_error(ChildStopped("a.jsonl", "Diverged", "args_changed\n  where  a > b"))

    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == ["args_changed", "  where  a > b"]


@for_each(
    "given, meant",
    [("--event", "--events"), ("--fails", "--failed"), ("--quick", ""), ("--foll", "--follow")],
)
def test_a_misspelt_option_names_the_one_that_was_meant_or_none(given: str, meant: str) -> None:
    done = CliRunner().invoke(refold, ["show", "a.jsonl", given])

    assert done.exit_code == 2
    assert f"Did you mean '{meant}'?" in done.stderr if meant else "mean" not in done.stderr
