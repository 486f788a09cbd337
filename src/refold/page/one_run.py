"""Collects what the page shows of one run, as plain data.

Nothing is judged here: the tree is `replay.tree.delegation_tree`'s, what led to what
`replay.audit.why`'s, whether the logs are true `replay.audit.verify`'s.  Logs and entries are named
by numbers, for the page reads entries from the logs' bytes.  Rules: CONTRACT.md §14.16.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from refold import __version__
from refold.engine.encoding.canonical import encode
from refold.engine.errors import RefoldError, damage_meaning
from refold.engine.events.outcome import Fault, Usage
from refold.engine.log.names import child_path
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


class OneRun:
    """One run, read once for each thing that is known of it."""

    def __init__(self, log: Path, first_id: int, *, content: bool) -> None:
        self.log, self.content = log, content
        self.tree = delegation_tree(log) if content else without_content(delegation_tree(log))
        self.verification = verify(log)
        reports = {Path(each.path): each for each in self.verification.logs}
        # The log that was named may be a link; a child's may not (CONTRACT.md §4.0).
        self.reports = {
            path: each for path, each in reports.items() if path == log or _is_there(path)
        }
        self.ids = {path: number for number, path in enumerate(self.reports, first_id)}
        self.blobs: dict[str, int] = {}
        self.times: dict[int, list[int]] = {}
        self.scopes: dict[int, list[str]] = {}
        self.lanes: list[dict[str, Any]] = []
        self.threads: list[dict[str, Any]] = []
        origin = origin_of(next(iter(sound(log))))
        found = _lanes(self.tree, self.ids)
        for path, lanes in found.items():
            read = read_lane(path, lanes, origin, self.blobs)
            self.times[self.ids[path]], self.scopes[self.ids[path]] = read
        for path, lanes in found.items():
            there = [lane for lane in lanes.values() if lane.start_us is not None]
            for number, bar in [each for lane in there for each in lane.joined.items()]:
                # Logs of before `ended_us`: the child's own last entry says it.
                times = self.times.get(self.ids.get(child_path(path, number), -1))
                bar[5] = max(bar[4], min(bar[5], times[-1])) if times else bar[5]
            self.lanes += [lane.as_json() for lane in there]
            self.threads += [talk for lane in there for talk in lane.talks()]

    def document(self) -> dict[str, Any]:
        """Return what the page shows of this run alone."""
        counts = {path: report.entries for path, report in self.reports.items()}
        is_large = max(counts.values()) > ENTRIES_MAX
        links = _links(counts, self.ids)
        main, beside = _as_told(links, self.ids.values())
        starts = {
            path: {"log": place[1], "seq": place[2]}
            for path, number in self.ids.items()
            for place in links.get((number, 0), ())[:1]
            if place[1] >= 0
        }
        document = {
            "version": VERSION,
            "refold": __version__,
            "title": f"{self.tree.name} · {self.log.name}",
            "guarantee": self.tree.guarantee or "kernel",
            "content": self.content,
            "verdict": _verdict(self.verification, self.ids, content=self.content),
            "logs": [self._log(path, starts.get(path)) for path in self.ids],
            "tree": self._tree(starts),
            "totals": totals(self.tree),
            "lanes": self.lanes,
            "critical": self._critical(links),
            "links": main | {"beside": {} if is_large else beside},
            "states": {} if is_large else self._states(),
            "threads": self.threads,
            "left_out": _LATER if is_large else "",
            "diff": None,
        }
        if not self.content:
            document["entries"] = {
                str(number): self._bare(path) for path, number in self.ids.items()
            }
        return document

    def _tree(self, starts: dict[Path, dict[str, int]]) -> dict[str, Any]:
        """Return the tree, logs by number; `seq` is where a run was started, or a talk began."""
        document = self.tree.as_json()
        root = self.ids[self.log]
        begins = {scope: seq for seq, scope in reversed([*enumerate(self.scopes[root])])}
        waiting = [document]
        for node in waiting:
            path = Path(node["log"]) if node["log"] else None
            node["log"] = self.ids.get(path) if path else None
            node["seq"] = starts[path]["seq"] if path in starts else None
            if node["scope"]:
                node |= {"log": root, "seq": begins.get(node["scope"])}
            node["cost_usd_micros"] = node["usage"]["cost_usd_micros"]
            waiting.extend(node["children"])
        return document

    def _critical(self, links: dict[tuple[int, int], list[Link]]) -> list[list[Any]]:
        """Return the critical path; a watched command's is in no log, nor what it waited for."""
        if self.tree.guarantee:
            return []
        return critical_path(links, self.times, self.scopes, self.ids[self.log])

    def _log(self, path: Path, parent: dict[str, int] | None) -> dict[str, Any]:
        report = self.reports[path]
        return {
            "id": self.ids[path],
            "name": path.name,
            "bytes": path.stat().st_size,
            "entries": report.entries,
            "head": report.head,
            "parent": parent,
        }

    def _states(self) -> dict[str, list[Any]]:
        """Return what each entry changed of the state; as far as a log can be folded."""
        found: dict[str, list[Any]] = {}
        for path, number in self.ids.items():
            rows = found[str(number)] = []
            with contextlib.suppress(RefoldError):
                rows.extend(changes(sound(path, resolve=True)))
            for row in () if self.content else (each for entry in rows for each in entry):
                if len(row) > _VALUE and isinstance(row[_VALUE], dict) and "brief" in row[_VALUE]:
                    row[_VALUE]["brief"] = left_out(row[_VALUE]["brief"])
        return found

    def _bare(self, path: Path) -> list[list[Any]]:
        times = self.times[self.ids[path]]
        return [
            [each.seq, each.kind, each.call, each.cause, each.hash, at]
            for each, at in zip(sound(path), times, strict=True)
        ]


