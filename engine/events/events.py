"""The events of a run.

Frozen values in the past tense, one class a kind.  Nothing here reads a clock, opens a file or
knows how events are written: bytes belong to `engine.events.codec`, order and hashes to
`engine.log`.  The rules are CONTRACT.md §2.

To add an event: define it here and name it in `Event`; ARCHITECTURE.md has the other steps.

Fields that hold `None` are not written. Fields of a volatile tail (CONTRACT.md §6.2) come last,
from the one named in `TAILS` on: they are recorded, chained, and left out of the data digest.

Call keys are a call's position in the tree of tasks, and its number there (CONTRACT.md §9.1).
`0/2#3` is the third call of the task `0/2`, and `0/2@1` is the first timer that it set.  In a tree
of runs, a key also names the run: `0#2 > 0/2#3` is that call of the child that the root's call
`0#2` started, and `0#2` is the path of that child.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.outcome import Fault, Outcome, Usage
from refold.engine.values import Value

_PARTS: Final = re.compile(r"\d+|\D+")


def parts_of(call: str) -> tuple[str, str, str]:
    """Return the task, the mark and the number, as text: `("0/2", "#", "3")`.

    A text that is not a call key is kept whole in place of the number.
    """
    return call.rpartition("@" if "@" in call else "#")


def key_in(run: str, call: str) -> str:
    """Return the key of a call in the run at the path `run`, which is empty for the root."""
    return f"{run} > {call}" if run else call


def run_and_call(key: str) -> tuple[str, str]:
    """Return the path of the run, empty for the root, and the call: `key_in` the other way."""
    run, _, call = key.rpartition(" > ")
    return run, call


def scope_of(call: str) -> str:
    """Return the task that a call is made in, `0/2`; empty where the entry has no key."""
    return parts_of(call)[0]


def scope_above(scope: str) -> str:
    """Return the task that began this one, `0` for `0/2`; empty above the first."""
    return scope.rpartition("/")[0]


def with_above(scope: str) -> Iterator[str]:
    """Yield a task and those above it, the nearest first."""
    while scope:
        yield scope
        scope = scope_above(scope)


def number_of(call: str) -> int:
    """Return which call of its task it is, or which timer, from 1.

    Raises:
        ValueError: the text is not a call key.
    """
    return int(parts_of(call)[2])


def in_order(call: str) -> tuple[tuple[int, str], ...]:
    """Return what keys are sorted by: by numbers and not as text, `0#2` before `0#10`."""
    return tuple((int(p), "") if p.isdigit() else (-1, p) for p in _PARTS.findall(call))


EffectClass = Literal["pure", "idempotent", "reads", "changes"]
"""A tool's effect on the world; undeclared means `changes`."""


@attrs.frozen(weakref_slot=False)
class RunStarted(Value):
    """A run began.  First event of every log, and only the first."""

    program: str
    """The program's name, as a person wrote it; never an import path."""
    input: Json
    depth: int
    """The number of runs above this one; 0 for a root."""
    limits: dict[str, Any]
    """Caps granted, as `Limits.as_json` gives them."""
    seed: str
    """Hex; everything drawn follows from it."""
    tools: list[dict[str, Any]]
    """Tools offered, sorted by name: {name, description, effect, schema, digest, typed}."""
    models: dict[str, str] = attrs.field(factory=dict, kw_only=True)
    """Models given, by the name that the program asks for; the default's is empty."""
    versions: dict[str, Any]
    """{format, engine, state, python, release, flags}: integers, texts, and rules of scheduling
    (CONTRACT.md §15.1)."""
    fingerprint: dict[str, str]
    """Digests of what explains a divergence and never decides one: program source, hash seed."""
    rules: dict[str, Any]
    """Redaction and volatile rules in force; empty for none."""
    path: str
    """The call keys of the starts above this run, joined by ` > `; empty for a root."""
    guarantee: Literal["matched"] | None = attrs.field(default=None, kw_only=True)
    """`matched`: the recording is of a command that Refold watched and did not run on its
    kernel: replay matches requests (CONTRACT.md §16); `None`: the program ran on the kernel."""
    agent: str | None = attrs.field(default=None, kw_only=True)
    """The agent's name, for a child whose delegation has one."""
    run_id: str
    root_id: str
    parent: dict[str, Any] | None = None
    """{run, call, hash} of the `child.started` that this run answers; `None` for a root."""
    nonce: str = ""
    """Hex, drawn for each log, so that no two logs share a hash."""
    shipped: bool | None = None
    """True where the program is one that Refold ships: not another of its name."""
    origin: dict[str, Any] | None = None
    """Of a fork's root: {nonce, head, at, edits}: the log that it was forked from, the hash and
    seq of the last entry that they share but for edits, and the call keys that were edited."""
    untimed: bool | None = None
    """True if virtual time does not determine when timers are due: a clock was given, or
    outcomes were recorded ones, beside which nothing takes time."""
    labels: dict[str, str] | None = None
    """Names and values that people find a root run by; its forks have them, too."""


