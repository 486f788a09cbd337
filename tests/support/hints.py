"""Commands that Refold prints, which have to be commands of Refold, and to run as printed."""

import contextlib
import re
import shlex
from collections.abc import Collection, Iterable, Sequence

import click
from click.testing import CliRunner

from refold.cli.group import refold

_HINT = re.compile(r"(?:^|(?<!Usage): )(refold [a-z][a-z-]* .*)$", re.MULTILINE)
_QUOTED = re.compile(r"`(refold [a-z][^`]*)`")


def problems_of_hints(text: str) -> list[str]:
    """Return the printed commands of a text that name no command, or an option that it lacks."""
    lines = [*_HINT.findall(text), *_QUOTED.findall(text)]
    return [f"{line}: {why}" for line in lines if (why := _problem(line))]


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


READING = ("show", "ls", "verify", "diff", "why", "files")
"""Commands that can be run in the middle of a test."""
EXECUTING = ("resume", "fork", "replay")
"""Commands that change logs, or what a test counts."""
_OPEN = re.compile(r"--salvage|--ask|FILE|SPEC|COMMAND|AGENT|URL|DIR|\bLOG\b|[.…]{1,3}$|`")
"""Placeholders, sentences that go on, and options that write or wait."""


def runnable_hints(text: str, verbs: Collection[str]) -> list[list[str]]:
    """Return the printed commands with one of these verbs that have no placeholder."""
    found = []
    for line in dict.fromkeys(_HINT.findall(text)):
        if not _OPEN.search(line):
            with contextlib.suppress(ValueError):  # a sentence with an apostrophe
                found.append(shlex.split(line)[1:])
    return [words for words in found if words[0] in verbs]


def failed_hints(hints: Iterable[Sequence[str]]) -> list[str]:
    """Run printed commands; return those that are refused."""
    ran = [(words, CliRunner().invoke(refold, [*words])) for words in hints]
    return [f"{words}: {done.output}" for words, done in ran if done.exit_code in (2, 70)]
