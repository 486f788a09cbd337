"""What depends on a recorded outcome: a later request, the end of the run, or nothing (§12.9)."""

import asyncio
import json
from pathlib import Path
from typing import Any, Literal, TypedDict

import attrs
import pytest

from refold import sensitivity
from refold.engine.errors import Diverged, UsageError
from refold.engine.events.outcome import Usage
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import Delegation, ModelReply, ModelRequest
from refold.engine.program.run import Run
from refold.replay.what_if.sensitivity import CallSensitivity, SensitivityReport
from refold.tools.contract.tool_types import tool
from tests.support.racing import followed, gathered, raced, recorded


def altered(tmp_path: Path, program: Any, **options: Any) -> SensitivityReport:
    """Record a program and alter what it was given."""
    own = {name: options.pop(name) for name in ("on_call",) if name in options}
    return sensitivity(recorded(tmp_path / "a.jsonl", program, **options).log, program, **own)


def row(report: SensitivityReport, call: str) -> CallSensitivity:
    return next(one for one in report.calls if one.call == call)


def test_what_is_returned_shows(tmp_path: Path) -> None:
    """With the places in the output where it does."""
    report = altered(tmp_path, gathered)

    assert str(row(report, "0/2#1").altered) == "shows in /output/1"
    assert report.headline().endswith("the run depends on every one that could be altered")
    assert [one.verdict for one in report.calls] == ["shows"] * 3
    effect = row(report, "0/2#1").altered
    assert effect is not None
    assert [one.pointer for one in effect.diff] == ["/output/1"]
    assert report.unneeded == ()


@pytest.mark.parametrize(("times", "more"), [(3, ""), (4, " and 1 more")])
def test_of_many_places_the_first_are_named(tmp_path: Path, times: int, more: str) -> None:
    async def repeating(run: Run, _: Any) -> Any:
        return [await run.tool("fetch", name="a")] * times

    shown = str(altered(tmp_path, repeating).calls[0].altered)

    assert shown == f"shows in /output/0, /output/1, /output/2{more}"


@tool(effect="reads")
def pair() -> list[int]:
    """Return two numbers."""
    return [1, 2]


async def counting(run: Run, _: Any) -> Any:
    """Looks at how many there are, not at what they are."""
    return len(await run.tool("pair"))


def test_a_variant_that_shows_goes_before_the_first_one(tmp_path: Path) -> None:
    """Of a list, other members change nothing here, and fewer do."""
    assert altered(tmp_path, counting, tools=[pair]).calls[0].verdict == "shows"


async def searching(run: Run, _: Any) -> Any:
    """Asks for what it was told, looks at something in passing, and returns a constant."""
    found = await run.tool("fetch", name="a")
    await run.tool("fetch", name="unused")
    await run.tool("fetch", name=found)
    return "done"


def test_what_is_asked_on_steers(tmp_path: Path) -> None:
    """The first request that is another one is named."""
    report = altered(tmp_path, searching)

    assert [one.verdict for one in report.calls] == ["steers", "nothing", "nothing"]
    assert str(row(report, "0#2").altered) == "nothing depends on it"
    effect = row(report, "0#1").altered
    assert effect is not None
    assert effect.changed == 'fetch#3 (name="page a (altered)")'
    assert (effect.changed_call, effect.is_gone) == ("0#3", False)
    assert [one.call for one in report.unneeded] == ["0#2", "0#3"]


def test_a_failure_is_not_said_to_be_without_influence(tmp_path: Path) -> None:
    """Its error is altered; what a success would have done is not known."""

    async def fails(_run: Run, number: int) -> int:
        return number // (number - 1)

    async def chosen(run: Run, _: Any) -> Any:
        ended = [await run.delegate(Delegation(program=fails, input=each)) for each in (1, 2)]
        return [each.output for each in ended if each.ok]

    report = altered(tmp_path, chosen)

    assert str(report.calls[0].altered) == "nothing depends on its error; a success was not tried"
    assert report.unneeded == ()
    assert "the run depends on every success that could be altered" in report.headline()
    assert report.left_out() == ["altered only in its error, because the call failed: 1"]


async def stopping(run: Run, _: Any) -> Any:
    """Goes on only if it likes what it sees."""
    if await run.tool("fetch", name="a") == "page a":
        await run.tool("fetch", name="b")


def test_a_request_that_is_not_made_any_more_is_named(tmp_path: Path) -> None:
    effect = row(altered(tmp_path, stopping), "0#1").altered

    assert effect is not None
    assert (effect.changed_call, effect.is_gone) == ("0#2", True)
    assert str(effect) == 'steers fetch#2 (name="b"), which is not made'


async def drawing(run: Run, _: Any) -> Any:
    """Uses one of the values that it draws."""
    run.uuid()
    run.random("s").random()
    run.read_text("no such file")
    return run.random().random()


def test_drawn_values_are_altered_too(tmp_path: Path) -> None:
    """A uuid, a random stream, a file's text; each by itself."""
    report = altered(tmp_path, drawing)

    assert [(one.kind, one.verdict) for one in report.calls] == [
        ("value", "nothing"),
        ("value", "nothing"),
        ("value", "nothing"),
        ("value", "shows"),
    ]


@attrs.frozen
class Sized:
    size: int
    kind: str


@tool(effect="reads")
def measure(name: str) -> list[Sized]:
    """Return what cannot be any text."""
    return [Sized(len(name), "file")]


@tool(effect="reads")
def nothing(name: str) -> None:
    """Return nothing."""


