"""Runs at the edges of what a log may hold (CONTRACT.md §3.5), for every reader to read.

An edge is a value for each place where a program can put one: arguments, results, notes, parameters
of a model request, a child's input and output, a person's answer, the output.  `record` just takes
each of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import refold
from refold.engine.encoding.canonical import DEPTH_MAX, encode
from refold.engine.log.blobs import DATA_MAX
from refold.engine.models.scripted import ScriptedModel

Values = dict[str, Any]


@refold.tool(effect="pure")
async def same(v: Any) -> Any:
    """Return what is given."""
    return v


@refold.tool(effect="reads")
async def listed(v: Any) -> Any:
    """Return a list of what is given."""
    return [v]


TOOLS: Final = [same, listed]
MODEL: Final = ScriptedModel(["yes"])


async def handed_back(_: refold.Run, value: Any) -> Any:
    """Return the input."""
    return value


async def at_edge(run: refold.Run, name: str) -> Any:
    """Put each value of an edge into its place."""
    values = EDGES[name]()
    got = [await run.tool(same, v=values["arguments"]), await run.tool(listed, v=values["result"])]
    run.annotate("a note", values["note"])
    reply = await run.model([{"role": "user", "content": "x"}], extra=values["parameter"])
    child = refold.Delegation(program=handed_back, input=values["child"], brief="hand it back")
    outcome = await run.delegate(child)
    answer = await run.ask("which?")
    assert got == [values["arguments"], [values["result"]]]
    assert (reply.message["content"], answer) == ("yes", values["answer"])
    assert outcome.status in ("completed", "limit")  # a reply holds less than an entry
    return values["output"]


LEVELS_ABOVE: Final = {
    "arguments": 2, "result": 2, "note": 1, "parameter": 2, "child": 2, "answer": 1, "output": 1,
}  # fmt: skip
"""Of each place: the levels of an entry's data that its value stands within."""


def every(value: Any) -> Values:
    """Return the same value for every place."""
    return dict.fromkeys(LEVELS_ABOVE, value)


def nested(levels: int, name: str = "") -> Any:
    """Return a value of so many levels: lists, or objects with a member of that name."""
    value: Any = 0
    for _ in range(levels):
        value = {name: value} if name else [value]
    return value


def deepest(name: str = "", *, more: int = 0) -> Values:
    """Return the deepest value that each place takes, or one of so many levels more."""
    return {place: nested(DEPTH_MAX - above + more, name) for place, above in LEVELS_ABOVE.items()}


def texts(size: int) -> list[str]:
    """Return texts, each too short to be kept apart, that are so many bytes as JSON."""
    found = ["x" * 1000] * (size // 1003 - 2)
    return [*found, "x" * (size - len(encode([*found, ""])))]


_CALL: Final = len('{"tool":"same","arguments":{"v":},"effect":"pure"}')
_NUMBERS: Final = [-(2**63), 2**63 - 1, 2**53 + 1, 0, -0.0, 5e-324, -1.7976931348623157e308, 1e22]
_TEXTS: Final = [
    "", "\0", "\x7f\u2028\u202e\ufeff", "\U000e0041", "\U0010ffff", "null", "a\r\n\t\x1b[2J",
    "x" * 32_767, "x" * 32_768, "€" * 10_923, "/~0~1\\\"'`|*_<b>&amp;</script>",
]  # fmt: skip
_NAMES: Final = [
    "", "$blob", "$esc", "$secret", "$", "__proto__", "/~", "\u2028", "a.b[0]", "x" * 2_000,
    "<script>", "[redacted]",
]  # fmt: skip
_MARKERS: Final = [{"$blob": "0" * 64, "bytes": 1}, {"$esc": {}}, {"$secret": "A"}]

EDGES: Final[Mapping[str, Callable[[], Values]]] = {
    "deep": deepest,
    "values": lambda: every(
        [_NUMBERS, _TEXTS, {name: {name: [name]} for name in _NAMES}, _MARKERS, [], {}, None]
    ),
    "deep-objects": lambda: deepest("a"),
    "deep-wrapped": lambda: every(nested((DEPTH_MAX - 2) // 2, "$a")),
    "many": lambda: every({str(at): at for at in range(50_000)}),
    "full": lambda: every(texts(DATA_MAX - 40_000)) | {"arguments": texts(DATA_MAX - _CALL)},
    "crowded": lambda: every(0) | {"arguments": ["y" * 1_100 + str(at) for at in range(1_000)]},
}
"""By name: what makes its values."""
