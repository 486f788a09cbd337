"""Every kind of event exists everywhere that it has to (CONTRACT.md §2, §6.1, §6.2).

A kind is in the closed union, has a name, a table in CONTRACT.md whose members are its fields, a
transition rule, and comes back from its data as it went in.
"""

import re
import types
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs
import pytest

from refold.engine.encoding.canonical import encode, loads
from refold.engine.events import codec
from refold.engine.events.events import (
    COMPLETES,
    FOLDER,
    FROM_WORLD,
    KIND_OF,
    KINDS,
    MEASURED,
    REQUEST_KINDS,
    TAILS,
    UNDIGESTED,
    UNSEEN,
    WIRE,
    Event,
)
from refold.engine.kernel.world import REQUESTS
from refold.engine.secrets.redaction import REDACTED, Redaction, without_hidden
from refold.engine.state.folding import RULES
from refold.replay.index.asked_items import is_asked
from tests.support.each_kind import example
from tests.support.loops import for_each

CONTRACT: Final = (Path(__file__).parents[2] / "CONTRACT.md").read_text(encoding="utf-8")

_TABLE: Final = re.compile(
    r"^\*\*`(?P<kind>[a-z.]+)`\*\* — .+\n\n\| member \| type \| meaning \|\n\|(?:---\|)+\n"
    r"(?P<rows>(?:\|.*\|\n)+)",
    re.MULTILINE,
)
_ROW: Final = re.compile(r"\| `(?P<name>\w+)`(?P<marks>\??†?) \| (?P<type>.+?) \| (?P<says>.+) \|")

_WORDS: Final[dict[Any, str]] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    Any: "any",
}

Row = tuple[str, str, str]
"""Name, marks, type: a member as the contract or the code has it."""


def _documented() -> dict[str, list[Row]]:
    section = CONTRACT[CONTRACT.index("\n## §2 ") : CONTRACT.index("\n## §3 ")]
    return {
        table["kind"]: [
            (row["name"], row["marks"], row["type"]) for row in _ROW.finditer(table["rows"])
        ]
        for table in _TABLE.finditer(section)
    }


def _in_code(kind: str) -> list[Row]:
    names = [field.name for field in attrs.fields(KINDS[kind])]
    tail = names[names.index(TAILS[kind]) :] if TAILS.get(kind) in names else []
    return [
        (
            field.name,
            ("?" if field.default is None else "") + ("†" if field.name in tail else ""),
            _word(field.type),
        )
        for field in attrs.fields(KINDS[kind])
    ]


def _word(kind: Any) -> str:
    """Return a field's type as the contract's tables write it."""
    if get_origin(kind) in (types.UnionType, Union):
        return _word(next(each for each in get_args(kind) if each is not types.NoneType))
    if get_origin(kind) is Literal:
        return " · ".join(f"`{word}`" for word in get_args(kind))
    return "object" if attrs.has(kind) else _WORDS[get_origin(kind) or kind]


def test_the_contract_has_a_table_for_each_kind_and_no_other() -> None:
    """§2.2: the kinds are those of the code, in its order."""
    assert list(_documented()) == list(KINDS)


@for_each("kind", KINDS)
def test_a_table_has_the_members_of_its_kind(kind: str) -> None:
    """§2.1: the same names in the same order, `?` where left out, `†` in the volatile tail."""
    assert _documented()[kind] == _in_code(kind)


def test_the_union_the_names_and_the_rules_hold_the_same_kinds() -> None:
    """§2.1, §6.1: a kind without its place in one of them would be written and never read."""
    union = set(get_args(Event))

    assert union == set(KINDS.values()) == set(KIND_OF) == set(RULES)


def test_what_is_said_about_kinds_names_kinds() -> None:
    """§2.3, §6.2: tails, completions and exceptions are of kinds that exist."""
    named = {*TAILS, *UNDIGESTED, *COMPLETES, *COMPLETES.values(), *FROM_WORLD}

    assert named <= {*KINDS, WIRE, MEASURED, FOLDER}
    assert {KIND_OF[event] for event in REQUESTS} == REQUEST_KINDS


def test_the_contract_names_the_kinds_of_the_world_and_those_without_a_digest() -> None:
    """§2.3, §6.2: a kind that one of the tables forgets, or has too many, is found here."""
    speaks = CONTRACT.partition("**§2.3 Origin of entries.**")[2].partition("`limit.hit`")[0]
    digested = CONTRACT.partition("### §6.2 ")[2].partition("as 64 hex")[0]
    without = re.findall(r"`([\w-]+\.\w+)`", digested.rpartition("all entries but")[2])

    assert set(re.findall(r"`([\w.]+)`", speaks)) == FROM_WORLD
    assert set(without) == UNDIGESTED
    unseen = " ".join(CONTRACT.split()).partition("that no program sees (")[2].partition(")")[0]
    assert set(re.findall(r"`(\w+\.\w+)`", unseen)) == UNSEEN | {"patch.marked"}


def test_each_kind_asks_or_answers_or_tells() -> None:
    """§2.3, §12.1: replay compares what is asked, delivers answers, and passes over the unseen.

    A kind that it does not know as one of these would be a divergence wherever it stands.
    """
    asks = {kind for kind in KINDS if is_asked(kind)}
    answers = {*COMPLETES, "tokens.granted"}
    tells = {"run.started", "run.finished", *UNSEEN}

    assert asks | answers | tells == set(KINDS)
    assert not asks & (answers | tells)
    assert answers | {"timer.fired"} == FROM_WORLD - UNSEEN, "those of Kernel.can_deliver"


@for_each("kind", [each for each in KINDS if each.startswith(("tool.", "model."))])
def test_what_tools_and_models_say_can_be_taken_out(kind: str) -> None:
    """§3.9: a kind that redaction does not know would be written whole."""
    event, family = example(kind, is_full=True), kind.partition(".")[0]
    pointers = [f"/{name}" for name, *_ in _in_code(kind)]

    found = without_hidden(Redaction(paths={f"{family}:*": pointers}), event, "a")

    assert set(attrs.astuple(found)) == {REDACTED}
    assert family == "model" or without_hidden(Redaction(tools=["*"]), event, "a") != event


@for_each("kind", KINDS)
@pytest.mark.parametrize("is_full", [False, True])
def test_an_event_comes_back_as_it_went_in(kind: str, *, is_full: bool) -> None:
    """§2.1: with every member and with only those that have to be there."""
    event = example(kind, is_full=is_full)

    data = codec.unstructure(event)
    back = codec.structure(kind, loads(encode(data)))

    assert back == event
    assert codec.kind_of(back) == kind
    members = [name for name, marks, _ in _in_code(kind) if is_full or "?" not in marks]
    assert list(data) == members
