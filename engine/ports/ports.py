"""The engine's interfaces to the outside: tools, models, runners, clocks.

Protocols and the plain values that cross them.  The engine imports no implementation of a tool;
`tools` implements `Tool`, `engine.models` the `Model` port, `engine.runners` the `ChildRunner`.
A `Delegation` is the one request to run a child (CONTRACT.md §7).  Nothing here acts.
"""

import contextlib
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
)

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.parameters import names_nearest, texts
from refold.engine.errors import OptionRefused, UsageError
from refold.engine.events.events import EffectClass
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import (
    ArtifactKind,
    ChildRef,
    Generic,
    Outcome,
    Report,
    T,
    T_co,
    Usage,
)
from refold.engine.secrets.vault import Vault
from refold.engine.values import Value

Program = Callable[..., Any]
"""`async def program(run, input)` or `def program(run, input)`: agent code."""

if TYPE_CHECKING:
    from types import CoroutineType  # pyright's type of an `async def`

    Reports: TypeAlias = (
        Report | CoroutineType[Any, Any, Report] | CoroutineType[Any, Any, "Reports"]
    )
    ProgramOf: TypeAlias = (
        Callable[[Any, Any], Reports | Awaitable[T] | T]
        | Callable[[Any, Any], Awaitable[Report] | Report]
    )
else:
    ProgramOf = Callable[[Any, Any], T]
"""A program that returns T; for a `Report`, T is Any.

A function that returns one fits both members of the union, so type checkers do not infer T, and use
its default, Any.  mypy prefers `Awaitable[T]` to T only in a recursive union."""


@attrs.frozen
class Reference(Value):
    """How another process finds an object: spawn-style, by module or file, and name."""

    source: str
    """A module's dotted name, or the absolute path of a `.py` file."""
    name: str
    """The object's qualified name in it."""
    arguments: dict[str, Json] | None = None
    """Keyword arguments if the name is a factory to be called; `None` if it is the object."""


@attrs.frozen(kw_only=True)
class CallContext(Value):
    """Facts about the current call of a tool.

    Refold passes it to a parameter with this annotation; models do not see the parameter.
    """

    call: str
    """The call key, `0/1#3`."""
    run_id: str
    """16 hex digits."""
    depth: int
    """The number of runs above this one; 0 for a root."""
    origin: str
    """The root's id and the path of the run in the tree."""

    @property
    def idempotency_key(self) -> str:
        """Stable over retries and resumes of the same call; 64 hex digits."""
        place = f"{self.origin}\0{self.call}"
        return digest.of_bytes(digest.IDENTITY, place.encode())


class Tool(Protocol):
    """A tool of an agent.  A leaf tool is an effect; a delegation tool is program code."""

    @property
    def name(self) -> str:
        """The name that programs and models use: `[A-Za-z_][A-Za-z0-9_-]{0,63}`."""

    @property
    def description(self) -> str:
        """A description for models."""

    @property
    def effect(self) -> EffectClass:
        """The effect class of the tool."""

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments."""

    @property
    def delegates(self) -> bool:
        """Whether it is program code that starts children (CONTRACT.md §10.4)."""

    @property
    def is_async(self) -> bool:
        """Whether `call` returns an awaitable."""

    @property
    def typed(self) -> bool:
        """Whether `load` returns anything but the JSON value itself."""

    @property
    def timeout_seconds(self) -> float | None:
        """The wall time limit of one call."""

    @property
    def reference(self) -> Reference | None:
        """A reference for subprocesses; `None` if they cannot find the tool."""

    def call(self, arguments: Mapping[str, Json], context: CallContext, /) -> Any | Awaitable[Any]:
        """Run it on JSON arguments.

        Raises:
            ArgumentsRefused: the arguments do not fit the signature.
            Exception: the tool raised it.
        """

    def delegate(self, run: Any, arguments: Mapping[str, Json], /) -> Awaitable[Json]:
        """Run a delegation tool on the kernel.  Only where `delegates`."""

    def dump(self, result: Any, /) -> Json:
        """Return a result as JSON.

        Raises:
            NotCanonical: the result does not fit the tool's return annotation.
        """

    def load(self, result: Json, /) -> Any:
        """Return the typed value of a recorded result."""


@attrs.frozen(kw_only=True)
class ToolDefinition(Value):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]

    @classmethod
    def of(cls, tool: Tool) -> "ToolDefinition":
        """Return the definition of `tool` for models."""
        return cls(name=tool.name, description=tool.description, parameters=tool.parameters)


@attrs.frozen(kw_only=True)
class ModelRequest(Value):
    """One request to a model.  Messages are neutral; each adapter translates (`engine.models`)."""

    messages: tuple[dict[str, Any], ...]
    """``{"role": "system"|"user", "content": str}`` ·
    ``{"role": "assistant", "content": str, "tool_calls": [{"id", "name", "arguments": {…}}]}`` ·
    ``{"role": "tool", "tool_call_id": str, "name": str, "content": str, "is_error": bool}``."""
    tools: tuple[ToolDefinition, ...] = ()
    """The tools of the model: names, descriptions, JSON schemas."""
    parameters: dict[str, Any] = attrs.field(factory=dict)
    """Passed on by name: temperature, max_tokens, tool_choice, …  Two are for scripts and are not
    sent: `agent`, the name of the agent, and `inherited`, the number of messages from another
    conversation."""
    counted: tuple[Sequence[Mapping[str, Any]], int] | None = attrs.field(
        default=None, eq=False, repr=False
    )
    """Messages, and how many of them an assistant said; another model may pass on others."""


@attrs.frozen(kw_only=True)
class ModelReply(Value):
    """The answer of a model."""

    message: dict[str, Any]
    """An assistant message in the neutral form; without tool calls, it has no `tool_calls`.
    A call whose arguments are not a JSON object has `{"id", "name", "arguments": {}, "invalid":
    text}`.
    `provider` holds data that one provider wants back unchanged, by its name; others ignore it.
    An edit of the message drops it."""
    usage: Usage = Usage()
    """The tokens of this request, and their cost, if known."""
    stop_reason: str = "stop"
    """`stop`, `tool_calls`, `length`, `refusal`, or the provider's own word."""


