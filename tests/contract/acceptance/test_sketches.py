"""The sketches of the documents run as they stand there, with nothing but their imports changed."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_type_hints

import attrs
import pytest

import refold
import refold.tools
from refold.engine.models.scripted import ScriptedModel
from refold.tools import (
    AgentDef,
    AgentLoader,
    DefNotFoundError,
    DispatchSubagent,
    DispatchSubagentError,
    DispatchSubagentResult,
    DispatchSubagentsParams,
    InvalidDefError,
    JobStore,
    MarkdownSection,
    Prompt,
    PromptRegistry,
    PromptSubagentToolsSection,
    Session,
    SharedContext,
    SilentFrontend,
    SpawnAwaitTool,
    SpawnSettings,
    SpawnTool,
    SubAgentFactory,
    SubagentIsolationLevel,
    SubagentMode,
    SubagentResult,
    SubagentsSection,
    SubagentTask,
    ToolValidationError,
    build_dispatch_subagents_tool,
    context_of,
    create_subagent_dispatch_tool,
    dispatch_subagents,
    load_session,
    spawn_settings,
    subagent_tool,
    use_prompt,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


NAMES = {
    "000": "DispatchSubagent DispatchSubagentError DispatchSubagentResult Session SubagentMode "
    "PromptSubagentToolsSection ToolResult ToolValidationError",
    "001": "DispatchSubagentsParams MarkdownSection Plan PlanStep PlanningToolsSection Prompt "
    "SubagentIsolationLevel SubagentResult SubagentTask SubagentsSection ToolResult "
    "build_dispatch_subagents_tool dispatch_subagents",
    "002": "AgentDef AgentLoader DefNotFoundError InvalidDefError SharedContext SilentFrontend "
    "create_subagent_dispatch_tool tool",
    "004": "CollectingChannel JobStore SpawnAwaitTool SpawnProfile SpawnSettings SpawnTool "
    "SubAgentFactory",
}
"""What each document names and a host that uses it would import."""


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_the_names_of_a_document_import_from_one_place(names: str) -> None:
    """Each is the class, error, function or tool of that name, and never a module."""
    for name in names.split():
        assert name in dir(refold.tools)
        found = getattr(refold.tools, name)
        assert name in (getattr(found, "__name__", ""), getattr(found, "name", ""), "SubagentMode")
        assert not isinstance(found, ModuleType)


# --- 000: the data model and the section ---------------------------------------------------------


def test_the_data_model_of_000_is_ours() -> None:
    """Its dataclasses, letter by letter: the same fields, in order, with the same defaults."""
    mode = Literal["plan_step", "ad_hoc"]

    @dataclass(slots=True, frozen=True)
    class Asked:
        mode: SubagentMode
        prompt_ns: str
        prompt_key: str
        instructions: str
        expected_artifacts: tuple[str, ...] = field(default_factory=tuple)
        plan_step_id: str | None = None
        snapshot_version: str | None = None

    @dataclass(slots=True, frozen=True)
    class Result:
        prompt_ns: str
        prompt_key: str
        message_summary: str
        artifacts: tuple[str, ...] = field(default_factory=tuple)
        tools_used: tuple[str, ...] = field(default_factory=tuple)

    assert get_args(SubagentMode) == get_args(mode)
    for theirs, ours in ((Asked, DispatchSubagent), (Result, DispatchSubagentResult)):
        names = [each.name for each in dataclasses.fields(theirs)]
        assert [each.name for each in attrs.fields(ours)] == names
        texts = names[: _required(theirs)]
        made, mine = theirs(*texts), ours(*texts)  # type: ignore[arg-type]  # any texts do
        assert dataclasses.asdict(made) == attrs.asdict(mine)
        assert get_type_hints(theirs) == get_type_hints(ours)  # descriptions apart
    assert issubclass(ToolValidationError, ValueError)
    assert issubclass(DispatchSubagentError, Exception)


def _required(theirs: type) -> int:
    return sum(
        each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
        for each in dataclasses.fields(theirs)
    )


def test_the_section_of_000_dispatches(log: Path) -> None:
    """The tool that it registers, on a prompt of a registry."""
    session = Session()
    text = MarkdownSection[Any](title="Review", key="review", template="Review.")
    registry = PromptRegistry()
    registry.register(
        "team", "review", lambda **_: Prompt(ns="team", key="review", sections=[text])
    )
    section = PromptSubagentToolsSection(session=session, prompts=registry)
    (tool,) = section.tools()

    async def root(run: refold.Run, _input: Any) -> Any:
        asked = DispatchSubagent(
            mode="plan_step",
            prompt_ns="team",
            prompt_key="review",
            instructions="Look at it.",
            plan_step_id="2",
        )
        result = await tool.handler(asked, context=context_of(run))  # type: ignore[attr-defined]  # a `PromptTool`
        assert isinstance(result.value, DispatchSubagentResult)
        return [result.message, result.value.message_summary]

    recording = refold.record(root, log=log, session=session, model=ScriptedModel(["fine"]))

    assert recording.output == ["fine", "fine"]


# --- 001: the usage sketch -----------------------------------------------------------------------


@dataclass(slots=True)
class UpdateParams:
    body: str


def test_the_usage_sketch_of_001_runs(log: Path) -> None:
    """In a plain program, where the handler returns at once, as the document has it."""
    daily_update = Prompt[str](
        ns="weekly.review",
        key="team-update",
        sections=(
            MarkdownSection[UpdateParams](
                title="Team Update",
                key="team-update-body",
                template="${body}",
            ),
            SubagentsSection(),  # Full isolation is the default
        ),
    )

    rendered = daily_update.render(UpdateParams(body="Summarize blockers."))

    params = DispatchSubagentsParams(
        tasks=(
            SubagentTask(
                objective="Gather product A metrics",
                steps=(
                    "Pull weekly dashboard numbers",
                    "Highlight major swings",
                ),
            ),
            SubagentTask(
                objective="Draft FAQ responses",
                steps=(
                    "Review ticket summaries",
                    "Draft five FAQ answers",
                ),
            ),
        ),
    )

    # Default behaviour uses Full Isolation with Plan injection
    tool = build_dispatch_subagents_tool()

    def root(run: refold.PlainRun, _input: Any) -> Any:
        use_prompt(run, rendered)
        result = tool.handler(params, context=context_of(run))
        assert all(isinstance(each, SubagentResult) for each in result.value)
        return [each.render() for each in result.value]

    model = ScriptedModel({"*": ["gathered"]})
    recording = refold.record(root, log=log, model=model, session=Session())

    # Opt into No Isolation by configuring the SubagentsSection
    shared_section = SubagentsSection(isolation_level=SubagentIsolationLevel.NO_ISOLATION)

    assert "Summarize blockers." in rendered.text
    said = "Subagent succeeded:\n\ngathered\n[0 of 2 steps of its plan are done]"
    assert recording.output == [said] * 2, recording.error
    assert [each.name for each in shared_section.tools()] == ["dispatch_subagents"]


def test_the_tool_of_001_is_there_as_a_value(log: Path) -> None:
    """`from …tools.subagents import dispatch_subagents`, with nothing to configure."""

    async def root(run: refold.Run, _input: Any) -> Any:
        params = DispatchSubagentsParams(tasks=(SubagentTask(objective="a"),))
        return (await dispatch_subagents.handler(params, context=context_of(run))).value[0].output

    recording = refold.record(root, log=log, model=ScriptedModel(["ok"]), session=Session())

    assert recording.output == "ok", recording.error


# --- 002: an agent registers the tool, and dispatches --------------------------------------------

REVIEWER = """---
name: Code Reviewer
description: Reviews code for quality, bugs, and best practices
provider: openai
model: gpt-4
allow_skills: true
---

