"""An outcome goes to whoever asks for the same, and to one only (CONTRACT.md §12.8)."""

from pathlib import Path

from refold.engine.events.events import ToolCalled
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.index.by_call import AskedCall, Book, asked_of
from refold.replay.what_if.rehearsal import BookMatcher, Looks
from refold.tools.contract.tool_types import tool
from tests.support.steps import recorded

SEARCH = ("tool", "search", {"q": "a"})
FETCH = ("tool", "fetch", {"q": "b"})


@tool(effect="reads")
def both(at: str, q: str) -> str:
    """Get something, and be told when."""
    return f"{q} at {at}"


async def asks_both(run: Run, _: object) -> None:
    await run.tool("both", at="1", q="a")


def matcher_of(log: Path, *, by_place: bool = False, looks: Looks | None = None) -> BookMatcher:
    known = {} if looks is None else looks
    return BookMatcher(Book(log), by_place=by_place, looks=known)


def asks(call: str, name: str, **arguments: str) -> AskedCall:
    return asked_of(ToolCalled(name, dict(arguments), "reads"), call)


def test_the_same_key_comes_first(tmp_path: Path) -> None:
    """Of two requests that ask for the same, each gets its own outcome."""
    matcher = matcher_of(recorded(tmp_path / "a.jsonl", SEARCH, SEARCH).log)

    assert matcher.take(asks("0#2", "search", q="a")) == "0#2"
    assert matcher.take(asks("0#1", "search", q="a")) == "0#1"
    assert matcher.take(asks("0#1", "search", q="a")) is None


def test_then_the_nearest_in_the_scope_then_any(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", SEARCH, FETCH, SEARCH, ("both", [SEARCH], [FETCH])).log
    matcher = matcher_of(log)

    assert matcher.take(asks("0#5", "search", q="a")) == "0#3"
    assert matcher.take(asks("0/2#1", "search", q="a")) == "0#1"
    assert matcher.take(asks("0/7#1", "search", q="a")) == "0/1#1"


def test_other_arguments_get_nothing_unless_by_place(tmp_path: Path) -> None:
    """By place: the same key and name, else the nearest of that name in the scope."""
    log = recorded(tmp_path / "a.jsonl", SEARCH, FETCH).log

    assert matcher_of(log).take(asks("0#1", "search", q="z")) is None
    assert matcher_of(log, by_place=True).take(asks("0#1", "search", q="z")) == "0#1"
    assert matcher_of(log, by_place=True).take(asks("0#3", "fetch", q="z")) == "0#2"
    assert matcher_of(log, by_place=True).take(asks("0#1", "other", q="z")) is None
    assert matcher_of(log, by_place=True).take(asks("0/1#1", "fetch", q="z")) is None


def test_a_rule_excuses_what_it_names_and_no_more(tmp_path: Path) -> None:
    """§12.7: with other arguments besides, a request is another one."""
    rules = ["tool:both/arguments/at"]
    log = record(asks_both, None, log=tmp_path / "a.jsonl", tools=[both], volatile=rules).log

    for at, q, found in (("9", "a", "0#1"), ("9", "z", None), ("1", "z", None)):
        matcher = matcher_of(log)
        assert matcher.take(matcher.recognised(asks("0#1", "both", at=at, q=q))) == found


def test_values_are_found_by_name(tmp_path: Path) -> None:
    """Under the same key, else in the same scope, else anywhere; each once."""
    log = recorded(tmp_path / "a.jsonl", ("uuid",), ("both", [("uuid",)], [("uuid",)])).log
    book = Book(log)
    matcher = matcher_of(log)

    assert matcher.draw("uuid", "", "0/2#1") == ("0/2#1", book.values["0/2#1"])
    assert matcher.draw("uuid", "", "0/1#9") == ("0/1#1", book.values["0/1#1"])
    assert matcher.draw("uuid", "", "0/5#1") == ("0#1", book.values["0#1"])
    assert matcher.draw("uuid", "", "0#1") is None
    assert matcher.draw("file", "x", "0#1") is None


def test_a_scope_sees_at_each_look_what_it_saw(tmp_path: Path) -> None:
    """Whatever other scopes look at in between; one that never looked gets the last time."""
    steps = [("now",), ("sleep", 0.001), ("now",)]
    log = recorded(tmp_path / "a.jsonl", ("both", steps, steps)).log
    looks: Looks = {}
    learning = matcher_of(log, looks=looks)
    learnt = [learning.read_clock(scope) for scope in ("0/1", "0/2", "0/1")]

    again = BookMatcher(Book(log), by_place=False, looks=looks)

    assert learnt == Book(log).looks[:3]
    assert [again.read_clock(scope) for scope in ("0/2", "0/1", "0/1")] == [
        learnt[1],
        learnt[0],
        learnt[2],
    ]
    assert again.read_clock("0/9") == Book(log).looks[-1]