def test_a_typed_result_stays_of_its_type(tmp_path: Path) -> None:
    async def measured(run: Run, _: Any) -> Any:
        (found,) = await run.tool(measure, name="abc")
        return found.size

    effect = altered(tmp_path, measured).calls[0].altered

    assert effect is not None
    assert (effect.diff[0].before, effect.diff[0].after) == (3, 4)


def test_what_has_no_other_value_is_not_altered(tmp_path: Path) -> None:
    async def idle(run: Run, _: Any) -> Any:
        await run.tool(nothing, name="a")

    report = altered(tmp_path, idle)

    assert report.calls[0].verdict == "not altered"
    assert report.unneeded == ()
    assert report.headline().endswith("1 recorded outcome, none altered")
    assert "no other value" in str(report)


def test_what_models_and_children_cost_is_added_up(tmp_path: Path) -> None:
    """Tokens of those that nothing depends on."""

    def answer(_: ModelRequest) -> ModelReply:
        message = {"role": "assistant", "content": "hi"}
        return ModelReply(message=message, usage=Usage(input_tokens=5, output_tokens=2, requests=1))

    async def child(run: Run, _: Any) -> Any:
        await asyncio.sleep(0.003)
        return (await run.model([{"role": "user", "content": "c"}])).message["content"]

    async def talking(run: Run, _: Any) -> Any:
        used = await run.model([{"role": "user", "content": "a"}])
        await run.model([{"role": "user", "content": "b"}])
        await run.delegate(Delegation(program=child, brief="in vain"))
        return used.message["content"]

    report = altered(tmp_path, talking, model=FunctionModel(answer))

    assert [(one.kind, one.verdict, one.tokens) for one in report.calls] == [
        ("model", "shows", 7),
        ("model", "nothing", 7),
        ("child", "nothing", 7),
    ]
    assert report.calls[2].duration_ms >= 2
    assert report.tokens_unneeded == 14
    assert "nothing depends on 2 of 3 recorded outcomes (14 tokens" in str(report)


class Answer(TypedDict):
    """What a typed child returns."""

    verdict: Literal["yes", "no"]
    count: int


def test_another_output_of_a_child_has_its_type(tmp_path: Path) -> None:
    """What does not fit the annotation stays as it is, and the rest is altered."""

    async def child(_run: Run, _: Any) -> Answer:
        return {"verdict": "yes", "count": 1}

    async def asking(run: Run, _: Any) -> Any:
        return (await run.delegate(Delegation(program=child))).result()

    report = altered(tmp_path, asking)

    assert [(one.kind, one.verdict) for one in report.calls] == [("child", "shows")]
    assert report.calls[0].altered is not None
    assert [one.pointer for one in report.calls[0].altered.diff] == ["/output/count"]


async def lost(run: Run, _: Any) -> Any:
    """Asks for something else altogether where it is told something else."""
    if await run.tool("fetch", name="a") != "page a":
        return await run.model([{"role": "user", "content": "what now?"}])
    return None


def test_a_way_that_was_never_recorded_ends_the_trial(tmp_path: Path) -> None:
    """It steers, and what it would show is not known."""
    only = altered(tmp_path, lost).calls[0]

    assert only.verdict == "steers"
    assert only.altered is not None
    assert "never recorded" in only.altered.stopped


def test_calls_are_sorted_by_their_keys(tmp_path: Path) -> None:
    """By number, not by text; whatever the order in which they came."""

    async def wide(run: Run, _: Any) -> Any:
        pages = await asyncio.gather(*(run.tool("fetch", name=str(n)) for n in range(11)))
        return [*pages, await run.tool("fetch", name="last")]

    told: list[tuple[int, int]] = []
    report = altered(tmp_path, wide, on_call=lambda number, count: told.append((number, count)))

    calls = [one.call for one in report.calls]
    assert calls == ["0#1", *(f"0/{number}#1" for number in range(1, 12))]
    assert told[-1] == (12, 12)


def test_others_are_left_alone_where_only_some_are_asked_for(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", searching).log

    assert [one.call for one in sensitivity(log, searching, only="unused").calls] == ["0#2"]
    with pytest.raises(UsageError, match=r"only='unsued': no call has this in its label"):
        sensitivity(log, searching, only="unsued")


def test_a_report_is_a_document(tmp_path: Path) -> None:
    document = altered(tmp_path, followed).as_json()

    assert json.loads(json.dumps(document)) == document
    assert document["unneeded"] == 2


def test_another_program_is_refused(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", gathered).log

    with pytest.raises(Diverged):
        sensitivity(log, raced)


def test_what_was_not_altered_is_listed(tmp_path: Path) -> None:
    """What has no other value, what was not named, what the record gave up on."""

    async def hedging(run: Run, names: list[str]) -> None:
        lost = asyncio.create_task(run.tool(waits))
        await asyncio.gather(*(run.tool("fetch", name=name) for name in names), run.tool(nothing))
        lost.cancel()

    @tool(effect="reads")
    async def waits() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    @tool(effect="reads")
    def nothing() -> None:
        """Give nothing."""

    log = recorded(tmp_path / "a.jsonl", hedging, ["a", "b"]).log

    whole, some = sensitivity(log, hedging), sensitivity(log, hedging, only="fetch")

    assert whole.left_out() == [
        "not altered, because no other value is possible: 1",
        "cancelled in the recording, so without an outcome: waits#1 in 0/1",
    ]
    assert some.left_out()[0] == "not altered, because not selected: 1"
    assert str(some).endswith("\n".join(some.left_out()))
