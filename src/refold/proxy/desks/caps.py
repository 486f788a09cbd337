"""Caps of a watched command: the request after one that reached a cap is refused.

Requests and answers are counted as they pass. A cap is never exceeded by more than the spending of
the requests in flight. Rules: CONTRACT.md §16.19.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import attrs

from refold.engine.errors import ExtraMissing, LimitRefused
from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.models.prices import EXTRA, has_price, has_prices, priced
from refold.engine.observed.observer import RequestUnderway, is_end
from refold.engine.observed.threads import Thread
from refold.engine.wire.apis import provider_of
from refold.engine.wire.parts.exchange import LATER, OTHER, Asked
from refold.replay.difference.pointer_diff import counted

_MICROS: Final = 1_000_000
_BYTES_PER_TOKEN: Final = 4
"""The number of bytes counted as a token if an answer has no usage."""
_OF_SUBAGENTS: Final = ("max_subagents", "each_")
_OUTPUT: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
"""Parameters that cap the output of one request."""


@attrs.frozen(kw_only=True)
class Caps:
    """The caps of a watched command; `None` for no cap."""

    max_cost_usd: float | None = None
    max_requests: int | None = None
    """Requests to models."""
    max_tokens: int | None = None
    """Of input and output."""
    max_subagents: int | None = None
    """Conversations below another one."""
    timeout: float | None = None
    """Seconds until requests are refused and the command is asked to end."""
    each_cost_usd: float | None = None
    """Of each subagent; likewise below."""
    each_requests: int | None = None
    each_tokens: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the numbers.

        Raises:
            LimitRefused: one is not above 0.
            ExtraMissing: one is a cap on cost, and no table of prices is installed.
        """
        for name, value in attrs.asdict(self).items():
            if value is not None and value <= 0:
                raise LimitRefused(name, "a number above 0", f"{value!r}")
        if (self.max_cost_usd or self.each_cost_usd) and not has_prices():
            raise ExtraMissing("genai-prices", EXTRA)


@attrs.frozen
class CapReached:
    """A cap that refuses a request."""

    cap: str
    allowed: float
    spent: float
    agent: str = ""
    """The subagent of whom it is; empty for the whole command."""

    @property
    def why(self) -> str:
        """The reason, for people and for the model's client."""
        whose = f" by {self.agent}" if self.agent else ""
        return f"--limit {self.cap}={self.allowed:g} is reached: {self.spent:g} spent{whose}"


@attrs.define
class _Spent:
    """What one agent, or the whole command, has spent."""

    requests: int = 0
    tokens: int = 0
    micros: int = 0

    def by_unit(self) -> dict[str, float]:
        """Return the spending in the unit of each cap."""
        cost = self.micros / _MICROS
        return {"requests": float(self.requests), "tokens": float(self.tokens), "cost_usd": cost}


