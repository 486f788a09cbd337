"""What the model saw at each turn of an agent, what changed since another turn, and its answer.

A turn is one request, also one that failed and was tried again. Rules: CONTRACT.md §13.9.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from refold.engine.encoding.document import Document
from refold.engine.events.call_key import scope_of
from refold.engine.events.events import MESSAGES
from refold.engine.log.reader import read_entries
from refold.replay.difference.pointer_diff import shared_ends
from refold.replay.index.chains import Chains


@attrs.frozen(kw_only=True)
class AgentTurn(Document):
    """One request of an agent to a model, and its answer."""

    number: int
    """1-based."""
    entry: int
    model: str
    messages: tuple[dict[str, Any], ...]
    """The whole prompt, as the model saw it."""
    against: int = 0
    """The turn that the next four members compare it with; 0: with an empty prompt."""
    kept: int = 0
    """How many messages the other turn has, too, its answer included: from the first on …"""
    kept_at_end: int = 0
    """… and how many at the end."""
    added: tuple[dict[str, Any], ...] = ()
    dropped: tuple[dict[str, Any], ...] = ()
    """Messages of the other turn that this one lacks."""
    status: str = "open"
    """`ok` · `error` · `cancelled` · `open`: the log has no answer."""
    answer_entry: int | None = None
    answer: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    usage: dict[str, Any] = attrs.field(factory=dict)

    def since(self, other: "AgentTurn | None") -> "AgentTurn":
        """Return it compared with another turn; `None`: with an empty prompt."""
        said = [] if other is None or other.answer is None else [other.answer]
        before = () if other is None else (*other.messages, *said)
        kept, kept_at_end = shared_ends(before, self.messages)
        return attrs.evolve(
            self,
            against=0 if other is None else other.number,
            kept=kept,
            kept_at_end=kept_at_end,
            added=self.messages[kept : len(self.messages) - kept_at_end],
            dropped=before[kept : len(before) - kept_at_end],
        )

    def marked(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each message, dropped ones in their place, with ` `, `+` or `-`."""
        end = len(self.messages) - self.kept_at_end
        yield from ((" ", each) for each in self.messages[: self.kept])
        yield from (("-", each) for each in self.dropped)
        yield from (("+", each) for each in self.added)
        yield from ((" ", each) for each in self.messages[end:])


def turns(log: Path, scope: str = "") -> list[AgentTurn]:
    """Return the turns of the run of a log, or of one conversation in it.

    Raises:
        LogDamaged: an entry does not verify, or a large text is missing.
        LogMissing: the file does not exist.
    """
    chains, ends, found = Chains(), dict[str, str](), dict[str, AgentTurn]()
    for entry in read_entries(log, resolve=True, torn_ok=True):
        call, data = entry.call or "", entry.data
        if entry.kind == MESSAGES:
            chains.after(data["predecessor"], data["added"])
        elif entry.kind == "model.asked":
            ends[call] = chains.after(data["predecessor"], data["added"])
            if scope in ("", scope_of(call)):
                messages = chains.messages(ends[call])
                asked = {"entry": entry.seq, "model": data["model"], "messages": messages}
                found[call] = AgentTurn(number=len(found) + 1, **asked)
        elif entry.kind in ("model.answered", "effect.cancelled") and call in ends:
            answer = data.get("message")
            chains.after(ends[call], [] if answer is None else [answer])
            if call in found:
                found[call] = attrs.evolve(
                    found[call],
                    status=data.get("status", "cancelled"),
                    answer_entry=entry.seq,
                    answer=answer,
                    error=data.get("error"),
                    usage=data.get("usage") or {},
                )
    return list(found.values())
