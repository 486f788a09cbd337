"""The `dispatch_subagent` tool holds to the document that specifies it: checks 1 to 28."""

import gc
import json
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import DispatchSubagentError, ToolError, ToolValidationError, UsageError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Program
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.engine.session import SCHEMA_VERSION, Session, Snapshot, ToolInvoked
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.agents.prompts import (
    MarkdownSection,
    Prompt,
    PromptRegistry,
    ToolResult,
    context_of,
    use_prompt,
)
from refold.tools.contract.tool_types import DelegationTool, tool
from refold.tools.delegation.dispatch_subagent import (
    DispatchSubagent,
    DispatchSubagentResult,
    PromptSubagentToolsSection,
    dispatch_subagent_tool,
)
from refold.tools.delegation.shipped import offered_tools


@attrs.frozen
class Finding:
    text: str


@tool(effect="reads")
def child_tool(path: str = "a.md") -> str:
    """Look at a file."""
    return f"seen {path}"


def with_files() -> Session:
    """Return a session with findings, and with the paths that `child_tool` was called on."""

    def seen(items: tuple[Artifact, ...], event: ToolInvoked) -> tuple[Artifact, ...]:
        if event.name != "child_tool":
            return items
        return (*items, Artifact(kind="path", value=event.arguments["path"]))

    session = Session()
    session.register(Finding)
    session.register(ToolInvoked, Artifact, seen)
    return session


def prompts() -> PromptRegistry:
    def review(session: Session) -> Prompt[str]:  # noqa: ARG001 - factories take it by name
        section = MarkdownSection[Any](title="Review", key="review", template="Review the files.")
        return Prompt[str](ns="team", key="review", sections=(section,))

    def broken(session: Session) -> Prompt[str]:
        raise LookupError(f"no template for {session.id}")

    registry = PromptRegistry()
    registry.register("team", "review", review)
    registry.register("team", "broken", broken)
    registry.register("team", "retired", review, enabled=False)
    return registry


def params(**changes: Any) -> DispatchSubagent:
    asked = DispatchSubagent("ad_hoc", "team", "review", "summarize progress")
    return attrs.evolve(asked, **changes)


def entries(log: Path, *kinds: str) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(log) if entry.kind in kinds]


def child_log(log: Path) -> Path:
    return log.with_name("run.1.jsonl")


def parent_of(
    *asked: DispatchSubagent, then: Callable[[Run], Any] | None = None, **options: Any
) -> Any:
    """Return a program that dispatches, and returns what came of it."""
    dispatch = dispatch_subagent_tool(**{"prompts": prompts(), **options})

    async def parent(run: Run, _input: Any) -> list[Any]:
        results = []
        for one in asked:
            try:
                result = await dispatch.handler(one, context=context_of(run))
            except (ToolValidationError, DispatchSubagentError) as error:
                results.append([type(error).__name__, str(error)])
            else:
                results.append(result.as_json())
        if then is not None:
            then(run)
        return results

    return parent


def dispatched(
    log: Path,
    asked: DispatchSubagent | None = None,
    *,
    program: Program | str = "agent",
    session: Session | None = None,
    then: Callable[[Run], Any] | None = None,
    **options: Any,
) -> Any:
    """Dispatch once; return the result as JSON, or [error type, message]."""
    model = ScriptedModel([{"name": "child_tool", "arguments": {"path": "b.md"}}, "all is well"])
    recording = record(
        parent_of(asked or params(), program=program, then=then),
        log=log,
        tools=[child_tool],
        model=model,
        session=session if session is not None else with_files(),
        seed=1,
        **options,
    )
    assert recording.status == "completed", recording.error
    return recording.output[0]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


async def child_that_finds(run: Run, _given: Any) -> str:
    run.session.dispatch(Finding("mine"))
    return "found"


async def child_that_raises(run: Run, _given: Any) -> str:
    run.session.dispatch(Finding("mine"))
    raise RuntimeError("the disk is full")


