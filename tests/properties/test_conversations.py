"""A conversation is recorded as the program passes it, whatever it edits in place (§2.4)."""

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.encoding import digest
from refold.engine.events.events import ModelAnswered, ModelAsked
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import ModelRequest
from refold.engine.program.run import PlainRun
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute

VALUES = st.sampled_from(["a", "b", None, 0, 0.0, False, 1, 1.0, True, [1], [1.0], {"n": [0]}])
EDITS = st.lists(
    st.tuples(st.sampled_from(["add", "set", "deep", "cut"]), st.integers(0, 9), VALUES)
)


def edited(messages: list[Any], edit: str, place: int, value: Any) -> None:
    """Edit the conversation as a program may, between two requests."""
    match edit:
        case "set":
            messages[place % len(messages)]["content"] = value
        case "deep":
            messages[place % len(messages)].setdefault("extra", {"list": []})["list"].append(value)
        case "cut":
            del messages[1 + place :]
        case _:
            messages.append({"role": "user", "content": value})


def recorded(log: Path) -> list[Any]:
    """Return the whole conversation of each request, as the log has it."""
    known: dict[str, list[Any]] = {"": []}
    end, found = "", []
    for entry in read_entries(log, resolve=True):
        match entry.event:
            case ModelAsked(_, end, base, added):
                assert len(known[end]) == base
                end = extended(known, end, added)
                found.append(known[end])
            case ModelAnswered(_, message):
                extended(known, end, [message])
            case _:
                pass
    return found


def extended(known: dict[str, list[Any]], end: str, messages: list[Any]) -> str:
    """Add the conversations that begin with the one of a chain digest; return the last digest."""
    for message in messages:
        before, end = known[end], digest.chained(end, message)
        known[end] = [*before, message]
    return end


@settings(deadline=None)
@given(EDITS)
def test_a_message_that_is_edited_in_place_is_recorded_as_edited(
    edits: list[tuple[str, int, Any]],
) -> None:
    """The log and the model have what is passed with each request, and a replay passes it again."""
    passed: list[Any] = []
    shown: list[Any] = []

    def program(run: PlainRun, _input: None) -> None:
        messages: list[Any] = [{"role": "user", "content": "0"}]
        for edit in edits:
            edited(messages, *deepcopy(edit))
            passed.append(deepcopy(messages))
            messages.append(run.model(messages).message)

    def answer(request: ModelRequest) -> str:
        shown.append(deepcopy([*request.messages]))
        return "an answer"

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "a.jsonl")
        assert record(program, log=log, model=FunctionModel(answer), durability="fast").ok
        live = repr(passed)
        assert repr(recorded(log)) == repr(shown) == live
        passed.clear()
        assert reexecute(log, program).identical
        assert repr(passed) == live
