"""Runs a program against its log, and turns what differs into a divergence.

`replay.reexecute.reexecute` walks the tree of runs and calls this for each;
`replay.reexecute.world` compares lines, `replay.explain.naming` names differences. This module
combines both sides for people: place, recorded value, current value, and changes in texts and
fingerprints (CONTRACT.md §12.4, §12.5).
"""

import itertools
import threading
from collections.abc import Iterator
from typing import Any, Final

import attrs

from refold.engine import errors
from refold.engine.encoding.canonical import Json, encode
from refold.engine.events.events import RunFinished, parts_of, scope_of
from refold.engine.log.reader import Entry, read_entries
from refold.engine.ports.ports import ModelRequest
from refold.engine.program.run import faces_of
from refold.engine.secrets.redaction import REDACTED
from refold.replay.difference.pointer_diff import Difference
from refold.replay.difference.text_diff import TextChange, message_changes, text_changes
from refold.replay.difference.volatile import without_places
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
from refold.replay.explain.naming import Found, Named, first_word, named
from refold.replay.explain.run_on import Explorer, Mismatch
from refold.replay.index.asked_items import Item, item_of
from refold.replay.index.run_end import end_of, end_of_verdict
from refold.replay.reexecute.network import program_watch
from refold.replay.reexecute.report import RunAgain, Watch, damaged
from refold.replay.reexecute.world import Replayed, program_of


@attrs.frozen(kw_only=True)
class _Sides:
    """The recorded and the current side of a difference."""

    recorded: Json
    now: Json
    call: str = ""
    seq: int | None = None
    items: tuple[Item | None, Item | None] = (None, None)

    def members(self) -> dict[str, Any]:
        """Return the members of a difference that both sides give."""
        return {name: getattr(self, name) for name in ("recorded", "now", "call", "seq")}


