"""Collects the page's data of one run.

Nothing is judged here: the agents are `replay.run.opened_run`'s, what led to what
`replay.audit.why`'s, whether the logs are true `replay.audit.verify`'s.  A log is named by the id
of its run, which does not change when other logs are added; an entry by its number.  Rules:
CONTRACT.md §14.16.
"""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from refold import __version__
from refold.engine.encoding.canonical import encode
from refold.engine.errors import RefoldError, damage_meaning
from refold.engine.events.outcome import Fault, Priced, Usage
from refold.engine.log.lock import is_locked
from refold.engine.log.names import child_path
from refold.engine.workspace.paths import as_text
from refold.page.critical import Link, critical_path
from refold.page.lanes import Lane, read_lane, sound
from refold.page.states import changes
from refold.replay.audit.verify import Verification, verify
from refold.replay.audit.why import direct_causes
from refold.replay.index.guarantee import MAIN
from refold.replay.index.standing import STANDINGS, WORDS
from refold.replay.index.times import origin_of
from refold.replay.observed.folder import folder_diffs
from refold.replay.run import amounts
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode
from refold.replay.run.totals import below, totals

VERSION: Final = 1

ENTRIES_MAX: Final = 50_000
"""Entries of a log; of larger ones, the page leaves out the details of each entry, with a note."""

DIFFS_MAX: Final = 20_000_000
"""Characters of diffs of files in one page; those beyond are left out."""

_LATER: Final = "the run is too large for this page: refold show LOG --at N, refold why LOG N"


