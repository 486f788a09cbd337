"""Programs that are checked: a new process imports this file, and no pytest for it."""

import functools
import itertools
import sys
import time
from typing import Any

import attrs

import refold
from refold.engine.ports.ports import Reference
from refold.engine.session import Session

COUNTER = itertools.count()
IMPORTED_AT = time.time_ns()
KEPT: list[int] = []


@attrs.frozen
class Said:
    """A word."""

    word: str


@refold.tool(effect="pure")
def add(number: int) -> int:
    """Add one."""
    return number + 1


def steady(run: refold.PlainRun, number: int) -> int:
    """Do the same each time."""
    once: int = run.tool(add, number=number)
    return once


def unsteady(run: refold.PlainRun, _input: object) -> int:
    """Do something else each time."""
    once: int = run.tool(add, number=next(COUNTER))
    return once


async def clocked(run: refold.Run, number: int) -> int:
    """Read the clock of the machine, and do nothing with it."""
    time.time()
    once: int = await run.tool(add, number=number)
    return once


@functools.lru_cache
def kept(number: int) -> int:
    """Count the calls of this process."""
    KEPT.append(number)
    return len(KEPT)


async def of_both(run: refold.Run, _input: object) -> list[Any]:
    """Return what hangs on the hash seed, and on the time zone."""
    of_a_set = list({"alpha", "beta", "gamma", "delta", "eps", "zeta"})
    return [of_a_set, str(run.now().replace(month=7, day=1).astimezone().utcoffset())]


async def of_the_import(_run: refold.Run, _input: object) -> int:
    """Return when this file was imported."""
    return IMPORTED_AT


async def of_a_cache(_run: refold.Run, _input: object) -> int:
    """Return what a cache has."""
    return kept(3)


async def of_the_command_line(_run: refold.Run, _input: object) -> str:
    """Return what was started."""
    return sys.argv[0]


async def of_a_path(_run: refold.Run, _input: object) -> list[str]:
    """Return how Python was started."""
    return sorted(each for each in sys.path if each == "") or [*sys.orig_argv[1:2]]


async def says(run: refold.Run, word: str) -> int:
    """Dispatch a word."""
    run.session.dispatch(Said(word))
    return len(run.session.select_all(Said))


def a_session(*, has_factory: bool = True) -> Session:
    """Return an empty session, and whether another process could make it."""
    reference = Reference(__name__, "a_session", {}) if has_factory else None
    session = Session(factory=reference)
    session.register(Said)
    return session


# --- state beside the log -----------------------------------------------------------------------

FILLED: list[str] = []


@functools.cache
def a_prompt() -> str:
    """Read a file once in each process."""
    with open(__file__, encoding="utf-8") as file:  # noqa: PTH123 - as most programs do
        return file.read(1)


async def of_a_file_read_once(run: refold.Run, number: int) -> int:
    """Read what this process may have read before, and do nothing with it."""
    a_prompt()
    once: int = await run.tool(add, number=number)
    return once


@refold.tool(effect="idempotent")
def load(number: int) -> str:
    """Keep the result in a variable, too."""
    FILLED.append(f"text {number}")
    return f"text {number}"


async def loading(run: refold.Run, number: int) -> str:
    """Load as a child does, and keep the result in a variable, too."""
    text: str = await run.tool(load.name, number=number)
    FILLED.append(text)
    return text


async def of_the_tools_variable(run: refold.Run, _input: object) -> list[str]:
    """Return what the tool kept, and not its results."""
    FILLED.clear()
    for number in range(2):
        await run.tool(load, number=number)
        await run.ask("Continue?") if number == 0 else None
    return list(FILLED)


async def of_the_childs_variable(run: refold.Run, _input: object) -> list[str]:
    """Return what the children kept, and not their outcomes."""
    FILLED.clear()
    for number in range(2):
        await run.delegate(refold.Delegation(program=loading, input=number))
        await run.ask("Continue?") if number == 0 else None
    return list(FILLED)


async def of_the_results(run: refold.Run, _input: object) -> list[str]:
    """Return the results of tools and children."""
    found: list[str] = []
    for number in range(2):
        found.append(await run.tool(load, number=number))
        child = await run.delegate(refold.Delegation(program=loading, input=number))
        found.append(child.result())
        await run.ask("Continue?") if number == 0 else None
    return found
