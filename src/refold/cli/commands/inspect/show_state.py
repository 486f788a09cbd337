"""Prints a log folded to state, or two states compared: `refold show --at N [--to M]`.

Rules: CONTRACT.md §6.1.
"""

import itertools
from pathlib import Path
from typing import Any, Final

import attrs

from refold.cli.arguments.logs import guarantee_of, opened_log, print_guarantee, started
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DIFFERS, FINE
from refold.cli.output.printed import PrintedState, PrintedStates
from refold.engine.state.digests import state_digest, state_json
from refold.engine.state.run_state import Left, RunState
from refold.replay.audit.refolding import Refolded, refold_log, state
from refold.replay.difference.pointer_diff import Difference, differences
from refold.replay.index.guarantee import OBSERVED

_LAST: Final = -1
_PLACES_SHOWN: Final = 8
"""Items that were added to an array, or removed, between two states."""
_RUNNING: Final = "running"


def show_state(log: Path, at: int) -> int:
    """Print the state of a run after an entry; return 1 if its digest is not the recorded one."""
    with opened_log(log) as opened, output.progress(f"folding {log}"):
        started(opened.path)  # a file without a first entry has no state
        found = _folded(opened.path, at)
        told = PrintedState(
            log=output.shown_path(log),
            at=found.state.entries - 1,
            digest=found.digest,
            recorded_digest=found.recorded_digest or None,
            agrees=found.agrees,
            state=state_json(found.state),
        )
        document = told.as_json() | guarantee_of(opened.path)
    code = DIFFERS if told.agrees is False else FINE
    return output.answer(document, lambda: _describe(found.state, document), code)


def show_changes(log: Path, before: int, after: int) -> int:
    """Print the differences of two states; a difference is not an error."""
    with opened_log(log) as opened, output.progress(f"folding {log}"):
        program, guarantee = started(opened.path).program, guarantee_of(opened.path)
        one, other = state(opened.path, before), state(opened.path, after)
    found = differences(state_json(one), state_json(other))
    document = PrintedStates(
        log=output.shown_path(log),
        before=one.entries - 1,
        after=other.entries - 1,
        before_digest=state_digest(one),
        after_digest=state_digest(other),
        differences=tuple(found),
    )

    def describe() -> None:
        span = f" from after entry {document.before} to after entry {document.after}"
        output.line((program, "bold"), span)
        by_place = itertools.groupby(found, lambda one: (one.pointer.rpartition("/")[0], one.kind))
        for (parent, kind), same in by_place:
            _print_places(parent, kind, list(same))
        if not found:
            output.line("  the same state")
        print_guarantee(guarantee)

    return output.answer(document.as_json() | guarantee, describe)


def _print_places(parent: str, kind: str, found: list[Difference]) -> None:
    """Print places in one array or object; of many new or lost ones, the first and the last."""
    more = 0 if kind == "changed" else max(0, len(found) - _PLACES_SHOWN)
    for at, difference in enumerate(found):
        if more and at == len(found) - 1:
            output.wrapped(["  "], (f"… {more:,} more {kind} in {parent or '/'}", "dim"))
        elif more and at >= _PLACES_SHOWN - 1:
            continue
        told = str(difference)[len(difference.pointer) :]
        output.wrapped(["  "], (difference.pointer, "cyan"), told)


def _folded(path: Path, at: int) -> Refolded:
    """Return the requested state; at the end of a log, with its recorded digest."""
    if at != _LAST:
        found = state(path, at)
        if found.status == _RUNNING:
            digest, version = state_digest(found), found.state_version
            return Refolded(state=found, digest=digest, recorded_digest=None, state_version=version)
    return refold_log(path)  # nothing follows the end of a run


def _describe(state: RunState, document: dict[str, Any]) -> None:
    output.line((f"{state.program}", "bold"), f" after entry {document['at']}")
    how = f" ({state.reason})" if state.reason and state.reason != "done" else ""
    output.line("  status     ", (state.status, output.status_style(state.status)), how)
    output.line(f"  depth      {state.depth}")
    for count in state.tools:
        failed = f", {count.error} failed" if count.error else ""
        output.line(f"  tool       {count.tool}: {words.counted(count.called, 'call')}{failed}")
    if state.iterations:
        used = f"{state.tokens_used:,} tokens"
        output.line(f"  model      {words.counted(state.iterations, 'request')}, {used}")
    for call in state.open:
        output.line(
            "  open       ", (f"{call.kind} {call.name}", "yellow"), f" asked at {call.seq}"
        )
    for child in state.children:
        status = child.status or "running"
        number = "-" if child.number is None else str(child.number)
        what = child.brief or child.agent or child.program
        output.line(
            f"  child {number:>4} ", (status, output.status_style(status)), f"  {what}", cut=True
        )
    for hit in state.limit_hits:
        output.line(
            f"  limit      {hit.limit} {hit.allowed:g}: hit {words.counted(hit.count, 'time')}"
        )
    if "guarantee" not in document:  # nobody limits a watched command
        output.line(f"  left       {_left(state.left)}")
    output.line("  digest     ", document["digest"][:16], f"  {_agreement(document)}")
    if "guarantee" in document:
        output.line(f"  guarantee  {document['guarantee']}: {OBSERVED}")


_UNITS: Final = {
    "levels": ("level",),
    "children": ("child", "children"),
    "iterations": ("iteration",),
    "tokens": ("token",),
    "output_bytes": ("output byte",),
}
"""The unit of each cap: the singular and, if irregular, the plural."""


def _left(left: Left) -> str:
    shown = {name: value for name, value in attrs.asdict(left).items() if value is not None}
    return ", ".join(words.counted(value, *_UNITS[name]) for name, value in shown.items())


def _agreement(document: dict[str, Any]) -> str:
    match document["agrees"]:
        case True:
            return "as recorded"
        case False:
            return f"NOT as recorded: {document['recorded_digest'][:16]}"
        case _:
            return "nothing recorded to compare it with"
