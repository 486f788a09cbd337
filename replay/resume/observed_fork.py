"""A fork of a watched command serves the record up to an entry, with edited answers.

A key of `edits` is an answer's call key, with a text, a whole message or a fault; or a tool call's
key, with different arguments. Both change the model's answer. Requests that were not recorded
before that entry are sent to the live server. Rules: CONTRACT.md §16.6, §12.11.
"""

import shlex
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.strict import nearest
from refold.engine.errors import EntryMissing, ForkRefused, UsageError
from refold.engine.events.events import ModelAnswered, scope_of
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.apis import reader_of_part
from refold.engine.wire.parts.kept_answers import body_of
from refold.engine.wire.spelling import HTTP_ERROR, can_spell, spelled
from refold.replay.difference.pointer_diff import few
from refold.replay.observed.record import ObservedRecord, RecordedTurn, read_record
from refold.replay.partial.given_values import given

_LATE_MAX: Final = 86_400
_FORMS: Final = ("content", "error", "late_seconds", "refusal")
_USUAL: Final = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)
_CODES: Final = ("cut", *(f"http_{status}" for status in _USUAL))


@attrs.frozen
class KeptRecord:
    """The part of a record that a fork serves."""

    record: ObservedRecord
    """Requests that were answered up to the entry `at`, edits applied."""
    at: int
    origin: dict[str, Any]
    """{nonce, head, at, edits}: the origin in the new log."""
    head: str
    """Of the whole log."""


def kept_record(
    log: str | PathLike[str],
    at: int | None,
    edits: Mapping[str, Json],
    rules: VolatileRules | None = None,
) -> KeptRecord:
    """Return the served part of a log that is forked at an entry.

    `at` is the last kept entry, negative from the end; the default is the first edited answer.

    Raises:
        LogObserved: the log is a program's.
        EntryMissing: it has no such entry.
        ForkRefused: neither an entry nor an edit gives the place, or an edit does not name an
            answer.
        UsageError: an edit's value does not fit.
    """
    path = Path(fspath(log))
    whole = read_record(path, rules)
    answers = {key: _answer(whole, key) for key in edits}
    last = _entry(whole, at, [turn.over or 0 for turn in answers.values()])
    record = read_record(path, rules, until=last + 1)
    record.turns = [turn for turn in record.turns if turn.how != "open"]
    record.left = whole.left or whole.folder.left  # in the user's folder, where the run went on
    if record.folder.started is None:  # an entry before that of the folder: it begins there, too
        record.folder = whole.folder
    record.folder.before = record.left
    whole_first = sorted(edits, key=lambda key: key != answers[key].call)
    anew = [key for key in whole_first if _edit(record, key, answers[key].call, edits[key])]
    _spell(record, {answers[key].call for key in anew})
    origin = {"nonce": record.started.nonce, "head": record.head, "at": last}
    return KeptRecord(record, last, origin | {"edits": sorted(edits)}, whole.head)


def _entry(record: ObservedRecord, at: int | None, edited_at: list[int]) -> int:
    log = str(record.path)
    if at is None:
        if not edited_at:
            keys = [turn.call for turn in record.turns if turn.answer is not None]
            problem = "name an answer to change, --set KEY=JSON, or the last entry to keep, --at N"
            options = ("--set", f"{keys[0]}=VALUE") if keys else ("--at", "0")
            raise ForkRefused(log, problem, options)
        return min(edited_at)
    found = record.entries + at if at < 0 else at
    if not 0 <= found < record.entries:
        raise EntryMissing(log, at, record.entries)
    return found


def _answer(record: ObservedRecord, key: str) -> RecordedTurn:
    """Return the answered request that a key changes: its own, or the one that made the call."""
    for turn in record.turns:
        if turn.answer is not None and (turn.call == key or key in _calls_of(record, turn)):
            return turn
    known = few([*(turn.call for turn in record.turns), *record.tools], 8) or "none"
    path = shlex.quote(str(record.path))
    problem = f"no answer or tool call has the key {key!r}; its keys: {known}"
    problem += f"; refold show {path} --events"
    raise ForkRefused(str(record.path), problem)


def _calls_of(record: ObservedRecord, turn: RecordedTurn) -> list[str]:
    """Return the keys of the tool calls that an answer asked for, in its order."""
    message = (turn.answer.message if turn.answer is not None else None) or {}
    after = [
        key
        for key in record.tools
        if scope_of(key) == turn.scope and record.seqs[key] > (turn.over or 0)
    ]
    return after[: len(message.get("tool_calls") or ())]


