"""What led to an entry: the chain back to the first line of the root, and all that can have."""

import asyncio
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import EntryMissing, LogDamaged, LogMissing
from refold.engine.log.reader import read_entries
from refold.engine.models import ScriptedModel
from refold.replay.audit.why import Cause, causes
from refold.tools.delegation.subagent import subagent_tool
from refold.tools.files.file_tools import file_tools
from tests.replay.audit.test_verify import rechained
from tests.support.loops import for_each
from tests.support.peaks import bytes_per_entry


@refold.tool(effect="pure")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def one_after_the_other(run: refold.Run, number: int) -> int:
    once: int = await run.tool(double, number=number)
    run.annotate("between")
    twice: int = await run.tool(double, number=once)
    return twice


async def side_by_side(run: refold.Run, numbers: list[int]) -> int:
    doubled = await asyncio.gather(*(run.tool(double, number=number) for number in numbers))
    run.annotate("sum", sum(doubled))
    return sum(doubled)


async def child(run: refold.Run, number: int) -> int:
    return int(await run.tool(double, number=number))


async def parent(run: refold.Run, numbers: list[int]) -> list[Any]:
    started = [await run.start(refold.Delegation(program=child, input=n)) for n in numbers]
    return [outcome.output for outcome in await run.join(*started)]


def _chain(causes: tuple[Cause, ...]) -> list[tuple[str, int, str]]:
    return [(cause.how, cause.seq, cause.kind) for cause in causes if cause.is_main]


def _seq(log: Path, kind: str, number: int = 0) -> int:
    from refold.engine.log.reader import read_entries  # noqa: PLC0415 - in one place only

    return [entry.seq for entry in read_entries(log) if entry.kind == kind][number]


def test_an_outcome_answers_its_request_and_that_came_after_another(tmp_path: Path) -> None:
    log = refold.record(one_after_the_other, 1, log=tmp_path / "a.jsonl", tools=[double]).log

    found = refold.why(log, _seq(log, "tool.returned", 1))

    assert _chain(found) == [
        ("asked about", 5, "tool.returned"),
        ("answers", 4, "tool.called"),
        ("after", 2, "tool.returned"),
        ("answers", 1, "tool.called"),
        ("after", 0, "run.started"),
    ]
    assert [cause.of for cause in found] == [None, 0, 1, 2, 3]
    assert found[1].call == "0#3"
    assert found[1].line == "4 tool.called double(number=2)  0#3"
    assert str(found[1]) == f"{log}: answers {found[1].line}"
    assert found[1].data["arguments"] == {"number": 2}


def test_numbers_from_the_end_mean_the_same_entry(tmp_path: Path) -> None:
    log = refold.record(one_after_the_other, 1, log=tmp_path / "a.jsonl", tools=[double]).log

    assert refold.why(log, -1) == refold.why(log, 6)
    assert _chain(refold.why(log, 0)) == [("asked about", 0, "run.started")]
    for missing in (7, -8, 10**30, -(10**30)):  # beyond what a C long holds, too
        with pytest.raises(EntryMissing) as refused:
            refold.why(log, missing)
        assert refused.value.entries == 7


def test_a_childs_first_line_was_started_by_its_parent(tmp_path: Path) -> None:
    """The chain crosses into the parent's log; an outcome stands beside the child's last line."""
    log = refold.record(parent, [1, 2], log=tmp_path / "a.jsonl", tools=[double]).log
    second = log.with_name("a.2.jsonl")

    of_child = refold.why(second, -1)
    of_parent = refold.why(log, _seq(log, "child.finished"))

    assert [(Path(cause.log).name, cause.kind) for cause in of_child[-3:]] == [
        ("a.2.jsonl", "run.started"), ("a.jsonl", "child.started"), ("a.jsonl", "run.started"),
    ]  # fmt: skip
    assert of_child[-2].how == "started by"
    assert of_child[-2].data["number"] == 2
    (beside,) = [cause for cause in of_parent if not cause.is_main]
    assert (beside.how, beside.kind, beside.of) == ("ends with", "run.finished", 0)
    assert beside.log == str(log.with_name(f"a.{_number(of_parent)}.jsonl"))


