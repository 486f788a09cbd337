"""The differences that a re-execution ignores: volatile paths, and redacted values.

Both are rules in the log's first line; a re-execution may add volatile paths. A line that differs
is ignored only if every difference in it is. Each one is listed, so that ignored values are always
visible (CONTRACT.md §12.7). `replay.difference.volatile` lists the fields that digests and diffs
always leave out.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.encoding.strict import nearest
from refold.engine.events.events import REQUEST_KINDS
from refold.engine.log.names import tree
from refold.engine.log.reader import read_entries
from refold.engine.secrets.redaction import MARKER, REDACTED, replaced
from refold.engine.secrets.vault import checked_volatile
from refold.replay.difference.pointer_diff import Difference, counted, differences, shown

IGNORED_MAX: Final = 1000
"""So many ignored values of one run are kept; all are counted."""
IGNORED_SHOWN: Final = 10
"""The number shown in the text of a report."""
_CHAIN: Final = "/predecessor"
_NOWHERE: Final = "\0"
"""A value that no log holds by chance."""
KIND_ASKED: Final = {kind.partition(".")[0]: kind for kind in REQUEST_KINDS}
"""By kind of item, such as `tool`: the kind of its request entry, `tool.called`."""


@attrs.frozen(kw_only=True)
class Ignored(Document):
    """A value that was not as recorded, and that a rule excuses."""

    log: str
    seq: int
    what: str
    """`tool:fetch`, `model:scripted`, `child:dig`, `run`."""
    call: str
    pointer: str
    recorded: Json
    now: Json
    rule: str
    """The volatile path; or `redaction`."""

    def __str__(self) -> str:
        at = f" at {self.call}" if self.call else ""
        pair = f"{shown(self.recorded, 60)} → {shown(self.now, 60)}"
        return f"{self.what}{at}  {self.pointer}: {pair}  ({self.rule})"


def subject_of(kind: str, data: Mapping[str, Any]) -> str:
    """Return an entry's subject as rules name it; empty if no rule can name it."""
    match kind.partition(".")[0]:
        case "tool":
            return f"tool:{data.get('tool', '')}"
        case "model":
            return f"model:{data.get('model', '')}"
        case "child":
            given = data.get("delegation") or {}
            return f"child:{given.get('agent') or given.get('program', '')}"
        case "run":
            return "run"
        case _:
            return ""


class Excuses:
    """The rules of one run."""

    def __init__(self, log: str, rules: Mapping[str, Any], volatile: Iterable[str] = ()) -> None:
        """Take the rules of a log, and additional volatile paths.

        Raises:
            UsageError: a path is invalid.
        """
        self._log = log
        paths: list[str] = [*rules.get("volatile", ()), *checked_volatile(volatile)]
        self.paths = tuple(dict.fromkeys(paths))
        """Those that are volatile."""
        self.is_redacted = "redaction" in rules
        """Whether the record may have markers in place of values."""
        self._has_other_chain = False
        self.ignored: list[Ignored] = []
        self.count = 0

    @property
    def is_any(self) -> bool:
        """Whether there is anything to excuse at all."""
        return bool(self.paths or self.is_redacted)

    def expect_markers(self) -> None:
        """Accept a redaction marker for any value, as the program has asked for a secret."""
        self.is_redacted = True

    def excused(self, kind: str, call: str | None, seq: int, pair: tuple[Any, Any]) -> bool:
        """Return whether all that differs between recorded and present data may; list it then."""
        recorded, now = pair
        what = subject_of(kind, recorded)
        if what != subject_of(kind, now) or not self.passes(what, call or "", seq, pair):
            return False
        if kind == "model.asked":
            self._has_other_chain = True
        return True

    def passes(self, what: str, call: str, seq: int, pair: tuple[Json, Json]) -> bool:
        """Return whether all differences in an entry about `what` are ignored; list them then."""
        found = [(one, self.rule(what, one)) for one in differences(*pair)]
        if not found or not all(rule for _, rule in found):
            return False
        for one, rule in found:
            self._list(one, rule, what=what, call=call, seq=seq)
        return True

    def note(self, what: str, call: str, seq: int, pair: tuple[Json, Json]) -> None:
        """List the ignored differences even if there are others, which a different rule judges."""
        for one in differences(*pair):
            if rule := self.rule(what, one):
                self._list(one, rule, what=what, call=call, seq=seq)

    def rule(self, what: str, one: Difference) -> str:
        """Return the rule that excuses one difference; empty for none."""
        for path in self.paths:
            if _covers(path, what, one.pointer):
                return path
        if self.is_redacted and one.kind == "changed" and _is_redacted(one.before, one.after):
            return "redaction"
        if self._has_other_chain and one.pointer == _CHAIN and what.startswith("model:"):
            return "a message before it"
        return ""

    def _list(self, one: Difference, rule: str, *, what: str, call: str, seq: int) -> None:
        self.count += 1
        if len(self.ignored) < IGNORED_MAX:
            told: dict[str, Any] = {"log": self._log, "seq": seq, "what": what, "call": call}
            told |= {"pointer": one.pointer, "recorded": one.before, "now": one.after}
            self.ignored.append(Ignored(**told, rule=rule))