@attrs.frozen(weakref_slot=False)
class ToolCalled(Value):
    """The program asked for a tool.  Written before the tool starts."""

    tool: str
    arguments: dict[str, Any]
    """As passed, members sorted by name."""
    effect: EffectClass
    delegates: bool | None = None
    """True for a delegation tool: program code, re-executed in replay."""


@attrs.frozen(weakref_slot=False)
class ToolReturned(Value):
    """A tool ended.  Written before the program sees it."""

    status: Literal["ok", "error"]
    result: Json = None
    error: dict[str, Any] | None = None
    """{code, message, type} where `status` is `error`."""


@attrs.frozen(weakref_slot=False)
class ModelAsked(Value):
    """The program asked a model. Names the conversation so far and the added messages."""

    model: str
    predecessor: str
    """Chain digest of the messages before `added`; empty for a new conversation (§2.4)."""
    base: int
    """The number of messages that `predecessor` stands for."""
    added: list[dict[str, Any]]
    """The messages that follow, each stored once in a log."""
    parameters: dict[str, Any]
    """What else was asked: temperature, max_tokens, tool_choice, …"""
    tools: str = ""
    """Digest of the tool definitions offered; empty for none."""


@attrs.frozen(weakref_slot=False)
class ModelAnswered(Value):
    """A model answered, or failed to."""

    status: Literal["ok", "error"]
    message: dict[str, Any] | None = None
    """The assistant's message, tool calls included."""
    usage: Usage = Usage()
    stop_reason: str = ""
    """`stop`, `tool_calls`, `length`, `refusal`, or the provider's own word."""
    error: dict[str, Any] | None = None
    """{code, message} where `status` is `error`."""


@attrs.frozen(weakref_slot=False)
class ChildStarted(Value):
    """The program started a child run.  Written before the runner starts it."""

    delegation: dict[str, Any]
    """Brief, agent or program, limits granted, policy: `Delegation.as_json`."""
    number: int
    """1-based, in the order of starts: the child's log is `<stem>.<number>.jsonl`."""
    run_id: str
    """Of the child; derived from the root's id and the child's path."""


@attrs.frozen(weakref_slot=False)
class ChildFinished(Value):
    """A child's outcome was delivered to the program; or a start was rejected."""

    delegation: dict[str, Any] | None = attrs.field(default=None, kw_only=True)
    """For a rejected start, which has no `child.started`: the request."""
    outcome: Outcome


@attrs.frozen(weakref_slot=False)
class TimerFired(Value):
    """A timer was due.  Its arming and disarming follow from the program."""

    virtual_us: int
    """Microseconds of virtual time since the run began."""
    length_us: int | None = None
    """The delay that the program asked for; `None` for a plain time (`call_at`)."""
    nth: int = attrs.field(kw_only=True)
    """Which timer of this length it is in its scope, from 1."""


@attrs.frozen(weakref_slot=False)
class ClockRead(Value):
    """The program looked at the clock; at most once a step."""

    time_us: int
    """Microseconds since 1970-01-01T00:00Z."""
    virtual_us: int
    """Microseconds of virtual time since the run began."""


@attrs.frozen(weakref_slot=False)
class ValueDrawn(Value):
    """The program drew a value from outside itself."""

    source: Literal["uuid", "random", "file", "environment", "session", "settings", "tokens"]
    """`tokens`: what its parent gave a run that had used up its `model_tokens`; 0 for none."""
    name: str
    """The stream, the file's name, the variable, the slice, the tool; empty for a uuid and for
    tokens."""
    value: Json


@attrs.frozen(weakref_slot=False)
class InputAsked(Value):
    """The program asked a person."""

    question: str
    schema: dict[str, Any] | None = None


