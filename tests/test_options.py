"""Options of the public calls are checked before anything happens, and by type checkers (§9.6)."""

import asyncio
import contextvars
import functools
import gc
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from click.testing import CliRunner

import refold
from refold.cli.group import refold as commands
from refold.engine.errors import OptionRefused, RunFailed
from refold.engine.kernel.pending import Child
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel, ScriptedModel
from refold.errors import LogExists
from refold.options import _KINDS
from refold.replay import open_ends
from refold.tools import Policy
from tests.support.loops import for_each

CALLS = ("record", "record_async", "reexecute", "resume", "fork", "drift", "explore", "sensitivity")


@refold.tool(effect="reads")
def word_count(path: str) -> int:
    """Count words."""
    return len(path.split())


@refold.tool(name="word_count")
def other_count(path: str) -> int:
    """Count otherwise."""
    return len(path)


def greet(_run: refold.PlainRun, name: str) -> str:
    return f"Hello {name}!"


@for_each("call", CALLS)
def test_every_option_of_a_public_call_is_a_keyword_in_its_signature(call: str) -> None:
    parameters = inspect.signature(getattr(refold, call)).parameters.values()

    assert not [each for each in parameters if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]


def test_the_help_of_record_explains_each_of_them() -> None:
    said = inspect.getdoc(refold.record) or ""

    assert [
        each for each in inspect.signature(refold.record).parameters if f"{each}:" not in said
    ] == []


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("durability", "strct", "one of fast, group, strict"),
        ("limits", {"max_depth": 1}, "refold.Limits(timeout_seconds=…)"),
        ("session", {}, "a refold.Session()"),
        ("session", refold.Session, "a refold.Session()"),
        ("limits", refold.Session(), "refold.Limits(timeout_seconds=…)"),
        ("tools", word_count, "a list: tools=[word_count]"),
        ("tools", "word_count", "a list of tools and functions"),
        ("tools", {"word_count": word_count}, "a list of tools and functions"),
        ("tools", [word_count, other_count], "unique names"),
        ("tools", [word_count, "nope"], "or kinds of subagents: subagent, "),
        ("model", "gpt-5", "openai:NAME"),
        ("model", 5, "openai:NAME"),
        ("model", SimpleNamespace(complete=print), "an object with name and complete(request)"),
        ("models", {"small": "gpt-5"}, "openai:NAME"),
        ("models", ["openai:gpt-5"], "a dict"),
        ("seed", 1.5, "a number or a text"),
        ("clock", 0, "a refold.testing.FixedClock(…)"),
        ("redaction", {"secrets": ["x"]}, "refold.Redaction(…)"),
        ("secrets", ["KEY"], "a dict"),
        ("secrets", {"KEY": 3}, "a dict of strings by name"),
        ("secrets", {"KEY": None, "OTHER": "a-value"}, "a dict of strings by name"),
        ("volatile", "tool:x/result", "a list of strings"),
        ("volatile", [1], "a list of strings"),
        ("volatile", None, "a list of strings"),
        ("runner", subprocess, "a runner's name"),
        ("runners", ["subprocess"], "a dict"),
        ("ask", "yes", "a function"),
        ("check", "yes", "True or False"),
        ("log", 3, "a path"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_name(
    option: str, value: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(OptionRefused) as refused:
        refold.record(greet, "Ada", **{option: value})

    assert refused.value.call == "record"
    assert refused.value.option.startswith(option)
    assert expected in refused.value.expected
    assert "refold.engine" not in refused.value.found
    assert refused.value.__cause__ is None  # Python would show it first
    assert list(tmp_path.iterdir()) == []  # nothing was recorded


@for_each(
    "call, option, value",
    [
        (refold.reexecute, "volatile", "x"),
        (refold.reexecute, "session", "file.py:session"),
        (refold.resume, "answers", ["yes"]),
        (refold.reexecute, "volatile", [1]),
        (refold.resume, "retry", "0#1"),
        (refold.resume, "retry", None),
        (refold.resume, "fail", {1}),
        (refold.resume, "max_attempts", 0),
        (refold.fork, "edits", ["0#1=2"]),
        (refold.fork, "edits", {1: 2}),
        (refold.fork, "into", None),
        (refold.fork, "sources", "live"),
        (refold.drift, "twice", 1),
        (refold.drift, "compare", "exact"),
        (refold.explore, "orders", 0),
        (refold.explore, "orders", None),
        (refold.explore, "on_order", "yes"),
        (refold.explore, "timers", "yes"),
        (refold.sensitivity, "only", ["x"]),
        (refold.sensitivity, "only", None),
        (refold.sensitivity, "on_call", 1),
    ],
)
def test_what_replays_checks_its_options_too(
    call: Callable[..., Any], option: str, value: Any, tmp_path: Path
) -> None:
    recording = refold.record(greet, "Ada", log=tmp_path / "a.jsonl")
    more = {"into": tmp_path / "b.jsonl"} if call is refold.fork else {}

    with pytest.raises(OptionRefused) as refused:
        call(recording, program=greet, **more | {option: value})

    assert (refused.value.call, refused.value.option) == (call.__name__, option)


def test_every_option_that_is_checked_is_one_of_a_call() -> None:
    """No row outlives its option."""
    calls = [getattr(refold, call) for call in (*CALLS, "verify")]
    known = {name for call in calls for name in inspect.signature(call).parameters}

    assert known >= _KINDS.keys()


def test_paths_that_are_read_once_are_kept(tmp_path: Path) -> None:
    """An iterator that the checks had used up would leave a record without its rules."""
    paths = iter(["run/output"])

    log = refold.record(greet, "Ada", log=tmp_path / "a.jsonl", volatile=paths).log  # type: ignore[arg-type]  # it may be one

    assert next(read_entries(log)).data["rules"] == {"volatile": ["run/output"]}


def test_what_a_program_returned_is_no_program() -> None:
    async def survey(_run: refold.Run, _input: Any) -> None: ...

    with pytest.raises(OptionRefused, match=r"record\(survey, input\); found a coroutine"):
        refold.record(survey(None, None))  # type: ignore[arg-type]  # that is the point


def test_secrets_that_are_refused_are_not_shown() -> None:
    with pytest.raises(OptionRefused) as refused:
        refold.record(greet, "Ada", secrets={"KEY": "hush", "PORT": 3})  # type: ignore[dict-item]

    assert refused.value.found == "dict with int for 'PORT'"


@for_each("call", CALLS)
def test_what_cannot_be_called_is_no_program(call: str, tmp_path: Path) -> None:
    """And nothing is recorded."""
    log = tmp_path / "a.jsonl"
    given: dict[str, Any] = {"log": log, "program": 3}
    if call == "fork":
        given["into"] = tmp_path / "b.jsonl"
    given_by_place = [given.pop("program")] if call.startswith("record") else []

    async def asked() -> None:
        await getattr(refold, call)(*given_by_place, **given)

    with pytest.raises(OptionRefused, match=rf"{call}\(program=…\): expected a function.* int 3"):
        asyncio.run(asked())

    assert list(tmp_path.iterdir()) == []


def test_a_log_beside_children_of_another_run_is_refused(tmp_path: Path) -> None:
    """Where only the root's log was removed, each child failed, and nobody knew why."""
    (tmp_path / "a.1.jsonl").touch()

    with pytest.raises(LogExists, match=r"refold rm --force .*a\.jsonl`, or choose"):
        refold.record(greet, "Ada", log=tmp_path / "a.jsonl")

    assert not (tmp_path / "a.jsonl").exists()


def test_the_result_of_a_child_that_failed_says_why(tmp_path: Path) -> None:
    """Its output is None, and whatever is done with that fails far from the reason."""

    async def child(_run: refold.Run, divisor: int) -> float:
        return 1 / divisor

    async def program(run: refold.Run, divisor: int) -> Any:
        outcome = await run.delegate(refold.Delegation(program=child, input=divisor))
        return outcome.result()

    fine = refold.record(program, 2, log=tmp_path / "a.jsonl")
    broken = refold.record(program, 0, log=tmp_path / "b.jsonl")

    assert fine.output == 0.5
    assert "ChildFailed: the child ended as failed: ZeroDivisionError" in broken.message
    assert refold.reexecute(broken, program).identical


LOOKS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda _: refold.verify(None), "verify(log=…): expected a path, or a Recording"),  # type: ignore[call-overload]
    (lambda _: refold.verify("~/a.jsonl"), "verify(log=…): expected a path without ~"),
    (lambda _: refold.fork("~/a.jsonl", 0, into="b"), "fork(log=…): expected a path without ~"),
    (lambda log: refold.diff(log, 3), "diff(b=…): expected a path, or a Recording; found int 3"),  # type: ignore[arg-type]
    (lambda _: refold.state(b"x"), "state(log=…): expected a path"),  # type: ignore[call-overload]
    (lambda _: refold.why(None, 0), "why(log=…): expected a path"),  # type: ignore[arg-type]
    (lambda _: refold.delegation_tree(3), "delegation_tree(log=…): expected a path"),  # type: ignore[arg-type]
    (lambda _: open_ends(3), "open_ends(log=…): expected a path"),  # type: ignore[arg-type]
    (lambda _: refold.reexecute(None), "reexecute(log=…): expected a path"),  # type: ignore[call-overload]
    (lambda _: refold.verify([None]), "verify(log=…): expected a path"),
    (lambda _: refold.reexecute([3]), "reexecute(log=…): expected a path"),
    (lambda log: refold.state(log, "x"), "state(at=…): expected the seq of an entry"),  # type: ignore[call-overload]
    (lambda log: refold.state(log, at=True), "state(at=…): expected the seq of an entry"),
    (lambda log: refold.why(log, 1.5), "why(seq=…): expected the seq of an entry"),  # type: ignore[arg-type]
    (lambda _: Policy(summary_bytes="x"), "Policy(summary_bytes=…): expected a whole"),  # type: ignore[arg-type]
    (lambda _: Policy(frame_bytes=0), "Policy(frame_bytes=…): expected a whole number of"),
    (lambda _: Policy(artifact_kinds=("x",)), "Policy(artifact_kinds=…): expected some"),
]


