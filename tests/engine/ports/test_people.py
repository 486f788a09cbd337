"""What is asked of people, and what fits as an answer (CONTRACT.md §9.9)."""

import asyncio
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

import refold
from refold.engine.errors import AnswerRefused, ToolError, UsageError
from refold.engine.events.outcome import Outcome
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.people import (
    APPROVAL,
    approval_question,
    check_answer,
    check_approved,
    check_question,
)
from refold.engine.ports.ports import CancelSignal, ChildRequest, Question, Suspended
from refold.engine.runners.in_process import InProcess
from refold.replay.reexecute.world import first_event
from tests.support.loops import for_each
from tests.support.unfinished import rows_of

paid: list[int] = []


@refold.tool(effect="changes", approval=True)
def pay(n: int) -> int:
    """Pay."""
    paid.append(n)
    return n


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


async def pays(run: refold.Run, n: int) -> Any:
    """Pay twice at once; say what was denied."""

    async def once(each: int) -> Any:
        try:
            return await run.tool("pay", n=each)
        except ToolError as error:
            return [error.code, error.message]

    return await asyncio.gather(once(n), once(n + 1))


def pays_plainly(run: refold.PlainRun, n: int) -> Any:
    """The same, without await."""
    return run.tool(pay, n=n)


@for_each(
    "schema, answer",
    [(None, [1]), ({"type": "integer"}, 3), (APPROVAL, False), ({"enum": ["a", None]}, None)],
)
def test_an_answer_that_fits_is_taken(schema: dict[str, Any] | None, answer: object) -> None:
    """Any JSON value where there is no schema."""
    check_answer(Question(key="0#1", question="?", schema=schema), answer)


@for_each("schema, answer", [({"type": "integer"}, "3"), (APPROVAL, 1), ({"enum": ["a"]}, "b")])
def test_one_that_does_not_is_none(schema: dict[str, Any], answer: object) -> None:
    """The error says to which question, and what was expected."""
    with pytest.raises(AnswerRefused) as caught:
        check_answer(Question(key="0/1#2", question="?", schema=schema), answer)

    assert caught.value.key == "0/1#2"


@for_each(
    "question, schema",
    [(3, None), (None, None), ("?", {"type": "numeral"}), ("?", {"enum": 3})],
)
def test_a_question_is_a_text_and_its_schema_a_schema(question: object, schema: Any) -> None:
    """Said to the program, before anything is asked."""
    with pytest.raises(UsageError, match=r"must be a string; found|is not a JSON schema: "):
        check_question(question, schema)


def test_the_question_names_the_call() -> None:
    """Arguments as JSON; a long one is cut."""
    assert approval_question("pay", {"n": 7, "to": "a"}) == 'May I call pay(n=7, to="a")?'
    assert len(approval_question("pay", {"to": "a" * 10_000})) < 300


@for_each("answer", [False, None, 1, "true"])
def test_only_true_is_an_approval(answer: object) -> None:
    """Whatever else came of it is a refusal."""
    with pytest.raises(ToolError) as caught:
        check_approved("pay", answer)

    assert caught.value.code == "denied"


def test_a_tool_with_approval_asks_first_and_a_refusal_is_an_error(tmp_path: Path) -> None:
    """§9.9: under a key of its own; recorded, and replayed without the tool."""
    recording = refold.record(
        pays,
        1,
        log=tmp_path / "a.jsonl",
        tools=[pay],
        ask=lambda question: question.question == "May I call pay(n=1)?",
    )

    assert recording.output == [1, ["denied", "the call was not approved"]]
    assert paid == [1]
    kinds = [(row["kind"], row.get("call")) for row in rows_of(recording.log)]
    assert kinds.index(("input.given", "0/1#1")) < kinds.index(("tool.called", "0/1#2"))
    assert ("tool.called", "0/2#2") not in kinds
    assert refold.reexecute(recording.log, pays).identical
    assert refold.verify(recording.log).intact


def test_the_offer_says_so_and_other_offers_are_as_they_were(tmp_path: Path) -> None:
    """§2: `approval` stands in an offer only where it is true."""

    @refold.tool(effect="pure")
    def free(n: int) -> int:
        return n

    async def nothing(_run: refold.Run, _input: Any) -> None:
        return None

    recording = refold.record(nothing, log=tmp_path / "a.jsonl", tools=[free, pay])

    offers = {offer["name"]: offer for offer in first_event(recording.log).tools}
    assert offers["pay"]["approval"] is True
    assert "approval" not in offers["free"]


@pytest.mark.parametrize("change", ["begins", "ceases"])
def test_a_tool_that_begins_or_ceases_to_ask_diverges(change: str, tmp_path: Path) -> None:
    """§12.2: the question is a call of the program like any other."""

    def charge(n: int) -> int:
        return n

    asking = refold.tool(effect="changes", approval=True)(charge)
    silent = refold.tool(effect="changes")(charge)
    then, now = (silent, asking) if change == "begins" else (asking, silent)

    async def charges(run: refold.Run, chosen: Any) -> Any:
        return await run.tool("charge", n=chosen)

    recording = refold.record(
        charges, 1, log=tmp_path / "a.jsonl", tools=[then], ask=lambda _question: True
    )

    assert recording.ok
    assert refold.reexecute(recording.log, charges).identical
    assert not refold.reexecute(recording.log, charges, tools=[now]).identical


