"""Collects the page's data of one run.

Nothing is judged here: the agents are `replay.run.opened_run`'s, what led to what
`replay.audit.why`'s, whether the logs are true `replay.audit.verify`'s.  The root's log has the id
`0`, its first child's `1`, and the first one below that `1.1`.  Rules: CONTRACT.md §14.16.
"""

import contextlib
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from refold import __version__
from refold.engine.encoding.document import plain
from refold.engine.errors import RefoldError, damage_meaning
from refold.engine.log.names import SUFFIX, is_there
from refold.engine.state.digests import state_json
from refold.engine.state.folding import Fold
from refold.engine.workspace.paths import as_text
from refold.page.critical import CauseLinks, critical_path
from refold.page.entries import large_texts, read_times, sound
from refold.page.turns import Turns, cut
from refold.replay.audit.verify import Verification, verify
from refold.replay.audit.why import direct_causes
from refold.replay.index.standing import RUNNING, STANDINGS, WORDS
from refold.replay.index.times import origin_of
from refold.replay.observed.folder import folder_diffs
from refold.replay.run import amounts
from refold.replay.run.opened_run import Agent, OpenedRun
from refold.replay.run.run_node import RunNode, below

VERSION: Final = 2

STATES_MAX: Final = 1_000
"""Entries of a log; of larger ones, the page has no states, and names the command instead."""

DIFFS_MAX: Final = 20_000_000
"""Characters of diffs of files in one page; those beyond are left out."""


class OneRun:
    """One run, read once for each thing that is known of it."""

    def __init__(
        self,
        run: OpenedRun,
        *,
        content: bool,
        files: bool = False,
        before: "OneRun | None" = None,
        mark: str = "",
    ) -> None:
        """Read the rest of a run; `before` is an earlier reading of it.

        The ids of its logs end with `mark`.
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
        self.logs = {path: each for path, each in known.items() if path == log or is_there(path)}
        """By path: entries, and the hash of the last."""
        above = f"{log.name.removesuffix(SUFFIX)}."
        numbers = {path: path.name.removeprefix(above).removesuffix(SUFFIX) for path in self.logs}
        self.ids = {path: number + mark for path, number in (numbers | {log: "0"}).items()}

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

    @property
    def title(self) -> str:
        """The title of the run, with what was edited in a fork."""
        edits = ", ".join(self.run.forked.get("edits", ()))
        title = self.run.title if self.content else self.tree.name
        return f"{title} · edited: {edits}" if edits else title

    def facts(self, node: RunNode) -> dict[str, Any]:
        """Return what `refold show --json` says of an agent, which needs no text of a call."""
        names = (name for name in node.members() if name not in _LEFT_OUT)
        facts = {name: plain(getattr(node, name)) for name in names}
        if self.content:
            return facts
        # the words of a question, and names of files
        return facts | {"standing": WORDS.get(node.status, ""), "files": []}

    def document(self) -> dict[str, Any]:
        """Return the page's data of this run alone."""
        run, root = self.run, self.tree
        agents = [self.agent(each) | {"turns": self.turns.of(each)} for each in run.agents]
        document = {
            "version": VERSION,
            "refold": __version__,
            "name": self.log.name,
            "path": self.log.name if self.log.is_absolute() else str(self.log),
            "title": self.title,
            "guarantee": root.guarantee or "kernel",
            "content": self.content,
            "verdict": self.verdict(),
            "logs": self._logs(agents),
            "agents": agents,
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
        return document | {"entries": {name: self._bare(path) for path, name in self.ids.items()}}

    def agent(self, agent: Agent) -> dict[str, Any]:
        """Return an agent but for its turns, its task once."""
        node = agent.node
        log = self.log if node.scope else Path(node.log)
        firsts = (min(turn.entries) for turn in agent.turns if turn.entries)
        return self.facts(node) | {
            "key": agent.key,
            "parent": agent.parent,
            "below": len(node.children),
            "told": cut(agent.task_text),
            "answered": cut(agent.answered),
            "spent": amounts.spent(node.usage, node.priced),
            "own_spent": amounts.spent(node.own_usage, node.own_priced),
            "interval": agent.interval or (None, None),
            "log": self.ids.get(log),
            "seq": next(firsts, None) if node.scope else 0,
        }

    @cached_property
    def links(self) -> CauseLinks:
        """What led to each entry directly."""
        ids, counts = self.ids, {path: entries for path, (entries, _) in self.logs.items()}
        found = (
            (ids[path], seq, [(how, ids.get(above, ""), at) for how, (above, at) in direct])
            for (path, seq), direct in direct_causes(counts)
        )
        return CauseLinks(ids.values(), found)

    def _changes(self) -> list[dict[str, Any]]:
        """Return each change of a file, with its diff if that was asked for."""
        rows, rest = list[dict[str, Any]](), DIFFS_MAX
        with contextlib.suppress(RefoldError):  # the verdict tells of damage
            for seq, calls, change, lines in folder_diffs(self.log, has_diffs=self.has_diffs):
                kind = "changed" if change.before and change.after else ""
                diff = "\n".join(lines)
                rest -= len(diff)
                rows.append(
                    {"seq": seq, "calls": calls, "path": as_text(change.path)}
                    | {"change": kind or ("added" if change.after else "removed")}
                    | {"lines_added": change.added, "lines_removed": change.removed}
                    | {"diff": diff if rest >= 0 else _TOO_LARGE}
                )
        return rows

    def _critical(self) -> list[list[Any]]:
        """Return the critical path of a run that ended; of a watched command, it is not known."""
        if self.tree.guarantee or self.tree.status in STANDINGS:
            return []
        times, scopes = ({log: each[at] for log, each in self._times.items()} for at in (0, 1))
        return critical_path(self.links, times, scopes, self.ids[self.log])  # type: ignore[arg-type]

    def verdict(self) -> dict[str, Any]:
        """Return whether the logs are true, and where they are not."""
        found = self.verification
        return {
            "intact": found is None or found.intact,
            "complete": found is not None and found.complete,
            "problems": [
                {"log": self.ids.get(Path(each.path)), "name": Path(each.path).name}
                | {"line": each.line}
                | {"what": ": ".join(filter(None, (each.what, damage_meaning(each.what))))}
                for each in (found.damage if found else ())
            ],
        }

    def _logs(self, agents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the logs, each with the entry that started its run."""
        steps = ((a["log"], s) for a in agents for turn in a["turns"] for s in turn["steps"])
        starts = {s["child"]: {"log": log, "seq": s["entries"][0]} for log, s in steps}
        parents = {each["log"]: starts.get(each["key"]) for each in agents if not each["scope"]}
        return [
            {"id": name, "name": path.name, "bytes": path.stat().st_size}
            | {"entries": self.logs[path][0], "head": self.logs[path][1]}
            | {"parent": parents.get(name)}
            for path, name in self.ids.items()
        ]

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


_LEFT_OUT: Final = frozenset(
    {"artifacts", "brief", "children", "ended_us", "head", "input", "run_id"}
)
"""Members of an agent that the page has in another form, or does not show."""
_TOO_LARGE: Final = "too large for this page: refold show LOG --files"
