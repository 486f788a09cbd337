"""Events to plain data and back (CONTRACT.md §2, §6.2)."""

import pickle
import types
import typing
from typing import Any

import attrs
import pytest

from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import EventMalformed, LogUnsupported
from refold.engine.events import codec, events
from refold.engine.events.outcome import Artifact, ChildRef, Fault, Outcome, Truncated, Usage
from tests.support import started
from tests.support.loops import for_each

OUTCOME = Outcome(
    status="failed",
    summary="s",
    output={"a": [None]},
    artifacts=(Artifact(kind="note", value="v", name="n"),),
    error=Fault(code="raised", message="m"),
    truncated=Truncated(kept_bytes=1, seen_bytes=2, sha256="0"),
    tools_used=("a", "b"),
    usage=Usage(input_tokens=1),
    duration_ms=12,
    child=ChildRef(run="r", head="h", events=3),
)

STARTED = attrs.evolve(
    started.STARTED,
    limits={"max_depth": 8},
    tools=[{"name": "t"}],
    fingerprint={"source": "x"},
    run_id="r",
    root_id="r",
)

EXAMPLES: list[events.Event] = [
    STARTED,
    events.ToolCalled("t", {"a": None}, "pure"),
    events.ToolCalled("t", {}, "changes", delegates=True),
    events.ToolReturned("ok", {"x": [1, 2.5]}),
    events.ToolReturned("error", error={"code": "raised"}),
    events.ModelAsked("m", "", 0, [{"role": "user", "content": "c"}], {"temperature": 0}),
    events.ModelAnswered("ok", {"role": "assistant"}, Usage(output_tokens=2), "stop"),
    events.ChildStarted({"program": "p"}, 1, "r2"),
    events.ChildFinished(OUTCOME),
    events.ChildFinished(Outcome(status="rejected")),
    events.TimerFired(5, nth=1),
    events.ClockRead(1, 2),
    events.ValueDrawn("file", "f", None),
    events.InputAsked("q", {"type": "string"}),
    events.InputGiven(None, "me"),
    events.EffectCancelled("tool"),
    events.EffectCancelled("run", "parent"),
    events.EffectLate("model", "ok"),
    events.LimitHit("max_children", 3, "run", 4),
    events.LimitHit("timeout_seconds", 0.5, "run", 0.51),
    events.SessionSeeded({"s": 1}),
    events.SessionRestored({}),
    events.SessionChanged("added", {"item": None}),
    events.TokensGranted(40, "0#2"),
    events.PatchMarked("id"),
    events.NoteAdded("t"),
    events.RunResumed(2, {"bytes": 3}, [{"call": "0#1"}]),
    events.RunFinished("completed", "done", {"out": 1}, None, ["0#1"], entries=3, data_digest="d"),
]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_survives_the_round_trip(event: events.Event) -> None:
    """Through data and bytes; and it is the frozen class, equal and picklable."""
    data = codec.unstructure(event)

    back = codec.structure(codec.kind_of(event), loads(encode(data)))

    assert back == event
    assert type(back) is type(event)
    assert pickle.loads(pickle.dumps(back)) == event
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        back.status = "x"  # type: ignore[union-attr,misc]  # that it cannot be set is the point


def test_the_examples_cover_every_kind() -> None:
    """A new event needs one."""
    assert {type(event) for event in EXAMPLES} == set(events.KINDS.values())


def test_what_is_none_by_default_is_left_out_and_nothing_else() -> None:
    """A field that says nothing costs no bytes; a null that was drawn is kept."""
    assert codec.unstructure(events.ToolReturned("ok")) == {"status": "ok"}
    assert codec.unstructure(events.ValueDrawn("file", "f", None))["value"] is None
    assert codec.unstructure(STARTED)["nonce"] == ""


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_members_stand_in_the_order_of_the_fields(event: events.Event) -> None:
    """Whatever is left out: volatile tails are cut by their first field."""
    fields = [field.name for field in attrs.fields(type(event))]
    members = list(codec.unstructure(event))

    assert members == [name for name in fields if name in members]


