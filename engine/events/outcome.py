"""How a child run ended: one closed shape for every runner and every dialect.

Status comes from what happened, never from text (CONTRACT.md §7).  Pure values.
"""

from collections.abc import Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Literal, Never, Protocol, cast, get_args, overload

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import ChildFailed
from refold.engine.values import Value

if TYPE_CHECKING:
    from typing import Generic as Generic  # noqa: PLC0414 - for the classes that import it

    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    T_co = TypeVar("T_co", covariant=True, default=Any)

    class Ended(Protocol[T_co]):
        """What has a `result`: an outcome, or a recording."""

        def result(self) -> T_co: ...  # noqa: D102 - as `Outcome.result`

    class OutputOf(Protocol):
        """The type of `output`: T or None, and Any where T is Any, which a union could not say."""

        @overload
        def __get__(self, ended: Ended[Never], _kind: Any, /) -> Any: ...
        @overload
        def __get__(self, ended: Ended[T], _kind: Any, /) -> T | None: ...
else:
    from typing import TypeVar  # defaults of type variables are Python 3.13's

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)

    class Generic:
        """Lets a class be subscripted; what `typing` has for it is slow to import and to make."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


Status = Literal["completed", "failed", "timed_out", "rejected", "malformed", "cancelled", "limit"]
"""`completed`: the program returned · `failed`: it raised, crashed, or had no runner ·
`timed_out`: wall time · `rejected`: never started · `malformed`: the reply does not parse ·
`cancelled`: the parent's doing · `limit`: stopped by any other cap."""

STATUSES: tuple[Status, ...] = get_args(Status)

ArtifactKind = Literal["note", "path", "diff", "json"]


@attrs.frozen(kw_only=True)
class Artifact(Value):
    """A named, typed, bounded piece of a child's output."""

    kind: ArtifactKind
    """The kind of `value`: a note, a path, a diff, or JSON."""
    value: str
    """Text; for `json`, canonical JSON text."""
    name: str = ""
    """A label, empty or unique within the outcome."""


def artifact_of(logged: Mapping[str, Any]) -> Artifact:
    """Return an artifact as `run.finished` has it."""
    return Artifact(**{name: logged[name] for name in logged if name != "own"})


@attrs.frozen(kw_only=True)
class Report(Value):
    """A return value with a summary and artifacts for the parent."""

    summary: str
    """Compact text for the parent."""
    output: Json = None
    """Any value that a log can hold, for the parent's code."""
    artifacts: tuple[Artifact, ...] = ()
    """At most `Policy.max_artifacts`."""
    own: tuple[Artifact, ...] = ()
    """More artifacts, of a tool that wraps the program: of a `Policy`, only `frame_bytes` holds."""
    is_cut: bool = False
    """Whether the model's provider cut the answer off: the run completes with the reason `cut`."""

    def logged_artifacts(self) -> list[dict[str, Any]]:
        """Return all artifacts as `run.finished` has them; those of `own` are marked."""
        own = [{**attrs.asdict(each), "own": True} for each in self.own]
        return [*map(attrs.asdict, self.artifacts), *own]


@attrs.frozen(kw_only=True)
class Fault(Value):
    """Why something did not succeed, as data."""

    code: str
    """A stable word for programs: `raised`, `max_depth`, `crashed`, `schema`, …"""
    message: str
    """One or two sentences for people."""


CUT: Final = "cut"
"""The reason of a completed run whose answer the model's provider cut off."""


@attrs.frozen(kw_only=True)
class Truncated(Value):
    """The cut of a child's text."""

    kept_bytes: int
    seen_bytes: int
    sha256: str
    """Of all the bytes seen, the dropped ones included."""
    by: str = "limit"
    """`limit`: a limit of the parent's · `provider`: the model's, so the rest was never said."""


