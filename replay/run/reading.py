"""One log on its way into a run: what its agents did, how far it was read, and any problem.

`replay.run.program` and `replay.run.watched` assign each entry to an agent, and make nodes. A
missing or damaged blob does not stop them, because a tree does not need it. The rules are
CONTRACT.md §13.9.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from refold.engine.errors import EventMalformed, LimitRefused, LogDamaged, LogError
from refold.engine.events.codec import structure
from refold.engine.events.events import ModelAnswered, Recorded, RunFinished, RunStarted
from refold.engine.events.outcome import Usage
from refold.engine.log.beside import Marked
from refold.engine.log.blobs import BlobBroken, is_marked
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.reader import Entry
from refold.engine.models.prices import Prices
from refold.replay.index.kept_folds import LogFold, fold_log
from refold.replay.index.times import is_time
from refold.replay.run.run_node import LogState, RunNode, ToolUse

if TYPE_CHECKING:  # with all that a watched command needs
    from refold.engine.observed.profile import Profile
    from refold.replay.run.steady import Steady


@attrs.define
class Span:
    """The time from the first to the last of some entries, without that in which nothing ran."""

    _first_us: int | None = None
    _last_us: int | None = None
    _before_us: int = 0
    """How long it ran before it was continued."""

    def take(self, entry: Entry) -> None:
        """Note when an entry was written, if recorded."""
        at = entry.meta.get("mono_us")
        if not is_time(at):
            return
        if self._first_us is None:
            self._first_us = at
        elif entry.kind == "run.resumed":  # its clock may be another machine's
            self._before_us += (self._last_us or self._first_us) - self._first_us
            self._first_us = self._last_us = at
        else:
            self._last_us = at

    def duration_ms(self) -> int | None:
        """Return for how many milliseconds it ran; `None` for one entry alone."""
        if self._first_us is None or self._last_us is None:
            return None
        return (self._before_us + self._last_us - self._first_us) // 1000


@attrs.define
class AgentWork:
    """What one agent did: a run on the kernel, or a conversation of a watched command."""

    requests: int = 0
    usage: Usage = Usage()
    failed: Counter[str] = attrs.field(factory=Counter)
    """Requests without a whole answer, by reason."""
    models: dict[str, None] = attrs.field(factory=dict)
    uses: dict[str, ToolUse] = attrs.field(factory=dict)
    open: dict[str, str] = attrs.field(factory=dict)
    """By call that has not ended: its tool."""
    last_failed: str = ""
    """The tool of the last result, if that is a failure."""

    def called(self, call: str, tool: str) -> None:
        """Take a call of a tool."""
        self.open[call] = tool
        self.uses.setdefault(tool, ToolUse(tool)).called += 1

    def ended(
        self, call: str, *, failed: bool = False, refused: bool = False, cancelled: bool = False
    ) -> None:
        """Take the end of a call; of one that is not open, nothing."""
        if (tool := self.open.pop(call, None)) is not None:
            use = self.uses[tool]
            use.failed += failed
            use.refused += failed and refused
            use.cancelled += cancelled
            self.last_failed = tool if failed else ""

    def facts(self) -> dict[str, Any]:
        """Return the fields of a node about what it did itself."""
        return {
            "requests": self.requests,
            "requests_failed": dict(self.failed),
            "models": tuple(self.models),
            "tools": tuple(map(attrs.evolve, self.uses.values())),  # they still count
            "last_failed": self.last_failed,
            "own_usage": self.usage,
        }


def fold_sensibly(fold: LogFold, *, last: int | None = None, keeps: bool = True) -> LogError | None:
    """Let a fold take entries as `fold_log` does; return what stopped it before the end.

    Raises:
        LogMissing: the file does not exist.
        LogUnsupported: it was written by a newer version.
    """
    try:
        fold_log(fold, last=last, keeps=keeps)
    except (LogDamaged, EventMalformed) as error:
        return error
    except BlobBroken as broken:
        return EventMalformed("entry", "", broken.expected, broken.found)
    except (AttributeError, LookupError, TypeError, ValueError, LimitRefused) as error:
        # Nonsense whose chain holds.
        return EventMalformed("entry", "", "the data of its kind", str(error))
    return None


class Reading(LogFold):
    """The entries of one log, read to its end or to where it does not verify."""

    UNKEPT = LogFold.UNKEPT | {"wrong", "_prices"}
    folder = ""
    """The folder that a watched command worked in; empty for a program."""
    asides: Mapping[str, list[str]] = MappingProxyType({})
    """By the conversation above: the scopes of requests beside the work."""

    def __init__(self, path: Path, prices: Prices | None = None) -> None:
        super().__init__(path)
        self._prices = prices
        """For answers whose cost is not in the log; `None`: it stays unknown."""
        self._to_price: dict[str | None, dict[str, Any]] = {}
        """By open call, if there are prices: the request to a model."""
        self._span = Span()
        self.started: RunStarted | None = None
        self.finished: RunFinished | None = None
        self.wrong: LogError | None = None
        """What stopped the reading; `None`: nothing did."""
        self._marked = array("q")
        """Number and offset of each entry with large texts."""

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        if self._prices is not None and entry.kind == "model.asked":
            self._to_price[entry.call] = entry.data
        if is_marked(entry.line):
            self._marked.extend((entry.seq, entry.offset))
        self.note(entry)
        super().take(entry)
        self._span.take(entry)

    def note(self, entry: Entry) -> None:
        """Keep an entry's data for the tree; subclasses define which."""

    def read(self) -> None:
        """Take the entries that were written since, to the end or the first that does not verify.

        Raises:
            LogMissing: the file does not exist.
            LogUnsupported: it was written by a newer version.
        """
        self.wrong = fold_sensibly(self, keeps=self._prices is None)

    @property
    def profile(self) -> "Profile | None":
        """The profile of a watched command; `None` for a program."""
        return None

    @property
    def steady(self) -> "Steady | None":
        """Knows what changes on every run of a watched command; `None` for a program."""
        return None

    def root(self) -> RunNode:
        """Return the node of the run that was asked for, with all below it.

        Raises:
            LogError: nothing could be read.
        """
        raise NotImplementedError

    def logs(self) -> "Iterator[Reading]":
        """Yield this log and those below it."""
        yield self

    def marked(self) -> Marked:
        """Return which of the lines that were taken name large texts."""
        return self._marked, self.entries, self.end

    def event(self, entry: Entry) -> Recorded:
        """Return the event of an entry, with its large texts inserted.

        Raises:
            EventMalformed: its data does not fit its kind.
        """
        try:
            event = structure(entry.kind, self.data(entry))
        except BlobBroken as broken:
            raise EventMalformed(entry.kind, "", broken.expected, broken.found) from None
        if self._prices is not None and isinstance(event, ModelAnswered):
            name = self.model_name(self._to_price.pop(entry.call, {}))
            return attrs.evolve(event, usage=self._prices.priced(event.usage, name))
        return event

    def model_name(self, asked: Mapping[str, Any]) -> str:
        """Return the model of a request, with its provider: `openai:gpt-4o`."""
        return str(asked.get("model", ""))

    def facts(self) -> dict[str, Any]:
        """Return the fields of a node about its log and the run's end."""
        facts: dict[str, Any] = {
            "log_state": self.log_state,
            "log": str(self.path),
            "entries": self.entries,
            "head": self.head,
        }
        if self.finished is not None:
            facts |= {name: getattr(self.finished, name) for name in ("status", "reason", "error")}
        return facts

    def root_facts(self) -> dict[str, Any]:
        """Return the fields of a root's node that a child has from its parent's log.

        Raises:
            LogError: nothing could be read.
        """
        if self.started is None:
            raise self.wrong or LogDamaged(str(self.path), 1, 0, "run.started", "none", "order")
        facts = {name: getattr(self.started, name) for name in ("program", "input", "run_id")}
        duration_ms = self._span.duration_ms() if self.finished is not None else None
        return facts | {"name": self.started.program, "duration_ms": duration_ms}

    @property
    def log_state(self) -> LogState:
        """Whether the log was read to its end."""
        if self.wrong is None:
            return "read"
        is_torn = isinstance(self.wrong, LogDamaged) and self.wrong.what == TORN_TAIL
        return "torn" if is_torn else "damaged"
