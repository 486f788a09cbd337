"""The state of a run: frozen values, made of numbers, names and references.

A state never holds a transcript: closed calls are counters, messages are the seqs of the entries
that store them.  So it stays small for logs of any length. `engine.state.folding` changes it;
`engine.state.digests` has its JSON and its digest.

To add a fact: add it to `Counted`, which `digests.state_json` shows, and to its rule, and raise
`digests.STATE_VERSION`.  The rules are CONTRACT.md §6.1 and §8.
"""

from collections.abc import Sequence
from typing import Final, Literal

import attrs

from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome, Usage
from refold.engine.values import Value

CallKind = Literal["tool", "model", "child", "input"]


@attrs.frozen
class OpenCall(Value):
    """An effect asked for and not ended: in flight, or in doubt once nobody runs it."""

    call: str
    """The call key; empty for an entry that has none."""
    kind: CallKind
    name: str
    """The tool, the model, the child's program; empty for an input."""
    seq: int
    """Of the entry that asked."""


@attrs.frozen
class ToolCount(Value):
    """How often a tool was called, and how its calls ended."""

    tool: str
    called: int = 0
    ok: int = 0
    error: int = 0
    cancelled: int = 0


@attrs.frozen
class ChildState(Value):
    """One child, or one start that was rejected."""

    call: str
    number: int | None
    """1-based, as in `child.started`; `None` for a rejected start."""
    program: str = ""
    agent: str = ""
    brief: str = ""
    """Its first 200 characters."""
    tool: str = ""
    """The dialect that asked; empty for a program's own start."""
    run_id: str = ""
    status: str | None = None
    """As `Outcome.status`; `None` while it runs."""
    duration_ms: int | None = None
    tokens_reserved: int = 0
    """Part of the parent's `model_tokens`; 0 again once its outcome has the tokens it used."""
    cost_reserved: int = 0
    """Of the parent's `cost_usd`, in millionths; likewise."""


@attrs.frozen
class TalkPoint(Value):
    """An entry that stores messages of a conversation."""

    seq: int
    messages: int
    """How many messages the conversation has up to and with this entry."""
    chain: str
    """The chain digest of them all (CONTRACT.md §2.4)."""


class Chained:
    """What a conversation has, and one that still grows."""

    __slots__ = ()
    prefix: str
    """Chain digest of the messages that no entry of `turns` stores; empty for none."""
    prefix_messages: int
    turns: Sequence[TalkPoint]

    @property
    def chain(self) -> str:
        """The chain digest of the whole conversation."""
        return self.turns[-1].chain if self.turns else self.prefix

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return self.turns[-1].messages if self.turns else self.prefix_messages


@attrs.frozen
class Conversation(Value, Chained):
    """The last conversation in a scope: the places of its messages, not their text."""

    scope: str
    prefix: str
    prefix_messages: int
    turns: tuple[TalkPoint, ...] = ()


@attrs.frozen
class LimitCount(Value):
    """A limit that was hit in a scope, and how often."""

    limit: str
    scope: str
    allowed: float
    observed: float
    """At the last hit."""
    count: int
    seq: int
    """Of the first hit."""


@attrs.frozen
class Seal(Value):
    """The `run.finished` event's data about the whole log."""

    in_doubt: tuple[str, ...]
    error_code: str
    data_digest: str
    state_digest: str
    children_root: str
    session_digest: str | None


@attrs.frozen
class Left(Value):
    """The remaining budget of a run; `None` without a cap."""

    levels: int | None
    """How many levels of children may still be below this run."""
    children: int | None
    iterations: int | None
    tokens: int | None
    """After what running children have reserved."""
    output_bytes: int | None