class Spending:
    """Counts the spending of a command, and refuses requests over its caps."""

    def __init__(self, caps: Caps, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now."""
        self.caps = caps
        self._clock = clock
        self._began = clock()
        self._whole = _Spent()
        self._agents = defaultdict[str, _Spent](_Spent)
        self._opened: dict[str, Thread] = {}
        """Conversations below a call or another conversation, in the order of first requests."""
        self.reached: dict[CapReached, int] = {}
        """How many requests each cap refused."""
        self.unpriced = 0
        """Answers of batches, whose price is unknown: no cap on cost counts them."""
        self._estimates: dict[str, Usage] = {}
        """By the call of a request whose answer was cut off: what counts until it is fetched."""

    @property
    def uncounted(self) -> int:
        """The number of conversations that caps on subagents leave out: the link is uncertain."""
        caps = attrs.asdict(self.caps)
        is_of_subagents = any(caps[name] for name in caps if name.startswith(_OF_SUBAGENTS))
        return is_of_subagents * sum(not _is_subagent(one) for one in self._opened.values())

    def lines(self, later: int) -> tuple[str, ...]:
        """Return what was refused and not counted; `later` answers were not fetched."""
        lines = [
            f"{counted(count, 'request')} refused: {cap.why}" for cap, count in self.reached.items()
        ]
        if self.uncounted:
            conversations = counted(self.uncounted, "conversation")
            lines.append(
                f"{conversations} not counted by the caps on subagents: the caller is uncertain"
            )
        if later:
            lines.append(f"{counted(later, 'answer')} not fetched: no cap counts the tokens")
        if self.unpriced:
            answers = counted(self.unpriced, "answer")
            lines.append(f"{answers} of a batch, of unknown price: no cap on cost counts them")
        return tuple(lines)

    def refusal(self, turn: RequestUnderway) -> CapReached | str:
        """Count a request, or return the cap, or the reason, for which it is refused."""
        if turn.asked.api == OTHER:
            return ""
        found = self._late() if turn.asked.is_fetch else self._hit(turn)
        if isinstance(found, CapReached):
            named = found.cap, found.agent
            same = next((each for each in self.reached if (each.cap, each.agent) == named), found)
            self.reached[same] = self.reached.get(same, 0) + 1
            return found
        if turn.asked.is_fetch:
            return ""
        name = _model(turn)
        if (self.caps.max_cost_usd or self.caps.each_cost_usd) and not has_price(name):
            why = "is unknown, so no cap on cost can hold: use --limit max_tokens=N"
            return f"the price of {name} {why}"
        for spent in self._of(turn.thread):
            spent.requests += 1
        return ""

    def _late(self) -> CapReached | None:
        """Return the timeout if it is over: all that refuses what fetches an answer."""
        elapsed, timeout = self._clock() - self._began, self.caps.timeout
        if timeout is None or elapsed < timeout:
            return None
        return CapReached("timeout", timeout, round(elapsed, 1))

    def _hit(self, turn: RequestUnderway) -> CapReached | None:
        caps, thread = self.caps, turn.thread
        if (late := self._late()) is not None:
            return late
        if (hit := _hit(caps, "max", self._whole)) is not None:
            return hit
        if thread.is_opened or thread.whose.above:
            self._opened.setdefault(_key(thread), thread)
        if not _is_subagent(thread):
            return None
        most = caps.max_subagents
        counted = [key for key, one in self._opened.items() if _is_subagent(one)]
        if most is not None and _key(thread) not in counted[:most]:
            return CapReached("max_subagents", most, most)
        hit = _hit(caps, "each", self._agents[_key(thread)])
        return attrs.evolve(hit, agent=thread.agent or thread.scope) if hit is not None else None

    def answered(self, turn: RequestUnderway, answered: ModelAnswered | None, size: int) -> None:
        """Count an answer of `size` bytes; `None` for a request that was cancelled."""
        usage = answered.usage if answered is not None else Usage()
        if answered is not None and answered.status == "error" and answered.message is None:
            return  # the provider refused it, which costs nothing
        if turn.asked.api == OTHER and not usage.requests:
            return
        is_over = answered is not None and is_end(answered)
        is_later = answered is not None and answered.stop_reason in LATER
        if turn.is_repeated or (not is_over and (turn.asked.is_fetch or is_later)):
            return
        if not usage.tokens:
            usage = priced(_estimated(turn.asked, size), _model(turn))
        if turn.asked.api == OTHER and (self.caps.max_cost_usd or self.caps.each_cost_usd):
            self.unpriced += usage.requests
        before = Usage()
        if not is_over:
            self._estimates[turn.call] = usage
        elif turn.given is not None:
            before = self._estimates.pop(turn.given.call, before)
        for spent in self._of(turn.thread):
            spent.tokens += usage.tokens - before.tokens
            spent.micros += (usage.cost_usd_micros or 0) - (before.cost_usd_micros or 0)

    def _of(self, thread: Thread) -> list[_Spent]:
        """Return the accounts of a conversation: the command's, and its subagent's."""
        return [self._whole, *([self._agents[_key(thread)]] if _is_subagent(thread) else ())]


def _hit(caps: Caps, whose: str, spent: _Spent) -> CapReached | None:
    """Return the first cap that is reached: of the whole (`max`), or of a subagent (`each`)."""
    for unit, found in spent.by_unit().items():
        allowed = getattr(caps, f"{whose}_{unit}")
        if allowed is not None and found >= allowed:
            return CapReached(f"{whose}_{unit}", allowed, found)
    return None


def _is_subagent(thread: Thread) -> bool:
    """Return whether a conversation surely has another one above it."""
    return thread.is_counted or bool(thread.whose.above)


def _key(thread: Thread) -> str:
    """Return what all conversations of one subagent share."""
    return thread.whose.thread or thread.scope


def _model(turn: RequestUnderway) -> str:
    return f"{provider_of(turn.asked)}:{turn.model}"


def _estimated(asked: Asked, size: int) -> Usage:
    """Return the count for an answer without usage: at least what the request allowed."""
    said = sum(len(str(each)) for each in (*asked.messages, *asked.tools))
    allowed = _output_allowed(asked)
    output = allowed if allowed is not None else size // _BYTES_PER_TOKEN
    return Usage(input_tokens=said // _BYTES_PER_TOKEN, output_tokens=output, requests=1)


def _output_allowed(asked: Asked) -> int | None:
    inner = asked.parameters.get("generationConfig")
    told = {**(inner if isinstance(inner, dict) else {}), **asked.parameters}
    return next((told[name] for name in _OUTPUT if type(told.get(name)) is int), None)