_VALUE: Final = 2
"""Where a change of a state has its value."""


def left_out(value: Any) -> Any:
    """Return what stands in the place of content: its size."""
    if value is None or value in ("", [], {}):
        return value
    size = len(value.encode()) if isinstance(value, str) else len(encode(value))
    return f"({size:,} bytes left out)"


def without_content(tree: RunNode) -> RunNode:
    """Return a tree without what tools and models said: sizes stand in its place."""
    error = tree.error and Fault(code=tree.error.code, message=left_out(tree.error.message))
    name = tree.name
    if tree.scope and not tree.agent:  # the beginning of a prompt
        name = f"conversation {tree.scope}"
    return attrs.evolve(
        tree,
        name=name,
        brief=left_out(tree.brief),
        input=left_out(tree.input),
        error=error,
        children=tuple(map(without_content, tree.children)),
    )


def _links(counts: dict[Path, int], ids: dict[Path, int]) -> dict[tuple[int, int], list[Link]]:
    """Return what led to each entry directly, the link of its chain first; a log not here is -1."""
    return {
        (ids[path], seq): [(how, ids.get(above, -1), at) for how, (above, at) in direct]
        for (path, seq), direct in direct_causes(counts)
    }


def _as_told(
    links: dict[tuple[int, int], list[Link]], logs: Iterable[int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return by log the link of each entry's chain; and by entry, what else led to it.

    The links of a log are three lists, which a browser holds in a tenth of the memory of one list
    of links: `how`, a number of `words`, and of what it follows from, `log` and `seq`; of an entry
    that follows from nothing, `seq` is -1.
    """
    words: dict[str, int] = {}
    main: dict[str, Any] = {str(each): {"how": [], "log": [], "seq": []} for each in logs}
    for (log, _), direct in links.items():
        how, above, seq = direct[0] if direct else ("", log, -1)
        row = words.setdefault(how, len(words)), above, seq
        for name, value in zip(("how", "log", "seq"), row, strict=True):
            main[str(log)][name].append(value)
    beside = {f"{log}:{seq}": direct[1:] for (log, seq), direct in links.items() if direct[1:]}
    return main | {"words": list(words)}, beside


def totals(tree: RunNode) -> dict[str, Any]:
    """Return what a tree comes to: runs by status, tool calls, requests, tokens and cost.

    `own` is the root's, `all` with all runs below it; a cost that is not known is `None`.
    """
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
        "own": _spent(tree.own_usage),
        "all": _spent(tree.usage),
    }


def _spent(usage: Usage) -> dict[str, int | None]:
    names = ("input_tokens", "output_tokens", "cost_usd_micros")
    return {name: getattr(usage, name) for name in names}


def below(tree: RunNode) -> list[RunNode]:
    """Return a node and all below it, parents first."""
    nodes = [tree]
    for node in nodes:
        nodes.extend(node.children)
    return nodes


def _is_there(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _verdict(found: Verification, ids: dict[Path, int], *, content: bool) -> dict[str, Any]:
    told = ("line", "what", "expected", "found") if content else ("line", "what")
    problems = [
        {"log": ids.get(Path(each.path)), "name": Path(each.path).name}
        | {name: getattr(each, name) for name in told}
        | {"what": ": ".join(filter(None, (each.what, damage_meaning(each.what))))}
        for each in found.damage
    ]
    answers = {name: getattr(found, name) for name in ("intact", "complete", "authentic")}
    return answers | {"problems": problems}


def _lanes(tree: RunNode, ids: dict[Path, int]) -> dict[Path, dict[str | None, Lane]]:
    """Return the lanes of each log, in the order of the tree: of a watched command, one a talk."""
    found: dict[Path, dict[str | None, Lane]] = {}
    root = Path(tree.log)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.children))
        path = Path(node.log) if node.log else None
        if path in ids and node.log_state != "foreign":
            lane = Lane(ids[path], None, node.name, node.status, node.limits)
            found.setdefault(path, {})[None] = lane
        if node.scope:
            found[root].pop(None, None)
            found[root][node.scope] = Lane(ids[root], node.scope, node.name, node.status)
    return found | {path: {} for path in ids if path not in found}
