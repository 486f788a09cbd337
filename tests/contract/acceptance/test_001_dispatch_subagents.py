"""The `dispatch_subagents` tool and plans hold to their document: checks 29 to 53."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold import resume
from refold.engine.errors import ToolError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Report, Usage
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel, ScriptedModel
from refold.engine.ports.ports import Delegation, ModelReply, ModelRequest, Reference
from refold.engine.program.run import Run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.engine.session import Session, ToolInvoked
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.agents.plans import (
    Plan,
    PlanningToolsSection,
    PlanStep,
    planning_tools,
    register_plans,
)
from refold.tools.agents.prompts import (
    Prompt,
    RenderedPrompt,
    ToolContext,
    ToolResult,
    context_of,
    use_prompt,
)
from refold.tools.contract.tool_types import DelegationTool, tool
from refold.tools.delegation.dispatch_subagents import (
    DispatchSubagentsOptions,
    DispatchSubagentsParams,
    SubagentIsolationLevel,
    SubagentResult,
    SubagentsSection,
    SubagentTask,
    build_dispatch_subagents_tool,
    dispatch_subagents,
    subagents_tool,
)
from refold.tools.delegation.words import NOTHING
from tests.support.sessions import Finding, findings

FULL = SubagentIsolationLevel.FULL_ISOLATION
NONE = SubagentIsolationLevel.NO_ISOLATION
LEVELS = pytest.mark.parametrize("level", [FULL, NONE])
PATIENCE_SECONDS = 60


def tasks(*objectives: str, steps: tuple[str, ...] = ()) -> DispatchSubagentsParams:
    return DispatchSubagentsParams([SubagentTask(objective, steps) for objective in objectives])


def entries(log: Path, *kinds: str) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(log) if entry.kind in kinds]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def parent_of(
    asked: DispatchSubagentsParams,
    results: list[Any],
    change: Callable[[ToolContext], ToolContext] = lambda context: context,
    **options: Any,
) -> Any:
    """Return a program that dispatches through the documented entry point."""
    dispatch = subagents_tool(**options)

    async def parent(run: Run, _input: Any) -> Any:
        result = await dispatch.handler(asked, context=change(context_of(run)))
        results.append(result)
        return result.as_json()

    return parent


def dispatched(
    log: Path,
    asked: DispatchSubagentsParams,
    *,
    change: Callable[[ToolContext], ToolContext] = lambda context: context,
    session: Session | None = None,
    recorded: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Dispatch once from a root run, and return the result."""
    results: list[Any] = []
    chosen = {"seed": 1, "session": session or findings(), **(recorded or {})}
    recording = record(parent_of(asked, results, change, **options), log=log, **chosen)
    assert recording.status == "completed", recording.error
    (result,) = results
    assert isinstance(result, ToolResult)
    return result


def objective(given: Any) -> str:
    return str(given["task"])


async def echo(_run: Run, given: Any) -> str:
    return f"did {objective(given)}"


# --- the section, the tool and its parameters ---------------------------------------------------


def test_029_the_section_lists_the_tool_and_explains_it() -> None:
    section = SubagentsSection()

    assert [one.name for one in section.tools()] == ["dispatch_subagents"]
    text = " ".join(section.render({}).split())
    assert "dispatch_subagents" in text
    assert "parallel" in text
    assert "Each task becomes a Plan in the subagent's isolated session" in text


def test_030_the_section_takes_two_arguments_and_hands_one_on() -> None:
    section = SubagentsSection()

    assert section.isolation_level is FULL
    assert section.accepts_overrides is False
    assert [one.accepts_overrides for one in section.tools()] == [False]  # type: ignore[attr-defined]  # of a PromptTool
    (handed_on,) = SubagentsSection(isolation_level=NONE, accepts_overrides=True).tools()
    assert handed_on.accepts_overrides is True  # type: ignore[attr-defined]  # as above
    for unknown in ("workers", "tasks", "template", "session"):
        with pytest.raises(TypeError, match=unknown):
            SubagentsSection(**{unknown: 1})  # type: ignore[arg-type]  # which is the point


def test_030_the_section_says_what_its_level_of_isolation_does() -> None:
    """No plan is made where children act on the caller's session, and none is promised."""
    texts = {
        level: Prompt[str](ns="n", key="k", sections=(SubagentsSection(isolation_level=level),))
        .render()
        .text
        for level in (FULL, NONE)
    }

    assert "Plan in the subagent's isolated session" in " ".join(texts[FULL].split())
    assert "isolated" not in texts[NONE]
    assert "no Plan is made" in " ".join(texts[NONE].split())


