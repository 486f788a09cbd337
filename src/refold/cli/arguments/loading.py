"""Tools, sessions and models as the command line names them: `file.py:name`, `NAME=openai:…`.

`engine.ports.programs` resolves a name; `programs.shipped` has the tools of the programs that
Refold ships. Rules: CONTRACT.md §14.9.
"""

import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from refold.cli.arguments.options import option
from refold.engine.errors import ModelNotFound, ProgramNotFound, ToolRefused, UsageError
from refold.engine.events.events import RunStarted
from refold.engine.ports.ports import Model, Tool
from refold.engine.ports.programs import (
    load,
    load_program,
    names_shipped,
    program_name,
    reference_from,
)
from refold.programs.shipped import tools_of

if TYPE_CHECKING:
    from refold.engine.session import Session


def tools_option(
    text: str = "Tools, lists of tools, or the session of the run, besides those in the module of "
    "the program.",
) -> Any:
    """Declare the option that names tools; the parameter gets one text."""
    callback = lambda _context, _option, given: ",".join(given)  # noqa: E731
    return option(text, "--tools MODULE:NAME,…", multiple=True, callback=callback)


root_option: Final[Any] = option("Folder for the file tools.", "--root DIR", default=Path())
config_option: Final[Any] = option(
    "Configuration file; by default refold.yaml here, or [tool.refold] in pyproject.toml.",
    "--config FILE",
)

_PROGRAM: Final = re.compile(r"([^\s=/:]+)=(.+)", re.DOTALL)
"""NAME=MODULE:NAME."""


def import_from_here(named: str | None, *more: str | None) -> None:
    """Let `module:name` be found in the working directory, if one of these is one.

    It is last on the path, and only if needed: else a file there with the name of one of our
    dependencies, such as `orjson.py`, would be executed in its place.
    """
    here = os.getcwd()  # noqa: PTH109 - sys.path holds text
    if here not in sys.path and any(":" in each for each in (named, *more) if each):
        sys.path.append(here)


def programs_of(given: Sequence[str]) -> dict[str, str]:
    """Return programs by their names in a log: the `NAME` of `NAME=…`, else their own.

    Raises:
        UsageError: two of them have the same name.
    """
    programs: dict[str, str] = {}
    for text in given:
        found = _PROGRAM.fullmatch(text)
        name, program = found.groups() if found else (program_name(text), text)
        if programs.setdefault(name, program) != program:
            raise UsageError(
                f"--program: two programs have the name {name}; pass NAME={text}, as in the log"
            )
    return programs


def is_plain(given: Sequence[str]) -> bool:
    """Return whether one program was given, without a name."""
    return len(given) == 1 and not _PROGRAM.fullmatch(given[0])


def run_tools(
    program: str | None,
    run: RunStarted,
    given: str,
    *,
    root: Path = Path(),
    only_marked: bool = False,
) -> tuple[Tool, ...]:
    """Return the tools for a recorded run: its program's own, and those that `--tools` names.

    A program's own are those that Refold ships with it, over the folder `root`, or those in its
    module. With `only_marked`, functions are left out that are not marked as tools: one may only
    have the name of a tool.
    """
    beside = _tools_beside(program, run, only_marked=only_marked) if program is not None else ()
    shipped = tools_of(run.program, root) if program is None and names_shipped(run) else ()
    return tuple({tool.name: tool for tool in (*shipped, *beside, *load_tools(given))}.values())


def _tools_beside(program: str, run: RunStarted, *, only_marked: bool) -> Iterator[Tool]:
    """Yield the tools of the run that the module of its program has."""
    from refold.tools.contract.tool_types import as_tool, is_tool  # noqa: PLC0415 - imports the tools

    offered = {offer["name"] for offer in run.tools}
    things = getattr(load_program(program), "__globals__", {}) if offered else {}
    for name, thing in things.items():
        is_plain = not only_marked and inspect.isfunction(thing) and name in offered
        if (is_tool(thing) or is_plain) and (tool := as_tool(thing)).name in offered:
            yield tool


def load_tools(text: str) -> tuple[Tool, ...]:
    """Return the tools that `module:name,file.py:name` names; a name may be a list of tools.

    A session that is named among them is left out: `load_session` returns it.

    Raises:
        ToolRefused: the name does not lead to a tool, or a file is named alone.
    """
    from refold.tools.contract.tool_types import as_tool  # noqa: PLC0415 - only where tools are named

    return tuple(as_tool(thing) for thing in _named(text) if not _is_session(thing))


def _named(text: str) -> list[Any]:
    """Return the things that `--tools` names, those in lists too."""
    import_from_here(text)
    found = list[Any]()
    for each in filter(None, (part.strip() for part in text.split(","))):
        if ":" not in each and each.endswith(".py"):
            raise ToolRefused(each, "--tools", f"a file without the name of a tool: {each}:NAME")
        try:
            thing = load(reference_from(each))
        except ProgramNotFound as error:
            raise ToolRefused(each, "--tools", error.why) from error.__cause__
        if isinstance(thing, str):
            raise ToolRefused(each, "--tools", "a text, not a tool")
        found += thing if isinstance(thing, (list, tuple)) else (thing,)
    return found


def _is_session(thing: object) -> bool:
    from refold.engine.session import Session  # noqa: PLC0415 - only where something is named

    return isinstance(thing, Session)


def load_session(tools: str, program: str | None, log: Path) -> "Session | None":
    """Return an empty session for the run of `log`; `None` if it had none, or none is found.

    It is the one that `--tools` names, else the only one in the module of the program.

    Raises:
        ToolRefused: as for `load_tools`.
        UsageError: several are named, or are in the module.
    """
    if not tools and program is None:
        return None
    found = [thing for thing in _named(tools) if _is_session(thing)]
    if not found and program is not None:
        things = getattr(load_program(program), "__globals__", {}).values()
        found = [*{id(thing): thing for thing in things if _is_session(thing)}.values()]
    from refold.replay.audit.session_fold import had_session  # noqa: PLC0415 - few runs have one

    if not found or not had_session(log):
        return None
    if len(found) > 1:
        raise UsageError(f"{len(found)} sessions were found: name one with --tools MODULE:NAME")
    made: Session = found[0].empty()
    return made


_SPEC: Final = re.compile(r"(openai|anthropic|pydantic|scripted|[^=]+\.py):.")


def load_model(spec: str) -> Model:
    """Return the model that `spec` names: as for `model_from`, or `FILE.py:NAME`.

    Raises:
        ModelNotFound: nothing is found there, or it is not a model.
    """
    from refold.engine.models import model_from  # noqa: PLC0415 - only where one is named

    if not spec.rpartition(":")[0].removeprefix("scripted:").endswith(".py"):
        return model_from(spec)
    try:
        found = load(reference_from(spec.removeprefix("scripted:")))
    except ProgramNotFound as error:
        raise ModelNotFound(spec, error.why) from error.__cause__
    if not callable(getattr(found, "complete", None)):
        raise ModelNotFound(spec, f"expected a model, found {found!r:.60}")
    return cast("Model", found)


def models_by_name(texts: Iterable[str]) -> dict[str, str]:
    """Parse `--model SPEC` and `--model NAME=SPEC`, by name; a SPEC alone under "".

    Raises:
        UsageError: one name is given twice.
    """
    said: dict[str, str] = {}
    for text in texts:
        name, _, spec = text.partition("=")
        key, value = (name, spec) if name and _SPEC.match(spec) else ("", text)
        if said.setdefault(key, value) != value:
            which = f"{key}=…" if key else "without a name"
            raise UsageError(f"--model {which} is given twice, as {said[key]} and as {value}")
    return said
