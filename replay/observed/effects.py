"""Lists the tool calls in a record that the command itself executes when it gets the answers.

Only the served bytes are read, not what other entries claim, because a record may be forged. Calls
that a server made while it answered are left out. Pure. Rules: CONTRACT.md §16.6.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from refold.engine.encoding.document import Document
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import reader_of_part
from refold.engine.wire.parts.exchange import OTHER
from refold.engine.wire.responses.answer import unspelled
from refold.replay.difference.pointer_diff import counted
from refold.replay.observed.reads import only_reads
from refold.replay.observed.record import ObservedRecord, RecordedTurn
from refold.replay.observed.titles import conversation_name

_SHOWN: Final = 8
"""Tools that are named in one line."""


@attrs.frozen(kw_only=True)
class OwnCall(Document):
    """One tool call that an answer asks for."""

    tool: str
    arguments: Any
    """As in the answer: an object, or the text if it is not an object."""
    call: str
    """The call key of the request whose answer asks for it."""
    conversation: str


@attrs.frozen(kw_only=True)
class OwnCalls(Document):
    """The tool calls that a record's answers request from a command."""

    calls: tuple[OwnCall, ...]
    """In the order of asking."""
    unread: int
    """Answers that Refold does not read, or not to their end: they may ask for more."""

    def tools(self) -> str:
        """Return how often each tool is called: `Bash 9, Write 5`."""
        counts = Counter(effect.tool for effect in self.calls).most_common()
        tools = ", ".join(f"{tool:.40} {count}" for tool, count in counts[:_SHOWN])
        more = f" and {len(counts) - _SHOWN} more tools" if len(counts) > _SHOWN else ""
        return tools + more

    def __str__(self) -> str:
        """Return how many calls of which tools a command will carry out, in one line."""
        tools, calls = self.tools(), counted(len(self.calls), "tool call")
        said = f"this recording contains {calls} that COMMAND will execute"
        said += f": {tools}" if tools else ""
        if not self.unread:
            return said
        return f"{said}; {counted(self.unread, 'answer')} that Refold cannot read may request more"


NO_EFFECTS: Final = OwnCalls(calls=(), unread=0)


def effects_of(record: ObservedRecord, here: Mapping[str, str] = MappingProxyType({})) -> OwnCalls:
    """Return what all answers that may be served ask for; `here` was noted of now."""
    calls, unread = [], 0
    moved = record.bindings(here)
    for turn in record.turns:
        if not turn.parts or turn.why_unserved:
            continue
        said = _served(record, turn)
        message = said.message or {}
        for tool, arguments in _calls(message):
            name = conversation_name(record, turn.scope)
            calls.append(
                OwnCall(
                    tool=tool, arguments=moved.as_now(arguments), call=turn.call, conversation=name
                )
            )
        code = (said.error or {}).get("code")
        is_unknown = turn.asked.api == OTHER and said.status == "ok" and not only_reads(turn.asked)
        unread += "truncated" in message or code in ("malformed", "stream") or is_unknown
    return OwnCalls(calls=tuple(calls), unread=unread)


def _served(record: ObservedRecord, turn: RecordedTurn) -> ModelAnswered:
    """Return the answer as a client reads it."""
    reader = reader_of_part(turn.asked, turn.parts[0])
    for _, chunk in record.pieces(turn):
        reader.feed(chunk)
    return reader.answered()


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for call in message.get("tool_calls", ()):
        yield call["name"], call.get("invalid", call.get("arguments"))
    yield from unspelled((message.get("provider") or {}).get("responses"))
