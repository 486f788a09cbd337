"""`refold replay`: re-execute a recorded program against its log (CONTRACT.md §12)."""

import itertools
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from refold.cli import output, words
from refold.cli.errors import DAMAGED, DIFFERS, FINE, USAGE
from refold.cli.logs import LOG, OpenedLog, json_option, opened_log, started
from refold.cli.pages import page
from refold.engine.errors import ProgramNotFound, ToolRefused
from refold.engine.log import read_entries
from refold.engine.log.damage import TORN_TAIL
from refold.engine.ports import Tool
from refold.engine.programs import SHIPPED, load, reference_from
from refold.engine.session import Session
from refold.face import reexecute
from refold.replay.reexecute import ReplayReport
from refold.replay.verify import verify

_PAGE: Final = """
Examples:
  refold replay runs/demo.jsonl
  refold replay runs/audit.jsonl --program audit.py:audit
  refold replay runs/audit.jsonl --program app.audit:main \\
         --tools app.tools:TOOLS --json

Exit code: 0 identical · 1 a divergence · 3 the log is damaged.
"""


_SAY_IT: Final = "a log never says what code to import; say it with --program"


@click.command("replay", epilog=page(_PAGE))
@click.argument("log", type=LOG)
@click.option(
    "--program", metavar="MODULE:NAME",
    help="The program as it is now: module:name or file.py:name; not for shipped ones.",
)  # fmt: skip
@click.option(
    "--tools", metavar="MODULE:NAME,…", default="",
    help="Tools that the program calls by name, or lists of them.  None is executed.",
)  # fmt: skip
@click.option("--all", "is_all", is_flag=True, help="Every divergence in full, not just the first.")
@json_option
def command(*, log: Path, program: str | None, tools: str, is_all: bool, as_json: bool) -> int:
    """Run a recorded program again, with recorded outcomes, and compare.

    Nothing but the program is executed: no tool, no model, no child process.
    Every request and the end of every run must be as recorded.

    A log never says what code to import, so you do, except for the programs
    that Refold ships.
    """
    _import_from_here()
    with opened_log(log) as opened:
        if program is None and not _is_shipped(opened):
            return _unnamed(opened)
        report = replayed(opened, program, load_tools(tools))
        if report.identical:
            _refuse_damage(opened)
        document = document_of(report, opened)
    if as_json:
        output.document(document)
    else:
        describe(report, is_all=is_all)
    return _code(report)


def _refuse_damage(log: OpenedLog) -> None:
    """Refuse to call a run identical whose log does not verify (CONTRACT.md §14.9).

    Raises:
        LogDamaged: the first damage, of whichever log below.
    """
    found = (damage for report in verify(log.path).logs for damage in report.damage)
    damage = next((one for one in found if one.what != TORN_TAIL), None)
    if damage is not None:
        raise damage.as_error()


def replayed(log: OpenedLog, program: str | None, tools: Iterable[Tool] = ()) -> ReplayReport:
    """Re-execute a log; a shipped program is known by its name, and gets its tools' types.

    Raises:
        ProgramNotFound: it is none that Refold ships, and none was named.
    """
    name = started(log.path).program
    if program is None and name not in SHIPPED:
        raise ProgramNotFound(name, _SAY_IT)
    own = _tools_of(name) if program is None else ()
    known = {tool.name: tool for tool in (*own, *tools)}
    with output.stdout_kept(), output.progress(f"re-executing {log.given}"):
        session = _session_of(log.path) if program is None else None
        return reexecute(log.path, program, tools=tuple(known.values()), session=session)


def _is_shipped(log: OpenedLog) -> bool:
    return started(log.path).program in SHIPPED


def _unnamed(log: OpenedLog) -> int:
    """Say that the program has to be named, and the line that does it."""
    name = started(log.path).program
    output.complain(str(ProgramNotFound(name, _SAY_IT)))
    function = name.rpartition(":")[2]
    program = f"FILE.py:{function if function.isidentifier() else 'NAME'}"
    output.hint(f"refold replay {shlex.quote(output.shown_path(log.given))} --program {program}")
    return USAGE


def document_of(report: ReplayReport, log: OpenedLog) -> dict[str, Any]:
    """Return a report as one document, its files named as they were given."""
    document: dict[str, Any] = report.as_json()
    document["log"] = output.shown_path(log.given)
    for divergence in document["divergences"]:
        divergence["log"] = log.shown(divergence["log"])
    return document


def describe(report: ReplayReport, *, is_all: bool = False) -> None:
    """Print a report: that nothing differs, or what does and what is likely behind it."""
    if report.identical:
        entries = words.counted(report.entries, "entry", "entries")
        runs = words.counted(report.children, "child run")
        output.line(("identical", "green"), f": {entries}, {runs}; tool calls executed: 0")
        if report.ends_early:
            records = words.counted(len(report.ends_early), "record")
            output.line(
                f"  {records} without an end (killed, crashed, still open): alike up to there"
            )
        return
    shown = report.divergences if is_all else report.divergences[:1]
    output.line((f"{words.counted(len(report.divergences), 'run')} diverged", "bold red"))
    for divergence in shown:
        output.lines(f"\n{divergence}")
    rest = len(report.divergences) - len(shown)
    if rest:
        output.line()
        more = words.counted(rest, "more run")
        output.line((f"{more} diverged: --all shows each", "dim"))


def load_tools(text: str) -> tuple[Tool, ...]:
    """Return the tools that `module:name,file.py:name` names; a name may be a list of tools.

    Raises:
        ProgramNotFound: nothing is found there.
        ToolRefused: what is found is no tool.
    """
    from refold.tools.contract import as_tool  # noqa: PLC0415 - only where tools are named

    found: list[Tool] = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        thing = load(reference_from(each))
        if isinstance(thing, str):
            raise ToolRefused(each, "--tools", "a text, and no tool")
        found += map(as_tool, thing if isinstance(thing, (list, tuple)) else (thing,))
    return tuple(found)


def _session_of(log: Path) -> Session | None:
    """Return what a shipped program's run had: a session with plans, or none."""
    second = next(itertools.islice(read_entries(log, torn_ok=True), 1, None), None)
    if second is None or second.kind != "session.seeded":
        return None
    from refold.tools.configured import planned  # noqa: PLC0415 - imports all tools

    return planned()


def _tools_of(program: str) -> tuple[Tool, ...]:
    """Return the tools whose types a shipped program's log needs; none of them is executed."""
    from refold.cli.shipped import tools_of  # noqa: PLC0415 - imports the tools

    return tools_of(program, os.curdir)


def _import_from_here() -> None:
    """`module:name` is found in the working directory, as `python -m` would find it."""
    here = os.getcwd()  # noqa: PTH109 - sys.path holds text
    if here not in sys.path:
        sys.path.insert(0, here)


def _code(report: ReplayReport) -> int:
    if report.identical:
        return FINE
    is_damaged = any(each.category == "log_damaged" for each in report.divergences)
    return DAMAGED if is_damaged else DIFFERS
