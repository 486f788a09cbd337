"""A delegation tree as text, for reviews and for `refold show`.

It is indented, with one fact per line, so that a diff of two texts shows only the changes. It has
no ids, call keys, durations, hashes and file names; siblings are in the order of their call keys,
tools are ordered by name, and nothing is cut: equal runs have equal texts, and different runs have
different texts. All text from a log is made safe to print.
"""

import re
from collections.abc import Container, Iterator
from typing import Any, Final

from refold.engine.encoding.canonical import encode
from refold.engine.events.events import in_order
from refold.replay.difference.volatile import SPENT, unplaced
from refold.replay.run.amounts import failures
from refold.replay.run.run_node import UNFINISHED, RunNode

MODELS: Final = "models: "
"""How the line begins that names the models of a conversation."""
_ADVICE: Final = {
    r"object Child can't be used in 'await'|'Child' object can't be awaited|"
    r"'(Child|tuple)' object has no attribute "
    r"'(error|ok|output|result|status|summary)'": "write `(outcome,) = await run.join(child)`",
    r"object (list|tuple|set|generator|dict) can't be used in 'await'|"
    r"'(list|tuple|set|generator|dict)' object can't be awaited": "for several calls, write "
    "`await asyncio.gather(*calls)`",
    r"can't be (used in 'await'|awaited)": "remove `await`: this call returns its value "
    "immediately",
    r"Passing coroutines is forbidden": "write `await asyncio.gather(*calls)`, or pass tasks: "
    "`asyncio.create_task(…)`",
    r"'coroutine'": "write `await` before the call",
    r"or an awaitable is required": "one of these is a value: `run.now()`, `run.uuid()` and every "
    "call of a plain program return immediately",
    r"no running event loop": "write `async def`, or a program without asyncio",
    r"Face.random\(\) takes": "write `run.random().randint(1, 6)`",
    r"'function' object has no attribute '(choice|randint|random|shuffle|uniform)'": "write "
    "`run.random().randint(1, 6)`",
    r"Run.delegate\(\) (takes|got)": "write `await run.delegate(refold.Delegation(program=…, "
    "input=…))`",
    r"Run.start\(\) (takes|got)": "write `await run.start(refold.Delegation(program=…, input=…))`",
    r"Run.model\(\) missing": "write `await run.model(messages)`",
    r"Run.model\(\) takes": "write `await run.model(messages, tools=[…])`",
    r"Delegation.__init__\(\) takes": "write `refold.Delegation(program=…, input=…)`",
    r"Delegation.__init__\(\) got": "write `refold.Delegation(program=…, input=…, brief=…, "
    "tools=(…), limits=refold.Limits(timeout_seconds=…))`",
    r"'Outcome' object has no attribute": "read `outcome.status`, `.output`, `.error`, or call "
    "`outcome.result()`",
    r"'ModelReply'|'dict' object has no attribute 'content'": 'write `reply.message["content"]`; '
    'its calls are `reply.message.get("tool_calls")`',
    r"passed to method.__format__": "call it: `run.now()`, not `run.now`",
    r"can't set attribute": "make a changed copy: `attrs.evolve(value, name=…)`",
    r"'method' object is not subscriptable": 'call it: `run.environment("NAME")`, not `[…]`',
    r"found async_generator": "a program cannot `yield`: return the result instead",
    r"'(NoneType|bool|int|float|str|list|dict)' object has no attribute "
    r"'(tool|model|delegate|start|join|now|ask)'": "a program is called as program(run, input)",
    r"<ContextVar name=": "a tool does not see the program's context variables: pass their values "
    "as arguments",
}
"""By Python's error message: the intended code. It is shown but never logged."""
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0020-\U000e007f]"
)
_PATH: Final = re.compile(r"(?<![\w.:/<])/(?:[\w.@+~-]+/)+[\w.@+~-]+")
_HEX: Final = re.compile(r"\b[0-9a-f]{16,64}\b")


def render_text(node: RunNode, *, files: bool = False) -> str:
    """Return the tree below `node` as indented text that ends with a newline.

    With `files`, each conversation has the files that only it can have changed, and the command has
    all.
    """
    lines = _lines(node, 0, {}, files=files)
    return "".join(f"{line}\n" for line in lines)


def heading(node: RunNode) -> str:
    """Return who it is and how it ended: `researcher, by subagent: completed (max_iterations)`."""
    name = printable(node.name) or "a child"
    by = f", by {printable(node.tool)}" if node.tool else ""
    told = node.error is not None or node.reason in ("", "done", node.status)
    reason = "" if told else f" ({node.reason})"  # an error has a line of its own
    joined = "" if node.is_joined or node.status == UNFINISHED else ", never joined"
    evidence = node.guarantee or node.evidence
    how = f" ({printable(evidence)})" if evidence else ""
    return f"{name}{by}{how}: {printable((node.standing or node.status) + reason)}{joined}"


