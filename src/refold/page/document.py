"""Everything that the page shows of a run, as plain data.

Nothing is judged here: the tree is `replay.tree.delegation_tree`'s, what led to what
`replay.audit.why`'s, whether the logs are true `replay.audit.verify`'s, what two runs say
differently `replay.compare.diff`'s.  Logs and entries are named by numbers, for the page reads
entries from the logs' bytes.  Rules: CONTRACT.md §14.16.
"""

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs

from refold import __version__
from refold.engine.errors import RefoldError
from refold.page.critical import Link, critical_path
from refold.page.lanes import Lane, origin_of, read_lane, sound
from refold.page.states import changes
from refold.replay.audit.verify import Verification, verify
from refold.replay.audit.why import direct_causes
from refold.replay.tree.delegation_tree import RunNode, delegation_tree

VERSION: Final = 1


ENTRIES_MAX: Final = 50_000
"""Of a log: of larger ones, what the page has of each entry is left out, and said to be."""

_LATER: Final = "the run is too large for this page: refold state LOG --at N, refold why LOG N"


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
    reports = {Path(each.path): each for each in verification.logs if _is_there(Path(each.path))}
    ids = {path: number for number, path in enumerate(reports)}
    counts = {path: report.entries for path, report in reports.items()}
    first = next(iter(sound(log)))
    lanes, talks, times = [], [], []
    for path, found in _lanes(tree, ids).items():
        times.append(read_lane(path, found, origin_of(first)))
        there = [lane for lane in found.values() if lane.start_us is not None]
        lanes += [lane.as_json() for lane in there]
        talks += [talk for lane in there for talk in lane.talks()]
    is_large = max(counts.values()) > ENTRIES_MAX
    links = _links(counts, ids)
    main, beside = _as_told(links, len(ids))
    starts = {
        path: {"log": place[1], "seq": place[2]}
        for path, number in ids.items()
        for place in links.get((number, 0), ())[:1]
        if place[1] >= 0
    }
    document = {
        "version": VERSION,
        "refold": __version__,
        "title": f"{tree.name} · {log.name}",
        "guarantee": tree.guarantee or "kernel",
        "content": True,
        "verdict": _verdict(verification, ids),
        "logs": [
            {
                "name": path.name,
                "run": number,
                "bytes": path.stat().st_size,
                "entries": counts[path],
                "head": reports[path].head,
                "parent": starts.get(path),
            }
            for path, number in ids.items()
        ],
        "tree": _node(tree, ids, starts),
        "totals": totals(tree),
        "lanes": lanes,
        "critical": critical_path(links, times),
        "links": main | {"beside": {} if is_large else beside},
        "states": {} if is_large else {str(ids[path]): _states(path) for path in ids},
        "threads": talks,
        "left_out": _LATER if is_large else "",
        "diff": None,
    }
    return Page(document, tuple(ids))


def _links(counts: dict[Path, int], ids: dict[Path, int]) -> dict[tuple[int, int], list[Link]]:
    """Return what led to each entry directly, the link of its chain first; a log not here is -1."""
    return {
        (ids[path], seq): [(how, ids.get(above, -1), at) for how, (above, at) in direct]
        for (path, seq), direct in direct_causes(counts)
    }


def _as_told(
    links: dict[tuple[int, int], list[Link]], logs: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return by log the link of each entry's chain; and by entry, what else led to it."""
    main: dict[str, list[Link | None]] = {str(number): [] for number in range(logs)}
    for (log, _), direct in links.items():
        main[str(log)].append(direct[0] if direct else None)
    beside = {f"{log}:{seq}": direct[1:] for (log, seq), direct in links.items() if direct[1:]}
    return dict(main), beside


def _states(path: Path) -> list[Any]:
    """Return what each entry of a log changed of the state; as far as it can be folded."""
    found: list[Any] = []
    with contextlib.suppress(RefoldError):
        found.extend(changes(sound(path, resolve=True)))
    return found


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