FAILURE = "raised: RuntimeError: the disk is full. Change the task, or do the work yourself."
CHILDREN = {"success": child_that_finds, "failure": child_that_raises}


# --- the section and the data model -------------------------------------------------------------


def test_001_the_section_offers_one_tool_and_needs_a_session() -> None:
    section = PromptSubagentToolsSection(session=Session())

    assert [one.name for one in section.tools()] == ["dispatch_subagent"]
    with pytest.raises(TypeError, match="session"):
        PromptSubagentToolsSection()  # type: ignore[call-arg]  # which is the point
    for no_session in (None, "x"):
        with pytest.raises(UsageError, match="session: expected a Session, found"):
            PromptSubagentToolsSection(session=no_session)  # type: ignore[arg-type]  # the same


def dispatching(section: PromptSubagentToolsSection) -> Any:
    """Return a program that dispatches by a section's tool, and returns what came of it."""

    async def parent(run: Run, _input: Any) -> list[str]:
        try:
            result = await section.tools()[0].handler(params(), context=context_of(run))  # type: ignore[attr-defined]  # a `PromptTool`
        except ToolValidationError as error:
            return ["refused", str(error)]
        return ["done", result.message]

    return parent


@pytest.mark.parametrize("other", [None, Session()])
def test_001_a_session_that_the_run_has_not_is_an_error(log: Path, other: Session | None) -> None:
    """Never an empty one in its place; a replay, whose session is a fresh one, gives the same."""
    section = PromptSubagentToolsSection(session=with_files(), prompts=prompts())

    recording = record(dispatching(section), log=log, session=other, model=ScriptedModel(["ok"]))

    how, why = recording.output
    assert how == "refused"
    assert "The section's session is not the run's" in why
    assert entries(log, "child.started") == []
    again = PromptSubagentToolsSection(session=Session(), prompts=prompts())
    given = None if other is None else Session()
    assert reexecute(log, dispatching(again), session=given).identical


def test_001_the_children_start_from_the_sections_session(log: Path) -> None:
    """As does a child's own child, whose session was made of the first."""
    session = with_files()
    session.dispatch(Finding("before"))
    section = PromptSubagentToolsSection(session=session, prompts=prompts())
    inner = dispatching(section)

    async def child(run: Run, given: Any) -> Any:
        return (await inner(run, given))[0]

    outer = PromptSubagentToolsSection(session=session, prompts=prompts(), program=child)

    recording = record(dispatching(outer), log=log, session=session, model=ScriptedModel(["ok"]))

    assert recording.output == ["done", "done"]
    for each in (child_log(log), log.with_name("run.1.1.jsonl")):
        (seeded,) = entries(each, "session.seeded")
        assert seeded["snapshot"] == session.snapshot().as_json()
    again = PromptSubagentToolsSection(session=Session(), prompts=prompts(), program=child)
    assert reexecute(log, dispatching(again), session=with_files()).identical


def test_001_its_text_says_when_to_call_it() -> None:
    text = PromptSubagentToolsSection(session=Session()).render({})

    assert "dispatch_subagent" in text
    assert "plan step needs\ndeep investigation" in text
    assert "nears its context limit" in text


def test_002_dispatch_subagent_is_frozen_and_slotted_with_its_defaults() -> None:
    asked = DispatchSubagent("ad_hoc", "ns", "key", "do")

    assert [field.name for field in attrs.fields(DispatchSubagent)] == [
        "mode",
        "prompt_ns",
        "prompt_key",
        "instructions",
        "expected_artifacts",
        "plan_step_id",
        "snapshot_version",
    ]
    assert asked.expected_artifacts == ()
    assert (asked.plan_step_id, asked.snapshot_version) == (None, None)
    with pytest.raises(AttributeError):
        asked.mode = "plan_step"  # type: ignore[misc]  # which is the point
    assert not hasattr(asked, "__dict__")