@for_each("look, said", LOOKS)
def test_what_looks_at_logs_refuses_by_name(
    look: Callable[[Any], Any], said: str, tmp_path: Path
) -> None:
    """What is no log, no entry's number, no cap: Python's own errors named no argument."""
    log = refold.record(greet, "Ada", log=tmp_path / "a.jsonl").log

    with pytest.raises(refold.UsageError) as raised:
        look(log)

    assert said in str(raised.value)


@for_each("call", ["state", "resume", "drift", "delegation_tree"])
def test_an_empty_log_is_said_to_be_empty(call: str, tmp_path: Path) -> None:
    """It is what a crash before the first line leaves."""
    (tmp_path / "a.jsonl").touch()

    with pytest.raises(refold.RefoldError, match="empty"):
        getattr(refold, call)(tmp_path / "a.jsonl")


def test_no_log_and_no_program_are_refused_by_name() -> None:
    with pytest.raises(OptionRefused, match=r"reexecute\(log=…\): expected a path; found NoneType"):
        refold.reexecute(None)  # type: ignore[call-overload]  # that is the point
    with pytest.raises(OptionRefused, match=r"record\(program=…\): expected a function.*NoneType"):
        refold.record(None)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("ask", "problem"),
    [(lambda _question: 3, "3 is not of type 'string'"), (lambda: "yes", "TypeError")],
)
def test_why_a_question_stays_open_is_said(
    ask: Callable[..., Any], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer that does not fit, and an `ask` that raises, suspend the run."""

    async def program(run: refold.Run, _input: Any) -> Any:
        return await run.ask("Ready?", {"type": "string"})

    recording = refold.record(program, log=tmp_path / "a.jsonl", ask=ask)

    assert recording.status == "suspended"
    said = capsys.readouterr().err
    assert said.startswith("refold: the question 'Ready?' stays open: ")
    assert problem in said
    (warning,) = recording.warnings
    assert "the question 'Ready?' (0#1) stays open: the function passed as ask= " in warning
    assert problem in warning


def test_a_question_may_be_answered_by_a_coroutine(tmp_path: Path) -> None:
    """One that asks a chat, for example; an error of it leaves the question open."""

    async def program(run: refold.Run, _input: Any) -> Any:
        return await run.ask("Ready?", {"type": "string"})

    async def chat(question: refold.Question) -> str:
        await asyncio.sleep(0)
        return f"yes: {question.question}"

    async def nobody(_question: refold.Question) -> str:
        raise refold.Unanswered("at lunch")

    answered = refold.record(program, log=tmp_path / "a.jsonl", ask=chat)
    waiting = refold.record(program, log=tmp_path / "b.jsonl", ask=nobody)

    assert answered.output == "yes: Ready?"
    assert (waiting.status, waiting.questions[0].problem) == ("suspended", "at lunch")


MISTAKES: dict[str, tuple[Any, str]] = {
    "a handle awaited": (
        lambda run: run.start(refold.Delegation(program=_idle)),
        "(outcome,) = await run.join(child)",
    ),
    "bounds of a random number": (lambda run: run.random(1, 6), "run.random().randint(1, 6)"),
    "a program without a Delegation": (
        lambda run: run.delegate(_idle, 1),
        "await run.delegate(refold.Delegation(program=…, input=…))",
    ),
    "a program by name": (
        lambda run: run.delegate(program=_idle),
        "await run.delegate(refold.Delegation(program=…, input=…))",
    ),
    "an option of a Delegation beside it": (
        lambda run: run.start(refold.Delegation(program=_idle), runner="subprocess"),
        "await run.start(refold.Delegation(program=…, input=…))",
    ),
    "a program started without a Delegation": (
        lambda run: run.start(_idle, 1),
        "await run.start(refold.Delegation(program=…, input=…))",
    ),
    "a Delegation by position": (
        lambda _run: refold.Delegation(_idle, 1),  # type: ignore[call-arg]
        "refold.Delegation(program=…, input=…)",
    ),
    "the content of a reply": (
        lambda run: run.model([{"role": "user", "content": "?"}]),
        'reply.message["content"]',
    ),
}


async def _idle(_run: refold.Run, _input: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(("mistake", "advice"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_that_python_words_in_its_own_terms_is_told_what_to_write(
    mistake: Callable[[Any], Any], advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `record` and by `refold show`; the log has Python's words alone."""

    async def program(run: refold.Run, _input: Any) -> Any:
        made = await mistake(run)
        return await made if isinstance(made, Child) else made.content  # type: ignore[misc]

    log = tmp_path / "a.jsonl"
    refold.record(program, log=log, model=ScriptedModel(["hello"]))
    shown = CliRunner().invoke(commands, ["show", str(log)]).stdout

    assert f"write `{advice}`" in capsys.readouterr().err
    assert f"write `{advice}`" in " ".join(shown.split())
    assert b"write `" not in log.read_bytes()


_ASKED: list[dict[str, Any]] = [{"role": "user", "content": "?"}]


_CONTEXT: Final = contextvars.ContextVar[str]("_CONTEXT")


@refold.tool(effect="reads")
def asks_a_context() -> str:
    """Read a variable that the program has set."""
    return _CONTEXT.get()


async def _cancelled(run: Any) -> None:
    await run.cancel(await run.start(refold.Delegation(program=_idle)))


async def _changed(run: Any) -> None:
    (await run.delegate(refold.Delegation(program=_idle))).output = 1


SLIPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a random stream awaited": (lambda run: run.random(), "remove `await`"),
    "a file awaited": (lambda run: run.read_text("none"), "remove `await`"),
    "the environment in brackets": (lambda run: run.environment["A"], 'run.environment("NAME")'),
    "a cancellation awaited": (_cancelled, "remove `await`"),
    "a value gathered": (lambda run: asyncio.gather(run.now()), "`run.now()`"),
    "random as a module": (lambda run: run.random.choice([1]), "write `run.random().rand"),
    "messages by name": (lambda run: run.model(messages=_ASKED), "await run.model(messages)"),
    "choices of a reply": (lambda run: _got(run.model(_ASKED), "choices"), "reply.message"),
    "a reply as an object": (lambda run: _item(run.model(_ASKED), "content"), "reply.message"),
    "a join as one outcome": (
        lambda run: _got(_joined(run), "output"), "write `(outcome,) = await run.join(child)`",
    ),
    "an outcome's value": (
        lambda run: _got(run.delegate(refold.Delegation(program=_idle)), "value"),
        "call `outcome.result()`",
    ),
    "a time limit of a Delegation": (
        lambda _run: refold.Delegation(program=_idle, timeout=5),  # type: ignore[call-arg]
        "limits=refold.Limits(timeout_seconds=…)",
    ),
    "a method in a text": (lambda run: f"{run.now:%Y}", "call it: `run.now()`"),
    "a changed outcome": (_changed, "`attrs.evolve(value, name=…)`"),
    "run and input swapped": (lambda _run: _got(asyncio.sleep(0, 1), "tool"), "(run, input)"),
    "a context variable": (lambda run: run.tool(asks_a_context), "pass their values as arguments"),
}  # fmt: skip


