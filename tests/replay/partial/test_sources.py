"""Where outcomes come from: served from a book, refused, or left to the world (§12.10)."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import OutcomeMissing
from refold.engine.events.events import ModelAsked, ToolCalled, ToolReturned
from refold.engine.ports.effects import CallTool
from refold.engine.program.run import PlainRun
from refold.engine.runners.recording import record
from refold.replay.index.by_call import Book
from refold.replay.partial.sources import BookSupply, Sources
from tests.support.forks import TOOLS, get, model, report


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """The record of a run."""
    return Book(record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log)


def ask(supply: BookSupply, call: str, key: str, effect: Any = "reads") -> Any:
    """Ask for `get` under a call key."""
    arguments: dict[str, Any] = {"key": key}
    asked = ToolCalled("get", arguments, effect)
    return supply.outcome(call, asked, CallTool(call, get, arguments))


def test_a_recorded_outcome_is_served_where_the_same_is_asked(book: Book) -> None:
    """Under its call key."""
    assert ask(BookSupply(book, Sources()), "0/1#1", "a") == ToolReturned("ok", 1)


def test_the_same_request_of_a_scope_is_served_under_another_key_once(book: Book) -> None:
    """An inserted call shifts those after it; each outcome is used once."""
    supply = BookSupply(book, Sources())

    assert ask(supply, "0/1#2", "a") == ToolReturned("ok", 1)
    assert supply.when("0/1#2") == book.position("0/1#1")
    with pytest.raises(OutcomeMissing):
        ask(supply, "0/1#3", "a")


def test_nothing_like_it_is_served(book: Book) -> None:
    """Other arguments, another scope: refused, with the nearest named, and remembered."""
    supply = BookSupply(book, Sources())

    with pytest.raises(OutcomeMissing, match=r"most similar recorded one is get#1 in 0/1"):
        ask(supply, "0/1#1", "zzz")
    with pytest.raises(OutcomeMissing):
        ask(supply, "0/7#1", "a")
    assert len(supply.missing) == 2


def test_what_reads_like_it_is_named_with_its_difference(tmp_path: Path) -> None:
    """A label does not have all of a request."""
    text = "{} in the middle of a text that is too long for a label".center(200)

    def program(run: PlainRun, _input: object) -> None:
        run.tool(get, key=text.format("one"))

    supply = BookSupply(Book(record(program, log=tmp_path / "a.jsonl").log), Sources())
    with pytest.raises(OutcomeMissing, match=r"which differs in /key:"):
        ask(supply, "0#1", text.format("two"))


def test_where_nothing_is_like_it_nothing_is_named(book: Book) -> None:
    """Not a call of another name."""
    asked = ToolCalled("unheard", {}, "reads")

    with pytest.raises(OutcomeMissing) as caught:
        BookSupply(book, Sources()).outcome("0/7#1", asked, CallTool("0/7#1", get, {}))

    assert "get" not in str(caught.value)


def test_what_may_differ_may_differ_in_a_child(book: Book) -> None:
    """Its record is read under the same rules."""
    supply = BookSupply(book, Sources(), volatile=("tool:get/arguments/key",))
    child: Any = None  # which one, only a fork asks

    for each in (supply, supply.of_child(book, child)):
        assert ask(each, "0/1#1", "zzz") == ToolReturned("ok", 1)


@pytest.mark.parametrize(
    ("sources", "effect", "is_live"),
    [
        (Sources(tools="live"), "reads", True),
        (Sources(tools="live"), "changes", False),
        (Sources(tools="live", may_change=True), "changes", True),
        (Sources(tool={"get": "live"}), "pure", True),
        (Sources(tools="live", tool={"get": "recorded"}), "reads", False),
        (Sources(model="live"), "reads", False),
    ],
)
def test_what_is_live_is_left_to_the_world(
    book: Book, sources: Sources, effect: str, *, is_live: bool
) -> None:
    """By kind, by name, and only what may change the world does."""
    found = ask(BookSupply(book, sources), "0/1#1", "a", effect)

    assert (found is None) is is_live


def test_what_is_passed_over_is_used_up(book: Book) -> None:
    """A fork has the beginning of its record behind it, looks at the clock included."""
    supply = BookSupply(book, Sources(), log=book.log)
    first = BookSupply(book, Sources()).read_clock()

    assert first is not None
    assert supply.read_clock() is None
    with pytest.raises(OutcomeMissing):
        ask(supply, "0/1#1", "a")


def test_draws_come_from_the_record(book: Book) -> None:
    """By key, or by what is drawn; what is not there is drawn live."""
    assert BookSupply(book, Sources()).draw("file", "x", "0#9") is None


def test_stubs(book: Book) -> None:
    """Of a tool its result, of a model its text."""
    supply = BookSupply(book, Sources(tools="stub", model="stub", stubs={"get": 9, "model": "hi"}))

    assert ask(supply, "0#1", "x") == ToolReturned("ok", 9)
    asked = ModelAsked("m", "", 0, [{"role": "user", "content": "?"}], {})
    assert supply.outcome("0#2", asked, None).message == {"role": "assistant", "content": "hi"}