class OneRun:
    """One run, read once for each thing that is known of it."""

    def __init__(
        self,
        run: OpenedRun,
        taken: Iterable[str] = (),
        *,
        content: bool,
        files: bool = False,
    ) -> None:
        """Read the rest of a run; ids in `taken` are those of other logs."""
        self.run, log = run, run.log
        self.log, self.content, self.has_diffs = log, content, files
        self.verification = verify(log)
        if not self.verification.intact and is_locked(log):
            self.verification = verify(log)  # its writer may just have cut off a torn tail
        tree = run.tree
        self.tree = tree if content else without_content(tree)
        reports = {Path(each.path): each for each in self.verification.logs}
        # The log that was named may be a link; a child's may not (CONTRACT.md §4.0).
        self.reports = {
            path: each for path, each in reports.items() if path == log or _is_there(path)
        }
        self.ids = _ids(self.reports, tree, {*taken})
        self.blobs: dict[str, int] = {}
        self.times: dict[str, list[int]] = {}
        self.scopes: dict[str, list[str]] = {}
        self.lanes: list[dict[str, Any]] = []
        self.threads: list[dict[str, Any]] = []
        first = next(iter(sound(log)))
        origin = origin_of(first)
        edits = ", ".join((first.data.get("origin") or {}).get("edits", ()))
        self.title = f"{self.tree.name} · {log.name}{edits and f' · edited: {edits}'}"
        found = _lanes(self.tree, self.ids)
        for path, lanes in found.items():
            read = read_lane(path, lanes, origin, self.blobs, self.reports[path].entries)
            self.times[self.ids[path]], self.scopes[self.ids[path]] = read
        for path, lanes in found.items():
            there = [lane for lane in lanes.values() if lane.start_us is not None]
            for number, bar in [each for lane in there for each in lane.joined.items()]:
                # Of a resumed child: its own last entry says it.
                times = self.times.get(self.ids.get(child_path(path, number), ""))
                bar[5] = max(bar[4], min(bar[5], times[-1])) if times else bar[5]
            self.lanes += [lane.as_json() for lane in there]
            self.threads += [talk for lane in there for talk in lane.talks()]

    def document(self, *, causes: bool = True) -> dict[str, Any]:
        """Return the page's data of this run alone, `causes` and states of entries included."""
        counts = {path: report.entries for path, report in self.reports.items()}
        is_large = max(counts.values()) > ENTRIES_MAX or not causes
        links = _links(counts if causes else {}, self.ids)
        main, beside = _linked(links, self.ids.values())
        starts = {
            path: {"log": place[1], "seq": place[2]}
            for path, name in self.ids.items()
            for place in links.get((name, 0), ())[:1]
            if place[1]
        }
        document = {
            "version": VERSION,
            "refold": __version__,
            "title": self.title,
            "guarantee": self.tree.guarantee or "kernel",
            "content": self.content,
            "verdict": _verdict(self.verification, self.tree, self.ids, content=self.content),
            "logs": [self._log(path, starts.get(path)) for path in self.ids],
            "tree": self._tree(starts),
            "changes": self._changes() if self.content and self.tree.guarantee else [],
            "totals": (told := totals(self.tree)),
            "failures": amounts.failures(told["requests_failed"]),
            "lanes": self.lanes,
            "critical": self._critical(links),
            "links": main | {"beside": {} if is_large else beside},
            "states": {} if is_large else self._states(),
            "threads": self.threads,
            "main": self._main(),
            "left_out": _LATER if is_large else "",
            "diff": None,
        }
        if not self.content:
            document["entries"] = {name: self._bare(path) for path, name in self.ids.items()}
        return document

    def _tree(self, starts: dict[Path, dict[str, Any]]) -> dict[str, Any]:
        """Return the tree, logs by id; `seq` is where a run was started, or a talk began."""
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
            for name in ("", "own_"):
                usage, priced = node[f"{name}usage"], Priced(**node[f"{name}priced"])
                spent = Usage(**usage)
                usage |= {"cost": amounts.cost(spent, priced), "tokens": amounts.tokens(spent)}
                usage["spent"] = amounts.spent(spent, priced)
            for file in node["files"]:
                unsure = "" if file["is_sole"] else " (perhaps by others)"
                counts = file["lines_added"], file["lines_removed"]
                file["text"] = _file_text(file["change"], file["path"], counts) + unsure
            # In the column of a table: `≥ $0.21` of `at least $0.21 (1 answer not counted)`.
            node["cost"] = re.sub("^at least (.*) \\(.*|^cost .*", _least, node["usage"]["cost"])
            waiting.extend(node["children"])
        return document

    def _changes(self) -> list[dict[str, Any]]:
        """Return each change of a file, with its diff if that was asked for."""
        rows, rest = list[dict[str, Any]](), DIFFS_MAX
        with contextlib.suppress(RefoldError):  # the verdict tells of damage
            for seq, calls, change, lines in folder_diffs(self.log, has_diffs=self.has_diffs):
                kind = "changed" if change.before and change.after else ""
                kind = kind or ("added" if change.after else "removed")
                text = _file_text(kind, as_text(change.path), (change.added, change.removed))
                by = f", by {' or '.join(calls)}" if calls else ""
                diff = "\n".join(lines)
                rest -= len(diff)
                diff = diff if rest >= 0 else "too large for this page: refold show LOG --files"
                rows.append({"seq": seq, "calls": calls, "text": text + by, "diff": diff})
        return rows

    def _main(self) -> int:
        """Return which of the threads is the main one.

        The first in which a model was asked; of a watched command, the one with most below it.
        """
        scopes = [each["scope"] for each in self.threads]
        main = self.run.main.node.scope or next(filter(None, scopes), None)
        return scopes.index(main) if main in scopes else 0

    def _critical(self, links: dict[tuple[str, int], list[Link]]) -> list[list[Any]]:
        """Return the critical path; a watched command's waiting is in no log."""
        if self.tree.guarantee:
            return []
        return critical_path(links, self.times, self.scopes, self.ids[self.log])

    def _log(self, path: Path, parent: dict[str, Any] | None) -> dict[str, Any]:
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
        for path, name in self.ids.items():
            rows = found[name] = []
            with contextlib.suppress(RefoldError):
                rows.extend(changes(sound(path, self.reports[path].entries, resolve=True)))
            for row in () if self.content else (each for entry in rows for each in entry):
                if len(row) > _VALUE and isinstance(row[_VALUE], dict) and "brief" in row[_VALUE]:
                    row[_VALUE]["brief"] = left_out(row[_VALUE]["brief"])
        return found

    def _bare(self, path: Path) -> list[list[Any]]:
        times = self.times[self.ids[path]]
        return [
            [each.seq, each.kind, each.call, each.cause, each.hash, at]
            for each, at in zip(sound(path, len(times)), times, strict=True)
        ]


_SIGNED: Final = (
    "Authentic: nothing is signed. Anyone who can write the logs can write other intact ones. "
    "Only a head that is kept elsewhere can detect that."
)
_KERNEL: Final = (
    "Guarantee “kernel”: the program ran on Refold's kernel; replay executes it again and names "
    "each divergence."
)
_MATCHED: Final = "Guarantee “matched”: a command was watched; replay matches its requests."

_RUN_ID: Final = re.compile(r"[0-9a-f]{8,64}")

_VALUE: Final = 2
"""The index of a state change's value."""


def left_out(value: Any) -> Any:
    """Return the replacement for content: its size."""
    if value is None or value in ("", [], {}):
        return value
    size = len(value.encode()) if isinstance(value, str) else len(encode(value))
    return f"({size:,} bytes left out)"


