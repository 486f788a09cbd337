"""One run, compared with its log: the program is executed, and what differs becomes a divergence.

`replay.reexecute.reexecute` walks the tree of runs and calls this for each;
`replay.reexecute.world` compares lines, `replay.explain.naming` names what differs.  Here the two
sides are put together for people: where, what was recorded, what is asked now, what changed in
texts and fingerprints (CONTRACT.md §12.4, §12.5).
"""

import re
import threading
from pathlib import Path
from typing import Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import (
    LogDamaged,
    NotCanonical,
    OutsideLoop,
    RefoldError,
    UsageError,
)
from refold.engine.events.call_key import scope_of
from refold.engine.events.events import RunFinished
from refold.engine.kernel.verdict import Verdict
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Program
from refold.engine.program.run import faces_of
from refold.replay.difference.pointer_diff import Difference
from refold.replay.difference.text_diff import TextChange, message_changes, text_changes
from refold.replay.explain import fingerprints
from refold.replay.explain.causes import likely_cause
from refold.replay.explain.divergence import (
    LATER_MAX,
    Category,
    Divergence,
    Later,
    between,
    line_of,
)
from refold.replay.explain.naming import Found, Named, named
from refold.replay.explain.run_on import Mismatch
from refold.replay.index.asked_items import Item, item_of
from refold.replay.index.run_end import end_of, end_of_verdict
from refold.replay.reexecute.network import ProgramWatch
from refold.replay.reexecute.world import Replayed


@attrs.frozen(kw_only=True)
class _Sides:
    """What was recorded and what is asked now."""

    recorded: Json
    now: Json
    call: str = ""
    seq: int | None = None
    items: tuple[Item | None, Item | None] = (None, None)