def _number(causes: tuple[Cause, ...]) -> Any:
    return next(cause.data["number"] for cause in causes if cause.kind == "child.started")


def test_a_child_without_its_parents_log_ends_with_its_first_line(tmp_path: Path) -> None:
    """Or with another run's log in its place: the first line names the parent's by its hash."""
    log = refold.record(parent, [1], log=tmp_path / "a.jsonl", tools=[double]).log
    alone = tmp_path / "else" / "a.1.jsonl"
    alone.parent.mkdir()
    shutil.copy(log.with_name("a.1.jsonl"), alone)

    assert refold.why(alone, -1)[-1].kind == "run.started"
    alone.unlink()
    refold.record(parent, [1], log=alone.with_name("a.jsonl"), tools=[double])
    alone.unlink()
    shutil.copy(log.with_name("a.1.jsonl"), alone)
    assert refold.why(alone, -1)[-1].log == str(alone)
    alone.with_name("a.jsonl").write_bytes(b"damaged\n")
    assert refold.why(alone, -1)[-1].log == str(alone)


def test_a_model_request_carries_its_conversation(tmp_path: Path) -> None:
    """The answer that it continues, and the result of each tool call that the answer wanted."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one.txt").write_text("one")
    call: dict[str, Any] = {"name": "read_file", "arguments": {"path": "one.txt"}}
    both = {"tool_calls": [call, {"name": "list_files", "arguments": {}}]}
    log = refold.record(
        "agent",
        {"task": "read"},
        log=tmp_path / "a.jsonl",
        tools=file_tools(tmp_path / "files"),
        model=ScriptedModel([both, "done"]),
    ).log
    asked = _seq(log, "model.asked", 1)
    results = [_seq(log, "tool.returned", number) for number in (0, 1)]

    found = refold.why(log, asked)

    carried = {cause.seq for cause in found if cause.how == "carries"}
    assert carried == set(results)
    assert [kind for _, _, kind in _chain(found)] == [
        "model.asked", "tool.returned", "tool.called", "model.answered", "model.asked",
        "run.started",
    ]  # fmt: skip
    every = {cause.seq for cause in refold.why(log, asked, every=True)}
    assert every == set(range(asked + 1))


def test_every_entry_that_can_have_led_there(tmp_path: Path) -> None:
    """What was gathered before, in whichever order it came; nothing that came later."""
    log = refold.record(side_by_side, [1, 2, 3], log=tmp_path / "a.jsonl", tools=[double]).log
    note = _seq(log, "note.added")

    chain = {cause.seq for cause in refold.why(log, note)}
    every = refold.why(log, note, every=True)
    first = refold.why(log, _seq(log, "tool.called", 1), every=True)

    assert len(chain) == 4
    assert {cause.seq for cause in every} == set(range(note + 1))
    assert [cause.seq for cause in every] == sorted(range(note + 1), reverse=True)
    assert {cause.kind for cause in first} == {"tool.called", "run.started"}
    assert len(first) == 2


def test_what_a_branch_did_last_led_to_what_comes_after_it(tmp_path: Path) -> None:
    """Though the entry names the one before as what it came after."""

    async def branch(run: refold.Run) -> None:
        await run.tool(double, number=1)
        run.annotate("done")

    async def program(run: refold.Run, _input: Any) -> None:
        await asyncio.create_task(branch(run))
        run.annotate("all done")

    log = refold.record(program, log=tmp_path / "a.jsonl", tools=[double]).log
    one, other = _seq(log, "note.added"), _seq(log, "note.added", 1)

    every = refold.why(log, other, every=True)

    assert other == one + 1
    assert {cause.seq for cause in every} == set(range(other + 1))


def test_every_entry_of_a_child_led_to_what_its_parent_made_of_it(tmp_path: Path) -> None:
    """All children that were joined, whichever came last."""
    log = refold.record(parent, [1, 2], log=tmp_path / "a.jsonl", tools=[double]).log

    found = refold.why(log, -1, every=True)

    logs = {Path(cause.log).name: 0 for cause in found}
    for cause in found:
        logs[Path(cause.log).name] += 1
    assert logs == {"a.jsonl": 6, "a.1.jsonl": 4, "a.2.jsonl": 4}
    assert next(iter(logs)) == "a.jsonl"


def test_what_a_delegation_tool_returned_follows_from_its_children(tmp_path: Path) -> None:
    """It is program code: after the last outcome, and an answer to its own request."""

    async def delegating(run: refold.Run, task: str) -> Any:
        return await run.tool("subagent", task=task)

    log = refold.record(
        delegating,
        "dig",
        log=tmp_path / "a.jsonl",
        tools=[subagent_tool()],
        model=ScriptedModel(["found"]),
    ).log

    found = refold.why(log, _seq(log, "tool.returned"))

    assert _chain(found)[1][2] == "child.finished"
    assert ("answers", "tool.called") in {(cause.how, cause.kind) for cause in found[1:]}


def test_what_is_cancelled_and_what_comes_too_late_concerns_its_request(tmp_path: Path) -> None:
    """What came too late led to nothing that the program did, and nothing of that led to it."""
    begun, is_cancelled, is_done = threading.Event(), threading.Event(), threading.Event()

    @refold.tool(effect="changes")
    def slow() -> None:
        """Take until it is cancelled; a run waits for what may change the world."""
        begun.set()
        is_cancelled.wait(60)
        is_done.set()

    async def cancelling(run: refold.Run, _: Any) -> None:
        waiting = asyncio.ensure_future(run.tool(slow))
        await run.sleep(0.01)
        begun.wait(60)
        waiting.cancel()
        await asyncio.wait([waiting])
        is_cancelled.set()
        is_done.wait(60)

    log = refold.record(cancelling, None, log=tmp_path / "a.jsonl", tools=[slow]).log

    cancelled = refold.why(log, _seq(log, "effect.cancelled"))
    late = refold.why(log, _seq(log, "effect.late"), every=True)

    assert ("concerns", "tool.called") in {(each.how, each.kind) for each in cancelled}
    assert [(each.how, each.kind) for each in late] == [
        ("asked about", "effect.late"), ("concerns", "tool.called"), ("after", "run.started"),
    ]  # fmt: skip


def test_a_timer_is_no_act_of_the_program(tmp_path: Path) -> None:
    """What the program did before it fired led to nothing."""

    async def timed(run: refold.Run, _: Any) -> None:
        run.annotate("waits")
        await run.sleep(0.01)

    log = refold.record(timed, None, log=tmp_path / "a.jsonl").log

    found = refold.why(log, _seq(log, "timer.fired"), every=True)

    assert [(each.how, each.kind) for each in found] == [
        ("asked about", "timer.fired"), ("after", "run.started"),
    ]  # fmt: skip


def test_no_outcome_ends_with_the_log_of_another_child(tmp_path: Path) -> None:
    """It leads back to its own start, which may come later: round and round."""
    log = refold.record(parent, [1, 2], log=tmp_path / "a.jsonl", tools=[double]).log
    one, two = (log.with_name(f"a.{number}.jsonl") for number in (1, 2))
    kept = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(kept)

    found = [refold.why(log, _seq(log, "child.finished", number), every=True) for number in (0, 1)]

    assert {cause.log for causes in found for cause in causes} == {str(log)}


@for_each("outcome", ['"child":{"events":"0#1"}', '"child":7', '"child":{}'])
def test_an_outcome_that_names_no_end_has_none(outcome: str, tmp_path: Path) -> None:
    """The chain holds, and an entry says what none says: that is for `verify` to tell."""
    log = refold.record(parent, [1], log=tmp_path / "a.jsonl", tools=[double]).log
    rechained(log, lambda body: re.sub(rb'"child":\{[^}]*\}', outcome.encode(), body))

    assert {cause.log for cause in refold.why(log, -1, every=True)} == {str(log)}


def test_what_is_no_log_or_damaged_is_an_error(tmp_path: Path) -> None:
    """Up to the entry that is asked about: what stands behind it does not matter."""
    log = refold.record(one_after_the_other, 1, log=tmp_path / "a.jsonl", tools=[double]).log
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], b"{}\n", *lines[5:]]))

    assert refold.why(log, 3)[0].kind == "note.added"
    with pytest.raises(LogDamaged):
        refold.why(log, 5)
    with pytest.raises(LogMissing):
        refold.why(tmp_path / "gone.jsonl", 0)


def test_what_led_to_the_last_entry_of_a_torn_log_is_told(tmp_path: Path) -> None:
    """A run that was killed in the middle of a line is asked about most."""
    log = refold.record(one_after_the_other, 1, log=tmp_path / "a.jsonl", tools=[double]).log
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], lines[4][:20]]))

    assert refold.why(log, -1)[0].seq == 3


def test_a_cause_is_plain_data(tmp_path: Path) -> None:
    """Documented members, for machines; what the log holds is left to the log."""
    log = refold.record(one_after_the_other, 1, log=tmp_path / "a.jsonl", tools=[double]).log

    first = next(read_entries(log))
    assert refold.why(log, 1)[1].as_json() == {
        "wall_us": first.meta["wall_us"],
        "where": "",
        "log": str(log),
        "seq": 0,
        "kind": "run.started",
        "call": "",
        "how": "after",
        "of": 0,
        "is_main": True,
        "line": "0 run.started one_after_the_other",
    }
    assert refold.why(log, -1)[0].line == "6 run.finished completed"


async def wanting(run: refold.Run, turns: int) -> None:
    """Call the tool that a model wants, turn by turn."""
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        messages = [*messages[-1:], {"role": "user", "content": f"question {number}"}]
        messages.append((await run.model(messages)).message)
        await run.tool(double, number=number)
        wanted = messages[-1]["tool_calls"][0]["id"]
        messages.append({"role": "tool", "tool_call_id": wanted, "content": f"so {number}"})


async def in_crowds(run: refold.Run, crowds: int) -> None:
    for _ in range(crowds):
        await side_by_side(run, [1, 2, 3])


@pytest.mark.long
@pytest.mark.parametrize(("program", "entries"), [(wanting, 4), (in_crowds, 7)])
def test_why_takes_a_few_bytes_an_entry(tmp_path: Path, program: Any, entries: int) -> None:
    """Of a log, however its entries hang together; some eight times as many as objects took."""

    def recorded(count: int) -> Path:
        calls = [
            {"id": f"w{n}", "name": "double", "arguments": {"number": n}} for n in range(count)
        ]
        answers = [{"tool_calls": [call]} for call in calls]
        log = tmp_path / f"{count}.jsonl"
        refold.record(
            program, count // entries, log=log, model=ScriptedModel(answers), durability="fast"
        )
        return log

    logs = {count: recorded(count) for count in (500, 4_500)}

    assert bytes_per_entry(lambda count: causes(logs[count], -1, most=20)) < 60


async def fails_first(run: refold.Run, n: int) -> int:
    """Divide by zero for the first child."""
    await run.sleep(0.001 * n)
    return 10 // (n - 1)


async def raises_first(run: refold.Run, how: str) -> None:
    """Raise the failure of the first of two, after the second has ended."""
    kids = [await run.start(refold.Delegation(program=fails_first, input=n)) for n in (1, 2)]
    first, _ = await run.join(*kids)
    try:
        first.result()
    except refold.ChildFailed as error:
        if how == "from":
            raise RuntimeError("no") from error
        if how == "group":
            raise ExceptionGroup("no", [error]) from None
        raise


@for_each("how", ["itself", "from", "group"])
def test_the_end_of_a_failed_run_leads_to_the_failure_that_it_raises(
    tmp_path: Path, how: str
) -> None:
    """And not to the child that was delivered last, which is beside it."""
    run = refold.record(raises_first, how, log=tmp_path / "a.jsonl")

    _, beside, failure, *_ = refold.why(run.log, -1)

    assert (failure.how, failure.call, failure.is_main) == ("raises", "0#1", True)
    assert (beside.how, beside.call, beside.is_main) == ("after", "0#2", False)
