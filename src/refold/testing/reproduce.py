"""Names the `refold replay` that runs a test's recording again.

Only a run that another process can import has a command; the rest is named by its test alone. The
rules are CONTRACT.md §13.12.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from refold.engine.errors import ProgramNotFound
from refold.engine.ports.ports import Program, Reference, Tool
from refold.engine.ports.programs import reference_of
from refold.programs import SHIPPED
from refold.replay.difference.causes import DiffCause


def shown(path: str | os.PathLike[str], base: Path, *, is_quoted: bool = False) -> str:
    """Return a path as one would type it in the folder `base`; whole if it leads up and away."""
    relative = os.path.relpath(path, base)
    text = os.fspath(path) if relative.startswith("..") else relative
    return shlex.quote(text) if is_quoted else text


IF_MEANT: Final = "If the change is intended, record the test again and update its snapshots:"


def explained(found: Sequence[DiffCause], text: str) -> tuple[tuple[str, ...], str]:
    """Return what tells the causes from others, and the text that explains them."""
    return tuple(repr(each.key) for each in found), text


def replay_command(
    program: Program | Reference | str, tools: Sequence[Tool], base: Path, *, has_session: bool
) -> str | None:
    """Return `refold replay {log} …`, to be typed in `base`, with a place for the log.

    `None` where none would do: another process cannot import the program, or a tool whose types a
    replay needs; or the run has a session of its own.
    """
    if isinstance(program, str) and program in SHIPPED:
        return "refold replay {log}"
    name = program_words(program, base)
    if name is None or has_session:
        return None
    words = ["--program", name]
    needed = _needed(tools, base)
    if needed is None:
        return None
    words += ["--tools", ",".join(needed)] if needed else []
    return f"refold replay {{log}} {shlex.join(words).replace('{', '{{').replace('}', '}}')}"


def program_words(program: Program | Reference | str, base: Path) -> str | None:
    """Return `file.py:name` or `module:name`; `None` where it has no such name."""
    if isinstance(program, str):
        return program
    try:
        return _words(reference_of(program), base)
    except ProgramNotFound:
        return None


def _words(reference: Reference | None, base: Path) -> str | None:
    if reference is None or reference.arguments is not None:
        return None
    return f"{_source(reference.source, base)}:{reference.name}"


def _source(module: str, base: Path) -> str:
    """Return the file of a module that is in no package, as a test file is; else its name."""
    file = getattr(sys.modules.get(module), "__file__", None)
    path = Path(module if module.endswith(".py") else file or "")
    if path.suffix != ".py" or (path.parent / "__init__.py").exists():
        return module
    return module if "site-packages" in path.parts else shown(path, base)


def _needed(tools: Sequence[Tool], base: Path) -> list[str] | None:
    """Return the names of tools whose types a replay needs; `None` where one has no name."""
    asked = [tool for tool in tools if tool.typed or getattr(tool, "delegates", False)]
    if any(getattr(tool, "delegates", False) for tool in asked):
        from refold.tools.delegation.shipped import shipped_tools  # noqa: PLC0415 - most runs delegate nothing

        shipped = {tool.name for tool in shipped_tools()}
        asked = [tool for tool in asked if tool.name not in shipped]
    found = [_words(tool.reference, base) for tool in asked]
    return None if None in found else [name for name in found if name is not None]