@attrs.frozen
class Margin(Value):
    """The part of a run's budgets kept for its own next model request (CONTRACT.md §8.3)."""

    last: Usage = Usage()
    """What its last request took."""
    tokens: int = 0
    """The usage of ended children, each at most its grant."""
    micros: int = 0
    """The same in millionths of a dollar; an unknown cost counts as all that was granted."""
    owes_request: bool = False
    """Whether a child used up its budget since the last request: the next one is made."""

    def after(self, child: ChildState, outcome: Outcome) -> "Margin":
        """Return the margin after `child`, as it was while it ran, has ended."""
        if child.number is None:
            return self
        usage = outcome.usage
        tokens, cost = usage.tokens, usage.cost_usd_micros
        if cost is None:
            cost = 0 if usage == Usage() else child.cost_reserved
        code = outcome.error.code if outcome.error else ""
        is_spent = code in _BUDGETS or 0 < child.tokens_reserved <= tokens
        is_spent = is_spent or 0 < child.cost_reserved <= cost
        return attrs.evolve(
            self,
            tokens=self.tokens + min(tokens, child.tokens_reserved),
            micros=self.micros + min(cost, child.cost_reserved),
            owes_request=self.owes_request or is_spent,
        )


_BUDGETS: Final = ("model_tokens", "cost_usd")


@attrs.define(kw_only=True, eq=False, weakref_slot=False)
class Counted:
    """The numbers and words of a state; a fold counts them by the same names."""

    program: str = ""
    path: str = ""
    depth: int = 0
    run_id: str = ""
    root_id: str = ""
    state_version: int | None = None
    """Of the engine that recorded; digests are comparable only under the same one."""
    limits: Limits = Limits()
    """As granted."""
    status: str = "running"
    """`running`, or the status in `run.finished`."""
    reason: str = ""
    """The reason in `run.finished`; empty while running."""
    entries: int = 0
    attempts: int = 1
    iterations: int = 0
    """Model requests."""
    model_errors: int = 0
    usage: Usage = Usage()
    """The run's own."""
    children_usage: Usage = Usage()
    children_started: int = 0
    tokens_reserved: int = 0
    """By children whose spending is not known yet."""
    notes: int = 0
    timers_fired: int = 0
    clock_reads: int = 0
    values_drawn: int = 0
    inputs_given: int = 0
    cancelled: int = 0
    """Effects that the program gave up on."""
    cancel_asked: bool = False
    """Whether the run itself was cancelled, from outside or by its parent."""
    late: int = 0
    """Outcomes that came after that, and were not delivered."""
    session_seq: int | None = None
    """The entry that holds the session's last snapshot."""
    seal: Seal | None = None
    margin: Margin = Margin()
    """For judging requests; no part of the digest."""

    @property
    def tokens_used(self) -> int:
        """Input and output tokens, the children's included."""
        return self.usage.tokens + self.children_usage.tokens


@attrs.frozen(kw_only=True)
class RunState(Value, Counted):
    """The state of a run after some entry of its log.  Equal logs give equal states."""

    open: tuple[OpenCall, ...] = ()
    """In the order of asking."""
    tools: tuple[ToolCount, ...] = ()
    """In the order of first use."""
    children: tuple[ChildState, ...] = ()
    """In the order of starts and rejections."""
    conversations: tuple[Conversation, ...] = ()
    limit_hits: tuple[LimitCount, ...] = ()
    patches: tuple[str, ...] = ()
    """Each marker once, in the order of first passing."""

    @property
    def tools_used(self) -> tuple[str, ...]:
        """The tools called, in the order of first use."""
        return tuple(count.tool for count in self.tools)

    @property
    def left(self) -> Left:
        """The remaining budget of the run; never below zero."""
        caps = self.limits
        return Left(
            levels=_rest(caps.max_depth, self.depth),
            children=_rest(caps.max_children, self.children_started),
            iterations=_rest(caps.max_iterations, self.iterations),
            tokens=_rest(caps.model_tokens, self.tokens_used + self.tokens_reserved),
            output_bytes=caps.output_bytes,
        )


def _rest(cap: int | None, used: int) -> int | None:
    return None if cap is None else max(0, cap - used)