@attrs.frozen(kw_only=True)
class Usage(Value):
    """A run's spending on models, including its children's."""

    input_tokens: int = 0
    """Fresh ones, and those read from and written to a cache."""
    output_tokens: int = 0
    """Reasoning included."""
    requests: int = 0
    cache_read_tokens: int | None = None
    """Of the input; `None`, here and below: unknown."""
    cache_write_tokens: int | None = None
    """Of the input."""
    cache_write_1h_tokens: int | None = None
    """Of those written, the ones kept for an hour, which have a price of their own."""
    reasoning_tokens: int | None = None
    """Of the output."""
    cost_usd_micros: int | None = None
    """In millionths of a US dollar, as priced when the answer was recorded; `None`: no price is
    known of one request at least."""
    untold: int | None = None
    """How many of the requests have no tokens here, because their provider told none; `None`: all
    have."""
    prices: str | None = None
    """The table that priced it, with its version; `None` also where there were several."""

    @property
    def tokens(self) -> int:
        """Of input and output."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both; a field unknown in either is unknown in the sum."""
        if self == _NOTHING:
            return other
        if other == _NOTHING:
            return self
        known = {name: _sum(getattr(self, name), getattr(other, name)) for name in _PARTS}
        prices = self.prices if self.prices == other.prices else None
        untold = (self.untold or 0) + (other.untold or 0) or None
        return Usage(prices=prices, untold=untold, **known)

    def as_json(self) -> dict[str, Any]:
        """Return the known values, by name: in the form of a log, a reply and a state's digest."""
        return {name: value for name in _USAGE if (value := getattr(self, name)) is not None}


@attrs.frozen(kw_only=True)
class Priced(Value):
    """The known cost of some answers, of which some may have no known cost."""

    usd_micros: int = 0
    """Of those whose cost is known."""
    unpriced: int = 0
    """How many others there are."""

    def plus(self, other: "Priced") -> "Priced":
        """Return the sum of both."""
        return Priced(
            usd_micros=_sum(self.usd_micros, other.usd_micros),
            unpriced=self.unpriced + other.unpriced,
        )

    @classmethod
    def of(cls, usage: Usage, message: object) -> "Priced":
        """Return the known cost of one answer; an error with neither message nor usage is free."""
        if usage.cost_usd_micros is not None:
            return cls(usd_micros=usage.cost_usd_micros)
        return cls(unpriced=int(message is not None or usage != _NOTHING))


_USAGE: Final = tuple(attrs.fields_dict(Usage))
_NOTHING: Final = Usage()
_PARTS: Final = tuple(name for name in _USAGE if name not in ("prices", "untold"))
"""Fields that are added up, of which most may be unknown."""
_MOST: Final = 2**63 - 1
"""A sum that no log can hold stays at what one can."""


def _sum(one: int | None, other: int | None) -> Any:
    return None if one is None or other is None else min(one + other, _MOST)


@attrs.frozen(kw_only=True)
class ChildRef(Value):
    """Identifies the run, and the head of its log when the parent joined."""

    run: str
    """The child's run id."""
    head: str
    """The hash of its last entry, 64 lower-case hex digits; empty where it wrote no log."""
    events: int
    """Entries in its log."""


@attrs.frozen(kw_only=True)
class OutcomeFields(Value):
    """The fields of `Outcome`.  `duration_ms` and `child` are last: they are volatile (§6.2)."""

    status: Status
    """The status; only `completed` is a success."""
    summary: str = ""
    """Compact text for the parent; at most its `summary_bytes` after truncation."""
    output: Json = None
    """The program's return value; in a program, of the type that its program is annotated with."""
    artifacts: tuple[Artifact, ...] = ()
    """The artifacts of the child's `Report`, within its `Policy`."""
    error: Fault | None = None
    """Set unless `completed`."""
    truncated: Truncated | None = None
    """Set if the summary or the printed output was cut."""
    tools_used: tuple[str, ...] = ()
    """In order of first use, as observed in the child's log."""
    usage: Usage = Usage()
    """Tokens and cost of the child and of all runs below it."""
    duration_ms: int = 0
    """Wall time of the child, in milliseconds."""
    child: ChildRef | None = None
    """`None` for `rejected`: no run existed."""


class Outcome(OutcomeFields, Generic[T_co]):
    """The end of a child, whose program returns T."""

    __slots__ = ()

    if TYPE_CHECKING:
        output: OutputOf

    @property
    def ok(self) -> bool:
        """Whether the child completed."""
        return self.status == "completed"

    def result(self) -> T_co:
        """Return the output.

        Raises:
            ChildFailed: the child did not complete; the text has the status and the reason.
        """
        if self.ok:
            return cast("T_co", self.output)
        fault = self.error or Fault(code=self.status, message="")
        error = ChildFailed(self.status, fault.code, fault.message)
        error.outcome = self
        raise error


def failed(status: Status, code: str, message: str, **more: Any) -> Outcome:
    """Return an outcome that is not `completed`, with its fault."""
    return Outcome(status=status, error=Fault(code=code, message=message), **more)
