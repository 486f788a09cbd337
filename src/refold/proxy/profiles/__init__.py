"""Profiles of agent programs, one a file; which of them a command is.

    claude_code, codex, opencode, aider, gemini_cli, qwen_code, copilot, pi, google_adk, langgraph,
    smolagents
    of_node    what programs of Node run first

To add one: a file with a `PROFILE` like the others, and its name in `NAMES`. Try it on the real
program: record it, replay it from another folder, add what differs as narrowly as it goes.
`refold.engine.observed.profile` defines profiles. Rules: CONTRACT.md §16.13.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import ProgramNotFound, UsageError
from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.ports.programs import load, reference_from
from refold.engine.wire.apis import known_routes

NAMES: Final = (
    "claude_code", "codex", "opencode", "aider", "gemini_cli", "qwen_code", "copilot", "pi",
    "google_adk", "langgraph", "smolagents",
)  # fmt: skip
NONE: Final = "none"

_WRAPPERS: Final = frozenset(
    {"bun", "bunx", "deno", "env", "exec", "nice", "node", "nohup", "npm", "npx", "pipx", "pnpm"}
    | {"python", "python3", "setsid", "stdbuf", "time", "timeout", "tsx", "uv", "uvx", "yarn"}
)
_SHELLS: Final = frozenset({"bash", "dash", "sh", "zsh"})
_WORD: Final = re.compile(r"[^\s;&|()'\"]+")
"""A word of a line of a shell."""
_SCRIPT_BYTES: Final = 1024 * 1024


def shipped() -> tuple[Profile, ...]:
    """Return all profiles that Refold has."""
    return tuple(import_module(f"{__name__}.{name}").PROFILE for name in NAMES)


def profile_of(command: Sequence[str], named: str = "") -> Profile:
    """Return the profile of a command; `named` is the option: a name, `none`, FILE.py:NAME.

    Raises:
        UsageError: no such profile.
    """
    if named == NONE:
        return NO_PROFILE
    if ".py:" in named:
        return _loaded(named)
    if named:
        wanted = named.replace("-", "_").lower()
        if wanted not in NAMES:
            known = ", ".join(name.replace("_", "-") for name in NAMES)
            raise UsageError(f"--profile {named}: expected {known}, none or FILE.py:NAME")
        return shipped()[NAMES.index(wanted)]
    for profile in shipped():
        if _program_index(command, profile) is not None or _uses(command, profile.libraries):
            return profile
    return NO_PROFILE


def works_on_folder(command: Sequence[str], profile: Profile) -> bool:
    """Return whether a command works on its folder; a script that uses such a program does not."""
    return profile.works_on_folder and not _uses(command, profile.libraries)


def profile_asking(user_agent: str, system: str) -> Profile:
    """Return the profile of the program that asks so; `NO_PROFILE` of one that is not known."""
    return next((each for each in shipped() if each.asks(user_agent, system)), NO_PROFILE)


def shipped_as(recorded: Profile) -> Profile:
    """Return the settings for a record's program, and its client; the log has the compared places.

    It names as well the variables of a profile that were set, but sets none itself: the author of a
    log does not decide what runs here.
    """
    named = (each for each in shipped() if each.name == recorded.name)
    found = next(named, attrs.evolve(recorded, variables={}))
    given = {name: value for name, value in found.variables.items() if name in recorded.variables}
    return attrs.evolve(found, variables=given, session=recorded.session)


def redirected(command: Sequence[str], profile: Profile, base: str) -> list[str]:
    """Return a command with the arguments that lead it to the proxy at `base`."""
    at = _program_index(command, profile)
    if at is None or not profile.arguments:
        return list(command)
    urls = {route.name: f"{base}/{route.name}" for route in known_routes()}
    more = [each.format(**urls) for each in profile.arguments]
    words = list(command)
    if not _is_line(words, at):
        return [*words[: at + 1], *more, *words[at + 1 :]]
    for end in reversed(list(_in_line(words[at], profile))):
        words[at] = f"{words[at][:end]} {shlex.join(more)}{words[at][end:]}"
    return words


def _program_index(command: Sequence[str], profile: Profile) -> int | None:
    """Return which word of a command is the program, or the line of a shell that begins with it."""
    is_behind = ""
    for at, word in enumerate(command):
        name = Path(word).name
        if _is_line(command, at) and any(_in_line(word, profile)):
            return at
        if _program_name(word) in profile.commands:
            return at
        if name in _WRAPPERS or name in _SHELLS:
            is_behind = name
        elif re.match(r"\w+=", word) is None and not (
            is_behind and re.match(r"-|[0-9.]+[smh]?$|(run|exec|dlx|x|tool)$", word)
        ):
            return None
    return None


def _program_name(word: str) -> str:
    """Return the name in a word: the last part of a path, a package without its version."""
    if word.startswith("@") and word.count("/") == 1:
        return "@" + word[1:].partition("@")[0]
    name = Path(word).name
    return re.sub(r"\.(exe|js|mjs|cjs|py)$", "", name.partition("@")[0])


def _is_line(command: Sequence[str], at: int) -> bool:
    """Return whether a word is a shell's script: `bash -c "…"`."""
    return (
        at > 1
        and re.fullmatch(r"-\w*c", command[at - 1]) is not None
        and Path(command[at - 2]).name in _SHELLS
    )


def _in_line(line: str, profile: Profile) -> Iterator[int]:
    """Yield where the name of the program ends in a line of a shell, each time it is run."""
    for found in _WORD.finditer(line):
        if _program_name(found[0]) in profile.commands:
            before = re.split(r"[;&|(\n]", line[: found.start()])[-1].split()
            if _program_index([*before, found[0]], profile) is not None:
                yield found.end()


def _uses(command: Sequence[str], libraries: Sequence[str]) -> bool:
    """Return whether a script of the command has one of these names in it."""
    return bool(libraries) and any(
        re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
        for text in _scripts(command)
        for name in libraries
    )


def _scripts(command: Sequence[str]) -> Iterator[str]:
    for word in dict.fromkeys(part for each in command for part in (each, *_WORD.findall(each))):
        if word.endswith((".py", ".js", ".mjs", ".cjs", ".ts")) and Path(word).is_file():
            with Path(word).open(errors="replace") as file:
                yield file.read(_SCRIPT_BYTES)


def _loaded(named: str) -> Profile:
    """Return the profile that a file of the user has under a name.

    Raises:
        UsageError: no such profile.
    """
    try:
        found = load(reference_from(named))
    except ProgramNotFound as error:
        raise UsageError(f"--profile {named}: {error.why}") from error
    if not isinstance(found, Profile):
        raise UsageError(f"--profile {named}: expected a refold.engine.observed.profile.Profile")
    return found