async def _got(made: Any, name: str) -> Any:
    return getattr(await made, name)


async def _item(made: Any, name: str) -> Any:
    return (await made)[name]


async def _joined(run: Any) -> Any:
    return await run.join(await run.start(refold.Delegation(program=_idle)))


@pytest.mark.parametrize(("slip", "advice"), SLIPS.values(), ids=SLIPS)
def test_a_slip_that_python_words_in_its_own_terms_is_advised(
    slip: Callable[[Any], Any], advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the others, for calls that are awaited in vain and members that are not there."""

    async def program(run: refold.Run, _input: Any) -> Any:
        return await slip(run)

    recording = refold.record(program, log=tmp_path / "a.jsonl", model=ScriptedModel(["hello"]))

    assert recording.status == "failed"
    assert advice in capsys.readouterr().err


def test_a_program_that_yields_is_told_to_return(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def program(_run: refold.Run, _input: Any) -> Any:
        yield 1

    refold.record(program, log=tmp_path / "a.jsonl")

    assert "cannot `yield`" in capsys.readouterr().err


def test_an_artifact_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    """The log is whole, and the error is not one of ours."""

    def program(_run: refold.PlainRun, _input: Any) -> refold.Report:
        return refold.Report(summary="s", artifacts=({"kind": "note"},))  # type: ignore[arg-type]

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.message.endswith("/artifacts/0: expected a refold.Artifact, found dict")
    assert refold.verify(recording).complete


def test_a_coroutine_as_a_result_is_refused_without_a_line_of_ours(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """A plain program that forgets to await, and a model that is asynchronous."""

    def program(_run: refold.PlainRun, _input: Any) -> Any:
        return _idle(None, None)  # type: ignore[arg-type]

    def asks(run: refold.PlainRun, _input: Any) -> Any:
        return run.model(_ASKED)

    model: Any = FunctionModel(lambda _request: _idle(None, None))  # type: ignore[arg-type, return-value]
    returned = refold.record(program, log=tmp_path / "a.jsonl")
    asked = refold.record(asks, log=tmp_path / "b.jsonl", model=model)

    assert "(is an await missing?)" in returned.message
    assert "use a plain function, not an async one" in asked.message
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


def test_a_tool_that_forgets_to_await_is_told_and_nothing_else_is_said(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    @refold.tool(effect="reads")
    def forgets() -> int:
        """Return a coroutine."""
        return _idle(None, None)  # type: ignore[return-value, arg-type]

    def program(run: refold.PlainRun, _input: Any) -> Any:
        return run.tool(forgets)

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert "(is an await missing?)" in recording.message
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


def test_a_model_may_be_named_by_a_text(tmp_path: Path) -> None:
    script = tmp_path / "replies.yaml"
    script.write_text("- Twice a day.\n")

    async def ask(run: refold.Run, _input: Any) -> Any:
        return (await run.model([{"role": "user", "content": "How often?"}])).message["content"]

    recording = refold.record(ask, log=tmp_path / "a.jsonl", model=f"scripted:{script}")

    assert recording.result() == "Twice a day."


@for_each("look", [refold.verify, refold.state, refold.delegation_tree])
def test_whatever_takes_a_log_takes_a_recording(look: Callable[[Any], Any], tmp_path: Path) -> None:
    recording = refold.record(greet, "Ada", log=tmp_path / "a.jsonl")

    assert look(recording) == look(recording.log)


def test_whatever_takes_logs_takes_recordings(tmp_path: Path) -> None:
    recording = refold.record(greet, "Ada", log=tmp_path / "a.jsonl")

    here = functools.partial(greet)  # no process is started for what none can import
    assert refold.reexecute([recording], here).identical
    assert refold.diff(recording, recording.log).identical


def test_the_result_of_a_failed_run_raises_what_the_program_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_run: refold.PlainRun, _input: Any) -> None:
        int("x")

    recording = refold.record(fails, log=tmp_path / "a.jsonl")

    with pytest.raises(RunFailed, match="invalid literal") as raised:
        recording.result()
    assert isinstance(raised.value.__cause__, ValueError)
    assert str(raised.value).startswith(f"{recording.log}: the run ended as failed: ValueError")
    assert recording.where.startswith(f"{__file__}:")
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"refold: {recording}"
    assert str(recording).startswith("failed: ValueError: invalid literal")
    assert str(recording).endswith(str(recording.log))


def test_a_failure_is_told_in_one_line_that_moves_no_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server may have worded it."""

    def fails(_run: refold.PlainRun, _input: Any) -> None:
        raise ValueError("a\x1b[2J\x9b\u202e\nb")

    refold.record(fails, log=tmp_path / "a.jsonl")

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"refold: failed: ValueError: a\u001b[2J\u009b\u202e\nb (")