@for_each(
    "kind, data, pointer",
    [
        ("timer.fired", {"virtual_us": "12"}, "/virtual_us"),
        ("timer.fired", {"virtual_us": 1.0}, "/virtual_us"),
        ("timer.fired", {"virtual_us": True}, "/virtual_us"),
        ("timer.fired", {"virtual_us": None}, "/virtual_us"),
        ("timer.fired", {}, "/virtual_us"),
        ("timer.fired", {"virtual_us": 1, "nth": 1, "a/b": 1}, "/a~1b"),
        ("timer.fired", [], ""),
        ("limit.hit", {"limit": "x", "allowed": "1", "scope": "run", "observed": 1}, "/allowed"),
        ("note.added", {"text": 3}, "/text"),
        ("tool.called", {"tool": "t", "arguments": [], "effect": "pure"}, "/arguments"),
        ("tool.called", {"tool": "t", "arguments": {}, "effect": "fast"}, "/effect"),
        ("tool.called", {"tool": "t", "arguments": {}, "effect": ["pure"]}, "/effect"),
        (
            "tool.called",
            {"tool": "t", "arguments": {}, "effect": "pure", "delegates": "no"},
            "/delegates",
        ),
        ("run.finished", {"status": "s", "reason": "r", "in_doubt": "abc"}, "/in_doubt"),
        ("run.finished", {"status": "s", "reason": "r", "in_doubt": ["a", 2]}, "/in_doubt/1"),
        ("run.finished", {"status": "s", "reason": "r", "error": {"code": "c"}}, "/error/message"),
        ("child.finished", {"outcome": None}, "/outcome"),
        ("child.finished", {"outcome": {"status": "failed", "usage": 3}}, "/outcome/usage"),
        (
            "child.finished",
            {"outcome": {"status": "failed", "artifacts": [{"kind": "note", "value": None}]}},
            "/outcome/artifacts/0/value",
        ),
        (
            "child.finished",
            {"outcome": {"status": "failed", "child": {"run": "r", "head": "h", "events": 1.5}}},
            "/outcome/child/events",
        ),
    ],
)
def test_nothing_is_coerced(kind: str, data: Any, pointer: str) -> None:
    """Missing, unknown and ill-typed fields are refused with their place."""
    with pytest.raises(EventMalformed) as refused:
        codec.structure(kind, data)

    assert (refused.value.kind, refused.value.pointer) == (kind, pointer)


VALUES: list[Any] = [
    None, True, 0, -1, 1.5, "", "ok", "pure", [], ["a"], [1], [{}], {}, {"a": 1}, {"a": "b"},
    {"code": "c", "message": "m"}, {"status": "ok"},
]  # fmt: skip


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a JSON value is of an annotated type: the rule, spelled out."""
    inner = typing.get_args(kind)
    match typing.get_origin(kind):
        case typing.Literal:
            return type(value) is str and value in inner
        case typing.Union | types.UnionType:
            return any(_fits(value, part) for part in inner)
        case origin if origin is dict:
            return type(value) is dict and all(_fits(item, inner[1]) for item in value.values())
        case origin if origin in (list, tuple):
            return type(value) is list and all(_fits(item, inner[0]) for item in value)
        case _:
            pass
    if kind is Any:
        return True
    if attrs.has(kind):
        return type(value) is dict and _holds(value, kind)
    return type(value) in ((int, float) if kind is float else (kind,))


def _holds(data: dict[str, Any], kind: Any) -> bool:
    fields = attrs.fields_dict(kind)
    needed = {name for name, field in fields.items() if field.default is attrs.NOTHING}
    is_known = needed <= data.keys() <= fields.keys()
    return is_known and all(_fits(value, fields[name].type) for name, value in data.items())


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_data_is_taken_if_and_only_if_it_is_of_its_kind(event: events.Event) -> None:
    """Each member replaced by all sorts of values, or gone, or one too many; and told which.

    A member without a value is left out, and never null (CONTRACT.md §2.1).
    """
    types = {field.name: field.type for field in attrs.fields(type(event))}
    kind, whole = codec.kind_of(event), loads(encode(codec.unstructure(event)))
    altered = [(name, whole | {name: value}) for name in attrs.fields_dict(type(event))
               for value in VALUES]  # fmt: skip
    altered += [(name, {k: v for k, v in whole.items() if k != name}) for name in whole]
    altered += [("more", whole | {"more": 1})]

    for name, data in altered:
        is_stated = data.get(name, name) is not None or types[name] is Any
        is_named = data.get("tools") != [{}]
        if is_stated and is_named and _holds(data, type(event)):
            taken = codec.structure(kind, data)
            assert type(taken) is type(event)
            assert codec.structure(kind, loads(encode(codec.unstructure(taken)))) == taken
        else:
            with pytest.raises(EventMalformed) as refused:
                codec.structure(kind, data)
            assert refused.value.pointer.startswith(f"/{name}"), data


def test_unknown_kinds_are_refused_unless_they_are_extensions() -> None:
    """A third party's kind is carried as it is; a newer kind of ours is named."""
    assert codec.structure("x-seen", {"a": 1}) == events.Extension("x-seen", {"a": 1})
    with pytest.raises(EventMalformed):
        codec.structure("x-seen", [])
    with pytest.raises(LogUnsupported, match=r"dream\.dreamt"):
        codec.structure("dream.dreamt", {})