class Comparison:
    """One run, compared with its log."""

    def __init__(
        self, log: Path, replayed: Replayed, program: Program, names: tuple[str, ...]
    ) -> None:
        self.log = log
        self.replayed = replayed
        self.program = program
        self.names = names
        self.raised: tuple[str, int] | None = None
        """Where the program raised, if it did."""
        self.end: dict[str, Json] | None = None
        """How the run ended, its program let run on; `None` where it did not come to an end."""

    def compare(self) -> Divergence | None:
        """Run the program; return the first difference."""
        replayed = self.replayed
        replayed.kernel.seals_interrupts = True
        replayed.check_session()
        try:
            with ProgramWatch(self._refuse):
                verdict = replayed.kernel.execute(
                    self.program, faces_of(replayed.kernel), replayed.started.input
                )
        except LogDamaged as error:
            return damaged(self.log, self.names, error)
        except OutsideLoop as error:
            if replayed.mismatch is None:
                return self._unrecorded(error)
            return self._named(replayed.mismatch)  # it came first
        except RefoldError as error:
            if replayed.mismatch is None and isinstance(error, NotCanonical) and replayed.last:
                return self._unfit(error)
            if replayed.mismatch is None:
                raise
            return self._named(replayed.mismatch)  # what came of answers that only resemble
        if replayed.cursor.broken is not None:
            return damaged(self.log, self.names, replayed.cursor.broken)
        self._pass_on_interrupt()
        self.raised = verdict.place
        if replayed.mismatch is not None:
            self.end = end_of_verdict(verdict)
            return self._named(replayed.mismatch)
        if replayed.has_ended:
            return None
        return self._compare_end(verdict)

    def _refuse(self, error: OutsideLoop) -> None:
        """End the run, whatever the program makes of it: it went past the record."""
        self.replayed.kernel.fail(error)

    def _unrecorded(self, error: OutsideLoop) -> Divergence:
        """Return that the program asked something of the network: live, it is in no log."""
        self.raised = (error.file, error.line)
        sides = _Sides(
            recorded=None, now={"kind": "network", "name": error.method.rpartition(" ")[2]}
        )
        found = self._divergence("extra_call", sides)
        return attrs.evolve(found, cause=str(error))

    def _unfit(self, error: NotCanonical) -> Divergence:
        """Return that a recorded result no longer fits the type that its tool returns now."""
        entry = self.replayed.last[-1]
        data = self.replayed.cursor.data(entry)
        recorded = {"kind": entry.kind, "call": entry.call or "", **data}
        sides = _Sides(recorded=recorded, now=None, call=entry.call or "", seq=entry.seq)
        found = self._divergence("result_changed", sides)
        cause = f"the tool's result has another type now: {error}; record it again"
        return attrs.evolve(found, cause=cause)

    def _pass_on_interrupt(self) -> None:
        """Raise KeyboardInterrupt again, where it is not what the record says of the program.

        Raises:
            KeyboardInterrupt: Ctrl-C; in another thread than the main one, it is the program's.
        """
        replayed = self.replayed
        if replayed.kernel.interrupt is None:
            return
        entry = replayed.explorer.finish if replayed.explorer else replayed.cursor.peek()
        error = (entry.data.get("error") if entry is not None else None) or {}
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not str(error.get("message", "")).startswith("KeyboardInterrupt:"):
            raise replayed.kernel.interrupt

    def _compare_end(self, verdict: Verdict) -> Divergence | None:
        replayed = self.replayed
        now = self.end = end_of_verdict(verdict)
        entry = replayed.finish(now)
        if replayed.mismatch is not None:
            return self._named(replayed.mismatch)
        if entry is None:
            replayed.has_ended = True
            return None
        event = replayed.cursor.event(entry)
        if not isinstance(event, RunFinished):
            raise UsageError(f"{self.log}: the last entry is no run.finished")
        recorded = end_of(event)
        session = replayed.kernel.session
        if session is not None and event.session_digest:
            recorded["session_digest"] = event.session_digest
            now["session_digest"] = session.digest()
        pair = (_unplaced(recorded), _unplaced(now))
        diff = between(*pair)
        if not diff or replayed.excuses.excused("run.finished", None, entry.seq, pair):
            return None
        sides = _Sides(recorded=recorded, now=now, seq=entry.seq)
        unknown = self._unknown_at_end(recorded, now)
        if unknown is not None:
            sides = _Sides(recorded=None, now=unknown, call=unknown["call"])
            return self._divergence("extra_call", sides)
        return self._divergence("output_changed", sides, diff=diff)

    def at_first_sight(self, mismatch: Mismatch) -> Divergence:
        """Return the first difference by its two lines alone, before the program runs on."""
        sides = _sides(mismatch, None)
        name = first_word(mismatch, sides.recorded, sides.now)
        return self._divergence(name, sides, mismatch=mismatch)

    # -- the first difference -------------------------------------------------------------

    def _named(self, mismatch: Mismatch) -> Divergence:
        explorer = self.replayed.explorer
        if explorer is None:
            raise UsageError("a mismatch without its explorer")
        if mismatch.is_other_end():
            return self._divergence("result_changed", _ends_of_tool(mismatch), mismatch=mismatch)
        found = named(mismatch, explorer, self._known_scopes(mismatch))
        unknown = self._unknown(mismatch, found.first)
        if unknown is not None:
            sides = attrs.evolve(_sides(mismatch, None), now=unknown, call=unknown["call"])
            sides = attrs.evolve(sides, items=(None, None))
            diff = _of_name(between(sides.recorded, sides.now))
            return self._divergence(
                "name_changed", sides, diff=diff, mismatch=mismatch, found=found
            )
        first = found.first
        if found.category == "reordered" and not (first and first.is_moved):
            both_call = mismatch.event_kind and mismatch.recorded is not None
            first = None if both_call else first  # both lines are calls: they say it best
        sides = _sides(mismatch, first)
        return self._divergence(found.category, sides, mismatch=mismatch, found=found)

    def _known_scopes(self, mismatch: Mismatch) -> frozenset[str]:
        """Return the scopes in which something was asked, and was the same."""
        until = mismatch.recorded.seq if mismatch.recorded is not None else 1 << 62
        known = set()
        for entry in read_entries(self.log, verify=False, torn_ok=True):
            if entry.seq >= until:
                break
            if entry.call:
                known.add(scope_of(entry.call))
        return frozenset(known)

    def _unknown(self, mismatch: Mismatch, first: Found | None) -> dict[str, Json] | None:
        """Return the tool that the run does not have and was asked for where the record has one."""
        entry = mismatch.recorded
        if entry is None or entry.kind != "tool.called":
            return None
        asked = self.replayed.kernel.unknown.get(entry.call or "")
        if asked is None or (first is not None and first.now is not None):
            return None  # what stands in its place says more
        return {"kind": "tool", "name": asked, "call": entry.call, "arguments": None}

    def _unknown_at_end(self, recorded: Json, now: Json) -> dict[str, Json] | None:
        """Return the tool that the run does not have, where asking for it ended the program."""
        asked = list(self.replayed.kernel.unknown.items())
        before, after = recorded.get("error") or {}, now.get("error") or {}
        is_its_end = str(after.get("message", "")).startswith("ToolUnknown:")
        if not asked or not is_its_end or before.get("message") == after.get("message"):
            return None
        return {"kind": "tool", "name": asked[-1][1], "call": asked[-1][0], "arguments": None}

    # -- putting it together --------------------------------------------------------------

    def _divergence(
        self,
        name: Category,
        sides: _Sides,
        *,
        diff: tuple[Difference, ...] | None = None,
        mismatch: Mismatch | None = None,
        found: Named | None = None,
    ) -> Divergence:
        changes = self._fingerprints(sides)
        if diff is None:
            diff = () if name in _OF_ORDER else _without_call(between(sides.recorded, sides.now))
        texts = self._texts(sides, diff)
        changes |= {f"prompt, {text.what}": ("", "") for text in texts if "(system)" in text.what}
        is_python = "python" in changes and "source" not in changes
        name = "environment" if is_python else name
        last = mismatch.last if mismatch else tuple(self.replayed.last)
        file, line = (mismatch.file, mismatch.line) if mismatch else ("", 0)
        if not file and self.raised is not None:
            file, line = self.raised
        later = self._later(found, mismatch)
        return Divergence(
            category=name,
            where=self._where(sides),
            log=str(self.log),
            call=sides.call,
            seq=sides.seq,
            recorded=sides.recorded,
            now=sides.now,
            diff=diff,
            texts=texts,
            last=tuple(line_of(entry, self.replayed.cursor.data(entry)) for entry in last),
            file=file,
            line=line,
            fingerprints=changes,
            cause=self._cause(name, sides, diff, changes, found),
            later=later[:LATER_MAX],
            later_count=len(later),
        )

    def _where(self, sides: _Sides) -> str:
        return " > ".join([*self.names, *_label(sides)])

    def _cause(
        self,
        name: str,
        sides: _Sides,
        diff: tuple[Difference, ...],
        changes: fingerprints.Changes,
        found: Named | None,
    ) -> str:
        first = found.first if found is not None else None
        asked = self.replayed.kernel.unknown.get(sides.call)
        if asked is not None and sides.now and sides.now.get("name") == asked:
            offered = ", ".join(self.replayed.kernel.tools) or "none"
            return f"the run was not offered the tool {asked!r}; it was offered: {offered}"
        if first is not None and first.is_moved and "program" not in changes:
            assert first.recorded is not None
            assert first.now is not None
            return (
                f"the call has moved to another task: recorded as {first.recorded.call}, asked now "
                f"as {first.now.call} (a task, a gather, a task group or a shield more or less)"
            )
        return likely_cause(name, diff, changes, self._raised_now(name, sides))

    def _raised_now(self, name: str, sides: _Sides) -> str:
        """Return the exception that ends the program now, where nothing made up led to it."""
        explorer, end = self.replayed.explorer, self.end or {}
        error, recorded = end.get("error") or {}, sides.recorded or {}
        if explorer is not None and explorer.finish is not None:
            recorded = self.replayed.cursor.data(explorer.finish)
        is_of_program = error.get("code") == "raised" and name in _OF_RAISING
        if not is_of_program or (explorer is not None and explorer.is_guessing):
            return ""
        if error["message"] == (recorded.get("error") or {}).get("message"):
            return ""
        file, line = self.raised or ("", 0)
        return f"{error['message']} ({file}:{line})" if file else str(error["message"])

    def _fingerprints(self, sides: _Sides) -> fingerprints.Changes:
        replayed = self.replayed
        started, tools = replayed.started, replayed.kernel.tools
        found = fingerprints.changed(started, self.program, tools)
        requests = replayed.explorer.requests if replayed.explorer is not None else {}
        recorded, now = sides.items
        asked = requests.get(now.call) if now is not None else None
        return found | fingerprints.of_requests(recorded, now, started.tools, asked)

    def _texts(self, sides: _Sides, diff: tuple[Difference, ...]) -> tuple[TextChange, ...]:
        """Return what changed in long texts; of model requests, in the whole conversation."""
        recorded, now = sides.items
        if recorded is None or now is None or not recorded.kind == now.kind == "model" or not diff:
            return text_changes(diff)
        explorer = self.replayed.explorer
        asked = explorer.requests.get(now.call) if explorer is not None else None
        before = fingerprints.conversation(self.log, recorded)
        if before is None or asked is None:
            return message_changes(recorded.arguments["added"], now.arguments["added"])
        return message_changes(before, list(asked.messages))

    # -- the later differences ------------------------------------------------------------

    def _later(self, found: Named | None, mismatch: Mismatch | None) -> tuple[Later, ...]:
        if found is None or mismatch is None:
            return ()
        later = [self._later_one(one) for one in found.later if not self._is_excused(one)]
        end = self._later_end(mismatch)
        return (*later, end) if end is not None else tuple(later)

    def _is_excused(self, found: Found) -> bool:
        """Return whether only values differ that may: volatile ones, or what was redacted."""
        excuses, one, other = self.replayed.excuses, found.recorded, found.now
        if found.category != "args_changed" or not excuses.is_any or one is None or other is None:
            return False
        kind = _EXCUSABLE.get(one.kind)
        return kind is not None and excuses.excused(
            kind, one.call, one.seq, (_data_of(one), _data_of(other))
        )

    def _later_one(self, found: Found) -> Later:
        sides = _of_found(found)
        is_order = found.category in _OF_ORDER
        return Later(
            category=found.category,
            where=self._where(sides),
            call=sides.call,
            seq=sides.seq,
            recorded=sides.recorded,
            now=sides.now,
            diff=() if is_order else _without_call(between(sides.recorded, sides.now)),
            consequence=found.is_consequence,
        )

    def _later_end(self, mismatch: Mismatch) -> Later | None:
        """Return that the run then ends otherwise, where the program came to its end."""
        explorer = self.replayed.explorer
        if explorer is None or explorer.finish is None or explorer.is_cut or self.end is None:
            return None
        event = self.replayed.cursor.event(explorer.finish)
        code = (self.end.get("error") or {}).get("code")
        if not isinstance(event, RunFinished) or mismatch.has_ended or code in _OF_RUNNING_ON:
            return None
        recorded = end_of(event)
        diff = between(recorded, self.end)
        if not diff:
            return None
        return Later(
            category="output_changed",
            where=" > ".join(self.names),
            seq=explorer.finish.seq,
            recorded=recorded,
            now=self.end,
            diff=diff,
        )