@LEVELS
def test_030_the_section_hands_its_level_of_isolation_on(
    log: Path, level: SubagentIsolationLevel
) -> None:
    """What its children note is in the caller's session where they share it, and nowhere else."""
    session = findings()
    (dispatch,) = SubagentsSection(isolation_level=level).tools()

    async def parent(run: Run, _input: Any) -> list[str]:
        await dispatch.handler(tasks("a", "b"), context=context_of(run))  # type: ignore[attr-defined]  # of a `PromptTool`
        return [finding.text for finding in run.session.select_all(Finding)]

    replies: list[Any] = [{"name": "note", "arguments": {"text": "seen"}}, "done"]
    model = ScriptedModel({"*": replies})
    recording = record(parent, log=log, session=session, tools=[NOTE], model=model)

    assert recording.output == (["seen", "seen"] if level is NONE else [])


def test_031_tasks_become_a_tuple_and_steps_default_to_none() -> None:
    task = SubagentTask("gather")
    asked = DispatchSubagentsParams(tasks=[task])

    assert asked.tasks == (task,)
    assert isinstance(asked.tasks, tuple)
    assert task.steps == ()
    with pytest.raises(AttributeError):
        task.steps = ("a",)  # type: ignore[misc]  # which is the point


def test_032_a_prompt_that_was_not_rendered_is_a_failing_result(log: Path) -> None:
    result = dispatched(
        log, tasks("a"), change=lambda context: attrs.evolve(context, rendered_prompt=None)
    )

    assert (result.success, result.value) == (False, None)
    assert result.message == "dispatch_subagents requires the parent prompt to be rendered."
    assert entries(log, "child.started") == []


def test_032_so_is_a_program_that_cannot_be_found(log: Path) -> None:
    result = dispatched(log, tasks("a"), program="no_such_module_x:leaf")

    assert (result.success, result.value) == (False, None)
    assert result.message == (
        "Subagent execution failed: program 'no_such_module_x': No module named 'no_such_module_x'"
    )


def test_033_no_tasks_are_a_success_with_nothing(log: Path) -> None:
    result = dispatched(log, DispatchSubagentsParams([]))

    assert result == ToolResult("No tasks supplied.", (), success=True)


@attrs.frozen
class Weekly:
    text: str


@pytest.mark.parametrize("output", ["str", "Weekly", "none"])
def test_034_a_structured_output_may_be_required(log: Path, output: str) -> None:
    known: dict[str, Prompt[Any]] = {
        "str": Prompt[str](ns="n", key="k"),
        "Weekly": Prompt[Weekly](ns="n", key="k"),
        "none": Prompt(ns="n", key="k"),
    }
    rendered = known[output].render()

    result = dispatched(
        log,
        tasks("a"),
        change=lambda context: attrs.evolve(context, rendered_prompt=rendered),
        program=echo,
        require_output_type=True,
    )

    assert result.success is (output == "Weekly")
    if not result.success:
        expected = "Parent prompt must declare a dataclass output type for delegation."
        assert (result.value, result.message) == (None, expected)
    assert DispatchSubagentsOptions().require_output_type is False


# --- results ------------------------------------------------------------------------------------


def test_035_results_are_in_the_order_of_the_tasks_though_the_last_ends_first(log: Path) -> None:
    """Each child waits until the one after it is done."""
    done = [threading.Event() for _ in range(4)]
    done[3].set()
    ended: list[int] = []

    def child(_run: Any, given: Any) -> str:
        number = int(objective(given))
        assert done[number + 1].wait(PATIENCE_SECONDS)
        ended.append(number)
        done[number].set()
        return f"did {number}"

    result = dispatched(log, tasks("0", "1", "2"), program=child)

    assert ended == [2, 1, 0]
    assert result.value == tuple(SubagentResult(f"did {n}", success=True) for n in range(3))
    assert result.message == "3 of 3 subagents succeeded."


@LEVELS
def test_036_children_overlap_in_time(log: Path, level: SubagentIsolationLevel) -> None:
    barrier = threading.Barrier(2)

    def child(_run: Any, _given: Any) -> str:
        barrier.wait(PATIENCE_SECONDS)
        return "met"

    result = dispatched(log, tasks("a", "b"), program=child, isolation_level=level)

    assert [one.output for one in result.value] == ["met", "met"]


def test_037_there_is_a_worker_for_each_task_up_to_the_runs_own_cap(log: Path) -> None:
    """`min(len(tasks), default)`, where the default is the run's `max_children`."""
    barrier = threading.Barrier(12)

    def child(_run: Any, given: Any) -> str:
        if objective(given) != "over":
            barrier.wait(PATIENCE_SECONDS)
        return "met"

    names = [*(f"t{n}" for n in range(12)), "over"]
    result = dispatched(
        log, tasks(*names), program=child, recorded={"limits": Limits(max_children=12)}
    )

    assert [one.output for one in result.value] == ["met"] * 12 + [""]
    assert result.value[12].error.startswith(
        "max_children: this run may start no more children (12 allowed)"
    )


def test_037_tasks_beyond_the_workers_are_queued_and_none_is_refused(log: Path) -> None:
    """64 children meet, and look out for one more; the other six begin once one has ended."""
    barrier, beyond = threading.Barrier(64), threading.Event()
    saw_one_more: list[bool] = []

    def child(_run: Any, given: Any) -> str:
        if int(objective(given)) < 64:
            barrier.wait(PATIENCE_SECONDS)
            saw_one_more.append(beyond.wait(0.3))
        else:
            beyond.set()
        return "did it"

    result = dispatched(log, tasks(*map(str, range(70))), program=child)

    assert [one.output for one in result.value] == ["did it"] * 70
    assert not all(saw_one_more)  # the first to end saw none: there was no place before