def test_the_place_of_a_failure_is_a_line_of_the_users_own(tmp_path: Path) -> None:
    """Not one of the library that raised."""
    import json  # noqa: PLC0415 - a library that raises

    def fails(_run: refold.PlainRun, text: str) -> Any:
        return json.loads(text)

    line = inspect.getsourcelines(fails)[1] + 1

    assert refold.record(fails, "{", log=tmp_path / "a.jsonl").where == f"{__file__}:{line}"


def test_record_where_a_loop_runs_names_record_async(tmp_path: Path) -> None:
    async def handler() -> None:
        refold.record(greet, "Ada", log=tmp_path / "a.jsonl")

    with pytest.warns(RuntimeWarning, match="await refold.record_async"):
        asyncio.run(handler())


# --- type checkers ---------------------------------------------------------------------------

_RIGHT = """
import asyncio
import refold
from refold.tools import CallContext, Tool

@refold.tool(effect="reads")
def count(path: str, *, deep: bool = False) -> int:
    return len(path)

@refold.tool
async def fetch(url: str) -> list[str]:
    return [url]

@refold.tool(effect="pure")
def keyed(n: int, context: CallContext | None = None) -> int:
    return n

TOOLS: list[Tool] = [count, fetch]

async def main(run: refold.Run, paths: list[str]) -> int:
    first: int = await run.tool(count, path=paths[0], deep=True)
    many: list[int] = await asyncio.gather(*(run.tool(count, path=each) for each in paths))
    said: list[str] = await run.tool(fetch, url="x")
    named: int = await run.tool("count", path="x")
    for tool in run.tools:
        await run.tool(tool, path="x")
    await run.tool(count, path=run.secret("KEY"))
    return first + sum(many) + len(said) + named + await run.tool(keyed, n=1)

def plain(run: refold.PlainRun, path: str) -> int:
    return run.tool(count, path=path) + len(run.tool(fetch, url="x"))

recording = refold.record(main, ["a"], tools=[*TOOLS, len], limits=refold.Limits(max_depth=1))
refold.verify(recording)
refold.reexecute(recording, main, tools=TOOLS)
refold.resume(recording, plain, model="openai:gpt-5", answers={"0#1": True})
"""