class Model(Protocol):
    """The model port.  Called on a worker thread, one request at a time per call.

    If its attribute `is_async` is true, `complete` returns an awaitable and is called on the loop
    of asynchronous tools; a cancelled request is cancelled there.
    """

    @property
    def name(self) -> str:
        """The name in the log, ``openai:gpt-4o`` or ``scripted``."""

    @property
    def reference(self) -> Reference | None:
        """A reference for subprocess children; `None` if they cannot make the model."""

    def complete(self, request: ModelRequest, /) -> ModelReply:
        """Return the model's answer.

        Raises:
            ModelError: the request failed after the client's own retries.
        """


P = ParamSpec("P")
W = TypeVar("W")
R_co = TypeVar("R_co", covariant=True)


class Awaited(Protocol[W]):
    """A coroutine, for type checkers.  With W as a parameter as well, mypy infers Any from Any."""

    def __await__(self) -> Generator[Any, Any, W]:
        """Return what drives it."""

    def throw(self, error: type[BaseException], value: W, /) -> Any:
        """Raise an error in it."""


class TypedTool(Protocol[P, R_co]):
    """A tool that is a function, too: for type checkers, who know its arguments and its result."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the function itself; nothing is recorded."""

    def _awaited(self) -> R_co:
        """Return a coroutine of the function's result; only type checkers see it."""


Draw = Callable[[str, str, Callable[[], Json]], Json]
"""Source, name, what produces the value live → the value: `Kernel.draw`."""


class SessionPort(Protocol):
    """The kernel's interface to a session; `engine.session` has the one implementation."""

    is_own: bool
    """False for a child's face of its parent's session: its reads are lines, not its start."""

    def bind(self, emit: Callable[[Any], object], draw: Draw, /) -> None:
        """Put every change into a log from now on, before it is made."""

    def check(self) -> None:
        """Refuse a session that a run cannot begin with.

        Raises:
            UsageError: another run has it, or no log can hold it.
        """

    def clone(self) -> Any:
        """Return a separate session with the same reducers and equal items."""

    def unbind(self) -> None:
        """Keep changes to oneself again."""

    def snapshot(self) -> Any:
        """Return an immutable view of all slices; it has `as_json()`."""

    def restore(self, snapshot: dict[str, Any], /) -> None:
        """Replace all slices by those of a snapshot in JSON; no events are emitted.

        Raises:
            SnapshotRestoreError: a slice is not registered, or another version; untouched then.
        """

    def take(self, line: Any, /) -> None:
        """Take a `session.changed` of a child that shares the session; the log has it already."""

    def observe(
        self, tool: str, arguments: dict[str, Json], result: Json, error: dict[str, Json] | None, /
    ) -> None:
        """Reduce a tool's result, which is in the log already."""

    def digest(self) -> str:
        """Return the digest of all slices."""