def test_037_the_number_of_workers_is_not_in_the_log(tmp_path: Path) -> None:
    """Runs whose children end in opposite orders have one data digest, and say nothing of it."""
    digests = set()
    for name, first in (("a", "0"), ("b", "1")):
        free = threading.Event()

        def child(_run: Any, given: Any, first: str = first, free: threading.Event = free) -> str:
            if objective(given) == first:
                free.set()
            assert free.wait(PATIENCE_SECONDS)
            return "done"

        log = tmp_path / f"{name}.jsonl"
        recording = record(
            parent_of(tasks("0", "1"), [], program=child),
            log=log,
            seed=1,
            session=findings(),
            clock=Still(),
        )
        digests.add(recording.data_digest)
        assert b"worker" not in log.read_bytes()

    assert len(digests) == 1


class Still:
    """A clock that stands."""

    def time_us(self) -> int:
        return 1_000_000


FAILURE = "raised: RuntimeError: the disk is full. Change the task, or do the work yourself."


@LEVELS
def test_038_a_child_that_raises_fails_alone(log: Path, level: SubagentIsolationLevel) -> None:
    async def child(run: Run, given: Any) -> str:
        if objective(given) == "b":
            raise RuntimeError("the disk is full")
        return await echo(run, given)

    result = dispatched(log, tasks("a", "b", "c"), program=child, isolation_level=level)

    assert result.success is True
    assert result.value == (
        SubagentResult("did a", success=True),
        SubagentResult("", success=False, error=FAILURE),
        SubagentResult("did c", success=True),
    )


def test_039_an_exception_without_text_is_told_all_the_same(log: Path) -> None:
    async def child(_run: Run, _given: Any) -> str:
        raise RuntimeError

    result = dispatched(log, tasks("a"), program=child)

    assert (
        result.value[0].error == "raised: RuntimeError. Change the task, or do the work yourself."
    )


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        ("text", "text"),
        (Weekly("x"), '{"text":"x"}'),
        (7, "7"),
        (None, NOTHING),
        ("", NOTHING),
        (Report(summary="short", output={"long": 1}), "short"),
        (Report(summary="", output={"long": 1}), '{"long":1}'),
    ],
)
def test_040_an_output_is_always_text(log: Path, returned: Any, output: str) -> None:
    async def child(_run: Run, _given: Any) -> Any:
        return returned

    result = dispatched(
        log, tasks("a"), program=child, isolation_level=NONE, recorded={"session": None}
    )

    assert result.value == (SubagentResult(output, success=True),)


def test_041_results_render() -> None:
    assert SubagentResult("out", success=True).render() == "Subagent succeeded:\n\nout"
    failed = SubagentResult("", success=False, error="no")
    assert failed.render() == "Subagent failed: no\n\n"


# --- full isolation -----------------------------------------------------------------------------


def test_042_a_child_has_a_session_and_a_run_of_its_own(log: Path) -> None:
    session, seen = findings(), list[Any]()

    async def child(run: Run, _given: Any) -> None:
        seen.append((run.session, run.session.parent, run.id))

    dispatched(log, tasks("a", "b"), program=child, session=session)

    sessions, parents, runs = zip(*seen, strict=True)
    assert len({id(one) for one in (*sessions, session)}) == 3
    assert parents == (session, session)
    (root,) = entries(log, "run.started")
    started = [entries(log.with_name(f"run.{n}.jsonl"), "run.started")[0] for n in (1, 2)]
    assert {one["run_id"] for one in started} == set(runs)
    assert len({root["run_id"], *runs}) == 3
    assert [one["parent"]["run"] for one in started] == [root["run_id"]] * 2


def test_043_a_childs_plan_stands_before_its_first_turn(log: Path) -> None:
    plans: list[Plan | None] = []

    async def child(run: Run, _given: Any) -> None:
        plans.append(run.session.latest(Plan))

    dispatched(log, tasks("gather", steps=("pull", "highlight")), program=child)

    steps = (PlanStep(1, "pull", "pending"), PlanStep(2, "highlight", "pending"))
    assert plans == [Plan("gather", "active", steps)]
    kinds = [entry.kind for entry in read_entries(log.with_name("run.1.jsonl"))]
    assert kinds[:2] == ["run.started", "session.seeded"]


def test_044_neither_the_parents_state_nor_its_subscribers_see_a_child(log: Path) -> None:
    session, told = findings(), list[Any]()
    session.register(ToolInvoked)
    session.dispatch(Finding("before"))
    session.bus.subscribe(object, told.append)
    before = session.digest()

    async def child(run: Run, _given: Any) -> None:
        run.session.dispatch(Finding("mine"))
        run.session.bus.publish(Finding("published"))
        await run.tool("planning_add_step", steps=["more"])
        assert len(run.session.select_all(Finding)) == 3

    result = dispatched(log, tasks("a", "b"), program=child, session=session)

    assert [one.success for one in result.value] == [True, True]
    assert session.digest() == before
    assert told == []