_WRONG = {
    "an option that is none": "refold.record(main, durabilty='fast')",
    "a durability that is none": "refold.record(main, durability='strct')",
    "limits that are a dict": "refold.record(main, limits={'max_depth': 1})",
    "one tool": "refold.record(main, tools=count)",
    "a coroutine": "refold.record(main(None, []))",
    "an option of another call": "refold.explore('x.jsonl', main, durability='fast')",
    "a number for a log": "refold.verify(3)",
    "a misspelled argument": "async def f(run: refold.Run) -> None: await run.tool(count, pth='x')",
    "another type": "async def f(run: refold.Run) -> None: await run.tool(count, path=3)",
    "an argument that lacks": "async def f(run: refold.Run) -> None: await run.tool(fetch)",
    "another result": "async def f(run: refold.Run) -> str: return await run.tool(count, path='')",
    "of a plain program": "def f(run: refold.PlainRun) -> int: return run.tool(count, pth='x')",
    "unnamed": "async def f(run: refold.Run) -> None: await run.tool('count', 'x')",
    "an effect that is none": "refold.tool(effect='writes')",
    "a status that is called": "refold.record(main).ok()",
}


_CHECKERS = {
    "mypy": ["mypy", "--strict", "--no-error-summary"],
    "basedpyright": ["basedpyright", "--level", "error", "--pythonpath", sys.executable],
}


