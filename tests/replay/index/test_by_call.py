"""A log laid out to be looked up: outcomes by call key, requests by what they ask for (§12.8)."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from refold.engine.encoding import digest
from refold.engine.errors import LogDamaged, LogUnsealed, ToolError
from refold.engine.events.events import ChildStarted, InputAsked, ModelAsked, ToolCalled
from refold.engine.events.limits import Limits
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.index.by_call import Book, asked_of, label_of
from refold.tools.contract.tool_types import tool
from tests.support.steps import Step, recorded

EVERYTHING: list[Step] = [
    ("uuid",),
    ("now",),
    ("both", [("tool", "search", {"q": "a"}), ("sleep", 0.001)], [("model", "hi")]),
    ("child", [("tool", "fetch", {"q": "b"}), ("model", "m")]),
]


def test_everything_is_found_by_its_key(tmp_path: Path) -> None:
    """Outcomes in the order of delivery, with timers; requests in the order asked."""
    book = Book(recorded(tmp_path / "a.jsonl", *EVERYTHING).log)

    assert list(book.requests) == ["0/1#1", "0/2#1", "0#2"]
    assert set(book.delivered) == {"0/1#1", "0/2#1", "0/1@1", "0#2"}
    assert [book.position(key) for key in book.delivered] == [0, 1, 2, 3]
    assert book.position("0/9#1") is None
    assert list(book.values) == ["0#1"]
    assert len(book.looks) == 1
    assert (book.end["status"], book.end["reason"]) == ("completed", "done")
    assert book.usage["0#2"].requests == 1
    assert set(book.durations_us) == {"0/1#1", "0/2#1", "0#2"}


def test_how_a_run_failed_is_its_end(tmp_path: Path) -> None:
    book = Book(recorded(tmp_path / "a.jsonl", ("raise", "no")).log)

    assert book.end["status"] == "failed"
    assert book.end["error"] == {"code": "raised", "message": "ValueError: no"}


def test_a_record_without_an_end_is_refused(tmp_path: Path) -> None:
    """There is nothing to compare with."""
    log = recorded(tmp_path / "a.jsonl", *EVERYTHING).log
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))

    with pytest.raises(LogUnsealed, match=r"no run\.finished"):
        Book(log)


def test_another_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "a.jsonl"
    other.write_text('{"not": "a log"}\n')

    with pytest.raises(LogDamaged):
        Book(other)


def test_the_same_request_is_known_whoever_asks() -> None:
    """The call key plays no part, arguments do."""
    one = asked_of(ToolCalled("f", {"x": 1}, "reads"), "0/1#1")
    same = asked_of(ToolCalled("f", {"x": 1}, "reads"), "0/2#7")
    other = asked_of(ToolCalled("f", {"x": 2}, "reads"), "0/1#1")

    assert one.identity == same.identity != other.identity
    assert one.name == other.name == ("tool", "f")
    assert not one.delegates
    assert asked_of(ToolCalled("f", {}, "reads", delegates=True), "0#1").delegates


def test_a_conversation_is_the_same_however_much_of_it_the_log_has() -> None:
    """Under another order another request may be the first to store a message."""
    first, second = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
    whole = asked_of(ModelAsked("m", "", 0, [first, second], {}), "0#1")
    rest = asked_of(ModelAsked("m", digest.chained("", first), 1, [second], {}), "0#2")

    assert whole.identity == rest.identity
    assert whole.identity != asked_of(ModelAsked("m", "", 0, [second, first], {}), "0#1").identity


def test_volatile_places_make_no_other_request() -> None:
    """§12.7: of their own tool, and of no other."""
    one = asked_of(ToolCalled("f", {"x": 1, "ts": 5}, "reads"), "0#1")
    two = asked_of(ToolCalled("f", {"x": 1, "ts": 6}, "reads"), "0#1")
    paths = ["tool:f/arguments/ts"]

    assert one.identity_without(paths) == two.identity_without(paths)
    assert one.identity_without(["tool:g/arguments/ts"]) == one.identity
    assert one.identity_without(["tool:f/arguments/x"]) != two.identity_without(
        ["tool:f/arguments/x"]
    )


def test_the_tokens_that_were_left_are_no_part_of_what_a_child_is_asked() -> None:
    def started(tokens: int, brief: str) -> Any:
        limits = Limits(model_tokens=tokens).as_json()
        return asked_of(ChildStarted({"program": "p", "brief": brief, "limits": limits}, 1, ""), "")

    assert started(5, "dig").identity == started(7, "dig").identity
    assert started(5, "dig").identity != started(5, "dug").identity


def test_people_read_labels() -> None:
    """Name, ordinal, scope, and what tells one from another."""
    tool = asked_of(ToolCalled("search", {"q": "a"}, "reads"), "0/2#3")
    model = asked_of(ModelAsked("m", "", 0, [{"role": "user", "content": "hi"}], {}), "0#1")
    child = asked_of(ChildStarted({"program": "p", "brief": "dig"}, 1, ""), "0#2")
    again = asked_of(ModelAsked("m", "", 0, [], {}), "0#5")
    person = asked_of(InputAsked("Really?"), "0#4")

    assert label_of(tool.item) == 'search#3 in 0/2 (q="a")'
    assert label_of(model.item) == 'model m#1 ("hi")'
    assert label_of(child.item) == 'child p#2 ("dig")'
    assert label_of(again.item) == "model m#5 (no new message)"
    assert label_of(person.item) == 'input#4 ("Really?")'


async def _calls(run: Run, _: Any) -> Any:
    return await run.tool("search", q="a")


def test_an_example_of_a_tool_is_a_result_and_no_failure(tmp_path: Path) -> None:
    @tool(effect="reads")
    def moody(q: str) -> str:
        if q == "bad":
            raise ValueError(q)
        return q

    async def asks(run: Run, _: Any) -> None:
        for q in ("bad", "good"):
            with contextlib.suppress(ToolError):
                await run.tool("moody", q=q)

    book = Book(record(asks, log=tmp_path / "a.jsonl", tools=[moody]).log)

    example = book.example("moody")
    assert example is not None
    assert example.result == "good"
    assert book.example("search") is None


def test_a_book_labels_its_keys(tmp_path: Path) -> None:
    book = Book(recorded(tmp_path / "a.jsonl", program=_calls).log)

    assert book.label("0#1") == 'search#1 (q="a")'
    assert book.label("0/1@2") == "timer 0/1@2"
    assert book.label("timeout") == "the run's timeout"
    assert book.label("session 3") == "a child's change of the session"
