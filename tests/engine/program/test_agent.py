"""The agent loop: what it tells the model, and why it ends."""

import threading
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

import refold.api
from refold.engine.errors import ArgumentsRefused, ToolError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact, Report
from refold.engine.log.names import child_path
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel, Reply, ScriptedModel
from refold.engine.ports.ports import Delegation, ModelRequest, Tool
from refold.engine.program.agent import AgentInput, read_input, report_of
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import delegation_tree
from refold.tools import subagent_tool
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each


@attrs.frozen
class Size:
    lines: int
    name: str = "ä"


@tool(effect="reads")
def measure(path: str) -> Size:
    """Measure a file."""
    return Size(len(path))


@tool(effect="reads")
def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


@tool(effect="reads")
def fails(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool(effect="reads")
def gives_up() -> str:
    """Fail for good."""
    raise ToolError("gives_up", "the disk is gone", "fatal")


TOOLS = (measure, greet, fails, gives_up)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def run(
    log: Path,
    replies: list[Reply],
    given: dict[str, Any] | None = None,
    *,
    tools: tuple[Tool, ...] = TOOLS,
    limits: Limits | None = None,
) -> Recording:
    return record(
        "agent",
        given or {"task": "go"},
        log=log,
        tools=tools,
        model=ScriptedModel(replies),
        limits=limits,
    )


def asked(log: Path) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(log) if entry.kind == "model.asked"]


def told(log: Path) -> list[dict[str, Any]]:
    """Return the tool results of the second request."""
    added: list[dict[str, Any]] = asked(log)[1]["added"]
    return added


def calls(*names_and_arguments: tuple[str, dict[str, Any]]) -> Reply:
    return {
        "tool_calls": [
            {"id": f"c{number}", "name": name, "arguments": arguments}
            for number, (name, arguments) in enumerate(names_and_arguments)
        ]
    }


def test_an_answer_without_tool_calls_is_the_result(log: Path) -> None:
    recording = run(log, ["It is done."])

    assert (recording.status, recording.reason) == ("completed", "done")
    assert recording.output == recording.summary == "It is done."


def test_children_of_its_tools_inherit_its_parameters(log: Path) -> None:
    """Those that depend on the request stay its own."""
    replies = [calls(("subagent", {"task": "t"})), "done"]
    given = {"task": "go", "agent": {"parameters": {"temperature": 0, "tool_choice": "auto"}}}
    run(log, replies, given, tools=(subagent_tool(),), limits=Limits(max_depth=1))

    parameters = asked(child_path(log, 1))[0]["parameters"]
    assert parameters == {"agent": "subagent", "temperature": 0}


CALL = {"id": "c", "name": "greet", "arguments": {"name": "Ada"}}