CALL: dict[str, Any] = {"id": "c", "name": "n", "arguments": {}}
ASKED: dict[str, Any] = {"model": "m", "predecessor": "", "base": 0, "parameters": {}}
ADDED: dict[str, Any] = {"predecessor": "", "added": [{"role": "user"}]}
BEGUN: dict[str, Any] = {"scope": "0/1", "agent": "a"}


@for_each(
    "kind, data, wrong, pointer",
    [
        (events.CONVERSATION, BEGUN, {"scope": [None]}, "/scope"),
        (events.CONVERSATION, BEGUN, {"call": 1}, "/call"),
        (events.TOOLS, {"digest": "d", "tools": [1]}, {"tools": {}}, "/tools"),
        (events.MESSAGES, ADDED, {"added": [1]}, "/added/0"),
        (events.MESSAGES, ADDED, {"added": [{"tool_calls": 5}]}, "/added/0/tool_calls"),
        ("model.asked", ASKED | ADDED, {"added": [{"tool_calls": [1]}]}, "/added/0/tool_calls"),
        *(
            ("model.answered", {"status": "ok", "message": {"tool_calls": [CALL]}},
             {"message": {"tool_calls": [CALL | {name: 5}]}}, f"/message/tool_calls/0/{name}")
            for name in CALL
        ),
    ],
)  # fmt: skip
def test_what_readers_rely_on_inside_of_members_is_checked(
    kind: str, data: dict[str, Any], wrong: dict[str, Any], pointer: str
) -> None:
    assert codec.kind_of(codec.structure(kind, data)) == kind
    with pytest.raises(EventMalformed) as refused:
        codec.structure(kind, data | wrong)
    assert refused.value.pointer == pointer


def test_an_extension_of_ours_may_have_more_members() -> None:
    found = codec.structure(events.CONVERSATION, BEGUN | {"more": 1})
    assert found == events.Extension(events.CONVERSATION, BEGUN | {"more": 1})


# --- volatile tails ------------------------------------------------------------------------------

NASTY = ',"duration_ms":1,"run_id":2,"entries":3,"virtual_us":4,"observed":5'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            events.ChildFinished(attrs.evolve(OUTCOME, output={"z": NASTY, "duration_ms": NASTY})),
            {"duration_ms": 99, "child": None},
        ),
        (
            events.ChildStarted({"run_id": NASTY, "x": {"y": 1, "run_id": 2}}, 1, "r"),
            {"run_id": "s"},
        ),
        (
            events.RunFinished("completed", "done", {"a": 1, "entries": NASTY}),
            {"entries": 9, "data_digest": "x", "session_digest": "y"},
        ),
        (events.TimerFired(5, nth=1), {"virtual_us": 7, "nth": 2}),
        (events.LimitHit("timeout_seconds", 1, NASTY, 1.1), {"observed": 1.2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_volatile_tail_is_cut_and_nothing_before_it(
    one: events.Event, other: dict[str, Any]
) -> None:
    """Events that differ in the tail alone have the same digestible bytes, whatever they hold."""
    target = one.outcome if isinstance(one, events.ChildFinished) else one
    changed = attrs.evolve(target, **other)
    second = events.ChildFinished(changed) if isinstance(changed, Outcome) else changed
    kind = codec.kind_of(one)
    first_bytes, second_bytes = encode(codec.unstructure(one)), encode(codec.unstructure(second))

    cut = codec.digestible(kind, first_bytes)

    assert first_bytes != second_bytes
    assert cut == codec.digestible(kind, second_bytes)
    field = b"observed" if kind == "limit.hit" else events.TAILS[kind].encode()
    rest = first_bytes[len(cut) :]
    assert rest.lstrip(b",").startswith(b'"%b":' % field)
    assert rest.count(b'"%b":' % field) == 1, "the user's own member of that name was cut as well"


def test_without_a_tail_all_data_counts() -> None:
    """A limit's reach is volatile for wall time only."""
    data = encode(codec.unstructure(events.LimitHit("max_children", 3, "run", 4)))

    assert codec.digestible("limit.hit", data) == data
    assert codec.digestible("note.added", data) == data


@for_each("kind", sorted(events.TAILS))
def test_only_a_tail_is_cut_off(kind: str) -> None:
    """What is in the digest is all else; where there is no tail, that is all."""
    tail = events.TAILS[kind].encode()

    assert codec.digestible(kind, b'{"a":1}') == b'{"a":1}'
    assert codec.digestible(kind, b'{"a":1,"%b":2}' % tail) == b'{"a":1'
    assert codec.digestible(kind, b'{"%b":2}' % tail) == b"{"
