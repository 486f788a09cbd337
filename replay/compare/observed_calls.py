"""The requests and tool calls of a watched command's log, for a diff.

Two recordings of the same command have meaningless differences: which conversation came first,
which of two stored the message that both have, and the ids that servers draw. So conversations of
the two logs are paired and get the same scopes, a request shows only the messages that it adds to
its conversation, and an id is replaced by its position (first, second), so that a result still
belongs to its call. Rules: CONTRACT.md §13, §16.5.
"""

import itertools
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.events.events import scope_of
from refold.engine.log.reader import scan
from refold.engine.observed.binding import FOLDERS, NOTED
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.exchange import Asked
from refold.replay.compare.calls import NO_OUTCOME, RETRIES, Call, RunCalls
from refold.replay.compare.measured import Declared
from refold.replay.difference.pointer_diff import shared_ends
from refold.replay.observed.folder import folder_differences
from refold.replay.observed.printed import compared
from refold.replay.observed.record import ObservedRecord, RecordedTurn, read_record
from refold.replay.observed.titles import conversation_name

_IDS: Final = (
    "call_id", "encrypted_content", "id", "item_id", "previous_response_id", "signature",
    "tool_call_id", "tool_use_id",
)  # fmt: skip
"""Members that hold values drawn by a server."""
_LATE: Final = 2**62
"""Behind the requests of all logs."""
_OWN: Final = frozenset({"arguments", "input"})
"""Members that hold values chosen by a model or a program, with any inner names."""


