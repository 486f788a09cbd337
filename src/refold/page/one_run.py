"""Collects the page's data of one run.

Nothing is judged here: the agents are `replay.run.opened_run`'s, what led to what
`replay.audit.why`'s, whether the logs are true `replay.audit.verify`'s.  A log is named by the id
of its run, which does not change when other logs are added; an entry by its number.  Rules:
CONTRACT.md §14.16.
"""

import contextlib
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import attrs

from refold import __version__
from refold.engine.errors import RefoldError, damage_meaning
from refold.engine.state.digests import state_json
from refold.engine.state.folding import Fold
from refold.engine.workspace.paths import as_text
from refold.page.critical import Link, critical_path
from refold.page.entries import large_texts, read_times, sound
from refold.page.turns import Turns, cut, spending, without_content
from refold.replay.audit.verify import Verification, verify
from refold.replay.audit.why import direct_causes
from refold.replay.index.standing import RUNNING, STANDINGS, WORDS
from refold.replay.index.times import origin_of
from refold.replay.observed.folder import folder_diffs
from refold.replay.run import amounts
from refold.replay.run.opened_run import Agent, OpenedRun
from refold.replay.run.run_node import FileUse, RunNode
from refold.replay.run.totals import below

VERSION: Final = 2

TITLE_MAX: Final = 200
"""Characters of a title."""

STATES_MAX: Final = 1_000
"""Entries of a log; of larger ones, the page has no states, and names the command instead."""

DIFFS_MAX: Final = 20_000_000
"""Characters of diffs of files in one page; those beyond are left out."""