class Clock(Protocol):
    """Wall time as programs and models see it.  Deadlines never use it."""

    def time_us(self) -> int:
        """Return microseconds since 1970-01-01T00:00Z."""


@names_nearest
@attrs.frozen(kw_only=True)
class Policy(Value):
    """Limits on the report of a child (CONTRACT.md §8.4)."""

    summary_bytes: int = 64 * 1024
    """Bytes of UTF-8; the rest is cut off, and `Outcome.truncated` is set."""
    artifact_bytes: int = 256 * 1024
    """Bytes of one artifact; a child with more is `malformed`."""
    max_artifacts: int = 32
    """The number of artifacts; a child with more is `malformed`."""
    frame_bytes: int = 1024 * 1024
    """One raw frame of a runner's protocol; more kills the child."""
    stream_bytes: int = 1024 * 1024
    """Kept of standard output and of standard error each; more ends the child as `limit`."""
    artifact_kinds: tuple[ArtifactKind, ...] = attrs.field(
        default=("note", "path", "diff", "json"), converter=texts
    )
    """Allowed kinds; a child with another kind is `malformed`."""

    def __attrs_post_init__(self) -> None:
        kinds = get_args(ArtifactKind)
        if unknown := [each for each in self.artifact_kinds if each not in kinds]:
            expected = f"some of {', '.join(kinds)}"
            raise OptionRefused("Policy", "artifact_kinds", expected, repr(unknown[0]))
        for name in ("summary_bytes", "artifact_bytes", "max_artifacts", *_STREAMS):
            value, least = getattr(self, name), 1 if name in _STREAMS else 0
            if type(value) is not int or value < least:
                expected = f"a whole number of at least {least}"
                raise OptionRefused("Policy", name, expected, repr(value))


_STREAMS: Final = ("frame_bytes", "stream_bytes")

Durability = Literal["fast", "group", "strict"]


@attrs.frozen(kw_only=True)
class Parentage(Value):
    """The `child.started` entry that a child run answers."""

    run: str
    call: str
    hash: str


@attrs.frozen(kw_only=True)
class Identity(Value):
    """Who a run is.  Derived, never drawn by a child (CONTRACT.md §9.1)."""

    run_id: str
    root_id: str
    path: str
    depth: int
    seed: str
    parent: Parentage | None = None
    agent: str = ""
    """The agent's name in the delegation, if any."""


class CancelSignal:
    """Set once by the parent; a runner polls it or hangs a callback on it.

    No `threading.Event` or `Future`: Ctrl-C sets it in a signal handler, which may interrupt any
    line of a method here in the same thread. A lock would be held, or a callback be lost, between
    the look whether it is set and the note of the callback.
    """

    def __init__(self) -> None:
        self._how: bool | None = None
        self._callbacks: list[Callable[[], object]] = []

    def set(self, *, is_lost: bool = False) -> None:
        """Ask for the end; callbacks run once, in this thread."""
        if self._how is None:
            self._how = is_lost
        self._call()

    @property
    def is_lost(self) -> bool:
        """Whether it was set because the parent's run cannot continue: then no end is recorded."""
        return bool(self._how)

    def is_set(self) -> bool:
        """Return whether the parent has asked for the end."""
        return self._how is not None

    def wait(self, seconds: float | None = None) -> bool:
        """Block until set, or for `seconds`; return whether it is set."""
        woken: Future[bool] = Future()
        wake = partial(woken.set_result, True)  # noqa: FBT003 - any value
        self.on_set(wake)
        with contextlib.suppress(TimeoutError):
            woken.result(seconds)
        with contextlib.suppress(ValueError):  # it was called
            self._callbacks.remove(wake)
        return self.is_set()

    def on_set(self, callback: Callable[[], object]) -> None:
        """Call `callback` when set; at once if it is set already."""
        self._callbacks.append(callback)
        if self.is_set():
            self._call()

    def _call(self) -> None:
        """Call each callback once, even if threads set it and add one at the same time."""
        while True:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            callback()


@attrs.frozen(kw_only=True)
class Question(Value):
    """An open question to a person."""

    key: str
    """Call keys from the root run down: `0#1`, or `0#1 > 0#2` in a child; an answer names it."""
    question: str
    """The question in words."""
    schema: dict[str, Json] | None = None
    """JSON schema of the answer; `None` for any JSON value."""
    problem: str = ""
    """The reason for no answer, if one was given."""

    @property
    def place(self) -> tuple[int, ...]:
        """What questions are sorted by: the numbers of the key, so that 2 is before 10."""
        return tuple(map(int, re.findall(r"\d+", self.key)))


