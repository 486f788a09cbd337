"""Programs whose inputs and outputs have types: what the laws about types are tested on."""

import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs

import refold


class Colour(enum.Enum):
    """An enum."""

    RED = "red"
    BLUE = "blue"


class Note(TypedDict):
    """A TypedDict."""

    text: str
    at: NotRequired[dt.datetime]


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: float


@attrs.frozen
class Price:
    """An attrs class."""

    amount: Decimal
    per: dt.timedelta


@dataclasses.dataclass
class Everything:
    """A dataclass of all kinds of values."""

    id: UUID
    path: Path
    due: dt.date | None
    colour: Colour
    kind: Literal["a", 1]
    note: Note
    prices: list[Price]
    points: dict[str, Point]
    names: frozenset[str]
    many: tuple[float, ...]
    any: Any
    either: Price | list[int] | str = ""


SEEN: list[Any] = []
"""All that programs of this process got, in their order."""


def seen(value: Any) -> Any:
    """Note a value that a program got, and return it."""
    SEEN.append(value)
    return value


async def echo(_run: refold.Run, given: Everything) -> Everything:
    """Return the input."""
    return seen(given)  # type: ignore[no-any-return]  # the same


async def lead(run: refold.Run, given: Everything) -> list[Everything]:
    """Hand the input to two children, and return what comes back."""
    delegation = refold.Delegation(program=echo, input=seen(given))
    first = await run.delegate(delegation)
    child = await run.start(delegation)
    (second,) = await run.join(child)
    return [seen(first.output), seen(second.result())]


def plain_lead(run: refold.PlainRun, given: Everything) -> list[Everything]:
    """Do so in a plain program, with a child by name."""
    outcome = run.delegate(refold.Delegation(program=f"{__name__}:echo", input=seen(given)))
    return [seen(outcome.output), seen(outcome.result())]


@dataclasses.dataclass
class Ticket:
    """A typed value."""

    id: int
    due: dt.date


async def next_ticket(_run: refold.Run, ticket: Ticket) -> Ticket:
    """Count."""
    assert isinstance(ticket, Ticket)
    return Ticket(ticket.id + 1, ticket.due)


async def wrong(_run: refold.Run, _input: Any) -> Ticket:
    """Return something else than is annotated."""
    return {"id": 1, "due": "soon"}  # type: ignore[return-value]  # it is meant
