"""Commands that Refold prints, which have to be commands of Refold, and to run as printed."""

import ast
import contextlib
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import click
from click.testing import CliRunner

from refold.cli.arguments.logs import started
from refold.cli.group import COMMANDS, refold
from refold.engine.errors import RefoldError
from tests.support.nodes import nodes_of

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


# --- texts of the code -------------------------------------------------------------------------


_WRITTEN = re.compile(rf"\brefold ({'|'.join(COMMANDS)})\b([^`;\n]*)")
_OPTION = re.compile(r"(?<=\s)--?[a-z][a-z-]*")


def texts_of(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield each text of files that name a command, with its place; what is filled in is X."""
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        code = path.read_text(encoding="utf-8")
        if not _WRITTEN.search(code):
            continue
        nodes = nodes_of(ast.parse(code))
        parts = {id(part) for node in nodes for part in getattr(node, "values", ())}
        for node in nodes:
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in parts:
                values = node.values if isinstance(node, ast.JoinedStr) else [node]
                texts = [each.value if isinstance(each, ast.Constant) else "X" for each in values]
                yield f"{path}:{node.lineno}", "".join(map(str, texts))


def unknown_options(text: str) -> list[str]:
    """Return the options that a text writes after a command that has none of that name."""
    found = []
    for name, rest in _WRITTEN.findall(text.replace("&&", ";").replace(", refold", "; refold")):
        command = refold.get_command(click.Context(refold), name)
        assert command is not None, name
        params = command.get_params(click.Context(command))
        known = {option for param in params for option in (*param.opts, *param.secondary_opts)}
        given = _OPTION.findall(re.split(r" -- |[.,:)] ", rest)[0])
        found += [f"refold {name} {option}" for option in given if option not in known]
    return found


# --- running -----------------------------------------------------------------------------------


READING = ("show", "ls", "verify", "diff", "why", "files")
"""Commands that can be run in the middle of a test."""
EXECUTING = ("resume", "fork", "replay")
"""Commands that change logs, or what a test counts."""
_OPEN = re.compile(r"--salvage|--ask|\bURL\b|://|\bDIR\b|\bAGENT\b(?!\.md)|\bLOG\b|[.…]{1,3}$|`")
"""Sentences that go on, options that write or wait, and what a test cannot know."""
_PROGRAM = re.compile(r"FILE\.py:\w+")


def runnable_hints(
    text: str, verbs: Collection[str], fill: Callable[[list[str]], list[str] | None]
) -> list[list[str]]:
    """Return the printed commands with one of these verbs, their placeholders filled in."""
    found = []
    for line in dict.fromkeys([*_HINT.findall(text), *_QUOTED.findall(text)]):
        if not _OPEN.search(line):
            with contextlib.suppress(ValueError):  # a sentence with an apostrophe
                found.append(shlex.split(line)[1:])
    made = (fill(words) for words in found if words[0] in verbs and len(words) > 1)
    return [words for words in made if words is not None]


def filled(words: list[str], given: Sequence[str], folder: Path) -> list[str] | None:
    """Return a printed command with values for its placeholders; `None` if one is not known.

    A program is the recorded one, or what an earlier command, `given`, named, as are tools and an
    agent's file; a model says `ok`.
    """
    made, before = list[str](), ""
    for word in words:
        value = word
        if _PROGRAM.search(word) and before == "--program":
            value = _after(given, "--program") or _recorded(words[1])
        elif _PROGRAM.search(word):
            value = _after(given, "--tools")
        elif word == "AGENT.md":
            value = given[1] if given[0] == "run" else _after(given, "--agent")
        elif word == "SPEC" or word.endswith("=SPEC"):
            replies = folder / "replies.yaml"
            replies.write_text("[ok, ok, ok, ok, ok, ok, ok, ok]\n")
            value = word.replace("SPEC", f"scripted:{replies}")
        elif word == "COMMAND":
            made += [sys.executable, "-c", ""]
            continue
        if not value:
            return None
        made.append(value)
        before = word
    return made


def _after(words: Sequence[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words else ""


def _recorded(log: str) -> str:
    with contextlib.suppress(RefoldError, OSError):
        program = started(Path(log)).program
        return program if ":" in program and "<" not in program else ""
    return ""


def failed_hints(hints: Iterable[Sequence[str]]) -> list[str]:
    """Run printed commands; return those that are refused."""
    ran = [(words, CliRunner().invoke(refold, [*words])) for words in hints]
    return [f"{words}: {done.output}" for words, done in ran if done.exit_code in (2, 70)]
