"""`dispatch_subagents`: many children at once, each with a plan in a session of its own.

    parse    tasks; clone a session for each; set up its plan             -> a `Delegation` each
    render   outcomes                                                     -> results in input order

With `FULL_ISOLATION` a child has a clone of the caller's session and a bus of its own, and starts
with its task as a `Plan`; if one session cannot be cloned, no child starts. With `NO_ISOLATION`,
children act on the caller's session itself and get their task as text. A child's failure is only
its own result: its siblings continue. Shared parts: `tools.delegation.forked_children`.  Rules:
CONTRACT.md §10.20.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Annotated, Any, Final

import attrs

from refold.engine.encoding.hints import Keywords
from refold.engine.encoding.parameters import names_nearest, texts
from refold.engine.errors import (
    SnapshotRestoreError,
    SnapshotSerializationError,
    ToolValidationError,
)
from refold.engine.kernel.pending import Child
from refold.engine.ports.ports import Children
from refold.engine.session.bus import EventBus
from refold.engine.session.session import Session
from refold.tools.agents.plans import (
    NOT_BLANK,
    TEXT_MAX,
    PlanSetUp,
    StepTitle,
    planning_tools,
    register_plans,
)
from refold.tools.agents.prompts import (
    MarkdownSection,
    Prompt,
    PromptTool,
    ToolContext,
    ToolResult,
)
from refold.tools.delegation.forked_children import FAILED, ForkedOptions, forked, own_or_new
from refold.tools.delegation.shared import ChildEnd, ToolAnswer, ToolCall, answered

NAME: Final = "dispatch_subagents"


class SubagentIsolationLevel(Enum):
    """How much of the caller's state and telemetry a child sees."""

    NO_ISOLATION = auto()
    FULL_ISOLATION = auto()


FULL: Final = SubagentIsolationLevel.FULL_ISOLATION


@attrs.frozen
class SubagentTask:
    """A task, as a plan."""

    objective: Annotated[
        str,
        Keywords(minLength=1, pattern=NOT_BLANK),
        "The goal of the subagent, complete in itself",
    ]
    """The child's goal."""
    steps: Annotated[tuple[StepTitle, ...], "Titles of the steps of its plan, in order"] = (
        attrs.field(default=(), converter=texts)
    )
    """The titles of its plan's steps."""


@attrs.frozen
class DispatchSubagentsParams:
    """The tool's parameters."""

    tasks: Annotated[
        tuple[SubagentTask, ...], Keywords(minItems=1), "One subagent each; they work side by side"
    ] = attrs.field(converter=tuple[SubagentTask, ...])
    """Each a child; they run side by side."""


@attrs.frozen
class SubagentResult:
    """How one child ended."""

    output: str
    """The child's answer; empty if it failed."""
    success: bool
    """Whether it completed."""
    error: str | None = None
    """Why not."""

    def render(self) -> str:
        """Return the result for a person or a model."""
        told = "succeeded:" if self.success else f"failed: {self.error or FAILED}"
        return f"Subagent {told}\n\n{self.output}"


Results = tuple[SubagentResult, ...]


@names_nearest
@attrs.frozen(kw_only=True)
class DispatchSubagentsOptions(ForkedOptions):
    """How the tool is set up."""

    isolation_level: SubagentIsolationLevel = FULL
    accepts_overrides: bool = False
    require_output_type: bool = False
    """Whether the caller's prompt has to name a class for its output."""

    @property
    def children(self) -> Children:
        """What all children need."""
        return attrs.evolve(super().children, shares_session=self.isolation_level is not FULL)


# --- parse ---------------------------------------------------------------------------------------


