"""Runs as four Parquet tables: the runs, their agents, calls and messages.

The rows are made of the run's spans, and written in groups while the logs are read: the memory does
not grow with the number of entries.  Rules: CONTRACT.md §14.22.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO, Final, Self

import orjson
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from refold.engine.encoding.canonical import encode
from refold.exports.spans import USAGE, Spans, TraceSpan

_GROUP_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of a row group, as JSON; a single row may have more."""
_SPAN: Final = ("run", "agent", "parent", "name", "status", "error", "started", "ended")
_RUN: Final = {
    "run_id": "refold.run_id",
    "conversation": "gen_ai.conversation.id",
    "requests": "refold.requests",
    **{each: f"refold.usage.{each}" for each in USAGE.values()},
    **{f"own_{each}": f"refold.own_usage.{each}" for each in USAGE.values()},
    "guarantee": "refold.guarantee",
    "log_state": "refold.log_state",
    "head": "refold.head",
    "notable": "refold.notable",
    "brief": "refold.brief",
    "error_message": "refold.error.message",
}
"""Columns of an agent, each with the attribute of a span that it holds."""
_CALL: Final = {
    "entry": "refold.entry",
    "answer_entry": "refold.answer_entry",
    "call_key": "refold.call",
    "tool_call_id": "gen_ai.tool.call.id",
    "model": "gen_ai.request.model",
    "provider": "gen_ai.provider.name",
    "finish_reasons": "gen_ai.response.finish_reasons",
    **{name: attribute for attribute, name in USAGE.items()},
    "arguments": "gen_ai.tool.call.arguments",
    "result": "gen_ai.tool.call.result",
    "error_message": "refold.error.message",
}
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "runs": (*_SPAN, *_RUN, "source", "agents", "calls", "messages", "attributes"),
    "agents": (*_SPAN, "parent_agent", *_RUN, "attributes"),
    "calls": (*_SPAN, "call", "kind", *_CALL, "attributes"),
    "messages": (
        "run", "agent", "call", "position", "role", "is_answer", "text", "tool_call_id",
        "tool_calls",
    ),
}  # fmt: skip
FILES: Final = tuple(f"{name}.parquet" for name in _COLUMNS)
_ELSEWHERE: Final = ("gen_ai.input.messages", "gen_ai.output.messages")
"""Attributes that other tables or columns hold."""
_INTEGERS: Final = {
    "requests", "entry", "answer_entry", "position", "agents", "calls", "messages",
    *USAGE.values(), *(f"own_{each}" for each in USAGE.values()),
}  # fmt: skip
_TYPES: Final = {
    **dict.fromkeys(_INTEGERS, pa.int64()),
    **dict.fromkeys(("started", "ended"), pa.timestamp("us", "UTC")),
    **dict.fromkeys(("finish_reasons", "notable"), pa.list_(pa.string())),
    "is_answer": pa.bool_(),
    "tool_calls": pa.list_(
        pa.struct({"id": pa.string(), "name": pa.string(), "arguments": pa.string()})
    ),
}
"""Types of columns that are not text."""


def write(runs: Iterable[Spans], files: Sequence[BinaryIO]) -> None:
    """Write the tables of some runs to one file each, in the order of `FILES`."""
    with ExitStack() as stack:
        made = zip(_COLUMNS.items(), files, strict=True)
        tables = {name: stack.enter_context(_Table(file, each)) for (name, each), file in made}
        for spans in runs:
            _add(spans, tables)


def _add(spans: Spans, tables: "dict[str, _Table]") -> None:
    """Add the rows of a run to the tables."""
    names = ("agents", "calls", "messages")
    before = {name: tables[name].count for name in names}
    for span in spans:
        is_run = span.attributes.get("gen_ai.operation.name") == "invoke_agent"
        tables["agents" if is_run else "calls"].add(_row(span, is_agent=is_run))
        for row in _messages(span):
            tables["messages"].add(row)
        if span.agent is None:
            source = span.links[0][0].hex() if span.links else None
            root = _row(span, is_agent=True) | {"source": source}
    counts = {name: tables[name].count - before[name] for name in names}
    tables["runs"].add(root | counts)


class _Table:
    """A table that is being written."""

    def __init__(self, file: BinaryIO, columns: Sequence[str]) -> None:
        self._schema = pa.schema([(name, _TYPES.get(name, pa.string())) for name in columns])
        self._writer = ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def add(self, row: dict[str, Any]) -> None:
        size = len(orjson.dumps(row))
        if self._bytes + size > _GROUP_BYTES:
            self._flush()
        self._rows.append(row)
        self._bytes += size
        self.count += 1

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows, self._bytes = [], 0


def _row(span: TraceSpan, *, is_agent: bool) -> dict[str, Any]:
    """Return the row of an agent or a call; attributes without a column are in `attributes`."""
    rest = dict(span.attributes)
    kind = rest.pop("gen_ai.operation.name", "ask")
    for each in _ELSEWHERE:
        rest.pop(each, None)
    ids = {"agent": span.id, "parent_agent": span.agent} if is_agent else {"call": span.id}
    ids = {"agent": span.agent, "parent": span.parent} | ids
    row = {name: value and value.hex() for name, value in ids.items()} | {
        "run": span.trace.hex(),
        "name": rest.pop("gen_ai.agent.name", None) or rest.pop("gen_ai.tool.name", span.name),
        "kind": kind,
        "status": rest.pop("refold.status"),
        "error": rest.pop("error.type", None),
        "started": span.start_us,
        "ended": span.end_us,
    }
    columns = _RUN if is_agent else _CALL
    row |= {name: rest.pop(attribute, None) for name, attribute in columns.items()}
    return row | {"attributes": encode(rest).decode()}


def _messages(span: TraceSpan) -> Iterator[dict[str, Any]]:
    """Yield a row for each message that a request added, and for its answer."""
    agent = span.agent.hex() if span.agent else None
    for position, (is_answer, message) in enumerate(span.messages):
        calls = [
            {name: _text(one.get(name)) for name in ("id", "name", "arguments")}
            for one in message.get("tool_calls") or ()
        ]
        yield {
            "run": span.trace.hex(),
            "agent": agent,
            "call": span.id.hex(),
            "position": position,
            "role": _text(message.get("role")),
            "is_answer": is_answer,
            "text": _text(message.get("content")),
            "tool_call_id": _text(message.get("tool_call_id")),
            "tool_calls": calls,
        }


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else encode(value).decode()
