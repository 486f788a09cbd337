"""Everything that the page shows of a run, as plain data.

Nothing is judged here: the tree is `replay.tree.delegation_tree`'s, what led to what
`replay.audit.why`'s, whether the logs are true `replay.audit.verify`'s, what two runs say
differently `replay.compare.diff`'s.  Logs and entries are named by numbers, for the page reads
entries from the logs' bytes.  Rules: CONTRACT.md §14.16.
"""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs

from refold import __version__
from refold.engine.log.names import parent_of
from refold.page.lanes import Lane, origin_of, read_lane, sound
from refold.replay.audit.verify import Verification, verify
from refold.replay.tree.delegation_tree import RunNode, delegation_tree

VERSION: Final = 1


@attrs.frozen
class Page:
    """What the page shows, and the logs that it shows it of."""

    document: dict[str, Any]
    logs: tuple[Path, ...]


def page(log: Path) -> Page:
    """Return the page of the run at `log`, and of all runs below it.

    Raises:
        LogMissing: there is no log at `log`.
        LogDamaged: its first entry does not verify.
        LogUnsupported: it was written by a newer version.
    """
    tree, verification = delegation_tree(log), verify(log)
    reports = [each for each in verification.logs if _is_there(Path(each.path))]
    logs = tuple(Path(each.path) for each in reports)
    ids = {path: number for number, path in enumerate(logs)}
    first = next(iter(sound(log)))
    lanes, times = [], []
    for path, found in _lanes(tree, ids).items():
        times.append(read_lane(path, found, origin_of(first)))
        lanes += [lane.as_json() for lane in found.values() if lane.start_us is not None]
    starts = _starts(logs, ids)
    document = {
        "version": VERSION,
        "refold": __version__,
        "title": f"{tree.name} · {log.name}",
        "guarantee": tree.guarantee or "kernel",
        "content": True,
        "verdict": _verdict(verification, ids),
        "logs": [
            {
                "name": Path(each.path).name,
                "run": number,
                "bytes": Path(each.path).stat().st_size,
                "entries": each.entries,
                "head": each.head,
                "parent": starts.get(Path(each.path)),
            }
            for number, each in enumerate(reports)
        ],
        "tree": _node(tree, ids, starts),
        "totals": totals(tree),
        "lanes": lanes,
        "critical": [],
        "links": {},
        "states": {},
        "threads": [],
        "diff": None,
    }
    return Page(document, logs)


def totals(tree: RunNode) -> dict[str, Any]:
    """Return the counts of a tree: runs by status, tool calls, requests, tokens."""
    nodes = below(tree)
    statuses = Counter(node.status for node in nodes[1:])
    uses = [use for node in nodes for use in node.tools]
    return {
        "runs": len(nodes),
        "subagents": len(nodes) - 1,
        "statuses": dict(statuses),
        "completed": statuses["completed"],
        "failed": len(nodes) - 1 - statuses["completed"] - statuses["unfinished"],
        "tools": sum(use.called for use in uses),
        "tools_failed": sum(use.failed for use in uses),
        "requests": sum(node.requests for node in nodes),
        "tokens": {"input": tree.usage.input_tokens, "output": tree.usage.output_tokens},
        "cost_usd_micros": None,
    }


def below(tree: RunNode) -> list[RunNode]:
    """Return a node and all below it, parents first."""
    nodes = [tree]
    for node in nodes:
        nodes.extend(node.children)
    return nodes


def _is_there(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _verdict(found: Verification, ids: dict[Path, int]) -> dict[str, Any]:
    problems = [
        {"log": ids.get(Path(each.path)), "name": Path(each.path).name}
        | {name: getattr(each, name) for name in ("line", "what", "expected", "found")}
        for each in found.damage
    ]
    answers = {name: getattr(found, name) for name in ("intact", "complete", "authentic")}
    return answers | {"problems": problems}


def _starts(logs: tuple[Path, ...], ids: dict[Path, int]) -> dict[Path, dict[str, int]]:
    """Return, of each child's log, its parent's and the entry there that started it."""
    seqs: dict[tuple[Path, int], int] = {}
    for path in dict.fromkeys(place[0] for log in logs if (place := parent_of(log))):
        if path in ids:
            for entry in sound(path):
                if entry.kind == "child.started":
                    seqs[path, int(entry.data.get("number", 0))] = entry.seq
    places = {log: place for log in logs if (place := parent_of(log)) and place in seqs}
    return {log: {"log": ids[place[0]], "seq": seqs[place]} for log, place in places.items()}


def _node(
    tree: RunNode, ids: dict[Path, int], starts: dict[Path, dict[str, int]]
) -> dict[str, Any]:
    document = tree.as_json()
    waiting = [document]
    for node in waiting:
        path = Path(node["log"]) if node["log"] else None
        node["log"] = ids.get(path) if path else None
        start = starts.get(path) if path else None
        node["seq"] = start["seq"] if start else None
        node["cost_usd_micros"] = None
        waiting.extend(node["children"])
    return document


def _lanes(tree: RunNode, ids: dict[Path, int]) -> dict[Path, dict[str | None, Lane]]:
    """Return the lanes of each log, the root's first: of a watched command, one a conversation."""
    found: dict[Path, dict[str | None, Lane]] = {path: {} for path in ids}
    root = Path(tree.log)
    for node in below(tree):
        path = Path(node.log) if node.log else None
        if path in ids and node.log_state != "foreign":
            found[path][None] = Lane(ids[path], None, node.name, node.status, node.limits)
        if node.scope:
            found[root].pop(None, None)
            found[root][node.scope] = Lane(0, node.scope, node.name, node.status)
    return found
