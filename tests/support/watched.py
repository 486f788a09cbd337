"""Logs of watched commands without a command: exchanges written down, and asked again.

What a proxy would do with HTTP between a program and its models is done here with values: `record`
writes a log, `replayed` asks its requests again and returns the report.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from refold.engine.events.events import ModelAnswered, Recorded
from refold.engine.events.outcome import Usage
from refold.engine.observed.binding import FOLDERS, NOTED
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer
from refold.engine.observed.profile import NAMED, NO_PROFILE, Profile, Whose
from refold.engine.observed.volatile import VolatileRules
from refold.engine.secrets.vault import Vault
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.spelling import spelled
from refold.proxy.recorded_here import remember
from refold.replay.observed.matching import Matcher, Miss
from refold.replay.observed.record import RecordedTurn, read_record
from refold.replay.observed.report import ObservedReport, report_of

Message = dict[str, Any]
DONE: dict[str, Any] = {"exit_code": 0, "stdout": "done\n", "stdout_bytes": 5}


def system(text: str) -> Message:
    """Return a system prompt."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """Return what a user says."""
    return {"role": "user", "content": text}


def says(text: str, *calls: tuple[str, str, dict[str, Any]]) -> Message:
    """Return an answer, with calls of (id, tool, arguments)."""
    made = [{"id": id_, "name": name, "arguments": given} for id_, name, given in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}


def result(call_id: str, text: str) -> Message:
    """Return what a tool gave."""
    return {"role": "tool", "content": text, "tool_call_id": call_id}


@attrs.frozen
class Exchange:
    """A request, and what it is answered."""

    asked: Asked
    answer: Message | None
    error: str = ""
    is_gone: bool = False

    def answered(self) -> ModelAnswered:
        """Return the answer as an observer is told of it."""
        if self.error:
            return ModelAnswered("error", error={"code": self.error, "message": "no"})
        calls = (self.answer or {}).get("tool_calls")
        reason = "tool_calls" if calls else "stop"
        usage = Usage(input_tokens=10, output_tokens=5)
        return ModelAnswered("ok", self.answer, usage=usage, stop_reason=reason)


def ask(*messages: Message, model: str = "gpt-5", **more: Any) -> Asked:
    """Return a request of chat completions."""
    tools = tuple(more.pop("tools", ()))
    return Asked(api="chat", model=model, messages=messages, parameters=more, tools=tools)


def talk(*messages: Message, **more: Any) -> list[Exchange]:
    """Return the exchanges of a conversation: each answer belongs to a request of all before it."""
    return [
        Exchange(ask(*messages[:at], **more), message)
        for at, message in enumerate(messages)
        if message["role"] == "assistant"
    ]


def record(
    path: Path,
    exchanges: Iterable[Exchange],
    *,
    rules: VolatileRules | None = None,
    output: dict[str, Any] | None = None,
    vault: Vault | None = None,
    hints: Callable[[Exchange], str] = lambda _: "",
    profile: Profile = NO_PROFILE,
    at_ms: int | None = None,
    came: Mapping[str, Any] | None = None,
    folders: Mapping[str, str] | None = None,
    noted: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write the log of a command that made these exchanges, one after the other.

    `noted` is what else the log notes.
    `at_ms` is how long after each request its answer came, `came` what its wire says otherwise.
    """
    told = (rules or VolatileRules()).as_json()
    told |= {NAMED: profile.as_json()} if profile.name else {}
    told |= {FOLDERS: dict(folders or {})} if folders else {}
    told |= {NOTED: dict(noted)}
    given = {"command": ["python", "agent.py"]}
    used = vault or Vault()
    with ObservedLog(path, program="agent.py", input=given, vault=used, rules=told) as log:
        observer = Observer(log, profile)
        for one in exchanges:
            turn = observer.asked(used.scrubbed(one.asked), Whose(hints(one), agent=hints(one)))
            if one.is_gone:
                observer.gone(turn)
                continue
            whole = {**wire(one), **(came or {})}
            if at_ms is not None:
                whole["at_ms"] = [at_ms] * len(whole["at_ms"])
            observer.wire(turn, whole)
            observer.answered(turn, used.scrubbed(one.answered()))
        ended = DONE if output is None else output
        log.seal("completed" if ended["exit_code"] == 0 else "failed", "done", ended)
    remember(log.head)
    return path


def wire(one: Exchange) -> dict[str, Any]:
    """Return how an answer came: as a client of its interface can read it."""
    said = one.answered()
    if one.asked.api == "other":
        head = {"status": 200, "headers": {"content-type": "application/json"}}
        text = (one.answer or {}).get("content", "{}")
        return {**head, "text": text, "sizes": [len(text)], "at_ms": [3], "end": "whole"}
    event = ModelAnswered(said.status, said.message, said.usage, said.stop_reason, said.error)
    return spelled(one.asked, event)


class Nowhere:
    """A journal that keeps nothing."""

    def __init__(self) -> None:
        self._entries = 0

    def append(self, event: Recorded, call: str | None = None, cause: int | None = None) -> int:
        """Count an entry."""
        del event, call, cause
        self._entries += 1
        return self._entries


def replayed(
    log: Path,
    requests: Sequence[Asked],
    *,
    rules: VolatileRules | None = None,
    output: dict[str, Any] | None = None,
    how: str = "",
    here: Mapping[str, str] | None = None,
    lends: bool = False,
) -> ObservedReport:
    """Ask these requests of a record, one after the other; what has no answer is refused.

    With `lends`, a changed request gets the answer to the same turn.
    `how` the output is compared is the record's to say, where it is empty.
    """
    found = read_record(log, rules)
    found = attrs.evolve(found, output=how) if how else found
    matcher = Matcher(found, bindings=found.bindings(here))
    observer = Observer(Nowhere())
    for asked in requests:
        turn = observer.asked(asked)
        served: RecordedTurn | Miss | None = matcher.take(asked, turn.thread.scope)
        if lends and isinstance(served, Miss):
            served = matcher.lend(served)
        if served is None or isinstance(served, Miss) or served.answer is None:
            error = {"code": "not_recorded", "message": ""}
            observer.answered(turn, ModelAnswered("error", error=error))
        else:
            said = served.answer
            observer.answered(turn, ModelAnswered(said.status, said.message))
    return report_of(found, matcher, live=0, output=DONE if output is None else output)
