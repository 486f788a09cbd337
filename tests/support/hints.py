"""Commands that Refold prints, which have to be commands of Refold, and to run as printed."""

import re
import shlex
from collections.abc import Sequence

import click
from click.testing import CliRunner

from refold.cli.group import refold

_HINT = re.compile(r"(?:^|(?<!Usage): )(refold [a-z][a-z-]* .*)$", re.MULTILINE)


def problems_of_hints(text: str) -> list[str]:
    """Return the printed commands of a text that name no command, or an option that it lacks."""
    return [f"{line}: {why}" for line in _HINT.findall(text) if (why := _problem(line))]


def _problem(line: str) -> str:
    context = click.Context(refold)
    try:
        _, name, *words = shlex.split(line)
    except ValueError:  # a sentence with an apostrophe
        return ""
    command = refold.get_command(context, name)
    if command is None:
        return "no such command"
    given = words[: words.index("--")] if "--" in words else words
    try:
        command.make_parser(click.Context(command)).parse_args(given)
    except click.NoSuchOption as error:
        return error.format_message()
    except click.UsageError:  # of a sentence that goes on
        return ""
    return ""


_READING = ("show", "ls", "verify", "diff", "why", "files")
_OPEN = re.compile(r"--salvage|FILE|SPEC|COMMAND|AGENT|URL|DIR|\bLOG\b|[.…]{1,3}$|`")
"""Placeholders, sentences that go on, and what writes."""


def failed_hints(text: str, given: Sequence[str]) -> list[str]:
    """Run the printed commands that only read, and have no placeholder; return those refused.

    The command that printed them is not run again.
    """
    failed = []
    for line in dict.fromkeys(_HINT.findall(text)):
        try:
            _, *words = shlex.split(line)
        except ValueError:
            continue
        if words[0] not in _READING or words == [*given] or _OPEN.search(line):
            continue
        done = CliRunner().invoke(refold, words)
        if done.exit_code in (2, 70):
            failed.append(f"{line}: {done.output}")
    return failed