def test_003_the_result_is_frozen_and_echoes_the_prompt(log: Path) -> None:
    result = DispatchSubagentResult("ns", "key", "done")

    assert [field.name for field in attrs.fields(DispatchSubagentResult)] == [
        "prompt_ns",
        "prompt_key",
        "message_summary",
        "artifacts",
        "tools_used",
    ]
    assert (result.artifacts, result.tools_used) == ((), ())
    with pytest.raises(AttributeError):
        result.prompt_ns = "other"  # type: ignore[misc]  # which is the point
    value = dispatched(log)["value"]
    assert (value["prompt_ns"], value["prompt_key"]) == ("team", "review")


# --- validation ---------------------------------------------------------------------------------


def refusal(log: Path, asked: DispatchSubagent) -> str:
    """Return the message of the `ToolValidationError`; nothing may have happened."""
    session = with_files()
    kind, message = dispatched(log, asked, session=session)
    assert kind == "ToolValidationError"
    assert entries(log, "child.started", "session.restored", "session.changed") == []
    assert (session.children, session.bus.subscribers) == ((), 1)
    return str(message)


def test_004_another_mode_is_refused(log: Path) -> None:
    assert "plan_step, ad_hoc" in refusal(log, params(mode="later"))


def test_004_also_where_a_model_says_it(log: Path) -> None:
    """The arguments of a model are JSON; the same error comes of them, as a failing result."""
    dispatch = dispatch_subagent_tool(prompts=prompts())
    arguments = {"mode": "later", "prompt_ns": "a", "prompt_key": "b", "instructions": "c"}

    async def parent(run: Run, _input: Any) -> list[str]:
        with pytest.raises(ToolError) as refused:
            await run.tool(dispatch, **arguments)
        return [refused.value.error_type, refused.value.message]

    kind, message = record(parent, log=log).output

    assert kind == "ToolValidationError"
    assert "at /mode: expected one of 'plan_step', 'ad_hoc'" in message
    assert issubclass(ToolValidationError, ValueError)


@pytest.mark.parametrize("instructions", ["", "  \n\t "])
def test_005_blank_instructions_are_refused(log: Path, instructions: str) -> None:
    message = refusal(log, params(instructions=instructions))

    assert message == "instructions must be non-empty ASCII text."


def test_006_instructions_have_2000_characters_at_most_once_trimmed(tmp_path: Path) -> None:
    fits = dispatched(tmp_path / "run.jsonl", params(instructions=f"  {'a' * 2000}\n"))

    assert fits["success"] is True
    message = refusal(tmp_path / "other.jsonl", params(instructions="a" * 2001))
    assert message == "instructions must be <= 2000 characters of ASCII text; found 2001."


def test_007_instructions_are_ascii(log: Path) -> None:
    message = refusal(log, params(instructions="résumé"))

    assert message == (
        "instructions must contain only ASCII characters; found 'é' at 2 of 6, in 'résumé'."
    )


def test_008_the_runner_receives_trimmed_text(log: Path) -> None:
    given: list[Any] = []

    async def child(_run: Run, asked: Any) -> None:
        given.append(asked["task"])

    dispatched(log, params(instructions="  summarize progress  "), program=child)

    assert given == ["summarize progress"]
    (started,) = entries(log, "child.started")
    assert started["delegation"]["brief"] == "summarize progress"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("a" * 161, "expected_artifacts must be <= 160 characters of ASCII text; found 161."),
        (
            "café.md",
            (
                "expected_artifacts must contain only ASCII characters; found 'é' at 4 of 7, in "
                "'café.md'."
            ),
        ),
        ("  ", "expected_artifacts must be non-empty ASCII text."),
    ],
)
def test_009_labels_are_checked(log: Path, label: str, message: str) -> None:
    assert refusal(log, params(expected_artifacts=("ok", label))) == message


