"""A child that fails or is left alone without a word is one of the recording's warnings (§9.10)."""

import asyncio
import copy
import inspect
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.kernel.pending import Child
from refold.engine.kernel.unawaited import Neglected
from refold.engine.models import FunctionModel, ScriptedModel
from tests.support.loops import for_each

pytestmark = pytest.mark.filterwarnings("ignore:.*(subagent|Outcome|cut off).*:RuntimeWarning")


async def fails(_run: refold.Run, n: int) -> int:
    """Fail."""
    raise ValueError(n)


async def works(run: refold.Run, n: int) -> int:
    """Wait a moment."""
    await run.sleep(0.001)
    return n


async def _started(run: Any, program: Any, count: int = 3) -> list[Any]:
    return [await run.start(refold.Delegation(program=program, input=n)) for n in range(count)]


async def reads_outputs(run: refold.Run, _: Any) -> Any:
    """Read what the failed children do not have; the third is rejected."""
    return [outcome.output for outcome in await run.join(*await _started(run, fails))]


async def reads_none(run: refold.Run, _: Any) -> Any:
    """Throw an outcome away."""
    await run.delegate(refold.Delegation(program=fails, input=1))
    return "fine"


async def joins_none(run: refold.Run, _: Any) -> Any:
    """End while two children run."""
    await _started(run, works, 2)
    return "all done"


async def joins_one(run: refold.Run, _: Any) -> Any:
    """End while one of two children runs."""
    first, _second = await _started(run, works, 2)
    return (await run.join(first))[0].result()


def plain(run: Any, _: Any) -> Any:
    """Read nothing, as a plain program."""
    run.delegate(refold.Delegation(program=fails, input=1))
    return "fine"


@for_each(
    "program, told",
    [
        (reads_outputs, "3 of 3 subagents did not complete, and nobody read status, error or"),
        (reads_none, "1 of 1 subagent did not complete, and nobody read status, error or"),
        (joins_none, "2 of 2 subagents were never joined: those still running were cancelled"),
        (joins_one, "1 of 2 subagents was never joined: those still running were cancelled"),
        (plain, "1 of 1 subagent did not complete, and nobody read status, error or"),
    ],
)
def test_it_is_said_once_with_the_place_and_the_command(
    tmp_path: Path, program: Any, told: str
) -> None:
    limits = refold.Limits(max_children=2)
    recording = refold.record(program, log=tmp_path / "a.jsonl", limits=limits, check=False)

    assert recording.status == "completed"
    (warning,) = recording.warnings
    place = f"{__file__}:{inspect.getsourcelines(program)[1]}: "
    assert warning.startswith(place + told), warning
    assert warning.endswith(f": refold show {tmp_path / 'a.jsonl'} --failed")
    assert refold.reexecute(recording, program).identical


async def trusts_the_answer(run: Any, _: Any) -> str:
    """Take a child's answer that its model did not finish for a whole one."""
    child = refold.Delegation(program="agent", input={"task": "t"})
    return str((await run.delegate(child)).result())


def test_an_answer_that_was_cut_off_is_a_warning_of_its_parent(tmp_path: Path) -> None:
    model = ScriptedModel([{"text": "half", "stop_reason": "length"}])

    recording = refold.record(
        trusts_the_answer, None, log=tmp_path / "a.jsonl", model=model, check=False
    )

    (warning,) = recording.warnings
    assert "1 of 1 subagent returned an answer that its provider cut off" in warning
    assert warning.endswith("a.jsonl --notable")


async def leaves_calls(run: refold.Run, _: Any) -> str:
    """End while tasks wait for two calls, a model's answer and a child, and one only sleeps."""
    tasks: list[Any] = [asyncio.create_task(run.tool(look, n=n)) for n in range(2)]
    tasks.append(asyncio.create_task(run.ask("Ready?")))
    tasks.append(asyncio.create_task(run.delegate(refold.Delegation(program=works, input=1))))
    tasks.append(asyncio.create_task(run.sleep(60)))
    return "all done"


@refold.tool(effect="reads")
async def look(n: int) -> int:
    """Never return."""
    await asyncio.Event().wait()
    return n


@pytest.mark.filterwarnings("ignore:cancelled when:RuntimeWarning")
def test_calls_that_end_with_their_tasks_are_said_by_name(tmp_path: Path) -> None:
    """A task that waits for a time alone, or that the program cancels, is not one."""

    async def cancels_calls(run: refold.Run, _: Any) -> None:
        asyncio.create_task(run.tool(look, n=1)).cancel()

    said = refold.record(leaves_calls, log=tmp_path / "a.jsonl", check=False).warnings
    silent = refold.record(cancels_calls, log=tmp_path / "b.jsonl", check=False).warnings

    (warning,) = said
    told = "cancelled when the program returned: look ×2, input, subagent. Await the task"
    assert warning.partition(": ")[2].startswith(told)
    assert silent == ()
    assert refold.reexecute(tmp_path / "a.jsonl", leaves_calls).identical


async def reads_ok(run: refold.Run, _: Any) -> Any:
    """Look whether each completed."""
    return [outcome.ok for outcome in await run.join(*await _started(run, fails))]


async def reads_status(run: refold.Run, _: Any) -> Any:
    """Look how each ended, by its handle."""
    children = await _started(run, fails)
    await run.join(*children)
    return [child.outcome.status for child in children]


async def reads_error(run: Any, _: Any) -> Any:
    """Look at the faults alone."""
    return [outcome.error.code for outcome in await run.join(*await _started(run, fails))]


