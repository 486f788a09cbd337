"""Children that a program starts and then ignores, so that they fail or end unnoticed.

`[o.output for o in await run.join(*kids)]` is `[None, None]` if two children failed, and a child
that is never joined is cancelled when its parent ends. Both are logged, but nobody reads the log of
a completed run. So outcomes note whether the program checks how the child ended, and an unchecked
one becomes a warning. So does a call that a task still waits for when the program returns. The rule
is CONTRACT.md §9.10.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Final

import attrs

from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child, Pending
from refold.engine.kernel.unawaited import Slip, place_of

_FIELDS: Final = tuple(field.name for field in attrs.fields(Outcome))
_ALWAYS_TRUE: Final = "an Outcome is always true: use outcome.ok, or `is not None`"
_HANDLE: Final = (
    "the program returned a child instead of its result: return "
    "`(await run.join(child))[0].result()`"
)
_LEFT: Final = "cancelled when the program returned: {}. Await the task of a call, or cancel it"
_SHOW: Final = "refold show LOG --failed"
_SHOW_CUT: Final = "refold show LOG --notable"


class Neglected:
    """What one run's program does not do with its children, as far as is known."""

    def __init__(self) -> None:
        self._alone: dict[str, Child] = {}
        """Children that were started, and neither joined nor cancelled."""
        self._failed: dict[str, Child] = {}
        """Children that did not complete, while the program has not looked at it."""
        self._asked = 0
        """How many children were started, or rejected."""
        self._bools: dict[tuple[str, int], Slip] = {}
        self._cut: set[str] = set()
        """Calls of children whose answer their model's provider cut off."""
        self._left: tuple[str, ...] = ()
        """Calls that tasks still wait for when the program returns."""

    def started(self, child: Child) -> None:
        """Keep a child until somebody joins it."""
        self._asked += 1
        self._alone[child.call] = child

    def mark_awaited(self, *children: Child) -> None:
        """Let go of children that the program joins or cancels."""
        for child in children:
            self._alone.pop(child.call, None)

    def cancelled(self, child: Child) -> None:
        """Ignore a child that the program itself cancels: its end is expected."""
        self.mark_awaited(child)
        self._failed[child.call] = child

    def ended(self, child: Child, outcome: Outcome, *, is_late: bool = False) -> Outcome:
        """Return the outcome that the program gets: equal, and it notes who looks at it.

        `is_late`: the program has ended, so nobody is left to look.
        """
        self._asked += not child.number  # it was rejected
        is_expected = self._failed.pop(child.call, None) is not None or is_late
        if outcome.ok and outcome.truncated is not None and outcome.truncated.by == "provider":
            self._cut.add(child.call)
        if not (outcome.ok or is_expected):
            self._failed[child.call] = child
        return _Noting.of(outcome, lambda: self._failed.pop(child.call, None), self._tested)

    def _tested(self) -> None:
        code = (frame := sys._getframe(2)).f_code  # noqa: SLF001 - who tests; `inspect` would ask it
        place = code.co_filename, frame.f_lineno
        self._bools.setdefault(place, Slip(_ALWAYS_TRUE, *place))

    def left(self, calls: Iterable[Pending], joins: Sized) -> None:
        """Keep the names of the calls that tasks wait for when the program returns."""
        names = [each.name if each.tool else each.kind for each in calls]
        self._left = (*names, *["subagent"] * len(joins))

    def slips(self, program: Callable[..., Any], value: Any) -> list[Slip]:
        """Return the warnings for a program that returned `value`."""
        said = [*self._messages(value)]
        place = place_of(program) if said else ()
        return [each if isinstance(each, Slip) else Slip(each, *place) for each in said]

    def _messages(self, value: Any) -> Iterator[str | Slip]:
        unread = len(self._failed.keys() - self._alone.keys())
        alone = len(self._alone)
        was = "were" if alone > 1 else "was"
        texts = [
            (unread, "did not complete, and nobody read status, error or result()"),
            (alone, f"{was} never joined: those still running were cancelled"),
        ]
        if cut := len(self._cut):
            text = f"{cut} of {_children(self._asked)} returned an answer that its provider cut off"
            yield f"{text}: {_SHOW_CUT}"
        if self._left:
            counts = Counter(self._left).items()
            named = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts)
            yield _LEFT.format(named)
        values = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(one, Child) for one in values):
            yield _HANDLE
        yield from self._bools.values()
        yield from (
            f"{count} of {_children(self._asked)} {text}: {_SHOW}" for count, text in texts if count
        )


def _children(count: int) -> str:
    return f"{count} subagents" if count > 1 else "1 subagent"


class _Noting(Outcome):
    """An outcome in the hands of a program: it notes when somebody looks how the child ended."""

    __slots__ = ("_on_read", "_test")

    _on_read: Callable[[], object]
    _test: Callable[[], None]

    @classmethod
    def of(
        cls, outcome: Outcome, on_read: Callable[[], object], test: Callable[[], None]
    ) -> "_Noting":
        made = cls(**{name: getattr(outcome, name) for name in _FIELDS})
        object.__setattr__(made, "_on_read", on_read)
        object.__setattr__(made, "_test", test)
        return made

    def __getattribute__(self, name: str) -> Any:
        if name in ("status", "error"):  # `ok` and `result` read them, and so does the repr
            getattr(self, "_on_read", int)()
        return super().__getattribute__(name)

    def __bool__(self) -> bool:
        self._test()
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcome):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = Outcome.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, tuple(getattr(self, name) for name in _FIELDS)


_Noting.__name__ = _Noting.__qualname__ = Outcome.__qualname__  # programs print it, and match on it


def _plain(*values: Any) -> Outcome:
    """Return a copied or unpickled outcome: nobody notes who looks at that."""
    return Outcome(**dict(zip(_FIELDS, values, strict=True)))