class Comparison:
    """One run, compared with its log."""

    def __init__(self, again: RunAgain, watch: Watch | None, *, verified: bool) -> None:
        """Open the log; it is `verified` where its scan has just found it sealed and undamaged."""
        self.log = again.log
        self.replayed = replayed = Replayed(
            again.log,
            tools=again.tools,
            session=again.session,
            seed=again.seed,
            on_end=watch.on_end if watch else None,
            verified=verified,
            volatile=again.volatile,
        )
        self.program = program_of(again.program, replayed.started)
        self.names = again.names or (replayed.started.program,)
        self.when = again.when
        self.raised: tuple[str, int] | None = None
        """The place at which the program raised, if it did."""
        self.end: dict[str, Json] | None = None
        """How the run ended, its program let run on; `None` where it did not come to an end."""
        if watch is not None:
            replayed.on_mismatch = lambda first: watch.on_difference(self._at_first_sight(first))

    def compare(self) -> Divergence | None:
        """Run the program; return the first difference."""
        replayed = self.replayed
        replayed.kernel.seals_interrupts = True
        if not self.when:  # a child has the session that its parent gives it now
            replayed.check_session()
        try:
            with program_watch(replayed.kernel.fail):  # whatever the program makes of it
                verdict = replayed.kernel.execute(
                    self.program, faces_of(replayed.kernel), replayed.started.input
                )
        except errors.LogDamaged as error:
            return damaged(self.log, self.names, str(error))
        except errors.RefoldError as error:
            return self._stopped(error)
        if replayed.cursor.broken is not None:
            return damaged(self.log, self.names, str(replayed.cursor.broken))
        self._pass_on_interrupt()
        self.raised = verdict.place
        self.end = end_of_verdict(verdict)
        entry = replayed.finish(self.end)
        if replayed.explorer is not None:
            return self._named(replayed.explorer)
        if entry is None:
            replayed.has_ended = True
            return None
        return self._compare_end(entry, self.end)

    def _stopped(self, error: errors.RefoldError) -> Divergence:
        """Return the divergence for an error that ended the comparison, or an earlier difference.

        Raises:
            RefoldError: the error itself, if it is not about the record.
        """
        replayed = self.replayed
        if replayed.explorer is not None:
            return self._named(replayed.explorer)
        if isinstance(error, errors.OutsideLoop):  # it asked the network: that is in no log
            self.raised = (error.file, error.line)
            now = {"kind": "network", "name": error.method.rpartition(" ")[2]}
            return self._divergence("extra_call", _Sides(recorded=None, now=now), cause=str(error))
        if not isinstance(error, errors.NotCanonical | errors.ValueRefused) or not replayed.last:
            raise error
        entry = replayed.last[-1]
        recorded = {"kind": entry.kind, "call": entry.call or "", **replayed.cursor.data(entry)}
        sides = _Sides(recorded=recorded, now=None, call=entry.call or "", seq=entry.seq)
        cause = f"a recorded value does not match its current type: {error}; record the run again"
        return self._divergence("result_changed", sides, cause=cause)

    def _pass_on_interrupt(self) -> None:
        """Raise KeyboardInterrupt again, unless the record has the program end with it.

        Raises:
            KeyboardInterrupt: Ctrl-C; outside the main thread, it is the program's.
        """
        replayed = self.replayed
        if replayed.kernel.interrupt is None:
            return
        entry = replayed.explorer.finish if replayed.explorer else replayed.cursor.peek()
        error = (entry and entry.data.get("error")) or {}
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not str(error.get("message", "")).startswith("KeyboardInterrupt:"):
            raise replayed.kernel.interrupt

    def _compare_end(self, entry: Entry, now: dict[str, Json]) -> Divergence | None:
        replayed = self.replayed
        event = replayed.cursor.event(entry)
        if not isinstance(event, RunFinished):
            raise errors.UsageError(f"{self.log}: the last entry is not run.finished")
        recorded = end_of(event)
        if replayed.kernel.session is not None:
            is_unknown = replayed.seed_is_redacted and replayed.excuses.is_redacted
            recorded["session_digest"] = REDACTED if is_unknown else event.session_digest
            now["session_digest"] = replayed.kernel.session_digest
        pair = (without_places(recorded), without_places(now))
        diff = between(*pair) if encode(pair[0]) != encode(pair[1]) else ()
        if not diff or replayed.excuses.excused("run.finished", None, entry.seq, pair):
            return None
        if (unknown := self._unknown_at_end(recorded, now)) is not None:
            sides = _Sides(recorded=None, now=unknown, call=unknown["call"])
            return self._divergence("extra_call", sides)
        sides = _Sides(recorded=recorded, now=now, seq=entry.seq)
        return self._divergence("output_changed", sides, diff=diff)

    def _at_first_sight(self, first: Mismatch) -> Divergence:
        """Return the first difference by its two lines alone, before the program runs on."""
        sides = _sides_of(first)
        name = first_word(sides.recorded, sides.now, has_ended=first.has_ended)
        return self._divergence(name, sides)

    # -- the first difference -------------------------------------------------------------

    def _named(self, explorer: Explorer) -> Divergence:
        mismatch = explorer.first
        if mismatch.is_other_end():
            return self._divergence("result_changed", _ends_of_tool(mismatch))
        before = self._entries_to(mismatch.recorded.seq - 1)
        found = named(explorer, {scope_of(entry.call) for entry in before if entry.call})
        first = found.first
        unknown = self._unknown(mismatch, first)
        if unknown is not None:
            both = _sides_of(mismatch)
            sides = attrs.evolve(both, now=unknown, call=unknown["call"], items=(None, None))
            # The name alone: with what an unknown tool was called never came so far.
            diff = tuple(one for one in between(both.recorded, unknown) if one.pointer == "/name")
            return self._divergence("name_changed", sides, diff=diff, found=found)
        is_in_place = found.category == "reordered" and not (first and first.is_moved)
        if first is None or (is_in_place and mismatch.event_kind):
            sides = _sides_of(mismatch)  # both lines are calls: they say it best
        else:
            sides = _of_found(first)
            if sides.now is None and not mismatch.event_kind and mismatch.now is not None:
                ended = {"kind": "run.finished", "arguments": mismatch.now}
                sides = attrs.evolve(sides, now=ended)
        return self._divergence(found.category, sides, found=found)

    def _entries_to(self, last: int) -> Iterator[Entry]:
        entries = read_entries(self.log, verify=False, torn_ok=True)
        return itertools.takewhile(lambda entry: entry.seq <= last, entries)

    def _unknown(self, mismatch: Mismatch, first: Found | None) -> dict[str, Json] | None:
        """Return the tool that the run does not have and was asked for where the record has one."""
        entry = mismatch.recorded
        if entry.kind != "tool.called" or (first is not None and first.now):
            return None  # what stands in its place says more
        return self._unknown_at(entry.call or "")

    def _unknown_at_end(self, recorded: Json, now: Json) -> dict[str, Json] | None:
        """Return the tool that the run lacks, if requesting it ended the program."""
        before, after = (str((end.get("error") or {}).get("message")) for end in (recorded, now))
        if not after.startswith("ToolUnknown:") or before == after:
            return None
        return self._unknown_at(next(reversed(self.replayed.kernel.unknown), ""))

    def _unknown_at(self, call: str) -> dict[str, Json] | None:
        name = self.replayed.kernel.unknown.get(call)
        asked = {"kind": "tool", "name": name, "call": call, "arguments": None}
        return None if name is None else asked

    # -- putting it together --------------------------------------------------------------

    def _divergence(
        self,
        name: Category,
        sides: _Sides,
        *,
        diff: tuple[Difference, ...] | None = None,
        found: Named | None = None,
        cause: str = "",
    ) -> Divergence:
        replayed, explorer = self.replayed, self.replayed.explorer
        recorded, now = sides.items
        asked = explorer.requests.get(now.call) if explorer is not None and now else None
        if diff is None:
            diff = () if name in _OF_ORDER else _without_call(between(sides.recorded, sides.now))
        texts = self._texts(recorded, now, asked, diff)
        started, tools = replayed.started, replayed.kernel.tools
        changes = fingerprints.changed(started, self.program, tools)
        changes |= fingerprints.of_requests(recorded, now, started.tools, asked)
        changes |= {f"prompt, {text.what}": ("", "") for text in texts if "(system)" in text.what}
        is_python = "python" in changes and "source" not in changes
        released = "" if is_python else fingerprints.of_release(started, tools, changes, diff)
        name = "environment" if is_python or released else name
        last = explorer.first.last if explorer is not None else replayed.last
        place = explorer.first.place if explorer is not None else None
        file, line = place or self.raised or ("", 0)
        later = self._later(found, explorer.first) if found and explorer else ()
        seq = explorer.first.recorded.seq if explorer else sides.seq or replayed.cursor.taken
        return Divergence(
            category=name,
            where=self._where(sides),
            log=str(self.log),
            **sides.members(),
            diff=diff,
            texts=texts,
            last=tuple(line_of(entry, replayed.cursor.data(entry)) for entry in last),
            file=file,
            line=line,
            fingerprints=changes,
            cause=released or cause or self._cause(name, sides, diff, changes, found),
            later=later[:LATER_MAX],
            later_count=len(later),
            turn=sum(entry.kind == "model.asked" for entry in self._entries_to(seq)) or None,
            when=(*self.when, seq),
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
        both = (sides.recorded, sides.now)
        asked = self.replayed.kernel.unknown.get(sides.call)
        if asked is not None and sides.now and sides.now.get("name") == asked:
            offered = ", ".join(self.replayed.kernel.tools) or "none"
            return f"the run did not have the tool {asked!r}; its tools were: {offered}"
        if first is not None and first.is_moved and "program" not in changes:
            assert first.recorded is not None
            assert first.now is not None
            why = "a task, gather, task group or shield was added or removed"
            if "source" not in changes:
                why = "the order of a set or a directory listing: sort it first; or code that the "
                why += "program calls added or removed a task"
            said = f"the call has moved to another task: recorded as {first.recorded.call}, asked "
            return said + f"now as {first.now.call} ({why})"
        if any((side or {}).get("kind") == "session" and not side["call"] for side in both):
            return "the run above now starts this one with a different session"
        raised = self._raised_now() if name in _OF_RAISING else ""
        is_timer = sides.now is not None and sides.now.get("kind") == "timer"
        kind = _OF_TIMERS.get(name, name) if is_timer else name
        return likely_cause(kind, diff, changes, raised)

    def _raised_now(self) -> str:
        """Return the exception that ends the program now, unless a made-up answer led to it."""
        explorer, error = self.replayed.explorer, (self.end or {}).get("error") or {}
        recorded: Json = {}
        if explorer is not None and explorer.finish is not None:
            recorded = self.replayed.cursor.data(explorer.finish)
        is_guessing = explorer is not None and explorer.is_guessing
        if is_guessing or error.get("code") not in ("raised", "input", "output"):
            return ""
        if error["message"] == (recorded.get("error") or {}).get("message"):
            return ""
        file, line = self.raised or ("", 0)
        return f"{error['message']} ({file}:{line})" if file else str(error["message"])

    def _texts(
        self,
        recorded: Item | None,
        now: Item | None,
        asked: ModelRequest | None,
        diff: tuple[Difference, ...],
    ) -> tuple[TextChange, ...]:
        """Return what changed in long texts; of model requests, in the whole conversation."""
        if recorded is None or now is None or not recorded.kind == now.kind == "model" or not diff:
            return text_changes(diff)
        before = fingerprints.conversation(self.log, recorded)
        if before is None or asked is None:
            return message_changes(recorded.arguments["added"], now.arguments["added"])
        return message_changes(before, list(asked.messages))

    # -- the later differences ------------------------------------------------------------

    def _later(self, found: Named, first: Mismatch) -> tuple[Later, ...]:
        later = [self._later_one(one) for one in found.later if not self._is_excused(one)]
        return (*later, *self._later_end(first))

    def _is_excused(self, found: Found) -> bool:
        """Return whether only ignored values differ: volatile or redacted ones."""
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
            **sides.members(),
            diff=() if is_order else _without_call(between(sides.recorded, sides.now)),
            consequence=found.is_consequence,
        )

    def _later_end(self, first: Mismatch) -> Iterator[Later]:
        """Yield a later difference in the end of the run, if the program came to its end."""
        explorer = self.replayed.explorer
        if explorer is None or explorer.finish is None or explorer.is_cut or self.end is None:
            return
        if explorer.cut_off:
            return  # where it was stopped, it would have slept
        event = self.replayed.cursor.event(explorer.finish)
        code = (self.end.get("error") or {}).get("code")
        if not isinstance(event, RunFinished) or first.has_ended or code in _OF_RUNNING_ON:
            return
        recorded = end_of(event)
        if diff := between(without_places(recorded), without_places(self.end)):
            yield Later(
                category="output_changed",
                where=" > ".join(self.names),
                seq=explorer.finish.seq,
                recorded=recorded,
                now=self.end,
                diff=diff,
            )