async def matches(run: refold.Run, _: Any) -> Any:
    """Look by a pattern."""
    match await run.delegate(refold.Delegation(program=fails, input=1)):
        case refold.Outcome(status="completed"):
            return "fine"
    return "failed"


async def prints(run: refold.Run, _: Any) -> Any:
    """Look at the whole."""
    return repr(await run.delegate(refold.Delegation(program=fails, input=1)))[:25]


async def cancels(run: refold.Run, _: Any) -> Any:
    """End the children oneself, and join only some."""
    children = await _started(run, works)
    for child in children:
        run.cancel(child)
    await run.join(*children[:2])
    return "cancelled"


async def hedges(run: Any, _: Any) -> Any:
    """Take whichever is first."""
    children = await _started(run, works)
    return (await run.join_first(*children)).outcome.result() in (0, 1, 2)


async def raises(run: refold.Run, _: Any) -> Any:
    """Fail, after children were left alone."""
    await _started(run, fails)
    raise ValueError


@for_each(
    "program",
    [reads_ok, reads_status, reads_error, matches, prints, cancels, hedges, raises],
)
def test_who_looks_or_ends_them_is_told_nothing(tmp_path: Path, program: Any) -> None:
    recording = refold.record(program, log=tmp_path / "a.jsonl", check=False)

    assert recording.warnings == ()


async def takes_as_conditions(run: Any, n: int) -> Any:
    """Take outcomes as conditions."""
    for _ in range(n):
        if await run.delegate(refold.Delegation(program=works, input=n)):
            pass
    return "fine" if await run.delegate(refold.Delegation(program=works, input=n)) else "failed"


def test_a_condition_is_told_once_a_line(tmp_path: Path) -> None:
    first = inspect.getsourcelines(takes_as_conditions)[1]

    recording = refold.record(takes_as_conditions, 2, log=tmp_path / "a.jsonl", check=False)

    text = "an Outcome is always true: use outcome.ok, or `is not None`"
    assert recording.warnings == tuple(f"{__file__}:{first + at}: {text}" for at in (3, 5))


async def returns_a_handle(run: Any, _: Any) -> Any:
    """Return what was started."""
    return await run.start(refold.Delegation(program=works, input=1))


async def returns_handles(run: Any, _: Any) -> Any:
    """Return all that were started."""
    return await _started(run, works)


@pytest.mark.parametrize("program", [returns_a_handle, returns_handles])
def test_who_returns_a_handle_is_told(tmp_path: Path, program: Any) -> None:
    recording = refold.record(program, log=tmp_path / "a.jsonl", check=False)

    assert recording.status == "completed"
    assert "the program returned a child instead of its result" in recording.warnings[0]


@for_each(
    "made", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it)), attrs.evolve]
)
def test_the_outcome_of_a_program_is_like_any_other(made: Callable[[Any], Any]) -> None:
    """Equal, of the same hash and words, to be copied; only the first says who reads it."""
    neglected = Neglected()
    plain = refold.Outcome(status="failed", summary="s", tools_used=("a",))

    given = neglected.ended(Child("0#1", 1, "id"), plain)

    assert given == plain
    assert plain == given
    assert hash(given) == hash(plain)
    assert repr(given) == repr(plain)
    assert given != attrs.evolve(plain, summary="t")
    assert given != object()
    assert made(given) == plain
    assert attrs.asdict(given) == attrs.asdict(plain)


def test_the_fields_of_an_outcome_cannot_be_set() -> None:
    given = Neglected().ended(Child("0#1", 1, "id"), refold.Outcome(status="failed"))

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        given.status = "completed"  # type: ignore[misc]  # it is refused


async def asks(run: refold.Run, text: object) -> str:
    reply = await run.model([{"role": "user", "content": str(text)}])
    return str(reply.message["content"])


async def asks_below(run: refold.Run, count: int) -> list[Any]:
    """Have children, and one below each, that ask."""
    kids = [
        await run.start(refold.Delegation(program=asks, input=n, agent="worker"))
        for n in range(count)
    ]
    return [outcome.result() for outcome in await run.join(*kids)]


async def asks_twice(run: refold.Run, _: object) -> str:
    return await asks(run, "a") + await asks(run, "b")


@pytest.mark.filterwarnings("ignore:one list of replies:RuntimeWarning")
@pytest.mark.parametrize(
    ("program", "count", "models", "runs"),
    [
        (asks_below, 3, {"model": ScriptedModel(["a"])}, 3),
        (asks_below, 1, {"model": ScriptedModel(["a"])}, 0),
        (asks_twice, 0, {"model": ScriptedModel(["a"])}, 0),
        (asks_below, 3, {"model": ScriptedModel({"worker": ["a"]})}, 0),
        (asks_below, 3, {"model": ScriptedModel({"*": ["a"]})}, 0),
        (asks_below, 3, {"model": FunctionModel(lambda _: "a")}, 0),
        (asks_below, 3, {"models": {"": ScriptedModel(["a"]), "b": ScriptedModel(["b"])}}, 0),
    ],
)
def test_a_list_of_replies_that_several_runs_ask_is_told_once(
    tmp_path: Path, program: Any, count: int, models: dict[str, Any], runs: int
) -> None:
    """Not if one run asks it, agents have scripts, or two lists share a name; not in a replay."""
    recording = refold.record(program, count, log=tmp_path / "a.jsonl", **models)

    told = [text for text in recording.warnings if f"asked by {runs} runs" in text]
    assert len(told) == len(recording.warnings) == bool(runs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refold.reexecute(recording, program).identical