def first_word(mismatch: Mismatch, recorded: Json, now: Json) -> Category:
    """Return what two lines that differ are called if nothing more is known."""
    if not mismatch.event_kind or recorded is None or now is None:
        return "unconsumed" if mismatch.has_ended else "missing_call"
    if recorded.get("kind") != now.get("kind"):
        return "kind_changed"
    return "name_changed" if recorded.get("name") != now.get("name") else "args_changed"


def _sides(mismatch: Mismatch, found: Found | None) -> _Sides:
    """Return what was recorded and what is asked now, the call key and the recorded entry."""
    if found is not None:
        sides = _of_found(found)
        if sides.now is None and not mismatch.event_kind and mismatch.now is not None:
            ended = {"kind": "run.finished", "arguments": mismatch.now}
            return attrs.evolve(sides, now=ended)
        return sides
    entry = mismatch.recorded
    old = item_of(entry.kind, entry.call, mismatch.recorded_data, entry.seq) if entry else None
    recorded: Json = None
    now: Json = None
    new: Item | None = None
    if entry is not None:
        recorded = old.as_json() if old else {"kind": entry.kind, "call": entry.call or ""}
    if mismatch.event_kind:
        new = item_of(mismatch.event_kind, mismatch.call, mismatch.now)
        now = new.as_json() if new else {"kind": mismatch.event_kind, "call": mismatch.call or ""}
    call = mismatch.call or (entry.call if entry is not None else "") or ""
    seq = entry.seq if entry is not None else None
    return _Sides(recorded=recorded, now=now, call=call, seq=seq, items=(old, new))