You are a code reviewer...
"""


@attrs.frozen(kw_only=True)
class HostContext(SharedContext):
    """What a host keeps beside what the tool needs."""

    agent_loader: AgentLoader


class HostRegistry(dict[str, Any]):
    """A host's registry of tools."""

    def register(self, tool: Any) -> None:
        self[tool.name] = tool


class Agent:
    """The document's agent, as far as it speaks of the tool."""

    def __init__(self, agent_def: AgentDef, context: HostContext) -> None:
        self.agent_def = agent_def
        self.context = context
        self.tools = HostRegistry()

        # Add subagent dispatch tool
        self._register_subagent_tool()

    def _register_subagent_tool(self) -> None:
        """Register the subagent dispatch tool if agents are available."""
        subagent_tool = create_subagent_dispatch_tool(
            self.context.agent_loader,
            self.agent_def.id,
            self.context,
        )
        if subagent_tool:
            self.tools.register(subagent_tool)


@pytest.fixture
def agents(tmp_path: Path) -> AgentLoader:
    for name, text in (("lead", "---\ndescription: Leads.\n---\n"), ("reviewer", REVIEWER)):
        (tmp_path / "agents" / name).mkdir(parents=True)
        (tmp_path / "agents" / name / "AGENT.md").write_text(text)
    return AgentLoader(tmp_path / "agents")