def test_009_labels_are_trimmed_and_a_list_becomes_a_tuple(log: Path) -> None:
    asked = params(expected_artifacts=[" report.md ", "a" * 160])
    result = dispatched(log, asked)

    assert asked.expected_artifacts == (" report.md ", "a" * 160)
    assert result["success"] is True
    assert f"Expected artifacts: report.md, {'a' * 160}" in system_of(log)


@pytest.mark.parametrize("step", [None, "", "  "])
def test_010_a_plan_step_needs_its_id(log: Path, step: str | None) -> None:
    message = refusal(log, params(mode="plan_step", plan_step_id=step))

    assert message == "plan_step_id is required when mode is 'plan_step'."


def test_010_with_it_and_ad_hoc_without_it_pass(tmp_path: Path) -> None:
    first = dispatched(tmp_path / "run.jsonl", params(mode="plan_step", plan_step_id="2"))
    second = dispatched(tmp_path / "other.jsonl", params())

    assert first["success"] is second["success"] is True


@pytest.mark.parametrize(
    ("key", "near"), [("unheard-of", "."), ("retired", ", did you mean 'team/review'?")]
)
def test_011_a_prompt_that_is_not_registered_or_disabled_is_refused(
    log: Path, key: str, near: str
) -> None:
    """And the prompts that there are, the nearest first, are told."""
    message = refusal(log, params(prompt_key=key))

    told = f"Unknown prompt requested for subagent dispatch: team/{key}{near}"
    assert message == f"{told} There are: team/broken, team/review."


def test_012_a_prompt_that_cannot_be_built_is_a_failing_result(log: Path) -> None:
    session = with_files()

    result = dispatched(log, params(prompt_key="broken"), session=session)

    assert (result["success"], result["value"]) == (False, None)
    assert result["message"].startswith("Failed to build subagent prompt team/broken.")
    assert "no template for session.1" in result["message"]
    assert entries(log, "child.started") == []
    assert session.bus.subscribers == 1


@pytest.mark.parametrize(
    "asked",
    [
        params(mode="later"),
        params(instructions=" "),
        params(instructions="é"),
        params(expected_artifacts=("",)),
        params(mode="plan_step"),
        params(prompt_ns="nowhere"),
    ],
)
def test_013_invalid_input_takes_no_snapshot_and_starts_no_child(
    log: Path, asked: DispatchSubagent
) -> None:
    taken: list[int] = []

    class Watched(Session):
        def snapshot(self) -> Snapshot:
            taken.append(1)
            return super().snapshot()

    kind, _ = dispatched(log, asked, session=Watched())

    assert kind == "ToolValidationError"
    assert len(taken) == 3, "the run's own: before it, at its start, at its end"
    assert entries(log, "child.started") == []


def test_014_another_snapshot_version_is_a_failing_result_before_hydration(log: Path) -> None:
    session = with_files()

    result = dispatched(log, params(snapshot_version="2"), session=session)

    assert (result["success"], result["value"]) == (False, None)
    assert result["message"] == (
        "Snapshot schema version mismatch: expected 1, got 2. Leave snapshot_version out."
    )
    assert entries(log, "child.started") == []
    assert session.empty().id == "session.1", "none was made before"


def test_014_our_own_version_passes(log: Path) -> None:
    assert dispatched(log, params(snapshot_version=SCHEMA_VERSION))["success"] is True


# --- sessions -----------------------------------------------------------------------------------


def test_015_the_child_starts_with_the_parents_slices(log: Path) -> None:
    session = with_files()
    session.dispatch(Finding("before"))
    digests: list[str] = []

    async def child(run: Run, _given: Any) -> None:
        digests.append(run.session.digest())
        assert run.session.select_all(Finding) == (Finding("before"),)
        assert run.session is not session

    dispatched(log, program=child, session=session)

    assert digests == [session.digest()]
    (seeded,) = entries(child_log(log), "session.seeded")
    assert seeded["snapshot"] == session.snapshot().as_json()