def _of_found(found: Found) -> _Sides:
    one, other = found.recorded, found.now
    return _Sides(
        recorded=one.as_json() if one else None,
        now=other.as_json() if other else None,
        call=next((item.call for item in (other, one) if item and item.call), ""),
        seq=one.seq if one else None,
        items=(one, other),
    )


def _ends_of_tool(mismatch: Mismatch) -> _Sides:
    """Return that a delegation tool, which is program code, returned something else."""
    call, entry = mismatch.call or "", mismatch.recorded
    return _Sides(
        recorded={"kind": "tool.returned", "call": call, **mismatch.recorded_data},
        now={"kind": "tool.returned", "call": call, **mismatch.now},
        call=call,
        seq=entry.seq if entry is not None else None,
    )


def _label(sides: _Sides) -> list[str]:
    """Return the last part of a place: `search#3`, or `search#1 in 0/2` below the first scope."""
    call = sides.call
    both = [side for side in (sides.now, sides.recorded) if side and side.get("call") == call]
    name = next((side.get("name") or side.get("kind", "") for side in both), "")
    if any(side.get("kind") == "cancel" for side in both):
        name = f"cancel {name}"
    if not call:
        return [name] if name == "clock" else []
    scope, mark, ordinal = call.rpartition("@" if "@" in call else "#")
    place = f"{name}{mark}{ordinal}"
    return [place if scope == "0" else f"{place} in {scope}"]