class OneRun:
    """One run, read once for each thing that is known of it."""

    def __init__(
        self,
        run: OpenedRun,
        taken: Iterable[str] = (),
        *,
        content: bool,
        files: bool = False,
        before: "OneRun | None" = None,
    ) -> None:
        """Read the rest of a run; ids in `taken` belong to other logs.

        `before` is an earlier reading of the run.
        """
        self.run, log = run, run.log
        self.log, self.content, self.has_diffs = log, content, files
        self.turns: Turns = Turns({} if before is None else before.turns.known)
        self.tree = tree = run.tree
        nodes = below(tree)
        is_sound = all(each.log_state in ("read", "none") for each in nodes)
        self.verification: Verification | None = None
        """`None` for a run that is being written: the page checks the chain of each log itself."""
        if tree.status == RUNNING and is_sound:
            known = {Path(each.log): (each.entries, each.head) for each in nodes if each.log}
        else:
            self.verification = verify(log)
            known = {Path(e.path): (e.entries, e.head) for e in self.verification.logs}
        # The log that was named may be a link; a child's may not (CONTRACT.md §4.0).
        self.logs = {path: each for path, each in known.items() if path == log or _is_there(path)}
        """By path: entries, and the hash of the last."""
        self.ids = _ids(self.logs, tree, {*taken})

    @cached_property
    def _origin(self) -> tuple[int, int]:
        return origin_of(next(iter(sound(self.log))))

    @cached_property
    def _times(self) -> dict[str, tuple[list[int], list[str]]]:
        """By the id of a log: the time and the scope of each entry."""
        return {
            self.ids[path]: read_times(path, self._origin, entries)
            for path, (entries, _) in self.logs.items()
        }

    @cached_property
    def blobs(self) -> dict[str, int]:
        """The sizes of large texts by digest."""
        found: dict[str, int] = {}
        for path, (entries, _) in self.logs.items():
            found.update(large_texts(path, entries))
        return found

    def document(self) -> dict[str, Any]:
        """Return the page's data of this run alone."""
        run, root = self.run, self.tree
        edits = ", ".join(run.forked.get("edits", ()))
        title = run.title if self.content and root.guarantee else root.name
        if not root.guarantee and self.content and (told := run.agents[0].task_text.split("\n")[0]):
            # A bare value says little.
            title = told[:TITLE_MAX] if " " in told.strip() else f"{root.name} {told[:TITLE_MAX]}"
        document = {
            "version": VERSION,
            "refold": __version__,
            "name": self.log.name,
            "path": self.log.name if self.log.is_absolute() else str(self.log),
            "title": title + (f" · edited: {edits}" if edits else ""),
            "guarantee": root.guarantee or "kernel",
            "content": self.content,
            "verdict": self._verdict(),
            "logs": [self._log(path) for path in self.ids],
            "agents": [self._agent(each) for each in _in_order(run.agents)],
            "main": (run.main if run.is_watched else run.agents[0]).key,
            "question": run.question if self.content else None,
            "changes": self._changes() if self.content and root.guarantee else [],
            "totals": run.totals,
            "failures": amounts.failures(run.totals["requests_failed"]),
            "critical": self._critical(),
            "diff": None,
        }
        if self.content:
            return document
        rows = {name: self._bare(path) for path, name in self.ids.items()}
        return {**without_content(document), "entries": rows}

    def _agent(self, agent: Agent) -> dict[str, Any]:
        node, turns = agent.node, self.turns.of(agent)
        usage = spending(node.usage, node.priced)
        path = self.log if node.scope else Path(node.log) if node.log else None
        limits = (
            f"{value:,} {'s' if name == 'timeout_seconds' else name.removeprefix('max_')}"
            for name, value in node.narrowed.items()
        )
        return {name: getattr(node, name) for name in _FACTS} | {
            "key": agent.key,
            "parent": agent.parent,
            "standing": self._standing(node),
            "error": node.error and attrs.asdict(node.error),
            "tools": [*map(attrs.asdict, node.tools)],
            "told": cut(agent.task_text),
            "answered": cut(agent.answered),
            "files": [_file(each) for each in node.files if self.content],
            "usage": usage,
            "own_usage": spending(node.own_usage, node.own_priced),
            "log": self.ids.get(path) if path else None,
            "seq": next((min(turn["entries"]) for turn in turns if turn["entries"]), None)
            if node.scope
            else 0,
            # In the column of a table: `≥ $0.21` of `at least $0.21 (1 answer not counted)`.
            "cost": re.sub("^at least (.*) \\(.*|^cost .*", _least, usage["cost"]),
            "limits": ", ".join(limits).replace("_", " "),
            "notable": [*node.notable.values()],
            "below": len(node.children),
            "interval": agent.interval or (None, None),
            "turns": turns,
        }

    def _standing(self, node: RunNode) -> str:
        """Return the standing of an agent without an end, in words, with the question if any."""
        return node.standing if self.content else WORDS.get(node.status, "")

    @cached_property
    def _links(self) -> dict[tuple[str, int], list[Link]]:
        return _links({path: entries for path, (entries, _) in self.logs.items()}, self.ids)

    def links(self) -> dict[str, Any]:
        """Return what led to each entry: the link of its chain by log, and those beside it."""
        main, beside = _linked(self._links, self.ids.values())
        return main | {"beside": beside}

    @cached_property
    def _starts(self) -> dict[str, dict[str, Any]]:
        """By the id of a child's log: the log and the entry of its start."""
        by_key = self.run.by_key
        return {
            self.ids[Path(by_key[step.child].node.log)]: {
                "log": self.ids[Path(agent.node.log)],
                "seq": step.entries[0],
            }
            for agent in self.run.agents
            for turn in agent.turns
            for step in turn.steps
            if step.child and Path(by_key[step.child].node.log) in self.ids
        }

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
                rows.append(
                    {"seq": seq, "calls": calls, "path": as_text(change.path)}
                    | {"text": text + by, "diff": diff}
                )
        return rows

    def _critical(self) -> list[list[Any]]:
        """Return the critical path of a run that ended; of a watched command, it is not known."""
        if self.tree.guarantee or self.tree.status in STANDINGS:
            return []
        times, scopes = ({log: each[at] for log, each in self._times.items()} for at in (0, 1))
        return critical_path(self._links, times, scopes, self.ids[self.log])  # type: ignore[arg-type]

    def _verdict(self) -> dict[str, Any]:
        tree, found = self.tree, self.verification
        return {
            "intact": found is None or found.intact,
            "complete": found is not None and found.complete,
            "standing": tree.status if tree.status in STANDINGS else "",
            "how": self._standing(tree),
            "problems": [
                {"log": self.ids.get(Path(each.path)), "name": Path(each.path).name}
                | {"line": each.line}
                | {"what": ": ".join(filter(None, (each.what, damage_meaning(each.what))))}
                for each in (found.damage if found else ())
            ],
        }

    def _log(self, path: Path) -> dict[str, Any]:
        entries, head = self.logs[path]
        return {
            "id": self.ids[path],
            "name": path.name,
            "bytes": path.stat().st_size,
            "entries": entries,
            "head": head,
            "parent": self._starts.get(self.ids[path]),
        }

    def states(self) -> dict[str, list[dict[str, Any]]]:
        """Return by log the members of the state that each entry changed.

        As far as a log can be folded, and none of a large one.
        """
        found: dict[str, list[dict[str, Any]]] = {}
        for path, name in self.ids.items():
            entries = self.logs[path][0]
            if entries > STATES_MAX or not self.content:
                continue
            rows, fold, before = list[dict[str, Any]](), Fold(), dict[str, Any]()
            found[name] = rows
            with contextlib.suppress(RefoldError):
                for entry in sound(path, entries, resolve=True):
                    fold.apply(entry.event, entry.call, entry.seq)
                    after = state_json(fold.state())
                    rows.append(
                        {k: v for k, v in after.items() if k not in before or v != before[k]}
                    )
                    before = after
        return found

    def _bare(self, path: Path) -> list[list[Any]]:
        times = self._times[self.ids[path]][0]
        return [
            [each.seq, each.kind, each.call, each.cause, each.hash, at]
            for each, at in zip(sound(path, len(times)), times, strict=True)
        ]


_FACTS: Final = (
    "entries", "name", "number", "depth", "status", "where", "tool", "models", "requests_failed",
    "how", "is_provisional", "scope", "log_state", "duration_ms",
)  # fmt: skip
"""Members of an agent's node that the page shows as they are."""

_RUN_ID: Final = re.compile(r"[0-9a-f]{8,64}")


def _in_order(agents: list[Agent]) -> list[Agent]:
    """Return agents with those below each right behind it."""
    below: dict[str | None, list[Agent]] = {}
    for each in agents:
        below.setdefault(each.parent, []).append(each)
    found, waiting = list[Agent](), below.get(None, [])[::-1]
    while waiting:
        found.append(waiting.pop())
        waiting += below.get(found[-1].key, [])[::-1]
    return found


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


def _file(use: FileUse) -> dict[str, str]:
    text = _file_text(use.change, use.path, (use.lines_added, use.lines_removed))
    return {"path": use.path, "text": text + ("" if use.is_sole else " (perhaps by others)")}


def _file_text(change: str, path: str, lines: tuple[int | None, int | None]) -> str:
    """Return what became of a file, on one line: `~ src/app.py +2 -1`."""
    mark = {"added": "+", "removed": "-"}.get(change, "~")
    return f"{mark} {path}" + (f" +{lines[0]} -{lines[1]}" if None not in lines else "")


def _least(found: re.Match[str]) -> str:
    return f"≥ {found[1]}" if found[1] else ""


def _is_there(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