@attrs.frozen(kw_only=True)
class Suspended(Value):
    """A child run that waits for a person: no outcome yet, and its log is unfinished."""

    questions: tuple[Question, ...]
    child: ChildRef


@attrs.frozen(kw_only=True)
class Stopped(Value):
    """A child that could not be resumed: its log is as it was, and its parent's run stops there."""

    code: str
    """The class of the error."""
    message: str


@attrs.frozen(kw_only=True)
class People(Value):
    """Answers a run's questions: from the given answers, or by asking somebody."""

    answers: Mapping[str, Json] = attrs.field(factory=dict)
    """By the key of the question."""
    ask: Callable[[Question], Json] | None = None
    """Called on a worker thread; raises `refold.Unanswered` to leave a question open."""
    by: str = ""
    """Who gave `answers`."""
    retry: frozenset[str] = frozenset()
    """Effects in doubt, by key as a question has it, that are to run again."""
    fail: frozenset[str] = frozenset()
    """… that the program is to see as failed."""
    results: Mapping[str, Json] = attrs.field(factory=dict)
    """… and what others gave."""


@attrs.frozen(kw_only=True)
class Terms(Value):
    """A run's task, resources and limits: for a root and for a child."""

    program_name: str
    input: Json
    identity: Identity
    limits: Limits
    durability: Durability = "group"
    models: Mapping[str, Model] = attrs.field(factory=dict)
    """By the name that the program asks for; the default's is empty."""
    clock: Clock | None = None
    cancel: CancelSignal = attrs.field(factory=CancelSignal)
    session: SessionPort | None = None
    """The run's own session, or a face of its parent's."""
    runners: Mapping[str, "ChildRunner"] = attrs.field(factory=dict)
    """The runners of the run's children."""
    runner: str = "in-process"
    """Their default among them."""
    people: People = People()
    resume: Reference | None = None
    """Continues unfinished logs of children: a function of a `RunRequest` and a `Host` that
    returns a `Recorder`; `None` in a run that was not resumed."""
    supply: Any = None
    """The source of outcomes that must not be live (CONTRACT.md §12.10), as
    `engine.recording.supplied` asks it; needs a runner that shares memory."""
    tokens: "MoreTokens | None" = None
    """Asks the run above for more `model_tokens`; `None` where there is nobody to ask."""

    def terms(self) -> dict[str, Any]:
        """Return them by name, for another request on the same."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(Terms)}


@attrs.frozen(kw_only=True)
class ChildRequest(Terms):
    """All that a runner needs to run one child."""

    program: Program | Reference
    policy: Policy
    brief: str = ""
    """The task in words."""
    log: Path | None = None
    """The place of the child's own log; `None` if nothing is kept (tests)."""
    tools: tuple[Tool, ...] = ()
    vault: Vault | None = None
    """Redaction, secrets and volatile paths of the whole tree."""
    host: Any = None
    """The `engine.recording.host.Host` on which asynchronous tools of an in-process child run."""


MoreTokens = Callable[[int, int | None, Callable[[], bool]], int]
"""Asks the run above for `model_tokens` and returns how many it gave; blocks until it answers,
or until its last argument cancels the wait.

The first is the cap of the run that asks, the second how many more it wants; `None` for all that
are left."""


class ChildRunner(Protocol):
    """Runs one child to its end, inside its limits."""

    @property
    def name(self) -> str:
        """What `record(runner=…)` and `meta` call it: `in-process`, `subprocess`."""

    def run(self, request: ChildRequest, /) -> "Outcome | Suspended":
        """Return how the child ended, or that it waits for a person; blocks.

        Nothing that the child does makes this raise.
        `request.limits.timeout_seconds` is enforced here, and `request.cancel` is obeyed.
        """


