"""The first place where a re-execution differs from its record, for people and for machines.

`replay.reexecute.world` finds it, `replay.explain.naming` finds its category,
`replay.explain.causes` guesses its cause; this file defines its data and its text.  The categories
are CONTRACT.md §12.4, the members §12.5.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.log.reader import Entry
from refold.replay.difference.causes import DiffCause, cause_of, causes
from refold.replay.difference.excuses import Ignored
from refold.replay.difference.pointer_diff import Difference, differences, differing, shown
from refold.replay.difference.text_diff import TextChange
from refold.replay.index.asked_items import inside, item_of

Category = Literal[
    "missing_call",
    "extra_call",
    "reordered",
    "kind_changed",
    "name_changed",
    "args_changed",
    "result_changed",
    "output_changed",
    "unconsumed",
    "unrecorded_await",
    "not_served",
    "log_damaged",
    "environment",
]

HEADLINES: Final[dict[Category, str]] = {
    "missing_call": "a recorded call is no longer made",
    "extra_call": "a call is made that was not recorded",
    "reordered": "calls are made in a different order or task",
    "kind_changed": "a different kind of request is made",
    "name_changed": "a different name is called",
    "args_changed": "a call is made with different arguments",
    "result_changed": "a result differs from the recorded one",
    "output_changed": "the run ended differently",
    "unconsumed": "the program ends before the recording does",
    "unrecorded_await": "the program waits where the recorded run continued",
    "not_served": "a recorded answer does not reach the program",
    "log_damaged": "the log cannot be trusted",
    "environment": "the program behaves differently in this environment",
}


@attrs.frozen(kw_only=True)
class Later(Document):
    """A difference after the first, found while the program was let run on (CONTRACT.md §12.4)."""

    category: Category
    where: str
    call: str = ""
    seq: int | None = None
    recorded: Json = None
    now: Json = None
    diff: tuple[Difference, ...] = ()
    consequence: bool = True
    """Whether it may follow from the first; not if it is in a task beside it."""

    def __str__(self) -> str:
        follows = "may follow from the first" if self.consequence else "independent of the first"
        lines = [f"{self.category}  {self.where}  ({follows})"]
        if self.recorded is not None:
            at = f"  (entry {self.seq})" if self.seq is not None else ""
            lines.append(f"    recorded  {_request(self.recorded)}{at}")
        lines.append(f"    now       {_request(self.now)}")
        lines += [f"    differs   {_spot(one)}" for one in self.diff[:_LATER_DIFFS_SHOWN]]
        return "\n".join(lines)


@attrs.frozen(kw_only=True)
class Divergence(Document):
    """The place, the recorded and the current value, and the probable cause."""

    computed = ("headline",)
    hidden = ("when",)

    category: Category
    """What differs; `headline` says it as a sentence."""
    where: str
    """`root > researcher[2] > search#3`: names from the root down."""
    turn: int | None = None
    """The agent's last model request by then, from 1; `None` before the first."""
    log: str
    """The log that the run was compared with."""
    call: str = ""
    """The call key; empty for the run itself."""
    seq: int | None = None
    """Of the recorded entry; `None` where the record has none."""
    recorded: Json = None
    """{kind, name, call, arguments} of the recorded request, or the recorded end of the run."""
    now: Json = None
    """The same for the program's current request or result."""
    diff: tuple[Difference, ...] = ()
    """From `recorded` to `now`."""
    texts: tuple[TextChange, ...] = ()
    """What changed in long texts and in messages, line by line or word by word."""
    last: tuple[str, ...] = ()
    """The last entries that matched, one line each."""
    file: str = ""
    """The program's file; empty where it is not known."""
    line: int = 0
    """The line in it; 0 where it is not known."""
    fingerprints: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    """What else is not as it was: name → (recorded, now)."""
    cause: str = ""
    """The likely cause, and what to do."""
    later: tuple[Later, ...] = ()
    """What differs after it, in the order of the record; at most `LATER_MAX` of them."""
    later_count: int = 0
    """How many there are."""
    when: tuple[int, ...] = attrs.field(default=(), eq=False)
    """What sorts divergences of one run in time: entries, of the starts above and its own."""

    def as_cause(self) -> DiffCause:
        """Return it as a cause of its own."""
        run = self.where.rpartition(" > ")[0] if self.call else self.where
        side = self.now if isinstance(self.now, Mapping) else self.recorded
        about = side if isinstance(side, Mapping) else {}
        sides = _without_key(self.recorded), _without_key(self.now)
        return cause_of(
            self, run=run or self.where, call=str(about.get("name") or about.get("kind") or ""),
            what=self.category, where=self.where, turn=self.turn, differences=self.diff,
            sides=sides, texts=self.texts, follows=self.later_count,
            place=(self.file, self.line, "" if self.diff else repr(sides)),
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """The category as a sentence."""
        return HEADLINES[self.category]

    def __str__(self) -> str:
        lines = [f"{self.category}: {HEADLINES[self.category]}", f"  where     {self.where}"]
        if self.file:
            lines.append(f"  program   {self.file}:{self.line}")
        at = f"  (entry {self.seq} of {self.log})" if self.seq is not None else ""
        if self.recorded is not None or self.seq is not None:
            lines.append(f"  recorded  {_request(self.recorded)}{at}")
        if self.now is not None or self.recorded is not None:
            lines.append(f"  now       {_request(self.now)}")
        lines += self._changes()
        lines += [f"  matched   {line}" for line in self.last[-_LAST_SHOWN:]]
        lines += [
            f"  changed   {name}" + (f": {_short(before)} → {_short(now)}" if before or now else "")
            for name, (before, now) in self.fingerprints.items()
        ]
        if self.cause:
            lines.append(f"  likely    {self.cause}")
        return "\n".join(lines)

    def _changes(self) -> list[str]:
        """Return what differs: each text line by line, everything else by its pointer."""
        shown_below = {change.what for change in self.texts}
        is_told = any(what.startswith("message ") for what in shown_below)
        diff = [
            one
            for one in self.diff
            if one.pointer not in shown_below
            and not (is_told and one.pointer.startswith(_OF_CONVERSATION))
        ]
        lines = differing(diff, _DIFFS_SHOWN)
        for change in self.texts[:_DIFFS_SHOWN]:
            lines.append(f"  differs   {change.what}:")
            lines += [f"            {line}" for line in change.lines]
        if len(self.texts) > _DIFFS_SHOWN:
            lines.append(f"            … and in {len(self.texts) - _DIFFS_SHOWN} more texts")
        return lines

    def in_full(self) -> str:
        """Return the text with all later differences."""
        lines = [str(self)]
        lines += [f"  then      {str(one).replace(chr(10), chr(10) + '  ')}" for one in self.later]
        if self.later_count > len(self.later):
            lines.append(f"            … and {self.later_count - len(self.later)} more")
        return "\n".join(lines)


LATER_MAX: Final = 100
"""Later differences that a divergence holds."""

_DIFFS_SHOWN: Final = 8
_LATER_DIFFS_SHOWN: Final = 3
_LAST_SHOWN: Final = 3
_OF_CONVERSATION: Final = ("/arguments/added", "/arguments/base", "/arguments/predecessor")
"""Log members of a conversation, omitted if its messages are shown one by one."""


@attrs.frozen(kw_only=True)
class DivergenceReport(Document):
    """What a replay of a program, and of a watched command, report alike."""

    computed: ClassVar[tuple[str, ...]] = ("identical", "causes")

    divergences: tuple[Divergence, ...] = ()
    """The first of each run or conversation that differs, in the order of time."""
    entries: int = 0
    """Entries compared, over all logs."""
    ignored: tuple[Ignored, ...] = ()
    """Ignored differences, volatile or redacted; at most 1,000 per run."""
    ignored_count: int = 0
    """How many these are in all."""

    @property
    def causes(self) -> tuple[DiffCause, ...]:
        """The divergences, equal ones as one."""
        return causes(self.divergences)

    @property
    def identical(self) -> bool:
        """Whether nothing differed."""
        return not self.divergences


def _spot(difference: Difference) -> str:
    """Return a later difference as text, without digests of conversations."""
    if difference.pointer == "/arguments/predecessor":
        return "the conversation before these messages"
    return str(difference)


def _without_key(side: Json) -> Json:
    """Return a request without its call key, which is part of the place."""
    is_request = isinstance(side, Mapping)
    return {name: side[name] for name in side if name != "call"} if is_request else side


def _short(value: str) -> str:
    """Return a fingerprint for people: of a digest its beginning, and a word for nothing."""
    if len(value) == _DIGEST and all(each in "0123456789abcdef" for each in value):
        return value[:16]
    return value or "none"


_DIGEST: Final = 64


def _request(value: Json) -> str:
    """Return a request on one line: `search(query="x")  0#1`, or any other value as JSON."""
    if value is None:
        return "nothing"
    if not isinstance(value, Mapping) or "kind" not in value:
        return shown(value, 400)
    kind, arguments = value["kind"], value.get("arguments")
    if kind == "run.finished":
        if isinstance(arguments, Mapping) and isinstance(arguments.get("error"), Mapping):
            return f"the program ends: {arguments['status']}: {arguments['error'].get('message')}"
        return f"the program ends: {shown(arguments, 120)}"
    name = value.get("name") or ""
    is_told = kind in ("tool", "value")
    text = f"{name if is_told else f'{kind} {name}'.strip()}{inside(kind, arguments)}"
    return f"{text}  {value['call']}" if value.get("call") else text


def line_of(entry: Entry, data: Json) -> str:
    """Return an entry on one line, for the list of what still matched."""
    item = item_of(entry.kind, entry.call, data)
    if item is not None and item.kind not in ("timer", "clock"):
        return f"{entry.seq} {entry.kind} {_request(item.as_json())}"
    return f"{entry.seq} {entry.kind} {entry.call or ''}{_outcome(data or {})}".rstrip()


def _outcome(data: Mapping[str, Json]) -> str:
    """Return a short text of an effect's result, or of its error."""
    if isinstance(error := data.get("error"), Mapping):
        return f" error {error.get('code', '')}: {shown(error.get('message'), 60)}"
    given = data.get("result", data.get("message", data.get("outcome")))
    return f" {shown(given, 60)}" if given is not None else ""


def between(recorded: Json, now: Json) -> tuple[Difference, ...]:
    """Return where two requests, or two ends of a run, differ: where another kind, only that."""
    if recorded is None or now is None:
        return ()
    found = differences(recorded, now)
    if recorded.get("kind") != now.get("kind"):
        return tuple(one for one in found if one.pointer == "/kind")
    return found