def test_016_the_childs_reducers_work_and_change_the_child_only(log: Path) -> None:
    session = with_files()
    session.dispatch(Finding("before"))
    seen: list[Any] = []

    async def child(run: Run, _given: Any) -> None:
        run.session.dispatch(Finding("mine"))
        await run.tool("child_tool", path="c.md")
        seen.append((run.session.select_all(Finding), run.session.latest(Artifact)))

    dispatched(log, program=child, session=session)

    expected = (Finding("before"), Finding("mine"))
    assert seen == [(expected, Artifact(kind="path", value="c.md"))]
    assert session.select_all(Finding) == (Finding("before"),)
    assert session.select_all(Artifact) == ()


def test_017_a_session_that_cannot_be_hydrated_is_refused(log: Path) -> None:
    class Forgetful(Session):
        """Its copies have no reducers: what a factory that is out of date gives."""

        def empty(self, bus: Any = None, parent: Any = None) -> "Forgetful":
            return Forgetful(bus=bus, parent=parent)

    session = Forgetful()
    session.register(Finding)
    session.dispatch(Finding("before"))
    before = session.digest()

    result = dispatched(log, session=session)

    assert result == [
        "ToolValidationError",
        "Unable to hydrate child session from snapshot.",
    ]
    assert session.digest() == before
    assert session.bus.subscribers == 1
    assert entries(log, "child.started") == []


def test_018_the_child_is_offered_the_parents_rendered_tools_unchanged(log: Path) -> None:
    @tool(effect="reads", name="another")
    def another(deep: bool = False) -> str:  # noqa: FBT001, FBT002 - a tool's argument
        """Look elsewhere."""
        return str(deep)

    @tool
    def not_rendered() -> None:
        """Of the run, and not of the prompt."""

    dispatch = dispatch_subagent_tool(prompts=prompts())
    section = MarkdownSection[Any](
        title="T", key="t", template="x", section_tools=(child_tool, dispatch, another)
    )
    rendered = Prompt[str](ns="n", key="k", sections=(section,)).render()

    async def parent(run: Run, _input: Any) -> None:
        use_prompt(run, rendered)
        arguments = {"mode": "ad_hoc", "prompt_ns": "team", "prompt_key": "review"}
        await run.tool("dispatch_subagent", instructions="look", **arguments)

    recording = record(
        parent,
        log=log,
        tools=[*rendered.tools, not_rendered],
        model=ScriptedModel(["ok"]),
        session=Session(),
    )

    assert recording.status == "completed", recording.error
    (started,) = entries(child_log(log), "run.started")
    offered = [(one["name"], one["description"], one["schema"]) for one in started["tools"]]
    assert offered == [(one.name, one.description, one.parameters) for one in rendered.definitions]
    assert [name for name, _, _ in offered] == ["another", "child_tool", "dispatch_subagent"]


def test_019_a_parents_tool_sees_the_childs_session_when_the_child_calls_it(log: Path) -> None:
    async def note(run: Run, arguments: dict[str, Any], /) -> str:
        run.session.dispatch(Finding(arguments["text"]))
        return str(run.session.id)

    noting = DelegationTool(
        name="note", description="Note something.", parameters={"type": "object"}, handler=note
    )
    session, seen = with_files(), list[Any]()

    async def child(run: Run, _given: Any) -> str:
        seen.append(await run.tool("note", text="mine"))
        seen.append(run.session.select_all(Finding))
        return "ok"

    async def parent(run: Run, _input: Any) -> Any:
        dispatch = dispatch_subagent_tool(prompts=prompts(), program=child)
        return (await dispatch.handler(params(), context=context_of(run))).as_json()

    recording = record(parent, log=log, tools=[noting], session=session)

    assert recording.output["success"] is True
    assert seen == ["session.1", (Finding("mine"),)]
    assert session.select_all(Finding) == ()