@pytest.mark.parametrize("why", ["length", "content_filter"])
@pytest.mark.parametrize("more", [{}, {"tool_calls": [CALL]}])
def test_an_answer_that_was_cut_off_is_kept_and_marked(
    log: Path, why: str, more: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Calls in it are not made: their arguments may be cut, too."""
    recording = run(log, [{"text": "1. off by o", "stop_reason": why, **more}])

    assert (recording.status, recording.reason) == ("completed", "cut")
    assert recording.output == "1. off by o"
    assert not [entry for entry in read_entries(log) if entry.kind == "tool.called"]
    assert list(delegation_tree(log).notable) == ["cut_answer"]
    assert reexecute(log, tools=TOOLS).identical
    refold.api.report_recording(recording)
    assert "cut the answer off" in capsys.readouterr().err


@pytest.mark.parametrize("why", ["refusal", "content_filter"])
@pytest.mark.parametrize("text", ["", " ", "I can't."])
@pytest.mark.parametrize("more", [{}, {"tool_calls": [CALL]}])
def test_a_refusal_without_a_text_is_a_failure(
    log: Path, why: str, text: str, more: dict[str, Any]
) -> None:
    """Calls in it are not made."""
    recording = run(log, [{"text": text, "stop_reason": why, **more}])

    assert not [entry for entry in read_entries(log) if entry.kind == "tool.called"]
    if text.strip():
        assert recording.status == "completed"
    else:
        assert (recording.status, recording.reason) == ("failed", "error")
        assert recording.error is not None
        assert recording.error.code == "refused"
        assert why in recording.error.message
    assert reexecute(log, tools=TOOLS).identical


def test_a_model_that_pauses_is_asked_to_go_on(log: Path) -> None:
    """With what it said so far, which the answer begins with; the limit on requests holds."""
    paused: Reply = {"text": "Let me search.", "stop_reason": "pause_turn"}
    recording = run(log, [paused, "Found."])
    endless = run(log.with_name("b.jsonl"), [paused] * 3, limits=Limits(max_iterations=2))
    stuck = run(log.with_name("c.jsonl"), [paused] * 4)

    assert (recording.reason, recording.output) == ("done", "Let me search.Found.")
    assert [each["content"] for each in asked(log)[1]["added"]] == []
    assert (endless.status, endless.reason) == ("limit", "max_iterations")
    assert (stuck.status, stuck.reason) == ("failed", "no_progress")


def test_results_go_back_in_the_order_of_the_calls_as_text_or_json(log: Path) -> None:
    run(log, [calls(("measure", {"path": "abc"}), ("greet", {"name": "Ada"})), "done"])

    assert told(log) == [
        {
            "role": "tool",
            "tool_call_id": "c0",
            "name": "measure",
            "content": '{"lines":3,"name":"ä"}',
            "is_error": False,
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "name": "greet",
            "content": "Hello Ada",
            "is_error": False,
        },
    ]


def test_the_calls_of_one_reply_run_at_once(log: Path) -> None:
    """Each waits for the other; the second ends first, and the order is that of the calls."""
    both = threading.Barrier(2, timeout=60)
    second_ended = threading.Event()

    @tool(effect="reads")
    def first() -> bool:
        both.wait()
        return second_ended.wait(60)

    @tool(effect="reads")
    def second() -> bool:
        both.wait()
        second_ended.set()
        return True

    run(log, [calls(("first", {}), ("second", {})), "done"], tools=(first, second))

    assert [(item["name"], item["content"]) for item in told(log)] == [
        ("first", "true"),
        ("second", "true"),
    ]


def test_the_world_has_its_turn_within_the_calls_of_one_reply(log: Path) -> None:
    """From the 17th call on, so that a time limit ends a run whose model asks for ever more."""
    many = [("greet", {"name": str(number)}) for number in range(40)]

    found = run(log, [calls(*many), "done"])

    kinds = [entry.kind for entry in read_entries(log)]
    assert kinds.index("timer.fired") == 3 + 16
    assert kinds.count("timer.fired") == 24
    assert [item["tool_call_id"] for item in told(log)] == [f"c{number}" for number in range(40)]
    assert found.status == "completed"
    late = Limits(timeout_seconds=1e-6)
    assert run(log.parent / "late.jsonl", [calls(*many), "done"], limits=late).status == "timed_out"
    assert reexecute(log, "agent").identical


@pytest.mark.parametrize(
    ("call", "content"),
    [
        ({"name": "fails", "arguments": {"why": "no"}}, "ValueError: no"),
        (
            {"name": "greets", "arguments": {}},
            "unknown_tool: no tool is named 'greets'; there are: fails, gives_up, greet, measure",
        ),
        (
            {"name": "greet", "arguments": {}, "invalid": '{"name": '},
            "arguments: expected one JSON object, found '{\"name\": '",
        ),
    ],
)
def test_a_failed_call_is_told_to_the_model_and_the_run_goes_on(
    log: Path, call: dict[str, Any], content: str
) -> None:
    recording = run(log, [{"tool_calls": [call]}, "I see."])

    (result,) = told(log)
    assert (result["content"], result["is_error"]) == (content, True)
    assert recording.output == "I see."


def test_so_are_arguments_that_do_not_fit(log: Path) -> None:
    run(log, [calls(("greet", {"name": 3})), "I see."])

    (result,) = told(log)
    assert result["is_error"] is True
    assert result["content"].startswith("arguments: ")
    assert "/name" in result["content"]


def test_a_turn_adds_to_the_log_only_what_is_new(log: Path) -> None:
    """However long the conversation, each message stands in the log once."""
    turns = [calls(("greet", {"name": str(number)})) for number in range(20)]

    run(log, [*turns, "done"])

    requests = asked(log)
    assert [len(request["added"]) for request in requests] == [1] * 21
    assert [request["base"] for request in requests] == list(range(0, 42, 2))


def test_it_ends_at_its_iterations(log: Path) -> None:
    turns = [calls(("greet", {"name": str(number)})) for number in range(9)]

    recording = run(log, turns, limits=Limits(max_iterations=3))

    assert (recording.status, recording.reason) == ("limit", "max_iterations")
    assert len(asked(log)) == 3


def test_it_ends_when_a_tool_fails_for_good(log: Path) -> None:
    recording = run(log, [calls(("greet", {"name": "Ada"}), ("gives_up", {})), "never said"])

    assert (recording.status, recording.reason) == ("failed", "fatal_tool_error")
    assert recording.error is not None
    assert recording.error.message == "gives_up: fatal: the disk is gone"


def test_it_ends_when_the_same_calls_give_the_same_results_three_times(log: Path) -> None:
    again: Reply = {"tool_calls": [{"name": "greet", "arguments": {"name": "Ada"}}]}

    recording = run(log, [calls(("greet", {"name": "Bob"})), again, again, again, "never said"])

    assert (recording.status, recording.reason) == ("failed", "no_progress")
    assert recording.error is not None
    assert recording.error.message.startswith("greet: the same calls gave the same results 3 times")
    assert len(asked(log)) == 4


def test_it_goes_on_when_something_differs(log: Path) -> None:
    """Another result of the same call, or another call or argument in between, is progress."""
    count = iter(range(9))

    @tool(effect="reads")
    def look(at: int) -> str:
        return "nothing there" if at else "nor here"

    @tool(effect="reads")
    def poll() -> int:
        return next(count)

    again: Reply = {"tool_calls": [{"name": "greet", "arguments": {"name": "Ada"}}]}
    polls: Reply = {"tool_calls": [{"name": "poll", "arguments": {}}]}

    looks = [calls(("look", {"at": at})) for at in (1, 2, 3)]
    others = [polls, polls, polls, again, again, polls, again]
    recording = run(log, [*others, *looks, "done"], tools=(poll, greet, look))

    assert recording.reason == "done"


def test_it_fails_with_the_code_of_the_models_error(log: Path) -> None:
    recording = run(log, [{"error": {"code": "http_529", "message": "overloaded"}}])

    assert (recording.status, recording.reason) == ("failed", "error")
    assert recording.error is not None
    assert recording.error.code == "http_529"
    assert "overloaded" in recording.error.message


def test_it_ends_when_it_is_cancelled(log: Path) -> None:
    asking, let_go = threading.Event(), threading.Event()

    def waits(_request: ModelRequest) -> str:
        asking.set()
        let_go.wait(60)
        return "too late"

    @tool(effect="reads")
    def until_asked() -> bool:
        return asking.wait(60)

    async def parent(run: Any, _input: Any) -> str:
        child = await run.start(Delegation(program="agent", input={"task": "wait"}))
        await run.tool(until_asked)
        run.cancel(child)
        (outcome,) = await run.join(child)
        return str(outcome.status)

    try:
        recording = record(parent, log=log, model=FunctionModel(waits))
    finally:
        let_go.set()

    assert recording.output == "cancelled"
    *_, last = read_entries(log.with_name("run.1.jsonl"))
    assert (last.kind, last.data["reason"]) == ("run.finished", "cancelled")


def test_the_input_says_who_asks_what_and_with_which_tools(log: Path) -> None:
    other = ScriptedModel({"ada": ["by the other"]}, name="other")
    own = {
        "name": "ada",
        "system": "You are Ada.",
        "tools": ["measure", "greet"],
        "model": "other",
        "parameters": {"temperature": 0},
    }

    recording = record(
        "agent",
        {"agent": own, "task": "Go.", "context": "Now.", "files": ["a", "b"]},
        log=log,
        tools=TOOLS,
        model=ScriptedModel(["by the default"]),
        models={"other": other},
    )

    (request,) = asked(log)
    assert recording.output == "by the other"
    assert request["parameters"] == {"agent": "ada", "temperature": 0}
    assert request["added"] == [
        {"role": "system", "content": "You are Ada."},
        {"role": "user", "content": "Go.\n\nContext:\nNow.\n\nFiles:\n- a\n- b"},
    ]


def test_the_model_is_shown_the_tools_that_are_named_and_may_call_no_other(log: Path) -> None:
    seen: list[str] = []

    def model(request: ModelRequest) -> Reply:
        seen.extend(shown.name for shown in request.tools)
        return calls(("greet", {"name": "Ada"})) if len(request.messages) == 1 else "done"

    record(
        "agent",
        {"agent": {"tools": ["measure"]}, "task": "go"},
        log=log,
        tools=TOOLS,
        model=FunctionModel(model),
    )

    assert seen == ["measure", "measure"]
    assert told(log)[0]["content"] == "unknown_tool: no tool is named 'greet'; there are: measure"


def test_a_tool_that_the_run_does_not_have_ends_it(log: Path) -> None:
    recording = run(log, ["never said"], {"agent": {"tools": ["meassure"]}, "task": "go"})

    assert recording.status == "failed"
    assert recording.error is not None
    assert "no tool is named 'meassure'" in recording.error.message


@for_each(
    "given, problem",
    [
        (3, "/: expected an object, found integer 3"),
        ({}, "/task: expected the task as a string, found nothing"),
        ({"task": "  "}, "/task: expected the task as a string, found nothing"),
        ({"task": 3}, "/task: expected a string, found integer 3"),
        (
            {"task": "a", "file": []},
            (
                "/file: expected one of agent, task, context, files, "
                "found the unknown name 'file', did you mean 'files'?"
            ),
        ),
        ({"task": "a", "files": "b"}, "/files: expected an array, found string 'b'"),
        (
            {"task": "a", "agent": {"tools": [1]}},
            "/agent/tools/0: expected a string, found integer 1",
        ),
        ({"task": "a", "agent": "ada"}, "/agent: expected an object, found string 'ada'"),
        (
            {"task": "a", "agent": {"parameters": {"tools": []}}},
            "/agent/parameters/tools: expected a parameter of the model, found a reserved name",
        ),
    ],
)
def test_an_input_of_another_shape_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ArgumentsRefused) as refused:
        read_input(given)

    assert refused.value.problems == (problem,)


def test_null_in_the_input_is_what_is_left_out() -> None:
    given = {"task": "a", "context": None, "files": None, "agent": {"tools": None}}

    assert read_input(given) == read_input({"task": "a"})


def test_an_answer_may_be_a_report_with_artifacts() -> None:
    answer = {"summary": "made", "artifacts": [{"kind": "path", "value": "a.py", "name": "code"}]}

    assert report_of(orjson.dumps(answer).decode()) == Report(
        summary="made",
        output="made",
        artifacts=(Artifact(kind="path", value="a.py", name="code"),),
    )


@for_each(
    "answer",
    [
        "",
        "text",
        "[]",
        "3",
        '{"summary": "a"}',
        '{"summary": 3, "artifacts": []}',
        '{"summary": "a", "artifacts": {}}',
        '{"summary": "a", "artifacts": [], "mood": "good"}',
        '{"summary": "a", "artifacts": [{"kind": "note"}]}',
        '{"summary": "a", "artifacts": [{"kind": "note", "value": 3}]}',
        '{"summary": "a", "artifacts": ["note"]}',
    ],
)
def test_every_other_answer_is_text(answer: str) -> None:
    assert report_of(answer) == Report(summary=answer, output=answer)


def test_its_log_replays_without_any_tool(log: Path) -> None:
    """Not even the types of results are needed, for a model is told JSON."""
    turn = calls(("measure", {"path": "abc"}), ("fails", {"why": "no"}), ("nothing", {}))
    run(log, [turn, calls(("greet", {"name": "Ada"})), "done"])

    report = reexecute(log)

    assert report.identical, str(report)
    assert report.tools_executed == 0


def test_a_task_alone_is_all_of_the_request() -> None:
    """No heading stands over nothing; context and files have one each."""
    alone = AgentInput(task="Look.")

    assert alone.request == "Look."
    assert attrs.evolve(alone, files=("a", "b")).request == "Look.\n\nFiles:\n- a\n- b"
    assert attrs.evolve(alone, context="c").request == "Look.\n\nContext:\nc"