def _without_call(diff: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Leave out the call keys: they are part of the place."""
    return tuple(one for one in diff if one.pointer != "/call")


def _data_of(item: Item) -> Json:
    """Return an item as the data of its entry."""
    if item.kind == "tool":
        return {"tool": item.name, "arguments": item.arguments}
    return item.arguments


_EXCUSABLE: Final = {"tool": "tool.called", "model": "model.asked", "note": "note.added"}


def _of_name(diff: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Keep the name alone: with what an unknown tool was called never came so far."""
    return tuple(one for one in diff if one.pointer == "/name")


_OF_ORDER: Final = ("reordered", "unrecorded_await", "unconsumed")
"""Categories whose two sides are different requests: how these differ says nothing."""

_OF_RAISING: Final = ("missing_call", "unconsumed", "output_changed")
"""Categories of a program that does less than recorded, or ends otherwise: it may have raised."""

_OF_RUNNING_ON: Final = ("stuck", "spinning")
"""Ends that say more about the answers that were made up than about the program."""

_PLACED: Final = ("stuck", "spinning", "outside_loop")
"""Ends whose message names files and lines of the program."""
_PLACE: Final = re.compile(r"(?:/[^\s:]*/)?([^\s/:]+):\d+")


def _unplaced(end: dict[str, Json]) -> dict[str, Json]:
    """Return an end without the line numbers in the message of a run that could not go on.

    An edit above a line moves it, and changes nothing else (CONTRACT.md §12.2).
    """
    error = end.get("error")
    if not error or error["code"] not in _PLACED:
        return end
    message = _PLACE.sub(r"\1", error["message"])
    return end | {"error": {**error, "message": message}}


def damaged(log: Path, names: tuple[str, ...], error: RefoldError | None) -> Divergence:
    """Return that a log cannot be trusted, and why."""
    return Divergence(
        category="log_damaged",
        where=" > ".join(names) or "root",
        log=str(log),
        recorded=str(error) if error else "no entry",
        cause=likely_cause("log_damaged", (), {}),
    )