def _refusals(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_type_checkers_accept_what_is_right_and_refuse_what_is_wrong(
    checker: str, tmp_path: Path
) -> None:
    (tmp_path / "right.py").write_text(_RIGHT)
    for number, wrong in enumerate(_WRONG.values()):
        (tmp_path / f"wrong_{number:02}.py").write_text(
            f"import refold\nfrom right import count, fetch, main\n\n{wrong}\n"
        )

    said = _refusals(_CHECKERS[checker], tmp_path)

    assert "right.py:" not in said, said
    accepted = [why for number, why in enumerate(_WRONG) if f"wrong_{number:02}.py:" not in said]
    assert accepted == [], said


_TYPED = """
import dataclasses
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

import pydantic
import refold
import refold.testing

@dataclasses.dataclass
class Plan:
    steps: list[str]

class Page(pydantic.BaseModel):
    title: str

class Row(TypedDict):
    id: int

async def words(run: refold.Run, text: str) -> list[str]:
    return text.split()

def length(run: refold.PlainRun, text: str) -> int:
    return len(text)

async def plan(run: refold.Run, text: str) -> Plan:
    return Plan([text])

async def page(run: refold.Run, text: str) -> Page:
    return Page(title=text)

def rows(run: refold.PlainRun, text: str) -> dict[str, list[Row]]:
    return {text: [{"id": 1}]}

async def maybe(run: refold.Run, text: str) -> str | None:
    return text or None

async def nothing(run: refold.Run, text: str) -> None:
    return None

async def anything(run: refold.Run, text: str) -> Any:
    return text

async def report(run: refold.Run, text: str) -> refold.Report:
    return refold.Report(summary=text, output={"n": 1})

def plain_report(run: refold.PlainRun, text: str) -> refold.Report:
    return refold.Report(summary=text, output={"n": 1})

async def three(run: refold.Run, text: str, times: int) -> str:
    return text * times

async def one(run: refold.Run) -> str:
    return "one"

async def own_input(run: Any, text: str = "", *, more: int = 1) -> str:
    return text

class Team:
    async def lead(self, run: refold.Run, text: str) -> float:
        return 0.5

class Callee:
    async def __call__(self, run: refold.Run, text: str) -> bytes:
        return b""

Texts = Callable[[refold.Run, str], Awaitable[str]]

def twice(program: Texts) -> Texts:
    return program

@twice
async def decorated(run: refold.Run, text: str) -> str:
    return text

@refold.tool(effect="reads")
def count(path: str, *, deep: bool = False) -> int:
    return len(path)

@refold.tool
async def fetch(url: str) -> list[str]:
    return [url]

@refold.tool
async def load(url: str) -> Any:
    return url

class Kit:
    def __init__(self) -> None:
        self.tool = refold.tool(effect="reads")(self.look)

    def look(self, n: int) -> list[int]:
        return [n]

async def results(run: refold.Run, text: str) -> None:
    a: list[str] = (await run.delegate(refold.Delegation(program=words, input=text))).result()
    b: int = (await run.delegate(refold.Delegation(program=length, input=text))).result()
    c: str = (await run.delegate(refold.Delegation(program=plan))).result().steps[0]
    d: str = (await run.delegate(refold.Delegation(program=page))).result().title
    e: int = (await run.delegate(refold.Delegation(program=rows))).result()["a"][0]["id"]
    f: str | None = (await run.delegate(refold.Delegation(program=maybe))).result()
    g: int = (await run.delegate(refold.Delegation(program=anything))).result()["n"]
    h: int = (await run.delegate(refold.Delegation(program=report))).output["n"]
    i: int = (await run.delegate(refold.Delegation(program=plain_report))).output["n"]
    j: int = (await run.delegate(refold.Delegation(program="a.py:main", input=[1]))).output["n"]
    partial = functools.partial(three, times=2)
    k: str = (await run.delegate(refold.Delegation(program=partial))).result()
    l: float = (await run.delegate(refold.Delegation(program=Team().lead))).result()
    m: bytes = (await run.delegate(refold.Delegation(program=Callee()))).result()
    n: int = (await run.delegate(refold.Delegation(program=lambda run, text: len(text)))).result()
    o: str = (await run.delegate(refold.Delegation(program=decorated))).result()
    p: str = (await run.delegate(refold.Delegation(program=own_input))).result()
    q: None = (await run.delegate(refold.Delegation(program=nothing))).result()
    r: list[int] = await run.tool(Kit().tool, n=1)
    s: int = (await run.tool(load, url="x"))["n"]
    a = (await run.delegate(refold.Delegation(program=length))).result()  # refused: int list[str]
    b = (await run.delegate(refold.Delegation(program=length))).output  # refused: None int
    c = (await run.delegate(refold.Delegation(program=words))).result()  # refused: list[str] str
    (await run.delegate(refold.Delegation(program=words))).output[0]  # refused: None
    refold.Delegation(program=one)  # refused: program (run:Run)|Callable[[Run]
    refold.Delegation(program=three, input=1)  # refused: program times:int|Callable[[Run,str,int]
    refold.Delegation(program=words(run, "a"))  # refused: program Coroutine
    refold.Delegation(program=words, inputs="a")  # refused: inputs
    refold.Delegation(program=words, limits={"max_depth": 1})  # refused: limits dict[str,int]
    refold.Delegation(program=3)  # refused: program int|3

async def joins(run: refold.Run, texts: list[str]) -> int:
    first = await run.start(refold.Delegation(program=words, input="a"))
    second = await run.start(refold.Delegation(program=length, input="a"))
    named = await run.start(refold.Delegation(program="agents.py:main"))
    (alone,) = await run.join(first)
    many = [await run.start(refold.Delegation(program=length, input=each)) for each in texts]
    one, two = await run.join(first, second)
    _, _, three = await run.join(first, second, named)
    ready: int = (await run.join(await run.join_first(*many)))[0].result()
    mixed: list[refold.Delegation[object]] = [
        refold.Delegation(program=words), refold.Delegation(program=length),
    ]
    for outcome in await run.join(*[await run.start(each) for each in mixed]):
        print(outcome.result(), outcome.status)
    either: refold.Outcome[int | list[str]] = one
    bad: refold.Outcome[str] = one  # refused: Outcome[list[str]] Outcome[str]
    await run.join(many)  # refused: list[Child[int]] join|list[Child[int]] children
    await run.join(run.start(refold.Delegation(program=words)))  # refused: Coroutine Child[
    await run.join(one)  # refused: Outcome[list[str]]
    one.result() + 1  # refused: list[str] +|"list" __add__
    extra: int = three.result()["n"]
    return (
        len(alone.result()[0]) + len(one.result()) + two.result() + extra + ready
        + sum(outcome.result() for outcome in await run.join(*many)) + len(str(either.output))
    )

def plain(run: refold.PlainRun, text: str) -> list[str]:
    number: int = run.delegate(refold.Delegation(program=length)).result()
    one, two = run.join(
        run.start(refold.Delegation(program=words)), run.start(refold.Delegation(program=length))
    )
    wrong: str = run.tool(count, path="a")  # refused: int str
    run.tool(count, path=b"a")  # refused: bytes|path b"a"
    run.join(one)  # refused: Outcome[list[str]]
    wrong = two.result()  # refused: int str
    return [*run.tool(fetch, url=str(number)), *one.result()]

async def tools(run: refold.Run, text: str) -> str:
    await run.tool(count, path="a", depth=1)  # refused: tool|depth
    (await run.tool(fetch, url="u")) + 1  # refused: list[str] +|"list" __add__
    return await run.tool(count, path="a")  # refused: int str

async def listed(run: refold.Run, text: str) -> list[int]:
    return await run.tool(fetch, url="u")  # refused: list[str] list[int]

async def awaited(run: refold.Run, text: str) -> int:
    return run.tool(count, path="a")  # refused: Coroutine[Any,Any,int] int

def recordings(log: str, before: refold.Recording) -> refold.Recording[list[str]]:
    number: int = refold.record(length, "a").result()
    title: str = refold.record(page, "a").result().title
    named: str = refold.record("agents.py:main", {"a": 1}).output["name"]
    older: str = before.output["name"]
    refold.record(Team().lead, tools=[count, fetch])
    refold.record(lambda run, text: text)
    refold.record(print)
    again: Plan = refold.resume(log, plan).result()
    any_again: str = refold.resume(log).output["name"]
    refold.reexecute(log, words)
    refold.reexecute([log], {"words": words, "length": length})
    number = refold.record(words, "a").result()  # refused: list[str] int
    number = refold.record(length, "a").output  # refused: None int
    again = refold.resume(log, words).result()  # refused: list[str] Plan
    refold.record(one, "a")  # refused: (run:Run)|Callable[[Run]
    refold.record(three, "a")  # refused: times:int|Callable[[Run,str,int]
    refold.resume(log, one)  # refused: (run:Run)|Callable[[Run]
    refold.reexecute(log, one)  # refused: (run:Run)|Callable[[Run]
    refold.drift(log, one)  # refused: (run:Run)|Callable[[Run]
    refold.fork(log, 3, one, into="b")  # refused: (run:Run)|Callable[[Run]
    refold.record(length, "a").outputs  # refused: outputs
    refold.record(length, durability="fastest")  # refused: durability fastest
    return refold.record(words, "a")

def test_fixture(refold_run: refold.testing.RefoldRun) -> None:
    number: int = refold_run(length, "a").result()
    number = refold_run(words, "a").result()  # refused: list[str] int
    refold_run(one, "a")  # refused: (run:Run)|Callable[[Run]

async def recorded() -> refold.Recording[int]:
    await refold.record_async(words, "a", tools=count)  # refused: tools FunctionTool
    return await refold.record_async(length, "a")
"""


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_type_checkers_know_the_results_of_programs_and_tools(checker: str, tmp_path: Path) -> None:
    """They refuse the marked lines, with a message that has these words, and no others."""
    (tmp_path / "typed.py").write_text(_TYPED)
    said: dict[int, str] = {}
    for line in _refusals(_CHECKERS[checker], tmp_path).splitlines():
        if found := re.match(r".*typed\.py:(\d+):.*error: ", line):
            number = int(found[1])
            said[number] = said.get(number, "") + line
        elif line.startswith("    "):
            said[number] += line
    marked = {
        number: text.split("# refused: ")[1].split("|")
        for number, text in enumerate(_TYPED.splitlines(), 1)
        if "# refused: " in text
    }

    assert {n: said.get(n) for n in said.keys() ^ marked} == {}
    vague = {
        number: message
        for number, message in said.items()
        if not any(
            all(word in message.replace(" ", "") for word in words.split())
            for words in marked[number]
        )
    }
    assert vague == {}


def test_a_wrong_call_has_a_traceback_of_two_lines(tmp_path: Path) -> None:
    """The caller's, and that of the decorator: what is below says nothing to who called."""
    (tmp_path / "a.jsonl").touch()

    with pytest.raises(LogExists) as raised:
        refold.record(greet, "Ada", log=tmp_path / "a.jsonl")

    assert len(raised.traceback) == 2