class Uncloneable:
    """A session that nobody can copy."""


@pytest.mark.parametrize("how", ["no clone", "no snapshot", "no session"])
def test_045_a_session_that_cannot_be_cloned_starts_no_child(log: Path, how: str) -> None:
    class Loose(Session):
        def clone(self, *_: Any) -> Any:
            return Uncloneable()

    @attrs.frozen
    class Held:
        what: Any

    held = Session()
    held.register(Held)
    held.dispatch(Held(what := list[object]()))
    what.append(object())
    session: Any = {"no clone": Uncloneable(), "no snapshot": held, "no session": Loose()}[how]

    result = dispatched(
        log, tasks("a", "b"), change=lambda context: attrs.evolve(context, session=session)
    )

    expected = {
        "no clone": "Parent session does not support cloning for full isolation.",
        "no snapshot": "Parent session does not support cloning for full isolation. slice ",
        "no session": "Cloned session must be a Session instance for plan injection.",
    }
    assert (result.success, result.value) == (False, None)
    assert result.message.startswith(expected[how])
    assert "lon" in result.message
    assert entries(log, "child.started") == []


# --- no isolation -------------------------------------------------------------------------------


def test_046_without_isolation_children_act_on_the_parents_session(log: Path) -> None:
    """What one child changes its sibling sees before either has ended; no plan is set up."""
    session, told, seen = findings(), list[Any](), list[Any]()
    session.bus.subscribe(Finding, told.append)
    changed, looked = threading.Event(), threading.Event()

    def child(run: Any, given: Any) -> str:
        if objective(given) == "writes":
            run.session.dispatch(Finding("mine"))
            changed.set()
            assert looked.wait(PATIENCE_SECONDS)
        else:
            assert changed.wait(PATIENCE_SECONDS)
            seen.append((run.session.select_all(Finding), session.select_all(Finding)))
            seen.append(run.session.latest(Plan))
            looked.set()
        return "ok"

    asked, results = tasks("writes", "reads", steps=("one",)), list[Any]()
    program = parent_of(asked, results, program=child, isolation_level=NONE)
    recording = record(program, log=log, session=session, seed=1)

    assert recording.status == "completed", recording.error
    assert [one.success for one in results[0].value] == [True, True]
    assert seen == [((Finding("mine"),), (Finding("mine"),)), None]
    assert told == [Finding("mine")]
    assert session.select_all(Plan) == ()
    (change,) = entries(log, "session.changed")
    assert (change["event"], change["data"]) == ("Finding", {"text": "mine"})
    assert change["by"] == entries(log.with_name("run.1.jsonl"), "run.started")[0]["path"]
    changed.set()
    looked.set()
    report = reexecute(log, program, session=findings())
    assert report.identical, str(report)


def test_047_a_model_cannot_choose_the_isolation(log: Path) -> None:
    (properties,) = (dispatch_subagents.parameters["properties"],)
    assert list(properties) == ["tasks"]
    assert list(properties["tasks"]["items"]["properties"]) == ["objective", "steps"]

    async def parent(run: Run, _input: Any) -> str:
        with pytest.raises(ToolError) as refused:
            await run.tool(dispatch_subagents, tasks=[], isolation_level="NO_ISOLATION")
        return refused.value.message

    recording = record(parent, log=log, session=findings())

    assert "isolation_level" in recording.output


@LEVELS
def test_047_a_models_call_has_the_level_of_the_section(
    log: Path, level: SubagentIsolationLevel
) -> None:
    session = findings()
    call = {"name": "dispatch_subagents", "arguments": {"tasks": [{"objective": "a"}]}}
    script: dict[str, list[Any]] = {
        "agent": [call, "done"],
        "run-delegation": [{"name": "note", "arguments": {"text": "seen"}}, "noted"],
    }
    tools = [*SubagentsSection(isolation_level=level).tools(), NOTE]

    recording = record(
        "agent", {"task": "go"}, log=log, session=session, tools=tools, model=ScriptedModel(script)
    )

    assert recording.output == "done", recording.error
    assert session.select_all(Finding) == ((Finding("seen"),) if level is NONE else ())


# --- plans in children --------------------------------------------------------------------------


@tool(effect="reads")
def look(path: str) -> str:
    """Look at a file."""
    return f"seen {path}"


async def noted(run: Run, arguments: dict[str, Any], /) -> str:
    run.session.dispatch(Finding(arguments["text"]))
    return f"{len(run.session.select_all(Finding))}"


NOTE = DelegationTool(
    name="note", description="Note a finding.", parameters={"type": "object"}, handler=noted
)


