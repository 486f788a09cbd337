"""What a replay of a watched command says: what was asked otherwise, and how it ended.

The guarantee is named in every form of it: requests were matched; the command itself ran as it
pleased.  Rules: CONTRACT.md §16.6.
"""

from collections.abc import Sequence
from typing import Any, Final

import attrs

from refold.engine.canonical import Json
from refold.replay.divergence import Divergence
from refold.replay.observed.record import ObservedRecord
from refold.replay.pointer_diff import differences
from refold.replay.text_diff import text_changes

GUARANTEE: Final = (
    "requests were matched with the record; the command itself was not run on Refold's kernel"
)


@attrs.frozen(kw_only=True)
class ObservedReport:
    """One replay of a watched command."""

    log: str
    program: str
    requests: int
    """Recorded."""
    served: int
    """Of them, asked again and answered from the record."""
    live: int
    """Requests that the record had no answer to, and that went on live."""
    conversations: int
    entries: int
    divergences: tuple[Divergence, ...]
    rules: dict[str, Json]
    """What was not compared: {volatile, volatile_texts}."""
    exit_code: int
    """Of the command, now."""

    @property
    def identical(self) -> bool:
        """Whether all was asked again, nothing else was, and the command ended alike."""
        return not self.divergences

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        plain["divergences"] = [one.as_json() for one in self.divergences]
        return {"identical": self.identical, "guarantee": "matched", **plain}


def ended_otherwise(record: ObservedRecord, output: dict[str, Json]) -> list[Divergence]:
    """Return a divergence if a command did not end as recorded; `output` as `run.finished` has it.

    A record without an end says nothing of it.
    """
    if record.finished is None or record.finished.output == output:
        return []
    before = _end(record.finished.output)
    now = _end(output)
    diff = differences(before, now)
    return [
        Divergence(
            category="output_changed",
            where=record.started.program,
            log=str(record.path),
            seq=record.entries - 1,
            recorded=before,
            now=now,
            diff=diff,
            texts=text_changes(diff),
            cause="the command printed, or ended with, something else",
        )
    ]


def _end(output: Json) -> dict[str, Any]:
    return {"kind": "run.finished", "name": "", "call": "", "arguments": output}


def conversations_of(record: ObservedRecord) -> int:
    """Return how many conversations there are."""
    return len({turn.scope for turn in record.turns})


def in_order(divergences: Sequence[Divergence]) -> tuple[Divergence, ...]:
    """Return the first of each conversation: what comes after it follows from it."""
    seen: set[str] = set()
    kept = []
    for one in divergences:
        scope = one.call.partition("#")[0] or one.where
        if scope not in seen:
            seen.add(scope)
            kept.append(one)
    return tuple(kept)