@pytest.mark.parametrize("how", CHILDREN)
def test_020_the_parents_session_is_byte_identical_afterwards(log: Path, how: str) -> None:
    session = with_files()
    session.dispatch(Finding("before"))
    before, snapshot = session.digest(), session.snapshot().encoded

    result = dispatched(log, program=CHILDREN[how], session=session)

    assert result[1] == FAILURE if how == "failure" else result["message"] == "found"
    (changed,) = entries(child_log(log), "session.changed")
    assert changed["data"] == {"text": "mine"}, "the child changed a session: its own"
    assert (session.digest(), session.snapshot().encoded) == (before, snapshot)


def wait_for_threads() -> None:
    """Wait until the threads of children that have been joined are gone, frames and all."""
    for thread in threading.enumerate():
        if thread.name.startswith(("refold-run-", "refold-child-")):
            thread.join(60)


@pytest.mark.parametrize("how", CHILDREN)
@pytest.mark.parametrize("entry", ["handler", "tool", "plain"])
def test_021_the_childs_session_is_collected(log: Path, how: str, entry: str) -> None:
    """After the return, on success and on failure, and from every way in."""
    kept: list[weakref.ref[Session]] = []
    alive: list[Session | None] = []

    async def child(run: Run, given: Any) -> str:
        kept.append(weakref.ref(run.session))
        return str(await CHILDREN[how](run, given))

    dispatch = dispatch_subagent_tool(prompts=prompts(), program=child)
    arguments = attrs.asdict(params(), filter=lambda _field, value: value is not None)

    def look() -> None:
        wait_for_threads()
        gc.collect()
        alive.append(kept[0]())

    async def parent(run: Run, _input: Any) -> None:
        failure = None
        try:
            if entry == "handler":
                await dispatch.handler(params(), context=context_of(run))
            else:
                await run.tool(dispatch, **arguments)
        except (DispatchSubagentError, ToolError) as error:
            failure = error  # kept alive with its traceback: not even that holds the session
        look()
        assert (failure is None) == (how == "success")

    def plain_parent(run: PlainRun, _input: Any) -> None:
        failure = None
        try:
            dispatch.handler(params(), context=context_of(run))
        except DispatchSubagentError as error:
            failure = error
        look()
        assert (failure is None) == (how == "success")

    program: Any = plain_parent if entry == "plain" else parent
    recording = record(program, log=log, session=with_files())

    assert recording.status == "completed", recording.error
    assert alive == [None]


@pytest.mark.parametrize("how", CHILDREN)
def test_022_nothing_reaches_the_child_after_its_run(log: Path, how: str) -> None:
    reduced: list[str] = []

    def noted(items: tuple[Finding, ...], event: Finding) -> tuple[Finding, ...]:
        reduced.append(event.text)
        return (*items, event)

    session = Session()
    session.register(Finding, Finding, noted)
    before = session.bus.subscribers
    during: list[Any] = []

    async def child(run: Run, given: Any) -> str:
        during.append((session.bus.subscribers, run.session.bus))
        return str(await CHILDREN[how](run, given))

    def afterwards(_run: Run) -> None:
        assert session.bus.subscribers == before
        reduced.clear()
        session.bus.publish(Finding("after"))

    dispatched(log, program=child, session=session, then=afterwards)
    ((counted, bus),) = during
    bus.publish(Finding("after"))

    assert counted == before + 1
    assert reduced == ["after"], "the parent's own reduction, once"


# --- results ------------------------------------------------------------------------------------


def test_023_the_message_is_the_summary(log: Path) -> None:
    result = dispatched(log)

    assert result["success"] is True
    assert result["message"] == result["value"]["message_summary"] == "all is well"


