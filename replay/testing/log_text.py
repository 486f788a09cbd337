"""An event log as text that a reviewer can read, for snapshots.

It is JSON lines without volatile values (`replay.difference.volatile`) and without values only for
machines: digests, ids, places. Runs are in the order of their call keys and entries in the order of
their scopes, so two equal runs have equal texts in any interleaving. `replay.run.tree_text` has
the delegation tree. The rules are CONTRACT.md §13.15.
"""

from collections.abc import Callable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from refold.engine.encoding.canonical import Json, encode, encode_key
from refold.engine.events.events import in_order, scope_of
from refold.engine.log.reader import Entry, read_entries
from refold.replay.compare.measured import Declared
from refold.replay.difference.volatile import is_volatile, stable, without_places, without_rest
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode
from refold.replay.run.tree_text import printable, scrubbed


def log_text(log: str | PathLike[str]) -> str:
    """Return the run of `log`, and all below it, as JSON lines without volatile values.

    Each line is {run, call, kind, data}. `run` is the path from the root to a child, where `dig
    (0#1)` is the child that the call `0#1` started; the root has none. `call` is omitted if the
    entry has none. Ends with a newline.

    Raises:
        LogMissing: the log does not exist.
        LogDamaged: an entry does not verify.
    """
    opened, declared = OpenedRun(fspath(log)), Declared(Path(log))
    steady = opened.steady.value if opened.steady is not None else lambda data: data
    lines = _lines(opened.unsettled, "", declared, {}, steady)
    return "".join(f"{printable(line)}\n" for line in lines)


def _lines(
    node: RunNode,
    run: str,
    declared: Declared,
    above: dict[str, Any],
    steady: Callable[[Json], Json],
) -> Iterator[str]:
    if node.log_state == "read":
        entries = [entry for entry in read_entries(node.log) if not is_volatile(entry.kind)]
        for entry in sorted(entries, key=_sort_key):
            line: dict[str, Json] = {"run": run} if run else {}
            limits = above if entry.kind == "run.started" else node.limits
            line |= {"call": entry.call} if entry.call else {}
            line |= {
                "kind": entry.kind,
                "data": steady(_shown(entry, Path(node.log), declared, limits)),
            }
            if left_out := declared.places(Path(node.log), entry.call, entry.kind):
                line["not_compared"] = list(left_out)
            yield encode_key(line, is_sorted=False).decode()
    elif node.log_state != "none":
        yield encode({"run": run, "log": node.log_state}).decode()
    children = sorted(node.children, key=lambda child: in_order(child.call))
    for child in children:
        name = f"{child.name} ({child.call})"
        yield from _lines(child, f"{run} > {name}" if run else name, declared, node.limits, steady)


def _sort_key(entry: Entry) -> tuple[int, Any]:
    """Return what sorts entries: the first, then scope by scope, then the last."""
    if entry.kind == "run.finished":
        return 2, ()
    if not entry.call:
        return (0, ()) if entry.kind == "run.started" else (1, ())
    return 1, in_order(scope_of(entry.call))


def _shown(entry: Entry, log: Path, declared: Declared, limits: dict[str, Any]) -> Json:
    data = stable(entry.kind, declared.without(log, entry.kind, entry.call, entry.data))
    if entry.kind in ("run.started", "child.started"):
        data = without_rest(data, limits)
    match entry.kind:
        case "run.started":
            started: dict[str, Json] = {name: data[name] for name in ("program", "input")}
            tools = [offer["name"] for offer in data["tools"]]
            return started | {"limits": data["limits"], "tools": tools, "models": data["models"]}
        case "model.asked":
            asked: dict[str, Json] = {"model": data["model"]}
            return asked | {"added": data["added"], "parameters": data["parameters"]}
        case "run.finished":
            return _without_digests(without_places(data, scrubbed))
        case "tool.returned" | "model.answered":
            return without_places(data, scrubbed)
        case "child.finished":
            return data | {"outcome": without_places(data["outcome"], scrubbed)}
        case _:
            return data


def _without_digests(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if not name.endswith("_digest")}