def without_content(tree: RunNode) -> RunNode:
    """Return a tree with sizes in place of the texts of tools and models."""
    error = tree.error and Fault(code=tree.error.code, message=left_out(tree.error.message))
    name = tree.name
    if tree.scope and not tree.agent and name != MAIN:  # the beginning of a prompt
        name = f"conversation {tree.scope}"
    return attrs.evolve(
        tree,
        name=name,
        standing=WORDS.get(tree.status, ""),
        files=(),
        brief=left_out(tree.brief),
        input=left_out(tree.input),
        error=error,
        children=tuple(map(without_content, tree.children)),
    )


def _ids(paths: Iterable[Path], tree: RunNode, taken: set[str]) -> dict[Path, str]:
    """Name logs by the runs that their parents started, else by their first lines.

    One of no known run, or of a run that has a log, is named by its file.
    """
    ids: dict[Path, str] = {}
    started = {Path(node.log): node.run_id for node in below(tree) if node.log}
    for path in paths:
        name = started.get(path, "")
        if not name and (first := next(sound(path), None)) is not None:
            name = str(first.data.get("run_id"))
        if not _RUN_ID.fullmatch(name) or name in taken:
            name = path.name
        while name in taken:  # the same file on both sides of a comparison
            name += "~"
        taken.add(name)
        ids[path] = name
    return ids


def _links(counts: dict[Path, int], ids: dict[Path, str]) -> dict[tuple[str, int], list[Link]]:
    """Return what led to each entry directly, the link of its chain first."""
    return {
        (ids[path], seq): [(how, ids.get(above, ""), at) for how, (above, at) in direct]
        for (path, seq), direct in direct_causes(counts)
    }


def _linked(
    links: dict[tuple[str, int], list[Link]], logs: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return by log the link of each entry's chain; and by entry, what else led to it.

    The links of a log are three lists, which a browser holds in a tenth of the memory of one list
    of links: `how`, a number of `words`, and for its origin, `log`, a number of `logs` (-1: it is
    not here), and `seq`, which is -1 for an entry without a cause.
    """
    words: dict[str, int] = {}
    main: dict[str, Any] = {each: {"how": [], "log": [], "seq": []} for each in logs}
    places = {each: at for at, each in enumerate(main)}
    for (log, _), direct in links.items():
        how, above, seq = direct[0] if direct else ("", log, -1)
        row = words.setdefault(how, len(words)), places.get(above, -1), seq
        for name, value in zip(("how", "log", "seq"), row, strict=True):
            main[log][name].append(value)
    beside = {f"{log}:{seq}": direct[1:] for (log, seq), direct in links.items() if direct[1:]}
    return main | {"words": list(words), "logs": list(places)}, beside


def _file_text(change: str, path: str, lines: tuple[int | None, int | None]) -> str:
    """Return what became of a file, on one line: `~ src/app.py +2 -1`."""
    mark = {"added": "+", "removed": "-"}.get(change, "~")
    return f"{mark} {path}" + (f" +{lines[0]} -{lines[1]}" if None not in lines else "")


def _least(found: re.Match[str]) -> str:
    return f"≥ {found[1]}" if found[1] else ""


def _is_there(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _verdict(
    found: Verification, tree: RunNode, ids: dict[Path, str], *, content: bool
) -> dict[str, Any]:
    told = ("line", "what", "expected", "found") if content else ("line", "what")
    problems = [
        {"log": ids.get(Path(each.path)), "name": Path(each.path).name}
        | {name: getattr(each, name) for name in told}
        | {"what": ": ".join(filter(None, (each.what, damage_meaning(each.what))))}
        for each in found.damage
    ]
    answers = {name: getattr(found, name) for name in ("intact", "complete", "authentic")}
    standing = tree.status if tree.status in STANDINGS else ""
    guarantee = _MATCHED if found.root.guarantee else _KERNEL
    about = {"standing": standing, "how": tree.standing, "words": [_SIGNED, guarantee]}
    return answers | about | {"problems": problems}


def _lane(node: RunNode, log: str) -> Lane:
    return Lane(log, node.scope or None, node.name, node.status, node.standing, node.duration_ms)


def _lanes(tree: RunNode, ids: dict[Path, str]) -> dict[Path, dict[str | None, Lane]]:
    """Return the lanes of each log, in the order of the tree: of a watched command, one a talk."""
    found: dict[Path, dict[str | None, Lane]] = {}
    root = Path(tree.log)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.children))
        path = Path(node.log) if node.log else None
        if path in ids and node.log_state != "foreign":
            lane = _lane(node, ids[path])
            lane.limits = node.limits
            found.setdefault(path, {})[None] = lane
        if node.scope:
            found[root].pop(None, None)
            found[root][node.scope] = _lane(node, ids[root])
    return found | {path: {} for path in ids if path not in found}