def _asked(
    options: DispatchSubagentsOptions, params: DispatchSubagentsParams, context: ToolContext
) -> ToolCall[ToolResult[Results]] | ToolResult[Results]:
    rendered = context.rendered_prompt
    if rendered is None:
        return _refused("dispatch_subagents requires the parent prompt to be rendered.")
    if options.require_output_type and rendered.output_type is None:
        return _refused("Parent prompt must declare a dataclass output type for delegation.")
    if not params.tasks:
        return ToolResult("No tasks supplied.", ())
    if refused := options.refused(params):
        return refused
    if problems := list(_blanks(params.tasks)):
        raise ToolValidationError(f"arguments: {'; '.join(problems)}")
    sessions: Sequence[Any] = [context.session] * len(params.tasks)
    if options.isolation_level is FULL:
        most = context.run.children_left  # beyond these, each is refused, and needs no session
        cloned = _cloned(context.session, params.tasks[: None if most is None else max(1, most)])
        if isinstance(cloned, str):
            return _refused(cloned)
        sessions = [*cloned, *[None] * (len(params.tasks) - len(cloned))]
    elif context.session is not None:
        register_plans(context.session)  # here, so that a replay of the caller knows them too
    left = context.run.tokens_for_children
    usual: dict[str, Any] = {
        "program": forked(options.program),
        "tools": options.offered(context.run, rendered.tools),
        "own_tools": planning_tools(),
        "part": None if left is None else max(1, left // len(params.tasks)),
        "shared": options.isolation_level is not FULL and context.session is not None,
    }
    prompt = _FULL_PROMPT if options.isolation_level is FULL else _SHARED_PROMPT
    agent = f"{rendered.key}-delegation"
    return ToolCall(
        tool=NAME,
        task="\n".join(task.objective for task in params.tasks),
        delegations=[
            options.delegation(
                NAME, agent, task.objective, system=_system(prompt, task), session=session, **usual
            )
            for task, session in zip(params.tasks, sessions, strict=True)
        ],
        render=lambda children: _answer(context.run, children),
    )


def _blanks(tasks: Sequence[SubagentTask]) -> Iterator[str]:
    """Yield the invalid texts of tasks, with which a child could not start or plan."""
    for index, task in enumerate(tasks):
        if not task.objective.strip():
            yield f"at /tasks/{index}/objective: expected text that is not blank"
        for number, title in enumerate(task.steps):
            if not title.strip() or len(title.strip()) > TEXT_MAX:
                where = f"at /tasks/{index}/steps/{number}"
                yield f"{where}: expected 1 to {TEXT_MAX} characters that are not blank"


def _refused(message: str) -> ToolResult[Results]:
    return ToolResult(message, None, success=False)


def _cloned(parent: Any, tasks: Sequence[SubagentTask]) -> list[Session] | str:
    """Return a session with a plan for each task, or the reason if any cannot be made."""
    parent = own_or_new(parent)
    if not hasattr(parent, "clone"):
        return "Parent session does not support cloning for full isolation."
    try:
        cloned = [parent.clone(EventBus(), parent) for _ in tasks]
    except (SnapshotSerializationError, SnapshotRestoreError) as error:
        return f"Parent session does not support cloning for full isolation. {error}"
    if not all(isinstance(session, Session) for session in cloned):
        return "Cloned session must be a Session instance for plan injection."
    for session, task in zip(cloned, tasks, strict=True):
        register_plans(session)
        session.dispatch(PlanSetUp(task.objective, task.steps))
    return cloned


def _system(prompt: Prompt[str], task: SubagentTask) -> str:
    steps = "\n".join(f"{number}. {title}" for number, title in enumerate(task.steps, 1))
    return prompt.render(values={"steps": steps or "(none given)"}).text


# --- render --------------------------------------------------------------------------------------


def _answer(run: Any, children: Sequence[Child]) -> ToolAnswer[ToolResult[Results]]:
    ends = [ChildEnd.of(run, child) for child in children]
    value = tuple(SubagentResult(one.answer, one.outcome.ok, one.error) for one in ends)
    succeeded = sum(one.success for one in value)
    result = ToolResult(f"{succeeded} of {len(value)} subagents succeeded.", value)
    return ToolAnswer(result, {"statuses": [one.outcome.status for one in ends]})


# --- the tool and its section --------------------------------------------------------------------


def subagents_tool(
    options: DispatchSubagentsOptions | None = None, /, **changes: Any
) -> PromptTool:
    """Return the tool; keywords are the attributes of `DispatchSubagentsOptions`."""
    chosen = DispatchSubagentsOptions.of(options, changes)

    def handler(params: DispatchSubagentsParams, *, context: ToolContext) -> Any:
        return answered(context.run, _asked(chosen.recorded(context.run, NAME), params, context))

    return PromptTool(
        name=NAME,
        description="Dispatch tasks to subagents that work on them in parallel; returns one result "
        "per task, in order. A subagent sees its own task, but not this conversation.",
        params=DispatchSubagentsParams,
        handler=handler,
        accepts_overrides=chosen.accepts_overrides,
        reference=chosen.remaking(subagents_tool),
        children=chosen.children,
    )


def build_dispatch_subagents_tool(
    *, isolation_level: SubagentIsolationLevel = FULL, accepts_overrides: bool = False
) -> PromptTool:
    """Return the tool for one level of isolation."""
    return subagents_tool(isolation_level=isolation_level, accepts_overrides=accepts_overrides)


dispatch_subagents: Final = build_dispatch_subagents_tool()


class SubagentsSection(MarkdownSection[Any]):
    """The section of a prompt that offers `dispatch_subagents`."""

    def __init__(
        self,
        *,
        isolation_level: SubagentIsolationLevel = FULL,
        accepts_overrides: bool = False,
    ) -> None:
        """Fix the level of isolation: no call can change it."""
        tool = subagents_tool(isolation_level=isolation_level, accepts_overrides=accepts_overrides)
        super().__init__(
            title="Parallel work",
            key="subagents",
            template=_GUIDANCE if isolation_level is FULL else _SHARED_GUIDANCE,
            section_tools=(tool,),
            accepts_overrides=accepts_overrides,
        )
        self.isolation_level: Final = isolation_level


_GUIDANCE: Final = """
    Steps that can run in parallel MUST be handed to subagents with `dispatch_subagents`, not done
    one after the other. Each task becomes a Plan in the subagent's isolated session; each returns
    one result, in the order of the tasks.
    """

_SHARED_GUIDANCE: Final = """
    Steps that can run in parallel MUST be handed to subagents with `dispatch_subagents`, not done
    one after the other. The subagents share this session: each sees the changes of the others, and
    no Plan is made of a task. Each returns one result, in the order of the tasks.
    """


def _prompt(of: str, template: str) -> Prompt[str]:
    key = f"delegated-{of}"
    section = MarkdownSection[Any](title=f"Delegated {of}", key=key, template=template)
    return Prompt[str](ns="refold", key=key, sections=(section,))


_PLAN: Final = """
    Your session holds a Plan for your task. Complete all plan steps before you return: read them
    with `planning_read_plan`, and mark each `done` with `planning_update_step`. Then answer with
    what you found.

    Steps:
    ${steps}
    """

_TASK: Final = """
    You share one session with your caller and its other subagents: all see each change.
    Complete all steps before you return, then answer with what you found.

    Steps:
    ${steps}
    """

_FULL_PROMPT: Final = _prompt("plan", _PLAN)
_SHARED_PROMPT: Final = _prompt("task", _TASK)