def test_024_artifacts_are_what_the_childs_reducers_recorded(log: Path) -> None:
    session = with_files()
    session.observe("child_tool", {"path": "from before.md"}, "", None)
    results: list[ToolResult[DispatchSubagentResult]] = []

    async def parent(run: Run, _input: Any) -> None:
        dispatch = dispatch_subagent_tool(prompts=prompts())
        results.append(await dispatch.handler(params(), context=context_of(run)))

    model = ScriptedModel([{"name": "child_tool", "arguments": {"path": "b.md"}}, "ok"])
    record(parent, log=log, tools=[child_tool], model=model, session=session)

    assert results[0].value is not None
    assert results[0].value.artifacts == ("b.md",)


def test_025_tools_used_come_from_the_childs_log_in_the_order_of_first_use(log: Path) -> None:
    @tool(effect="reads")
    def first() -> int:
        return 1

    async def child(run: Run, _given: Any) -> None:
        for name in ("first", "child_tool", "first"):
            await run.tool(name)

    dispatch = dispatch_subagent_tool(prompts=prompts(), program=child)

    async def parent(run: Run, _input: Any) -> Any:
        return (await dispatch.handler(params(), context=context_of(run))).value.tools_used

    recording = record(parent, log=log, tools=[child_tool, first], session=Session())

    assert recording.output == ["first", "child_tool"]


def test_025_the_tool_that_the_agent_called_is_named(log: Path) -> None:
    assert dispatched(log)["value"]["tools_used"] == ["child_tool"]


def system_of(log: Path) -> str:
    (asked, *_) = entries(child_log(log), "model.asked")
    return str(asked["added"][0]["content"])


def test_026_the_childs_prompt_has_instructions_plan_metadata_and_a_snapshot_summary(
    log: Path,
) -> None:
    session = with_files()
    session.dispatch(Finding("before"))

    dispatched(log, params(mode="plan_step", plan_step_id="7"), session=session)

    (asked, *_) = entries(child_log(log), "model.asked")
    prompt = "\n".join(message["content"] for message in asked["added"])
    assert "Review the files." in prompt
    for part in ("summarize progress", "Mode: plan_step", "Plan step: 7", "Finding: 1 item"):
        assert prompt.count(part) == 1


def test_026_a_prompt_may_use_them_by_name(log: Path) -> None:
    template = "${mode} ${plan_step_id}: ${instructions} (${snapshot_summary})"
    section = MarkdownSection[Any](title="T", key="t", template=template)
    registry = PromptRegistry()
    registry.register(
        "team", "review", lambda session: Prompt(ns="team", key=session.id, sections=(section,))
    )
    model = ScriptedModel(["ok"])

    record(parent_of(params(), prompts=registry), log=log, model=model, session=Session())

    assert "ad_hoc none: summarize progress (empty)" in system_of(log)


@pytest.mark.parametrize(
    ("options", "limits", "why"),
    [
        ({"runner": "nowhere"}, {}, "runner: no runner is named 'nowhere'"),
        ({}, {"max_depth": 0}, "max_depth"),
    ],
)
def test_027_a_child_that_cannot_begin_is_a_failing_result(
    log: Path, options: dict[str, Any], limits: dict[str, int], why: str
) -> None:
    """An orchestration error: its message explains it, and its payload is left out."""
    program = parent_of(params(), **options)

    recording = record(program, log=log, model=ScriptedModel(["ok"]), limits=Limits(**limits))

    (result,) = recording.output
    assert (result["success"], result["value"]) == (False, None)
    assert result["message"].startswith(why)
    assert reexecute(log, program).identical


# --- failures and the transcript ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (child_that_raises, "raised: RuntimeError: the disk is full"),
        ("agent", "script_exhausted"),
    ],
)
def test_027_a_child_that_fails_raises_dispatch_subagent_error(
    log: Path, program: Any, error: str
) -> None:
    async def parent(run: Run, _input: Any) -> Any:
        dispatch = dispatch_subagent_tool(prompts=prompts(), program=program)
        with pytest.raises(DispatchSubagentError) as failed:
            await dispatch.handler(params(), context=context_of(run))
        return str(failed.value)

    recording = record(parent, log=log, model=ScriptedModel([]), session=with_files())

    assert recording.output.startswith(error)