@pytest.mark.parametrize("with_planning", [True, False])
def test_048_children_call_planning_tools_and_the_parents(log: Path, with_planning: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Whether or not the parent has the planning tools too."""
    session = findings()
    own = PlanningToolsSection(session).tools() if with_planning else ()
    replies: list[Any] = [
        {
            "tool_calls": [
                {"name": "planning_read_plan"},
                {"name": "look", "arguments": {"path": "a"}},
                {"name": "note", "arguments": {"text": "seen"}},
            ]
        },
        {"name": "planning_update_step", "arguments": {"step_id": 1, "status": "done"}},
        "finished",
    ]
    model = ScriptedModel({"run-delegation": replies})

    result = dispatched(
        log,
        tasks("a", "b", steps=("s1",)),
        session=session,
        recorded={"tools": [look, NOTE, *own], "model": model},
    )

    assert [one.output for one in result.value] == ["finished", "finished"]
    for number in (1, 2):
        asked = entries(log.with_name(f"run.{number}.jsonl"), "model.asked")
        answers = [one for each in asked for one in each["added"] if one["role"] == "tool"]
        assert [one["is_error"] for one in answers] == [False] * 4
        assert '"status":"completed"' in answers[-1]["content"]
    outcomes = entries(log, "child.finished")
    plans = [one["outcome"]["artifacts"][-1] for one in outcomes]
    assert [plan["name"] for plan in plans] == ["plan", "plan"]
    assert all('"status":"completed"' in plan["value"] for plan in plans)


@pytest.mark.parametrize("with_planning", [True, False])
def test_049_adding_a_step_adds_exactly_one(log: Path, with_planning: bool) -> None:  # noqa: FBT001 - a parameter of the test
    session = findings()
    if with_planning:
        PlanningToolsSection(session)
        PlanningToolsSection(session)
    plans: list[Plan] = []

    async def child(run: Run, _given: Any) -> None:
        await run.tool("planning_add_step", steps=["s2"])
        plans.append(run.session.latest(Plan))

    dispatched(log, tasks("a", steps=("s1",)), program=child, session=session)

    assert [step.title for step in plans[0].steps] == ["s1", "s2"]
    assert [step.id for step in plans[0].steps] == [1, 2]


@LEVELS
def test_050_children_never_see_each_others_objective(
    log: Path, level: SubagentIsolationLevel
) -> None:
    barrier = threading.Barrier(2)
    asked: list[str] = []

    def answer(request: ModelRequest) -> str:
        barrier.wait(PATIENCE_SECONDS)
        asked.append(str(request.messages))
        return "ok"

    asking = tasks("find alpha", "find omega", steps=("do it",))
    dispatched(log, asking, isolation_level=level, recorded={"model": FunctionModel(answer)})

    assert sorted("alpha" in one for one in asked) == [False, True]
    for one in asked:
        assert ("alpha" in one) != ("omega" in one)
        assert "do it" in one
    started = entries(log, "child.started")
    briefs = [one["delegation"]["brief"] for one in started]
    assert briefs == ["find alpha", "find omega"]
    for number, brief in enumerate(briefs, 1):
        first = str(entries(log.with_name(f"run.{number}.jsonl"), "run.started", "session.seeded"))
        assert brief in first
        assert not any(other in first for other in briefs if other != brief)


def test_050_the_delegation_prompt_is_named_after_the_parents(log: Path) -> None:
    rendered = RenderedPrompt(ns="weekly", key="team", text="")

    async def parent(run: Run, _input: Any) -> None:
        use_prompt(run, rendered)
        await run.tool(dispatch_subagents, tasks=[{"objective": "a"}])

    record(parent, log=log, session=findings(), model=ScriptedModel(["ok"]))

    (started,) = entries(log, "child.started")
    assert started["delegation"]["agent"] == "team-delegation"
    system = started["delegation"]["input"]["agent"]["system"]
    assert "Complete all plan steps before you return" in system


# --- budget and deadline ------------------------------------------------------------------------


def spending(tokens: int) -> FunctionModel:
    def answer(_request: ModelRequest) -> ModelReply:
        usage = Usage(input_tokens=tokens, requests=1)
        return ModelReply(message={"role": "assistant", "content": "ok"}, usage=usage)

    return FunctionModel(answer)


def asking_of(level: SubagentIsolationLevel, *objectives: str) -> Any:
    """Return a program that dispatches, and then asks the model itself."""

    async def parent(run: Run, _input: Any) -> Any:
        dispatch = build_dispatch_subagents_tool(isolation_level=level)
        result = await dispatch.handler(tasks(*objectives), context=context_of(run))
        left = run.tokens_left
        await run.model([{"role": "user", "content": "go on"}])
        return [[one.success for one in result.value], left]

    return parent


def spent(log: Path, level: SubagentIsolationLevel, tokens: int) -> Recording:
    """Record a parent of two children, each request of 30 tokens."""
    limits = Limits(model_tokens=tokens)
    asking = asking_of(level, "a", "b")
    return record(asking, log=log, session=findings(), model=spending(30), limits=limits)


@LEVELS
def test_051_the_budget_is_shared_with_children(log: Path, level: SubagentIsolationLevel) -> None:
    """Both get a part, both are charged, and what is left is the parent's."""
    recording = spent(log, level, 100)

    assert recording.output == [[True, True], 40]
    assert recording.usage.input_tokens == 90
    started = entries(log, "child.started")
    assert [one["delegation"]["limits"]["model_tokens"] for one in started] == [50, 50]


@LEVELS
def test_051_a_budget_that_children_used_up_leaves_the_parent_one_request(
    log: Path, level: SubagentIsolationLevel
) -> None:
    """With it the parent answers for what came of them (§8.3)."""
    recording = spent(log, level, 60)

    assert recording.output == [[True, True], 0]
    assert recording.usage.input_tokens == 90


def thrifty(cost: dict[str, int], after: dict[str, list[str]] | None = None) -> FunctionModel:
    """Return a model in which each child asks for 10 tokens at a time, as often as its task costs.

    A child first waits until those that `after` names for it have had their last answer.
    """
    spent: dict[str, int] = {}
    ended = {name: threading.Event() for name in cost}

    def answer(request: ModelRequest) -> ModelReply:
        task = next(one["content"] for one in request.messages if one["role"] == "user")
        for name in (after or {}).get(task, []):
            assert ended[name].wait(PATIENCE_SECONDS)
        spent[task] = spent.get(task, 0) + 10
        message: dict[str, Any] = {"role": "assistant", "content": "did it"}
        if spent[task] < cost[task]:
            step = {"id": str(spent[task]), "name": "nothing", "arguments": {"n": spent[task]}}
            message["tool_calls"] = [step]
        else:
            ended[task].set()
        return ModelReply(message=message, usage=Usage(output_tokens=10, requests=1))

    return FunctionModel(answer)


def granted_to(log: Path) -> list[tuple[int, str]]:
    return [(one["tokens"], one["to"]) for one in entries(log, "tokens.granted")]


def drawn_by(log: Path) -> list[int]:
    return [one["value"] for one in entries(log, "value.drawn") if one["source"] == "tokens"]


@LEVELS
@pytest.mark.parametrize("first", ["a", "b"])
def test_051_a_child_is_given_what_its_sibling_leaves(
    log: Path, level: SubagentIsolationLevel, first: str
) -> None:
    """Of 100, children that need 80 and 10 complete, whichever ends first; a replay gives both."""
    after = {"a": ["b"]} if first == "b" else {"b": []}
    model = thrifty({"a": 80, "b": 10}, after)

    async def parent(run: Run, _input: Any) -> Any:
        dispatch = build_dispatch_subagents_tool(isolation_level=level)
        result = await dispatch.handler(tasks("a", "b"), context=context_of(run))
        return [[one.success for one in result.value], run.tokens_left]

    limits = Limits(model_tokens=100)
    recording = record(parent, log=log, session=findings(), model=model, limits=limits)

    assert recording.output == [[True, True], 10]
    (start_of_a, _) = [one.call for one in read_entries(log) if one.kind == "child.started"]
    assert granted_to(log) == [(40, start_of_a)]
    assert drawn_by(log.with_name("run.1.jsonl")) == [40]
    assert reexecute(log, parent, session=findings()).identical


def test_051_so_are_children_that_nobody_gave_a_part(log: Path) -> None:
    """Whoever starts them, and one by one: each begins with half of what is left."""

    async def parent(run: Run, _input: Any) -> Any:
        children = [
            await run.start(Delegation(program="agent", input={"task": task})) for task in "abc"
        ]
        return [one.status for one in await run.join(*children)]

    model = thrifty({"a": 20, "b": 60, "c": 20})
    recording = record(parent, log=log, model=model, limits=Limits(model_tokens=100))

    assert recording.output == ["completed"] * 3
    started = entries(log, "child.started")
    assert [one["delegation"]["limits"]["model_tokens"] for one in started] == [50, 25, 12]
    assert reexecute(log, parent).identical


def test_051_who_is_given_too_little_asks_again(log: Path) -> None:
    """What `c` used beyond its part leaves 5 for `b`, who needs more; `a` gives the rest back."""

    async def parent(run: Run, _input: Any) -> Any:
        children = [
            await run.start(Delegation(program="agent", input={"task": task})) for task in "abc"
        ]
        await run.join(children[2])
        c_has_ended.set()
        return [one.status for one in await run.join(*children)]

    c_has_ended = threading.Event()
    thrift = thrifty({"a": 20, "b": 60, "c": 20})

    def answer(request: ModelRequest) -> ModelReply:
        task = next(one["content"] for one in request.messages if one["role"] == "user")
        if task == "b":
            assert c_has_ended.wait(PATIENCE_SECONDS)
        if task == "a":
            left = PATIENCE_SECONDS * 100
            while b'"tokens.granted"' not in log.read_bytes() and (left := left - 1):
                threading.Event().wait(0.01)
        return thrift.complete(request)

    recording = record(
        parent, log=log, model=FunctionModel(answer), limits=Limits(model_tokens=100)
    )

    assert recording.output == ["completed"] * 3
    assert drawn_by(log.with_name("run.2.jsonl"))[0] == 5
    assert reexecute(log, parent).identical


async def spends(run: Run, requests: int) -> int:
    for _ in range(requests):
        await run.model([{"role": "user", "content": "more"}])
    return requests


async def shares(run: Run, _input: Any) -> Any:
    children = [
        await run.start(Delegation(program=spends, input=requests, part=50)) for requests in (8, 1)
    ]
    return [one.output for one in await run.join(*children)]


def test_051_a_run_that_broke_off_after_tokens_were_given_goes_on(log: Path) -> None:
    """What was given stands in both logs: neither asks, or gives, the same again."""
    reply: Any = {"text": "ok", "usage": {"output_tokens": 10}}
    model = ScriptedModel([reply] * 20)
    record(shares, log=log, model=model, limits=Limits(model_tokens=100))
    for path, word in ((log, b'"tokens.granted"'), (log.with_name("run.1.jsonl"), b'"tokens"')):
        lines = path.read_bytes().splitlines(keepends=True)
        (last,) = [at for at, line in enumerate(lines) if word in line]
        path.write_bytes(b"".join(lines[: last + 1]))

    gone_on = resume(log, shares, models={"": model})

    assert gone_on.output == [8, 1]
    assert [tokens for tokens, _ in granted_to(log)] == [40]
    assert drawn_by(log.with_name("run.1.jsonl")) == [40]
    assert reexecute(log, shares).identical


SPENDS = """
async def spends(run, given):
    for _ in range(int(given["task"])):
        await run.model([{"role": "user", "content": "more"}])
    return "did it"
"""


def test_051_so_is_one_in_a_process_of_its_own(log: Path) -> None:
    """It asks over a pair of sockets, and gets the same."""
    program = log.with_name("spends.py")
    program.write_text(SPENDS)
    reply: Any = {"text": "ok", "usage": {"output_tokens": 10}}

    result = dispatched(
        log,
        tasks("8", "1"),
        program=f"{program}:spends",
        runner="subprocess",
        recorded={
            "model": ScriptedModel([reply] * 8),
            "limits": Limits(model_tokens=100),
            "session": Session(factory=Reference("refold.engine.session", "Session", {})),
        },
    )

    assert [one.output for one in result.value] == ["did it", "did it"]
    assert [tokens for tokens, _ in granted_to(log)] == [40]
    assert drawn_by(log.with_name("run.1.jsonl")) == [40]


def test_051_a_budget_that_is_used_up_refuses_the_first_that_waits(log: Path) -> None:
    """Where all who run wait, nobody can give back any; none is kept waiting for ever."""
    model = thrifty({"a": 80, "b": 80})
    result = dispatched(
        log, tasks("a", "b"), recorded={"model": model, "limits": Limits(model_tokens=100)}
    )

    errors = [one.error for one in result.value]
    assert all(error.startswith("model_tokens") for error in errors), errors
    assert drawn_by(log.with_name("run.1.jsonl")) == [0]
    assert granted_to(log) == []


def test_051_a_child_with_a_cap_of_its_own_is_given_no_more(log: Path) -> None:
    model = thrifty({"a": 80, "b": 10})
    result = dispatched(
        log,
        tasks("a", "b"),
        limits=Limits(model_tokens=20),
        recorded={"model": model, "limits": Limits(model_tokens=100)},
    )

    assert [one.success for one in result.value] == [False, True]
    assert granted_to(log) == []


def test_051_what_is_given_comes_from_above_where_the_parent_has_none(log: Path) -> None:
    """A grandchild asks its parent, which asks the root; each grant is in each of their logs."""
    model = thrifty({"a": 90})

    async def middle(run: Run, _given: Any) -> Any:
        result = await build_dispatch_subagents_tool().handler(tasks("a"), context=context_of(run))
        return result.value[0].success

    async def other(_run: Run, _given: Any) -> None:
        return None

    async def parent(run: Run, _input: Any) -> Any:
        started = [
            await run.start(Delegation(program=program, part=50, session=run.session.clone()))
            for program in (middle, other)
        ]
        return [one.output for one in await run.join(*started)]

    limits = Limits(model_tokens=100)
    recording = record(parent, log=log, session=findings(), model=model, limits=limits)

    assert recording.output == [True, None]
    assert [tokens for tokens, _ in granted_to(log)] == [50]
    assert [tokens for tokens, _ in granted_to(log.with_name("run.1.jsonl"))] == [50, 50]
    assert drawn_by(log.with_name("run.1.1.jsonl")) == [50]
    assert reexecute(log, parent, session=findings()).identical


@LEVELS
def test_051_the_deadline_is_handed_on(log: Path, level: SubagentIsolationLevel) -> None:
    limits = Limits(timeout_seconds=PATIENCE_SECONDS)

    dispatched(log, tasks("a"), program=echo, isolation_level=level, recorded={"limits": limits})

    (started,) = entries(log, "child.started")
    assert started["delegation"]["limits"]["timeout_seconds"] <= PATIENCE_SECONDS


# --- plan tools ---------------------------------------------------------------------------------


def planned(log: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Call planning tools in turn; return each result's plan, or each failure's text."""

    async def program(run: Run, _input: Any) -> list[Any]:
        results: list[Any] = []
        for name, arguments in calls:
            try:
                results.append((await run.tool(f"planning_{name}", **arguments))["value"])
            except ToolError as error:
                results.append(error.message)
        return results

    recording = record(program, log=log, tools=planning_tools(), session=Session())
    assert recording.status == "completed", recording.error
    output: list[Any] = recording.output
    return output


def test_052_a_plan_goes_from_pending_to_completed_and_then_stands(log: Path) -> None:
    results = planned(
        log,
        ("setup_plan", {"objective": "  ship it ", "initial_steps": ["build", " test "]}),
        ("update_step", {"step_id": 1, "status": "in_progress"}),
        ("update_step", {"step_id": 1, "status": "done"}),
        ("update_step", {"step_id": 2, "title": "test twice", "status": "done"}),
        ("add_step", {"steps": ["more"]}),
        ("update_step", {"step_id": 1, "status": "pending"}),
        ("update_step", {"step_id": 1, "status": "paused"}),
        ("read_plan", {}),
    )

    assert results[0] == {
        "objective": "ship it",
        "status": "active",
        "steps": [
            {"id": 1, "title": "build", "status": "pending"},
            {"id": 2, "title": "test", "status": "pending"},
        ],
    }
    assert [plan["status"] for plan in results[:4]] == ["active", "active", "active", "completed"]
    assert [plan["steps"][0]["status"] for plan in results[1:3]] == ["in_progress", "done"]
    assert results[4:6] == ["Plan must be active. Current status: completed."] * 2
    assert "'pending', 'in_progress', 'done'" in results[6]
    assert results[7] == results[3]
    assert results[7]["steps"][1] == {"id": 2, "title": "test twice", "status": "done"}


def test_052_a_plan_without_steps_is_never_completed_and_ids_go_on(log: Path) -> None:
    results = planned(
        log,
        ("setup_plan", {"objective": "a"}),
        ("add_step", {"steps": ["one", "two"]}),
        ("add_step", {"steps": ["three"]}),
        ("setup_plan", {"objective": "b", "initial_steps": ["anew"]}),
    )

    assert [plan["status"] for plan in results] == ["active"] * 4
    assert [step["id"] for step in results[2]["steps"]] == [1, 2, 3]
    assert [step["id"] for step in results[3]["steps"]] == [1]


def test_053_refusals_have_their_documented_words(log: Path) -> None:
    results = planned(
        log,
        ("read_plan", {}),
        ("add_step", {"steps": ["a"]}),
        ("update_step", {"step_id": 1, "status": "done"}),
        ("setup_plan", {"objective": " "}),
        ("setup_plan", {"objective": "a" * 501}),
        ("setup_plan", {"objective": "a", "initial_steps": ["b" * 501]}),
        ("setup_plan", {"objective": "a" * 500, "initial_steps": ["b" * 500]}),
        ("update_step", {"step_id": 9, "status": "done"}),
        ("update_step", {"step_id": 1}),
        ("update_step", {"step_id": 1, "title": "b" * 501}),
        ("update_step", {"step_id": 1, "title": ""}),
        ("add_step", {"steps": []}),
        ("add_step", {"steps": ["a", " "]}),
    )

    assert results[:6] == [
        "No plan is currently initialised.",
        "No plan is currently initialised.",
        "No plan is currently initialised.",
        "Objective must not be empty.",
        "Objective must be <= 500 characters.",
        "Title must be <= 500 characters.",
    ]
    assert results[6]["status"] == "active"
    assert results[7:] == [
        "Step 9 does not exist.",
        "Provide a new title or status to update a step.",
        "Title must be <= 500 characters.",
        "Title must not be empty.",
        "Provide at least one step to add.",
        "Title must not be empty.",
    ]


def test_the_whole_is_replayed_with_nothing_executed(log: Path) -> None:
    """An agent that dispatches children that keep plans: recorded, and re-executed identically."""
    replies: list[Any] = [
        {"name": "planning_update_step", "arguments": {"step_id": 1, "status": "done"}},
        "finished",
    ]
    arguments = {"tasks": [{"objective": "a", "steps": ["s"]}, {"objective": "b", "steps": ["s"]}]}
    dispatching: list[Any] = [{"name": "dispatch_subagents", "arguments": arguments}, "all done"]
    model = ScriptedModel({"agent": dispatching, "run-delegation": replies})
    session = findings()
    register_plans(session)

    recording: Recording = record(
        "agent",
        {"task": "Go."},
        log=log,
        tools=[dispatch_subagents, look],
        model=model,
        session=session,
    )

    assert recording.output == "all done"
    report = reexecute(log, tools=[dispatch_subagents, look], session=findings())
    assert report.identical, str(report)
    assert report.tools_executed == 0
