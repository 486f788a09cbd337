"""What a program waits for is delivered in the order that it asked for (CONTRACT.md §9.2)."""

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from refold.engine.events.outcome import Outcome, Report
from refold.engine.kernel.pending import Child, Join, Pending
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.delegation.dispatch_subagents import subagents_tool
from tests.support.loops import some
from tests.support.scripted_runners import Scripted
from tests.support.typed_programs import Ticket, next_ticket, wrong

DONE = Outcome(status="completed")


def children() -> tuple[Child, Child]:
    """Return two children that still run."""
    return Child("0#1", 1, "a"), Child("0#2", 2, "b")


def test_a_join_takes_outcomes_in_the_order_asked() -> None:
    """Whatever ended first waits until it is its turn."""
    one, two = children()
    join = Join((two, one), first=False, pending=Pending("", "join", ""))
    before = (join.awaits("0#1"), join.awaits("0#2"))

    two.outcome = DONE

    assert before == (False, True)
    assert (join.awaits("0#1"), join.awaits("0#2")) == (True, False)
    assert not join.is_settled()


def test_a_join_is_settled_when_all_have_ended() -> None:
    """And takes nothing more."""
    one, two = children()
    join = Join((one, two), first=False, pending=Pending("", "join", ""))

    one.outcome = two.outcome = DONE

    assert join.is_settled()
    assert not join.awaits("0#1")


def test_whichever_is_first_settles_a_join_first() -> None:
    """It would take any of its children, and none of others."""
    one, two = children()
    join = Join((one, two), first=True, pending=Pending("", "join", ""))

    assert [join.awaits(call) for call in ("0#1", "0#2", "0#3")] == [True, True, False]
    two.outcome = DONE
    assert join.is_settled()


def test_sets_of_children_are_in_the_order_of_their_starts() -> None:
    """A program may keep them in one, and cancel or join all that are left, in any process."""
    made = [Child(f"0#{number}", number, "") for number in range(40)]

    assert [child.number for child in {*made[20:], *made[:20]}] == list(range(40))
    assert made[1] != Child("0#1", 1, "")


def test_a_result_wakes_who_waits_for_it() -> None:
    """A value or an error; and who asks later gets the same."""
    loop = asyncio.new_event_loop()
    good, bad = Pending("0#1", "tool", "t"), Pending("0#2", "tool", "t")
    good.future, bad.future = loop.create_future(), loop.create_future()

    good.resolve(7, None)
    bad.resolve(None, LookupError("no"))

    assert (good.future.result(), good.take(), good.is_done) == (7, 7, True)
    assert isinstance(bad.future.exception(), LookupError)
    with pytest.raises(LookupError):
        bad.take()
    loop.close()


def test_a_result_for_nobody_is_kept() -> None:
    """Its waiter was cancelled: resolving is no error."""
    loop = asyncio.new_event_loop()
    pending = Pending("0#1", "tool", "t")
    pending.future = loop.create_future()
    pending.future.cancel()

    pending.resolve(7, None)

    assert pending.take() == 7
    loop.close()


# --- the types of a child's input and output (CONTRACT.md §9.12) ----------------------------------


TICKET = Ticket(1, dt.date(2026, 1, 2))


async def unreadable(_run: Run, _input: bytes) -> None:
    """Take what no log holds."""


def runs_child(program: Any, value: Any = None, **options: Any) -> Any:
    """Return a program that runs a child, and says what it got."""

    async def lead(run: Run, _input: Any) -> list[Any]:
        outcome = await run.delegate(Delegation(program=program, input=value, **options))
        error = outcome.error and [outcome.error.code, outcome.error.message]
        return [outcome.status, type(outcome.output).__name__, outcome.output, error]

    return lead