def test_the_agent_of_002_dispatches(agents: AgentLoader, log: Path) -> None:
    lead = Agent(agents.load("lead"), HostContext(agent_loader=agents))

    async def parent(run: refold.Run, _input: Any) -> Any:
        return await run.tool("subagent_dispatch", agent_id="reviewer", task="...", context="...")

    recording = refold.record(
        parent,
        log=log,
        tools=list(lead.tools.values()),
        models={"openai:gpt-4": ScriptedModel(["The code review found 3 issues..."])},
    )

    found = json.loads(recording.output)
    assert list(found) == ["result", "session_id"]
    assert found["result"] == "The code review found 3 issues..."
    user, assistant = load_session(log, found["session_id"]).messages
    assert user["content"] == "...\n\nContext:\n..."
    assert assistant["content"] == found["result"]


def test_the_agent_file_of_002_loads_verbatim(agents: AgentLoader) -> None:
    """`llm` is two fields here, and the model's name in a run."""
    reviewer = agents.load("reviewer")

    assert reviewer.name == "Code Reviewer"
    assert reviewer.description == "Reviews code for quality, bugs, and best practices"
    assert (reviewer.provider, reviewer.model, reviewer.model_spec) == (
        "openai",
        "gpt-4",
        "openai:gpt-4",
    )
    assert reviewer.allow_skills is True
    assert reviewer.system_prompt == "You are a code reviewer..."


def test_the_errors_of_002_have_their_names(agents: AgentLoader) -> None:
    (agents.folder / "mute.md").write_text("---\nname: Mute\n---\n")

    with pytest.raises(DefNotFoundError, match=r"^Agent 'x' not found$"):
        agents.load("x")
    with pytest.raises(InvalidDefError, match="description is required"):
        agents.load("mute")
    shows: Callable[..., Any] = SilentFrontend().show_message
    assert callable(shows)


# --- 003: one call, its input and its output -----------------------------------------------------


def test_a_call_of_003_takes_and_gives_what_its_schemas_say(log: Path) -> None:
    """All members of the input schema, and the six of the output."""

    async def root(run: refold.Run, _input: Any) -> Any:
        asked = {"task": "Sum up.", "context": "A draft.", "files": ["a.md"]}
        return await run.tool("subagent", **asked, max_iterations=4, timeout_seconds=60)

    said = '{"summary": "Short.", "artifacts": [{"kind": "note", "value": "see a.md"}]}'
    recording = refold.record(root, log=log, tools=[subagent_tool()], model=ScriptedModel([said]))

    duration = recording.output.pop("duration_ms")
    assert type(duration) is int
    assert recording.output == {
        "success": True,
        "summary": "Short.",
        "artifacts": [{"kind": "note", "value": "see a.md"}],
        "error": None,
        "timed_out": False,
    }


# --- 004: the wiring -----------------------------------------------------------------------------

WIRED = {
    "enabled": True,
    "profiles": {
        "researcher": {"system_prompt": "Focus on academic sources.", "pool": "smart"},
        "coder": {"system_prompt": "You are a coding specialist."},
    },
}


def test_the_wiring_of_004_in_our_words(tmp_path: Path, log: Path) -> None:
    """What the table in CONTRACT.md §10.17 has on its right side, piece by piece."""
    settings: SpawnSettings = spawn_settings(WIRED)
    assert settings.enabled
    factory = SubAgentFactory(
        workspace=tmp_path,
        default_bootstrap_files=["AGENTS.md", "ENVIRONMENT.md"],
        profiles=settings.profiles,
        default_pool="fast",
    )
    tools = [SpawnTool(factory=factory), SpawnAwaitTool()]

    async def root(run: refold.Run, _input: Any) -> Any:
        jobs = [
            await run.tool("spawn", task="one", profile="researcher"),
            await run.tool("spawn", task="two", profile="coder"),
        ]
        own = factory.build(run, "Only this.", [], "researcher")
        child = await run.start(
            refold.Delegation(
                program="agent",
                input={"agent": {"system": own.system, "model": own.model}, "task": "three"},
                tools=own.tools,
            )
        )
        store = JobStore.of(run)
        store.start("mine", child)
        assert store.all_job_ids() == [*jobs, "mine"]
        assert {each.status for each in (await store.await_jobs(jobs)).values()} == {"completed"}
        return [*jobs, await run.tool("spawn_await", job_ids="*")]

    models = {name: ScriptedModel({"*": [f"by {name}"]}) for name in ("smart", "fast")}
    recording = refold.record(root, log=log, tools=tools, models=models)

    assert recording.ok, recording.error
    one, two, text = recording.output
    assert text == f"[{one}: OK]\nby smart\n\n[{two}: OK]\nby fast\n\n[mine: OK]\nby smart"
    assert refold.reexecute(log, root, tools=tools).identical
    assert refold.reexecute(log, root).identical