def _sides_of(mismatch: Mismatch) -> _Sides:
    """Return the two lines: the recorded and the current request."""
    entry, kind, call = mismatch.recorded, mismatch.event_kind, mismatch.call or ""
    old = item_of(entry.kind, entry.call, mismatch.recorded_data, entry.seq)
    new = item_of(kind, mismatch.call, mismatch.now) if kind else None
    now = new.as_json() if new else {"kind": kind, "call": call}
    return _Sides(
        recorded=old.as_json() if old else {"kind": entry.kind, "call": entry.call or ""},
        now=now if kind else None,
        call=call or entry.call or "",
        seq=entry.seq,
        items=(old, new),
    )


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
    call = {"kind": "tool.returned", "call": mismatch.call or ""}
    return _Sides(
        recorded=call | mismatch.recorded_data,
        now=call | mismatch.now,
        call=call["call"],
        seq=mismatch.recorded.seq,
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
    scope, mark, ordinal = parts_of(call)
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


_OF_ORDER: Final = ("reordered", "unrecorded_await", "unconsumed")
"""Categories whose two sides are different requests, so comparing them is pointless."""

_OF_RAISING: Final = ("missing_call", "unconsumed", "output_changed")
"""Categories of a program that does less than recorded or ends differently: it may have raised."""

_OF_TIMERS: Final = {"args_changed": "timer", "reordered": "due"}
"""The cause's key for a timer that differs."""

_OF_RUNNING_ON: Final = ("stuck", "spinning", "unending")
"""Ends that result from made-up answers more than from the program."""