@pytest.mark.parametrize(
    ("program", "runner"),
    [
        (next_ticket, "in-process"),
        (f"{next_ticket.__module__}:next_ticket", "in-process"),
        (next_ticket, "subprocess"),  # it has it by its name
    ],
    ids=["it", "name", "elsewhere"],
)
def test_a_parent_gets_the_type_of_its_child(program: Any, runner: str, tmp_path: Path) -> None:
    """In this process or in another, by the object or by name; and in a replay."""
    lead = runs_child(program, TICKET)
    recording = record(lead, log=tmp_path / "a.jsonl", runner=runner)

    plain = {"id": 2, "due": "2026-01-02"}
    assert recording.output == ["completed", "Ticket", plain, None]
    assert reexecute(recording, lead).identical


@pytest.mark.parametrize("runner", some(1, ["in-process", "subprocess"]))
def test_an_output_of_another_type_fails_the_child(runner: str, tmp_path: Path) -> None:
    """Its parent gets an outcome with the reason, under every runner."""
    lead = runs_child(wrong)
    recording = record(lead, log=tmp_path / "a.jsonl", runner=runner)

    status, _, output, error = recording.output
    assert (status, output) == ("failed", None)
    assert error[0] == "output"
    assert error[1] == (
        "the output of program 'wrong', at /due: expected an ISO 8601 date, found string 'soon'; "
        "return a value that fits its annotation, or change the annotation"
    )
    assert reexecute(recording, lead).identical


def test_an_outcome_that_does_not_fit_is_malformed(tmp_path: Path) -> None:
    """That of a runner of one's own: the log has what the parent gets."""
    lead = runs_child(next_ticket, TICKET)
    runners = {"scripted": Scripted(Outcome(status="completed", output={"id": 2}))}
    recording = record(lead, log=tmp_path / "a.jsonl", runner="scripted", runners=runners)

    status, _, output, error = recording.output
    assert (status, output, error[0]) == ("malformed", None, "output")
    assert "at /due: expected a value, which is required, found none" in error[1]
    assert reexecute(recording, lead).identical


@pytest.mark.parametrize(
    ("program", "value", "said"),
    [
        (next_ticket, {"id": 1}, "ValueRefused: the input of program 'next_ticket', at /due"),
        (unreadable, None, "TypeRefused: program 'unreadable', parameter '_input': bytes"),
    ],
)
def test_a_child_that_cannot_get_its_input_is_not_started(
    program: Any, value: Any, said: str, tmp_path: Path
) -> None:
    """The caller's mistake is an exception in the caller, and nothing is in the log."""
    lead = runs_child(program, value)
    recording = record(lead, log=tmp_path / "a.jsonl")

    assert recording.error is not None
    assert recording.error.message.startswith(said)
    assert recording.entries == 2
    assert reexecute(recording, lead).identical


def test_a_recorded_outcome_that_no_longer_fits_is_a_divergence(tmp_path: Path) -> None:
    """The annotation has changed since: the replay names the outcome, and what does not fit."""

    def made(kind: Any) -> Any:
        async def child(_run: Run, _input: Any) -> kind:
            return {"id": 1, "due": "2026-01-02"}

        return runs_child(child)

    recording = record(made(Any), log=tmp_path / "a.jsonl")
    below, divergence = reexecute(recording, made(list[int])).divergences

    assert below.category == "output_changed"  # the child ends before its outcome arrives
    assert divergence.category == "result_changed"
    assert divergence.call == "0#1"
    assert "the output of program 'child': expected an array, found object of 2" in divergence.cause


def test_texts_for_models_have_the_json_of_a_typed_output(tmp_path: Path) -> None:
    """A delegation tool words what the log has, not the value that was made of it."""

    async def clerk(_run: Run, _task: Any) -> Ticket:
        return Report(summary="", output=TICKET)  # type: ignore[return-value]  # a report, at times

    tool = subagents_tool(program=clerk)

    async def lead(run: Run, _input: Any) -> Any:
        return await run.tool(tool, tasks=[{"objective": "Do it."}])

    recording = record(lead, log=tmp_path / "a.jsonl", session=Session())

    assert '{"id":1,"due":"2026-01-02"}' in str(recording.output)