@attrs.frozen(weakref_slot=False)
class InputGiven(Value):
    """A person answered."""

    answer: Json
    by: str = ""


@attrs.frozen(weakref_slot=False)
class EffectCancelled(Value):
    """The program gave up on an effect: what still comes of it is late.

    Or, with `run` and without a call, the run itself was cancelled: from outside, or by its parent.
    """

    kind: Literal["tool", "model", "child", "input", "run"]
    by: Literal["parent"] | None = None
    """For `run`: that the run above cancelled it; `None` from outside."""


@attrs.frozen(weakref_slot=False)
class EffectLate(Value):
    """An effect ended after the program had stopped waiting for it. Never delivered."""

    kind: Literal["tool", "model", "child", "input"]
    status: str


@attrs.frozen(weakref_slot=False)
class LimitHit(Value):
    """A limit refused an effect, or stopped the run."""

    limit: str
    allowed: float
    scope: str
    """`run`, `child` or `effect`: the refused or stopped thing."""
    observed: float
    """The amount that was requested or reached, in the limit's unit."""


@attrs.frozen(weakref_slot=False)
class SessionSeeded(Value):
    """The session started from a snapshot."""

    snapshot: dict[str, Any]


@attrs.frozen(weakref_slot=False)
class SessionRestored(Value):
    """The session was rolled back to a snapshot."""

    snapshot: dict[str, Any]


@attrs.frozen(weakref_slot=False)
class SessionChanged(Value):
    """An event was dispatched to the session; its reducers follow from it."""

    event: str
    """The event's type, by the name under which reducers know it."""
    data: Json
    by: str = ""
    """The path of the child that shares the session and acted; empty for the run itself."""


@attrs.frozen(weakref_slot=False)
class TokensGranted(Value):
    """A child that had used up its `model_tokens` was given more of its parent's."""

    tokens: int
    to: str
    """The call key of the child's start; empty where this run was given more for its children."""


@attrs.frozen(weakref_slot=False)
class PatchMarked(Value):
    """The program passed a change marker."""

    id: str


@attrs.frozen(weakref_slot=False)
class NoteAdded(Value):
    """The program wrote a remark."""

    text: str
    data: Json = None


@attrs.frozen(weakref_slot=False)
class RunResumed(Value):
    """A crashed or suspended run continued in the same log."""

    attempt: int
    """2 for the first resume."""
    cut: dict[str, Any] | None = None
    """{bytes, sha256, offset} of a torn tail; `None` for a clean end."""
    in_doubt: list[dict[str, Any]] = attrs.field(factory=list)
    """Effects without an outcome: {call, kind, name, decision}."""
    models: dict[str, str] | None = None
    """The full names of models from here on, by name; `None` if they stay as they were."""


@attrs.frozen(weakref_slot=False)
class RunFinished(Value):
    """The run ended.  Last event of every sealed log; nothing follows."""

    status: str
    """As `Outcome.status`."""
    reason: str
    """`done`, `max_iterations`, `limit`, `cancelled`, `fatal_tool_error`, `no_progress`, `error`,
    or the program's own word."""
    output: Json = None
    error: Fault | None = None
    in_doubt: list[str] = attrs.field(factory=list)
    """Call keys of effects that were still running and may have changed the world."""
    summary: str | None = None
    """Compact text for a parent, if the program returned a `Report`."""
    artifacts: list[dict[str, Any]] | None = None
    """{kind, value, name} of each, if the program returned a `Report`; `own` is true for `own`."""
    entries: int = 0
    """Entries of the log, this one included."""
    data_digest: str = ""
    state_digest: str = ""
    """Of the state before this entry."""
    children_root: str = ""
    """Merkle root over the children, in start order."""
    session_digest: str | None = None
    models: list[str] | None = None
    """Those that the run itself asked, in the order of first use; `None` where it asked none."""
    usage: Usage | None = None
    """Of the run and all below it; `None` where nothing asked a model."""
    tree_digest: str | None = None
    """Of the run and the children that it joined; `None` where it joined no child's log or does not
    know what one did."""


@attrs.frozen(weakref_slot=False)
class Extension(Value):
    """A third party's own event: carried, verified, and ignored.  Not of the closed set."""

    kind: str
    """`x-` and a name of `[a-z0-9._-]`."""
    data: dict[str, Any]


