"""Other values of the same type stand in for recorded outcomes (CONTRACT.md §12.9)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.events.events import (
    ChildFinished,
    InputGiven,
    ModelAnswered,
    TimerFired,
    ToolReturned,
    ValueDrawn,
)
from refold.engine.events.outcome import Artifact, Outcome, failed
from refold.replay.difference.pointer_diff import same
from refold.replay.what_if.alter import (
    altered,
    altered_draw,
    altered_event,
    altered_within,
)
from tests.support.loops import for_each

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def kind_of(value: Any) -> Any:
    """Return the shape of a value: its types, and the members of its objects."""
    if isinstance(value, dict):
        return {name: kind_of(item) for name, item in value.items()}
    if isinstance(value, list):
        return [type(item) for item in value]
    return type(value)


@given(JSON)
def test_every_variant_differs_and_keeps_its_type(value: Any) -> None:
    """The first has another value at every leaf, the second a shorter list."""
    for variant in altered(value):
        assert not same(variant, value)
        assert type(variant) is type(value)
    if isinstance(value, dict):
        assert all(variant.keys() == value.keys() for variant in altered(value))


@given(JSON)
def test_all_leaves_change_at_once(value: Any) -> None:
    first = next(altered(value), value)

    if not isinstance(value, list | dict):
        assert same(first, value) == (value is None)
    if isinstance(value, dict):
        assert kind_of(first).keys() == kind_of(value).keys()


@for_each(
    "value, expected",
    [
        ("text", "text (altered)"),
        ("12", "11"),
        (7, 8),
        (2**63 - 1, 2**63 - 2),
        (1.5, 2.5),
        (True, False),
        ('{"n":1}', '{"n":2}'),
        ("{nothing", "{nothing (altered)"),
        ("2024-02-29", "2025-02-28"),
        ("2024-05-06T07:08:09+00:00", "2025-05-06T07:08:09+00:00"),
        ("3f2b8c1e-1111-4222-8333-444455556666", "3f2b8c1e-1111-4222-8333-444455556660"),
    ],
)
def test_a_text_stays_what_it_looks_like(value: Any, expected: Any) -> None:
    """A number, JSON, a date, a uuid: what a program reads out of it can still be read."""
    assert next(altered(value)) == expected


def test_lists_are_shortened_second() -> None:
    assert list(altered([1, [2, 3]])) == [[2, [3, 4]], [2 - 1]]
    assert list(altered([])) == []
    assert list(altered(None)) == []


def test_what_a_type_forbids_is_left_as_it_is() -> None:
    """Leaf by leaf, as far as `fits` allows."""
    found = altered_within(
        {"kind": "file", "size": 3, "tags": ["x"]}, lambda value: value["kind"] == "file"
    )

    assert found == {"kind": "file", "size": 4, "tags": ["x (altered)"]}


def test_an_outcome_keeps_its_status() -> None:
    """Of a tool, a model, a child, a person; of a failure the message is another."""
    call = {"id": "1", "name": "f", "arguments": {"n": 1}}
    asked = ModelAnswered("ok", {"role": "assistant", "content": None, "tool_calls": [call]})
    done = Outcome(
        status="completed", summary="s", output=1, artifacts=(Artifact(kind="note", value="v"),)
    )
    bad = ToolReturned("error", error={"code": "raised", "message": "m", "type": "E"})

    (tool,) = altered_event(ToolReturned("ok", 1))
    (model,) = altered_event(asked)
    (child,) = altered_event(ChildFinished(done))
    (lost,) = altered_event(ChildFinished(failed("failed", "raised", "why")))
    (given_,) = altered_event(InputGiven("yes"))
    (error,) = altered_event(bad)

    assert tool == ToolReturned("ok", 2)
    assert isinstance(model, ModelAnswered)
    assert model.message is not None
    assert model.message["content"] is None
    assert model.message["tool_calls"] == [{**call, "arguments": {"n": 2}}]
    assert isinstance(child, ChildFinished)
    assert (child.outcome.output, child.outcome.summary) == (2, "s (altered)")
    assert child.outcome.artifacts[0].value == "v (altered)"
    assert isinstance(lost, ChildFinished)
    assert lost.outcome.error is not None
    assert lost.outcome.error.message == "why (altered)"
    assert given_ == InputGiven("yes (altered)")
    assert isinstance(error, ToolReturned)
    assert error.error == {"code": "raised", "message": "m (altered)", "type": "E"}
    assert list(altered_event(TimerFired(1, nth=1))) == []


def test_a_drawn_value_becomes_another() -> None:
    """One that was not set becomes one that is."""
    assert altered_draw(ValueDrawn("environment", "HOME", None)) == "altered"
    assert altered_draw(ValueDrawn("file", "f", "text")) == "text (altered)"
    assert altered_draw(ValueDrawn("settings", "s", {})) == {}
