"""Commands that Refold prints, which have to be commands of Refold."""

import re
import shlex

import click

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