def test_a_plain_program_is_asked_too(tmp_path: Path) -> None:
    """§9.9: and is suspended inside its call."""
    recording = refold.record(pays_plainly, 3, log=tmp_path / "a.jsonl")

    (question,) = recording.questions
    assert (recording.status, question.question, paid) == ("suspended", "May I call pay(n=3)?", [])
    again = refold.resume(recording.log, pays_plainly, answers={question.key: True})
    assert (again.output, paid) == (3, [3])


def test_a_model_is_told_that_a_call_was_denied(tmp_path: Path) -> None:
    """§9.9: the loop of an agent goes on."""
    script: list[Any] = [{"name": "pay", "arguments": {"n": 5}}, "I may not."]
    given = {"agent": {"name": "a"}, "task": "pay"}
    recording = refold.record(
        "agent",
        given,
        log=tmp_path / "a.jsonl",
        tools=[pay],
        model=ScriptedModel(script),
        ask=lambda _question: False,
    )

    assert (recording.status, paid) == ("completed", [])
    assert b"denied: the call was not approved" in recording.log.read_bytes()
    assert refold.reexecute(recording.log).identical


def test_a_tool_that_runs_in_place_is_asked_for_as_well(tmp_path: Path) -> None:
    """§9.9: nothing runs before the answer."""
    seen: list[int] = []

    def ask(_question: Question) -> bool:
        seen.append(len(paid))
        return True

    recording = refold.record(pays_plainly, 4, log=tmp_path / "a.jsonl", ask=ask)

    assert (recording.output, seen, paid) == (4, [0], [4])


# --- whoever is asked --------------------------------------------------------------------------


async def asks(run: refold.Run, _input: Any) -> Any:
    """Ask for a number."""
    return await run.ask("How many?", {"type": "integer"})


def test_whoever_cannot_answer_leaves_the_question_open(tmp_path: Path) -> None:
    """§9.9: with `Unanswered`, or with whatever they raise; why stands beside the question."""

    def failing(_question: Question) -> int:
        raise ConnectionError("nobody there")

    def declining(_question: Question) -> int:
        raise refold.Unanswered("later")

    for number, (ask, why) in enumerate(
        [(failing, "ConnectionError: nobody there"), (declining, "later"), (lambda _q: "x", "'x'")]
    ):
        recording = refold.record(asks, log=tmp_path / f"a{number}x.jsonl", ask=ask)
        (question,) = recording.questions
        assert recording.status == "suspended"
        assert why in question.problem
        assert [row["kind"] for row in rows_of(recording.log)] == ["run.started", "input.asked"]


def test_questions_are_sorted_by_their_keys(tmp_path: Path) -> None:
    """§9.9: by their numbers, so that 2 is before 10."""

    async def many(run: refold.Run, n: int) -> Any:
        return await asyncio.gather(*(run.ask(str(each)) for each in range(n)))

    recording = refold.record(many, 12, log=tmp_path / "a.jsonl")

    assert [question.question for question in recording.questions] == [str(n) for n in range(12)]
    assert orjson.loads(recording.log.read_bytes().splitlines()[-1])["kind"] == "input.asked"


async def asks_for_leave(run: refold.Run, _input: Any) -> Any:
    return await run.ask("May I?")


async def gives_up_on_a_child(run: refold.Run, _input: Any) -> str:
    child = await run.start(refold.Delegation(program=asks_for_leave))
    await run.sleep(0.1)  # by then it waits; if it does not, it is cancelled all the same
    run.cancel(child)
    (outcome,) = await run.join(child)
    return outcome.status


def test_a_child_that_waits_for_a_person_can_be_given_up(tmp_path: Path) -> None:
    """§9.9: then nobody is asked any more, and its parent comes to its end."""
    recording = refold.record(gives_up_on_a_child, log=tmp_path / "a.jsonl")

    assert (recording.status, recording.output) == ("completed", "cancelled")
    assert refold.reexecute(recording.log, gives_up_on_a_child).identical


class Deaf(InProcess):
    """Its children learn of nothing; it says how one ended when that has been cancelled."""

    def run(self, request: ChildRequest, /) -> Outcome | Suspended:
        ended = super().run(attrs.evolve(request, cancel=CancelSignal()))
        request.cancel.wait(60)
        return ended


@pytest.mark.long
def test_so_can_one_that_begins_to_wait_at_that_moment(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    recording = refold.record(gives_up_on_a_child, log=log, runner="deaf", runners={"deaf": Deaf()})

    assert (recording.status, recording.output) == ("completed", "cancelled")
    assert refold.reexecute(log, gives_up_on_a_child).identical


@for_each("answer", ["yes", "true", 1, 0, None, []])
def test_an_approval_is_true_or_false_and_nothing_else(answer: Any, tmp_path: Path) -> None:
    """§9.9: another answer leaves the question open, and `resume` refuses it."""
    log = tmp_path / "pays.jsonl"
    recording = refold.record(pays, 1, log=log, tools=[pay], ask=lambda _question: answer)

    assert recording.status == "suspended"
    with pytest.raises(AnswerRefused):
        refold.resume(log, pays, tools=[pay], answers={recording.questions[0].key: answer})