def conversation(
    log: Path, child: list[Any], key: str = "review"
) -> tuple[Recording, list[dict[str, Any]]]:
    """Run an agent that dispatches once; return its recording and its messages."""
    arguments = {
        "mode": "ad_hoc",
        "prompt_ns": "team",
        "prompt_key": key,
        "instructions": "look",
    }
    replies: list[Any] = [{"name": "dispatch_subagent", "arguments": arguments}, "I see"]
    recording = record(
        "agent",
        {"task": "Go."},
        log=log,
        tools=[child_tool, dispatch_subagent_tool(prompts=prompts())],
        model=ScriptedModel({"agent": replies, "team/review": child}),
        session=with_files(),
        seed=1,
    )
    asked = entries(log, "model.asked")
    return recording, [message for one in asked for message in one["added"]]


def test_027_the_root_conversation_gets_one_concise_failing_result(log: Path) -> None:
    failure = {"error": {"code": "http_500", "message": "overloaded"}}

    recording, messages = conversation(log, [failure])

    results = [message for message in messages if message["role"] == "tool"]
    assert recording.status == "completed"
    assert len(results) == 1
    assert results[0]["is_error"] is True
    assert "DispatchSubagentError: http_500: " in results[0]["content"]
    assert len(results[0]["content"]) < 200


def test_028_the_parents_transcript_grows_by_one_result_and_no_child_snapshot_is_kept(
    log: Path,
) -> None:
    secret = "a turn of the child's own"
    turns = [{"tool_calls": [{"name": "child_tool"}], "text": secret}, "all is well"]

    recording, messages = conversation(log, turns)

    assert recording.status == "completed", recording.error
    roles = [message["role"] for message in messages]
    assert roles == ["user", "tool"], "besides the two replies of the parent's own model"
    assert len(entries(log, "model.answered")) == 2
    assert secret not in str(messages)
    assert "seen" not in str(messages)
    assert messages[-1]["content"] == 'all is well\n\n{"tools_used":["child_tool"]}'
    assert len(entries(child_log(log), "session.seeded")) == 1
    assert entries(child_log(log), "session.restored") == []
    kinds = [entry.kind for entry in read_entries(log) if entry.kind.startswith("session.")]
    assert kinds == ["session.seeded"]
    report = reexecute(log, tools=[dispatch_subagent_tool(prompts=prompts())], session=with_files())
    assert report.identical, str(report)


def test_028_the_summary_is_the_textual_reply_once(log: Path) -> None:
    """Where nothing else comes of it, it is all of the reply; a failing result is an error."""
    recording, messages = conversation(log, ["S" * 3000])

    assert recording.ok
    (reply,) = [message for message in messages if message["role"] == "tool"]
    assert (reply["content"], reply["is_error"]) == ("S" * 3000, False)
    offers = next(iter(read_entries(log))).data["tools"]
    report = reexecute(log, tools=offered_tools(offers), session=with_files())
    assert report.identical, str(report)


def test_028_artifacts_and_tools_stand_below_the_summary(log: Path) -> None:
    """Each member that is not empty, and no text twice."""
    answer = '{"summary": "done", "artifacts": [{"kind": "path", "value": "b.md"}]}'

    _, messages = conversation(log, [{"tool_calls": [{"name": "child_tool"}]}, answer])

    summary, more = messages[-1]["content"].split("\n\n")
    assert summary == "done"
    found = json.loads(more)
    assert (found["tools_used"], found["artifacts"][0]) == (["child_tool"], "b.md")


def test_028_a_failing_result_is_told_as_an_error_in_its_own_words(log: Path) -> None:
    _, messages = conversation(log, [], key="broken")

    assert messages[-1]["is_error"] is True
    assert messages[-1]["content"].startswith("Failed to build subagent prompt team/broken.")