class ObservedCalls(RunCalls):
    """What `RunCalls` is for the log of a program."""

    def __init__(self, path: Path, volatile: Iterable[str] = ()) -> None:
        """Read the log; places named by its rules and by `volatile` count as equal in all requests.

        Raises:
            LogDamaged: an entry does not verify.
            LogMissing: the file does not exist.
        """
        self.path = path
        self.volatile = tuple(volatile)
        self.declared = Declared()
        self.calls: list[Call] = []
        self._turns: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        models = [each for each in self.volatile if each.startswith("model:")]
        self._record = read_record(path, VolatileRules(models))
        names = ("program", "input", "limits", "rules", "guarantee", "versions")
        self.started = {name: getattr(self._record.started, name) for name in names}
        self.started["rules"] = {
            name: value
            for name, value in self.started["rules"].items()
            if name not in (FOLDERS, NOTED)
        }
        self._retries = self._record.retries()
        self._again = {turn.call for each in self._retries.values() for turn in each}
        """Requests that failed and were retried; reported with the last one."""
        self._bindings = self._record.bindings()
        self._is_now = False
        self.finished = _end(self._record)
        self.entries = self._record.entries
        self.behind = path.stat().st_size - scan(path).offset
        self._asked: dict[str, Json] = {}
        self._ended: dict[str, Json] = {}
        self._ids: dict[str, dict[str, str]] = {}
        self._build({})

    def conversations(self) -> dict[str, tuple[str, str]]:
        """Return the identity of conversations, by scope: the agent and the first messages."""
        record = self._record
        found: dict[str, tuple[str, str]] = {}
        for turn in record.turns:
            if turn.scope not in found:
                plain = self._plain(turn.asked, timeless=True)
                opening = [self._without_ids(turn.scope, each) for each in plain.messages]
                first = digest.of_key([plain.api, plain.model, *opening])
                found[turn.scope] = (record.agents.get(turn.scope, ""), first)
        return found

    def renamed(self, scopes: dict[str, str]) -> None:
        """Give conversations the scopes of the log that this one is compared with."""
        self._build(scopes)

    def bound_to(self, other: "ObservedCalls", *, has_files: bool) -> None:
        """Map this log's values to the other log's, and rename its conversations (§13).

        With `has_files`, the files that both left are compared, too.
        """
        self._bindings = other._bindings = other._record.bindings(self._record.here)  # noqa: SLF001 - of its own kind
        self._is_now = True
        self._bindings.see(self._record.folder.made)
        scopes = paired(other, self)
        theirs = other._by_scope()  # noqa: SLF001 - of its own kind
        pairs = (
            zip(theirs.get(scopes[s], ()), ours, strict=False)
            for s, ours in self._by_scope().items()
        )
        for same, turn in sorted(itertools.chain(*pairs), key=lambda pair: pair[1].seq):
            self._bindings.learn(other._unnamed(same), self._unnamed(turn))  # noqa: SLF001 - of its own kind
        other.renamed({})
        self.renamed(scopes)
        if has_files:  # before texts that name them
            ignored = {*self._record.volatile_files, *other._record.volatile_files}  # noqa: SLF001 - of its own kind
            self.files = folder_differences(other.path, self.path, self._bindings, ignored)
        was, now = ((side.finished or {}).get("output") for side in (other, self))
        if other.finished and self.finished and isinstance(was, dict) and isinstance(now, dict):
            ends = compared(other._record, self._bindings, was, now)  # noqa: SLF001 - of its own kind
            other.finished["output"], self.finished["output"] = ends
        self.started["input"] = self._bindings.as_recorded_value(self.started["input"])

    def _by_scope(self) -> dict[str, list[RecordedTurn]]:
        """Return the requests of each conversation, of those that were tried again the last."""
        found: dict[str, list[RecordedTurn]] = defaultdict(list)
        for turn in self._record.turns:
            if turn.call not in self._again:
                found[turn.scope].append(turn)
        return found

    def names(self, call: str) -> list[str]:
        """Return the names of the conversations above a call, and of its own."""
        parts = scope_of(call).split("/")
        scopes = ["/".join(parts[:depth]) for depth in range(2, len(parts) + 1)]
        own = {new: old for old, new in self._scopes.items()}
        return [conversation_name(self._record, own.get(each, each)) for each in scopes]

    def notes(self, other: RunCalls) -> list[str]:
        """Return the mapped values of the other log and this one, and the tokens if they differ."""
        assert isinstance(other, ObservedCalls)
        used = [f"{told} in, {said} out" for told, said in (self._usage(), other._usage())]  # noqa: SLF001 - of its own kind
        measured = f"not compared (measured): tokens ({' and '.join(used)})"
        return [*self._bindings.lines(), *[measured] * (used[0] != used[1])]

    def _usage(self) -> tuple[int, int]:
        """Return the tokens of all answers, in and out: a measurement."""
        used = [turn.answer.usage for turn in self._record.turns if turn.answer is not None]
        return sum(u.input_tokens for u in used), sum(u.output_tokens for u in used)

    def _settled(self, asked: Asked) -> Asked:
        return self._record.rules.applied(asked, self._bindings.line_key)

    def _unnamed(self, turn: RecordedTurn) -> Asked:
        """Return a request with its ids of calls by their positions: a server draws them anew."""
        asked = self._settled(turn.asked)
        messages = tuple(self._without_ids(turn.scope, each) for each in asked.messages)
        return attrs.evolve(asked, messages=messages)

    def _plain(self, asked: Asked, *, timeless: bool = False) -> Asked:
        plain = self._settled(asked)
        asked = self._bindings.as_recorded(plain) if self._is_now else plain
        return self._bindings.plain(asked, timeless=timeless)

    def _value(self, value: Any) -> Any:
        return self._bindings.as_recorded_value(value) if self._is_now else value

    def agent_of(self, call: Call) -> str:
        """Return the scope of its conversation."""
        return scope_of(call.key)

    def request(self, call: Call) -> Json:
        """Return the request without volatile values."""
        return self._asked[call.key]

    def ending(self, call: Call) -> Json:
        """Return the outcome without volatile values."""
        return self._ended[call.key]

    # --- building ------------------------------------------------------------------------

    def _build(self, scopes: dict[str, str]) -> None:
        self._scopes = scopes
        self.calls, self._asked, self._ended, self._ids = [], {}, {}, {}
        said: dict[str, list[Any]] = {}
        offered: dict[str, Json] = {}
        kept = (turn for turn in self._record.turns if turn.call not in self._again)
        seqs, turns = self._record.seqs, {turn.call: turn for turn in kept}
        for key in sorted([*turns, *self._record.tools], key=seqs.__getitem__):
            scope = scope_of(key)
            renamed = scopes.get(scope, scope) + key.removeprefix(scope)
            if key in turns:
                turn = turns[key]
                asked, ended = self._of_turn(turn, said, offered)
                kind, name = "model", turn.asked.model
            else:
                tool = self._record.tools[key]
                asked = {"tool": tool.tool, "arguments": self._value(tool.arguments)}
                end = self._value(tool.end) if tool.end is not None else NO_OUTCOME
                told = {"name": tool.tool, "arguments": tool.arguments}
                end = self._bindings.marked_result(told, end)
                ended = self._record.rules.applied_to(end, f"tool:{tool.tool}")
                kind, name = "tool", tool.tool
            at = 2 * seqs[key]
            end = at + 1 if kind == "model" else _LATE + at  # long after its request
            asked_at = seqs[key], _digest(asked), at
            self.calls.append(Call(renamed, kind, name, *asked_at, _digest(ended), (end,)))
            self._asked[renamed], self._ended[renamed] = asked, ended

    def _of_turn(
        self, turn: RecordedTurn, said: dict[str, list[Any]], offered: dict[str, Json]
    ) -> tuple[Json, Json]:
        plain = self._plain(turn.asked)
        messages = [self._without_ids(turn.scope, each) for each in plain.messages]
        before = said.get(turn.scope, [])
        shared, _ = shared_ends(before, messages)
        asked: dict[str, Json] = {
            "api": plain.api,
            "model": plain.model,
            "added": messages[shared:],
            "kept": shared == len(before),
            "parameters": self._without_ids(turn.scope, plain.parameters),
        }
        if offered.get(turn.scope) != list(plain.tools):
            offered[turn.scope] = list(plain.tools)
            asked["tools"] = list(plain.tools)
        ended = self._answer(turn)
        message = ended.get("message") if isinstance(ended, dict) else None
        said[turn.scope] = [*messages, message] if message is not None else messages
        return asked, ended

    def _answer(self, turn: RecordedTurn) -> Json:
        answer = turn.answer
        failed: list[Json] = [each.failure for each in self._retries.get(turn.call, ())]
        again: dict[str, Json] = {RETRIES: failed} if failed else {}
        if answer is None:
            return {"status": "cancelled" if turn.how == "gone" else "no outcome", **again}
        told = {"status": answer.status, "stop_reason": answer.stop_reason, **again}
        if answer.message is not None:
            told["message"] = self._without_ids(turn.scope, self._value(answer.message))
        return told | ({"error": answer.error} if answer.error is not None else {})

    def _without_ids(self, scope: str, value: Any) -> Any:
        known = self._ids.setdefault(scope, {})
        return _replaced(value, known)


