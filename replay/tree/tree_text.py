"""A delegation tree as text: for snapshots, and the review of a change.

Plain indentation, one fact a line, so that a diff of two texts shows what changed and nothing
else.  Siblings stand in the order of their call keys, tools by name, and nothing is cut: two runs
that did the same read the same, and two that did not, do not.  Ids, call keys, durations, hashes
and file names are left out.  All that comes from a log is made safe to print.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from refold.engine.encoding.canonical import encode
from refold.engine.events.call_key import in_order
from refold.replay.tree.run_node import UNFINISHED, RunNode, ToolUse

_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0020-\U000e007f]"
)
_PATH: Final = re.compile(r"(?<![\w.:/<])/(?:[\w.@+~-]+/)+[\w.@+~-]+")
_HEX: Final = re.compile(r"\b[0-9a-f]{16,64}\b")


def render_text(node: RunNode) -> str:
    """Return the tree below `node` as indented text that ends with a newline."""
    return "".join(f"{line}\n" for line in _lines(node, 0))


def heading(node: RunNode) -> str:
    """Return who it is and how it ended: `researcher, by subagent: completed (max_iterations)`."""
    name = printable(node.name) or "a child"
    by = f", by {printable(node.tool)}" if node.tool else ""
    told = node.error is not None or node.reason in ("", "done", node.status)
    reason = "" if told else f" ({node.reason})"  # an error has a line of its own
    joined = "" if node.is_joined or node.status == UNFINISHED else ", never joined"
    how = f" ({printable(node.guarantee or node.how)})" if node.guarantee or node.how else ""
    return f"{name}{by}{how}: {printable(node.status + reason)}{joined}"


def printable(text: str) -> str:
    r"""Return `text` with what a terminal could obey as `\uXXXX`; line ends are kept."""
    return _CONTROL.sub(
        lambda found: (
            f"\\u{ord(found[0]):04x}" if found[0] <= "\uffff" else f"\\U{ord(found[0]):08x}"
        ),
        text,
    )


def scrubbed(message: str) -> str:
    """Return an error's message without absolute paths and long hexadecimal words."""
    return _HEX.sub("<hex>", _PATH.sub("<path>", message))


def _lines(node: RunNode, level: int) -> Iterator[str]:
    indent = "    " * level
    yield f"{indent[2:]}→ {heading(node)}" if level else heading(node)
    for line in _facts(node):
        yield f"{indent}    {line}"
    for child in sorted(node.children, key=_place):
        yield from _lines(child, level + 1)


def _place(node: RunNode) -> tuple[Any, ...]:
    """Return what sorts siblings; conversations of one call, by what they are and were asked."""
    return in_order(node.call), node.name, node.brief


def _facts(node: RunNode) -> Iterator[str]:
    yield from _task(node)
    if node.tools_granted is not None:
        yield f"granted: {printable(', '.join(node.tools_granted)) or 'no tools'}"
    if node.narrowed:
        yield "limits: " + ", ".join(f"{k} {_json(v)}" for k, v in node.narrowed.items())
    yield from _spent(node)
    yield from _end(node)
    if node.log_state not in ("read", "none"):
        yield f"log: {node.log_state}"


def _task(node: RunNode) -> Iterator[str]:
    """Yield the brief, or the input where there is none."""
    if node.agent and node.program not in ("", node.agent):
        yield f"program: {printable(node.program)}"
    if node.brief:
        first, *more = printable(node.brief).split("\n")
        yield f"brief: {first}".rstrip()
        yield from (f"     | {line}".rstrip() for line in more)
    elif node.input is not None:
        yield f"input: {_json(node.input)}"


def _spent(node: RunNode) -> Iterator[str]:
    if node.tools:
        uses = sorted(node.tools, key=lambda use: use.tool)
        yield "tools: " + ", ".join(map(_use, uses))
    if node.requests:
        yield f"model requests: {node.requests}"
    if node.usage.input_tokens or node.usage.output_tokens:
        below = ", with all below" if node.children else ""
        yield f"tokens: {node.usage.input_tokens} in, {node.usage.output_tokens} out{below}"


def _use(use: ToolUse) -> str:
    words = ((use.failed, "failed"), (use.cancelled, "cancelled"))
    ends = ", ".join(f"{count} {word}" for count, word in words if count)
    return f"{printable(use.tool)} x{use.called}" + (f" ({ends})" if ends else "")


def _end(node: RunNode) -> Iterator[str]:
    if node.error is not None:
        message = scrubbed(node.error.message)
        yield f"error: {printable(node.error.code)}: {printable(' '.join(message.split()))}"
    if node.artifacts:
        texts = (f"{kind} {name}".rstrip() for kind, name in node.artifacts)
        yield "artifacts: " + printable(", ".join(texts))
    if node.truncated is not None:
        yield f"truncated: {node.truncated.kept_bytes} of {node.truncated.seen_bytes} bytes kept"


def _json(value: Any) -> str:
    return encode(value).decode()