@names_nearest
@attrs.frozen(kw_only=True)
class Delegation(Value, Generic[T_co]):
    """The task of a child, and its limits."""

    program: ProgramOf[T_co] | Reference | str
    """A function, a reference, ``module:name``, ``file.py:name``, or a name that Refold ships
    (`agent`)."""
    input: Json = None
    """The second argument of the program: any value that a log can hold and that fits the
    annotation."""
    brief: str = ""
    """The task in words, for `refold show`."""
    agent: str = ""
    """The agent's name, if the child is an agent: the default `agent` of its model requests."""
    tool: str = ""
    """The delegation tool that started the child; empty for `run.start`."""
    tools: tuple[str, ...] | None = None
    """Names of the child's tools; `None` for all tools of its parent."""
    own_tools: tuple[Tool, ...] = ()
    """More tools of the child; they replace tools of its parent by name."""
    levels: int | None = None
    """The number of levels below the caller; `None` for no limit of its own."""
    limits: Limits | None = None
    """Narrower limits; `max_depth` is absolute, `levels` is relative."""
    part: int | None = None
    """The part of the caller's `model_tokens` that the child reserves at its start; `None` for all
    that is left.  It may get more later, unless `limits` cap its tokens."""
    policy: Policy = Policy()
    """Limits on the child's report."""
    session: Any = None
    """A session for the child, which gets a copy of it; the caller's own if `shared`."""
    shared: bool = False
    """Whether the child uses the caller's session itself; in-process children only."""
    runner: str = ""
    """`in-process`, `subprocess`, or another name given to `record`; empty for the default."""

    def __attrs_post_init__(self) -> None:
        """Refuse arguments of the wrong kind while the caller's own line is in the traceback."""
        for name, kinds, expected in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kinds):
                raise _refused(name, expected, value)
        if self.part is not None and self.part < 0:
            raise _refused("part", "a number of tokens, at least 0", self.part)
        if self.session is not None and not hasattr(self.session, "bind"):
            raise _refused("session", "a session, as run.session.clone() gives", self.session)
        names: Any = self.tools
        if isinstance(names, str):
            raise _refused("tools", f"a list of names: tools=[{names!r}]", names)
        for each in names or ():
            if not isinstance(each, str):
                expected = "names of the caller's tools; pass the child's own tools in own_tools"
                raise _refused("tools", expected, each)
        for tool in self.own_tools:
            if not hasattr(tool, "parameters"):
                raise _refused("own_tools", "tools, as @refold.tool makes them", tool)

    def as_json(self, *, program: str, limits: Limits) -> dict[str, Any]:
        """Return names, plain data and the granted limits, as a log holds them."""
        asked: dict[str, Any] = {"program": program}
        for name in ("brief", "agent", "tool"):
            if value := getattr(self, name):
                asked[name] = value
        asked["input"] = self.input
        if self.tools is not None:
            asked["tools"] = list(self.tools)
        asked["limits"] = limits.as_json()
        policy = {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in attrs.fields(Policy)
            if (value := getattr(self.policy, field.name)) != field.default
        }
        if policy:
            asked["policy"] = policy
        return asked


@attrs.frozen(kw_only=True)
class Children(Value):
    """What all children of a delegation tool need: checked before a run begins (§10.4.8)."""

    program: Program | Reference | str = "agent"
    """Their program."""
    tools: tuple[str, ...] | None = None
    """Names of their tools; `None` for all of their caller's."""
    named_tools: tuple[str, ...] = ()
    """More names of tools that the run has to have: some children have them."""
    models: tuple[str, ...] = ()
    """Names of models that the run has to have."""
    files: tuple[str, ...] = ()
    """Files that have to exist."""
    levels: int | None = None
    """As in `Delegation`."""
    runner: str = ""
    """As in `Delegation`."""
    takes_session: bool = False
    """Whether they begin with their caller's session, or a fork of it."""
    shares_session: bool = False
    """Whether they act on their caller's session itself."""


def _refused(name: str, expected: str, value: object) -> UsageError:
    return UsageError(f"Delegation({name}=…): expected {expected}; found {shown(value)}")


_KINDS: Final[Sequence[tuple[str, Any, str]]] = (
    ("program", Callable | Reference | str, "a function, or a string: module:name, file.py:name"),
    ("brief", str, "a string"),
    ("agent", str, "a string"),
    ("tool", str, "a string"),
    ("tools", Iterable | None, "a list of names"),
    ("levels", int | None, "a number of levels"),
    ("limits", Limits | None, "refold.Limits(max_depth=…)"),
    ("own_tools", Iterable, "a list of tools"),
    ("part", int | None, "a number of tokens"),
    ("policy", Policy, "a refold.tools.Policy(…)"),
    ("shared", bool, "True or False"),
    ("runner", str, 'a runner\'s name, such as "subprocess"'),
)
"""Members that else fail far from the line that gave them."""