def _replaced(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            name: known.setdefault(item, f"id {len(known) + 1}")
            if name in _IDS and isinstance(item, str) and item
            else item
            if name in _OWN
            else _replaced(item, known)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replaced(item, known) for item in value]
    return value


def _digest(value: Json) -> bytes:
    return bytes.fromhex(digest.of_key(value))[:16]


def _end(record: ObservedRecord) -> dict[str, Any] | None:
    ended = record.finished
    if ended is None:
        return None
    error = ended.error
    return {
        "status": ended.status,
        "reason": ended.reason,
        "error": {"code": error.code, "message": error.message} if error else None,
        "in_doubt": [len(ended.in_doubt)] if ended.in_doubt else [],
        "output": ended.output,
    }


_LIKENESSES: Final[tuple[Callable[[str, str], str], ...]] = (
    lambda agent, opening: f"{agent} {opening}",
    lambda _agent, opening: opening,
    lambda agent, _opening: agent,
    lambda agent, _opening: "" if agent else "anyone",
)
"""What makes two conversations the same, the surest first; empty for nothing."""


def paired(a: ObservedCalls, b: ObservedCalls) -> dict[str, str]:
    """Return which conversation of `a` each of `b` is; one that `a` lacks gets a scope of its own.

    The same agent with the same first messages goes first, then the same messages, then the same
    agent, then the order in which they began.
    """
    first, second = a.conversations(), b.conversations()
    found: dict[str, str] = {}
    for key in _LIKENESSES:
        waiting: dict[str, list[str]] = defaultdict(list)
        for scope, (agent, opening) in first.items():
            if scope not in found.values():
                waiting[key(agent, opening)].append(scope)
        for scope, (agent, opening) in second.items():
            if scope not in found and key(agent, opening) and waiting.get(key(agent, opening)):
                found[scope] = waiting[key(agent, opening)].pop(0)
    numbers = [int(number) for scope in first if (number := scope.split("/")[1]).isdigit()]
    free = (f"0/{number}" for number in itertools.count(max(numbers, default=0) + 1))
    return {scope: found.get(scope) or next(free) for scope in second}