def _covers(path: str, what: str, pointer: str) -> bool:
    """Return whether a volatile path names this place or one that contains it."""
    subject, _, rest = path.partition("/")
    if subject not in (what, f"{what.partition(':')[0]}:*"):
        return False
    steps, at = rest.split("/"), pointer[1:].split("/")
    if len(at) < len(steps):
        return False
    return all(step in ("*", found) for step, found in zip(steps, at, strict=False))


def _is_redacted(recorded: Json, now: Json) -> bool:
    """Return whether `recorded` can be the redacted form of `now`."""
    if recorded == REDACTED:
        return True
    if not isinstance(recorded, str) or not isinstance(now, str):
        return False
    kept = MARKER.split(recorded)
    return len(kept) > 1 and _stand_in_order(kept, now)


def _stand_in_order(kept: list[str], text: str) -> bool:
    """Return whether `text` is these texts with something between each two of them.

    By searching on from each for the next: a regular expression would try all ways to do that.
    """
    first, *middle, last = kept
    if not (text.startswith(first) and text.endswith(last)):
        return False
    at = len(first)
    for each in middle:
        found = text.find(each, at + 1)
        if found < 0:
            return False
        at = found + len(each)
    return at < len(text) - len(last)


def ignored_lines(ignored: Sequence[Ignored], count: int, *, every: bool = False) -> list[str]:
    """Return lines for people: the number of ignored values, then the first of them, or all."""
    if not count:
        return []
    lines = [f"  {one}" for one in ignored[: None if every else IGNORED_SHOWN]]
    advice = "" if every else ": to list them, add --all"
    rest = [f"  … and {count - len(lines)} more{advice}"] if count > len(lines) else []
    return [f"ignored: {counted(count, 'value')} that changed", *lines, *rest]


def without_volatile(what: str, data: Any, paths: Iterable[str], inside: Json = None) -> Any:
    """Return the data of an entry about `what` with volatile places made alike."""
    for path in paths:
        subject, _, rest = path.partition("/")
        if subject in (what, f"{what.partition(':')[0]}:*"):
            data = replaced(data, rest.split("/"), inside)
    return data


def unmatched(log: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the volatile paths that no place of a run has, each with a sentence about it.

    A path of a tool that the run was offered, but never called, has no place either.
    """
    left, subjects = dict.fromkeys(paths), {"run"}
    for each in tree(log) if left else ():
        asked: dict[str | None, str] = {}
        for entry in read_entries(each, resolve=True, torn_ok=True):
            what = subject_of(entry.kind, entry.data)
            if entry.kind in REQUEST_KINDS:
                asked[entry.call] = what
            what = asked.get(entry.call, what)
            subjects.add(what)
            for path in [*left]:
                if without_volatile(what, entry.data, [path], _NOWHERE) != entry.data:
                    del left[path]
    return {
        path: f"the volatile path {path!r} matches nothing in this run"
        f"{nearest(path.partition('/')[0], subjects - {path.partition('/')[0]})}"
        for path in left
    }