def advice(message: str) -> str:
    """Return the correct code for a mistake that Python's own message does not explain."""
    return next((f": {said}" for words, said in _ADVICE.items() if re.search(words, message)), "")


def printable(text: str) -> str:
    r"""Return `text` with control characters as `\uXXXX`; line ends are kept."""
    return _CONTROL.sub(
        lambda found: (
            f"\\u{ord(found[0]):04x}" if found[0] <= "\uffff" else f"\\U{ord(found[0]):08x}"
        ),
        text,
    )


def scrubbed(message: str, code: str = "") -> str:
    """Return an error's message without absolute paths, long hexadecimal words, and places."""
    return _HEX.sub("<hex>", _PATH.sub("<path>", unplaced(message, code)))


def _lines(node: RunNode, level: int, above: dict[str, Any], *, files: bool) -> Iterator[str]:
    indent = "    " * level
    yield f"{indent[2:]}→ {heading(node)}" if level else heading(node)
    for line in _facts(node, above):
        yield f"{indent}    {line}"
    for use in filter(lambda use: use.is_sole, node.files if files else ()):
        yield f"{indent}    file {use.change}: {printable(use.path)}"
    for child in sorted(node.children, key=_place):
        yield from _lines(child, level + 1, node.limits, files=files)


def _place(node: RunNode) -> tuple[Any, ...]:
    """Return what orders children: conversations of one call, by what they are and were asked."""
    return in_order(node.call), node.name, node.brief


def _facts(node: RunNode, above: dict[str, Any]) -> Iterator[str]:
    yield from _task(node)
    if node.tools_granted is not None:
        yield f"granted: {printable(', '.join(node.tools_granted)) or 'no tools'}"
    if caps := caps_of(node, SPENT & above.keys()):
        yield f"limits: {caps}"
    yield from _spent(node)
    yield from _end(node)
    if node.log_state not in ("read", "none"):
        yield f"log: {node.log_state}"


def caps_of(node: RunNode, rest: Container[str]) -> str:
    """Return the limits that a run was given, but for the ones in `rest`: `max_depth 2`."""
    caps = (f"{name} {_json(cap)}" for name, cap in node.narrowed.items() if name not in rest)
    return ", ".join(caps)


def _task(node: RunNode) -> Iterator[str]:
    """Yield the brief, or the input if there is none."""
    if node.agent and node.program not in ("", node.agent):
        yield f"program: {printable(node.program)}"
    if node.brief:
        first, *more = printable(node.brief).split("\n")
        yield f"brief: {first}".rstrip()
        yield from (f"     | {line}".rstrip() for line in more)
    elif node.input is not None:
        yield f"input: {_json(node.input)}"


def _spent(node: RunNode) -> Iterator[str]:
    uses = sorted(node.tools, key=lambda use: use.tool)
    if node.scope and node.models:  # what changes without anybody's doing
        yield f"{MODELS}{printable(', '.join(node.models))}"
        yield f"tools offered: {printable(', '.join(sorted(node.offered))) or 'none'}"
        yield f"system prompt: {node.prompt or 'none'}"
    if uses:
        yield "tools: " + ", ".join(
            f"{printable(use.tool)} x{use.called}{use.ends_text()}" for use in uses
        )
    # How often a client looks whether a server is there is a matter of time.
    if requests := node.requests - node.beside:
        yield f"model requests: {requests}{failures(node.requests_failed)}"
    below = ", with all below" if node.children else ""
    if node.usage.input_tokens or node.usage.output_tokens:
        untold = f", {node.usage.untold} answers not told" if node.usage.untold else ""
        yield f"tokens: {node.usage.input_tokens} in, {node.usage.output_tokens} out{untold}{below}"
    elif node.usage.untold:
        yield f"tokens: not told{below}"


def _end(node: RunNode) -> Iterator[str]:
    if node.error is not None:
        code, message = node.error.code, scrubbed(node.error.message, node.error.code)
        yield f"error: {printable(code)}: {printable(' '.join(message.split()))}"
    if node.notable:
        yield f"notable: {printable('; '.join(node.notable.values()))}"
    if node.artifacts:
        texts = (f"{kind} {name}".rstrip() for kind, name in node.artifacts)
        yield "artifacts: " + printable(", ".join(texts))
    if node.truncated is not None and node.truncated.by == "limit":
        yield f"truncated: {node.truncated.kept_bytes} of {node.truncated.seen_bytes} bytes kept"


def _json(value: Any) -> str:
    return encode(value).decode()
