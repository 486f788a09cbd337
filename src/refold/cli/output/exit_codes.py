"""Exit codes, and which error leads to which.

One place turns every exception of a command into one message on standard error and a code; a
command raises, or returns its code. A traceback is shown for a fault of Refold itself, and only at
`--log-level debug`. Rules: CONTRACT.md §14.
"""

import sys
from collections.abc import Iterable
from typing import Final

import click

from refold.cli.output import output
from refold.engine.errors import (
    ChildStopped,
    Diverged,
    LogError,
    LogLocked,
    LogPoisoned,
    ProgramError,
    RefoldError,
)

FINE: Final = 0
DIFFERS: Final = 1
"""A difference or a divergence was found."""
USAGE: Final = 2
DAMAGED: Final = 3
"""A log is damaged or newer, or a child's is missing; of `verify`: or has no end."""
MISSING: Final = 4
"""An outcome is missing while something is live."""
NOT_COMPLETED: Final = 5
"""The root run did not complete."""
FAULT: Final = 70
"""Refold itself is at fault: please report it."""
INTERRUPTED: Final = 130


def code_of(error: RefoldError) -> int:
    """Return the exit code of an error that ends a command."""
    match error:
        case Diverged() | ChildStopped(code="Diverged"):
            return DIFFERS
        case ProgramError() | LogPoisoned():
            return NOT_COMPLETED
        case LogLocked():
            return USAGE
        case LogError():
            return DAMAGED
        case _:
            return USAGE


def report_error(error: BaseException) -> int:
    """Print a command's exception as one message, and return its exit code."""
    match error:
        case click.ClickException():
            _print_usage(error)
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            output.complain("interrupted")
            return INTERRUPTED
        case RefoldError():
            is_report = isinstance(error, Diverged | ChildStopped)
            lines = str(error).split("\n") if is_report else [str(error)]
            output.complain(*lines)
            for note in getattr(error, "__notes__", ()):  # what to do
                output.hint(note)
            return code_of(error)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            output.complain(f"{where}{error.strerror or error}")
            return USAGE
        case _:  # the last resort: no traceback for bad input
            return _fault(error)


def _print_usage(error: click.ClickException) -> None:
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption):
        meant = _meant(error.option_name, error.possibilities or ())
        error = click.NoSuchOption(error.option_name, possibilities=meant, ctx=context)
    if context is not None:
        output.hint(context.get_usage())
    output.complain(" ".join(error.format_message().split()))  # choices stand on lines of their own
    if context is not None:
        output.hint(f"For examples, see `{context.command_path} --help`.")


def _meant(given: str, known: Iterable[str]) -> list[str]:
    """Return the option that was probably meant: it begins alike, or is nearly the same."""
    from difflib import get_close_matches  # noqa: PLC0415 - only to complain

    word = given.lstrip("-")
    names = [each.lstrip("-") for each in known]
    alike = [each for each in names if each[:_ALIKE] == word[:_ALIKE]]
    found = get_close_matches(word, alike or names, 1, 0.6 if alike else 0.8)
    return [f"--{each}" for each in found]


_ALIKE: Final = 4
"""Letters at the beginning."""


def _fault(error: BaseException) -> int:
    output.complain(
        f"a bug in Refold, not in your input: {type(error).__name__}: {error}. "
        "Please report it, with the output of `refold --log-level debug …`"
    )
    if output.is_debug():
        import traceback  # noqa: PLC0415 - for faults of Refold alone

        sys.stderr.write(output.safe_lines("".join(traceback.format_exception(error))))
    return FAULT