@attrs.frozen
class ConversationBegun(Value):
    """A conversation of a watched command began (CONTRACT.md §16.5)."""

    scope: str
    agent: str
    call: str = ""
    """The call that opened it, and its tool; empty if none is known."""
    tool: str = ""
    how: str = ""


@attrs.frozen
class ToolsOffered(Value):
    """The definitions of the tools that requests name by this digest."""

    digest: str
    tools: list[Any]
    """As the request has them."""


@attrs.frozen
class MessagesSent(Value):
    """Messages of a request that are too many for one entry."""

    predecessor: str
    added: list[dict[str, Any]]


@attrs.frozen
class Measured(Value):
    """The values of an entry that change in another recording, as its writer declared them."""

    what: str
    call: str
    places: list[str]
    ids: list[str]


Event = (
    RunStarted
    | ToolCalled
    | ToolReturned
    | ModelAsked
    | ModelAnswered
    | ChildStarted
    | ChildFinished
    | TimerFired
    | ClockRead
    | ValueDrawn
    | InputAsked
    | InputGiven
    | EffectCancelled
    | EffectLate
    | LimitHit
    | SessionSeeded
    | SessionRestored
    | SessionChanged
    | TokensGranted
    | PatchMarked
    | NoteAdded
    | RunResumed
    | RunFinished
)

KINDS: Final[dict[str, type[Event]]] = {
    re.sub("(?<=[a-z])(?=[A-Z])", ".", event.__name__).lower(): event for event in get_args(Event)
}
"""Every kind of the closed set, by the name that a log uses: `tool.called` is `ToolCalled`."""

KIND_OF: Final[dict[type[Event], str]] = {event: kind for kind, event in KINDS.items()}
KIND_BYTES: Final[dict[type, bytes]] = {event: kind.encode() for event, kind in KIND_OF.items()}

Recorded = Event | Extension
"""The events that a line of a log can hold."""

TAILS: Final[dict[str, str]] = {
    "run.started": "run_id",
    "child.started": "number",
    "child.finished": "duration_ms",
    "timer.fired": "virtual_us",
    "run.finished": "entries",
}
"""The first field of a kind's volatile tail (CONTRACT.md §6.2)."""

WIRE: Final = "x-refold.wire"
"""How an answer of a watched command came, byte by byte (CONTRACT.md §16.4)."""

MEASURED: Final = "x-refold.measured"
"""The values of an entry that change in another recording, as declared by its writer (§13.2)."""

FOLDER: Final = "x-refold.folder"
"""The folder that a watched command works in, and what changed in it (CONTRACT.md §16.16)."""

LEFT: Final = "x-refold.left"
"""The folder's changes in the record that a command resumes: {files} (CONTRACT.md §16.21)."""

SALVAGED: Final = "x-refold.salvaged"
"""The last entry of a salvaged log (CONTRACT.md §4.5)."""

MESSAGES: Final = "x-refold.messages"
"""Messages of a request that are too many for one entry."""

CONVERSATION: Final = "x-refold.conversation"
"""A conversation began; it has a call, its tool and `how` if it is below a call."""

TOOLS: Final = "x-refold.tools"
"""Tool definitions that requests offer from here on."""

MEMBERS: Final[dict[str, type]] = {
    CONVERSATION: ConversationBegun,
    TOOLS: ToolsOffered,
    MESSAGES: MessagesSent,
    MEASURED: Measured,
}
"""Refold's own extensions whose data all readers rely on; they may have more members."""

UNSEEN: Final = frozenset({"effect.late", "run.resumed"})
"""Kinds that no program asks for or is given: replay passes them over, and no digest has them."""

UNDIGESTED: Final = UNSEEN | {"clock.read", "tokens.granted", WIRE, MEASURED, FOLDER}
"""Kinds that the data digest leaves out whole."""

COMPLETES: Final[dict[str, str]] = {
    "tool.returned": "tool.called",
    "model.answered": "model.asked",
    "child.finished": "child.started",
    "input.given": "input.asked",
}
"""Which kind asks for what another delivers."""

REQUEST_KINDS: Final = frozenset(COMPLETES.values())
"""Kinds that ask the world for something."""

FROM_WORLD: Final = frozenset({*COMPLETES, "timer.fired", "effect.late", "tokens.granted"})
"""Kinds that the world delivers, one a step.  A rejected child's `child.finished` follows from the
program, as does a `limit.hit` other than wall time (CONTRACT.md §5.2)."""