def _edit(record: ObservedRecord, key: str, call: str, value: Json) -> bool:
    """Change an answer; return whether it is to be spelled anew."""
    turn = next((each for each in record.turns if each.call == call), None)
    if turn is None or turn.answer is None:
        problem = f"{key!r} is answered after the last entry that is kept: pass a later --at"
        raise ForkRefused(str(record.path), problem, dropped="--at")
    if not can_spell(turn.asked):
        problem = f"{key!r} is an answer of an API that Refold cannot encode"
        raise ForkRefused(str(record.path), problem)
    if key == call and isinstance(value, dict) and "content" not in value:
        return _fail(record, turn, turn.answer, value)
    if key == call:
        turn.answer = given(turn.answer, key, value)
    else:
        if not isinstance(value, dict):
            wrong = f"a tool call's arguments must be an object; found {value!r:.60}"
            raise UsageError(f"the edit of {key!r}: {wrong}; the answer that made it is {call!r}")
        turn.answer = _with_arguments(turn.answer, _index(record, turn, key), key, value)
    return True


def _fail(
    record: ObservedRecord, turn: RecordedTurn, answer: ModelAnswered, value: Mapping[str, Json]
) -> bool:
    """Make an answer fail on purpose (CONTRACT.md §16.6); return whether to encode it again.

    Raises:
        UsageError: the value has none of the accepted forms.
    """
    said = f"the edit of {turn.call!r}: {value!r:.60}"
    match value:
        case {"late_seconds": int() | float() as late} if len(value) == 1 and 0 < late <= _LATE_MAX:
            turn.late_seconds = float(late)
            return False
        case {"refusal": str() as text} if len(value) == 1:
            message = {"role": "assistant", "content": text}
            turn.answer = ModelAnswered("ok", message, answer.usage, "refusal")
        case {"error": {"code": "cut"}} if value == {"error": {"code": "cut"}}:
            body = b"".join(chunk for _, chunk in record.pieces(turn))
            half = body[: len(body) // 2]
            reader = reader_of_part(turn.asked, turn.parts[0])
            reader.feed(half)
            turn.answer = reader.broken()
            head = {name: turn.parts[0][name] for name in ("status", "headers")}
            sizes = {"sizes": [len(half)], "at_ms": [0]}
            turn.parts = [{**head, **body_of(half), **sizes, "end": "cut"}]
            return False
        case {"error": {"code": str() as code, **more}} if more.keys() <= {"message"}:
            if HTTP_ERROR.fullmatch(code) is None:
                near = nearest(code, _CODES)
                raise UsageError(f"{said}: expected a code http_400 to http_599, or cut{near}")
            words = f"the request failed with status {code[-3:]}"
            error = {"code": code, "message": str(more.get("message", words))}
            turn.answer = ModelAnswered("error", error=error)
        case {"error": {"message": str() as text}} if value == {"error": {"message": text}}:
            turn.answer = given(answer, turn.call, dict(value))
        case _:
            near = next((nearest(name, _FORMS) for name in value if name not in _FORMS), "")
            forms = '{"error": {"code": "http_429"}}, {"refusal": "…"}, {"late_seconds": 30}'
            raise UsageError(f"{said}: expected a text, a message with content, {forms}{near}")
    return True


def _index(record: ObservedRecord, turn: RecordedTurn, key: str) -> int:
    """Return which of an answer's tool calls a key is."""
    whole = read_record(record.path)  # its calls stand after the answer, and may be cut off
    again = next(each for each in whole.turns if each.call == turn.call)
    return _calls_of(whole, again).index(key)


def _with_arguments(
    answer: ModelAnswered, at: int, key: str, value: dict[str, Json]
) -> ModelAnswered:
    message = dict(answer.message or {})
    calls = [dict(call) for call in message["tool_calls"]]
    if at >= len(calls):
        raise UsageError(f"the edit of {key!r}: an earlier edit removed this call")
    calls[at] = {"id": calls[at]["id"], "name": calls[at]["name"], "arguments": value}
    return attrs.evolve(answer, message={**message, "tool_calls": calls})


def _spell(record: ObservedRecord, calls: set[str]) -> None:
    """Give edited answers their wire."""
    for turn in record.turns:
        if turn.call in calls and turn.answer is not None:
            message = turn.answer.message
            if message is not None:  # its original says what was said before
                plain = {name: item for name, item in message.items() if name != "provider"}
                turn.answer = attrs.evolve(turn.answer, message=plain)
            turn.parts = [spelled(turn.asked, turn.answer)]
