"""Plans: an objective, its steps, and four tools with which an agent keeps them up to date.

    planning_setup_plan(objective, initial_steps=())
    planning_add_step(steps)
    planning_update_step(step_id, title=None, status=None)
    planning_read_plan()

A plan lies in the session of the run that calls: a slice of one item, changed by three events.  The
tools are program code, so a replay runs them again; they reach nothing but that session.  A plan
whose steps are all `done` is `completed`, and takes no more changes.  Rules: CONTRACT.md §10.20.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal

import attrs

from refold.engine.encoding.hints import Keywords
from refold.engine.encoding.parameters import texts
from refold.engine.errors import ToolValidationError
from refold.engine.ports.ports import Reference, Tool
from refold.engine.ports.programs import load
from refold.engine.session.session import Session
from refold.engine.session.shared import SharedSession
from refold.tools.agents.prompts import (
    MarkdownSection,
    PromptTool,
    ToolContext,
    ToolResult,
    own_session,
)

TEXT_MAX: Final = 500
"""Characters of an objective and of a title."""

NOT_BLANK: Final = r"\S"
"""A JSON schema pattern."""
_BOUNDS: Final = Keywords(minLength=1, maxLength=TEXT_MAX, pattern=NOT_BLANK)
StepTitle = Annotated[str, _BOUNDS]
StepStatus = Literal["pending", "in_progress", "done"]
PlanStatus = Literal["active", "completed"]


# --- the slice, its events and reducers ----------------------------------------------------------


@attrs.frozen
class PlanStep:
    """One step of a plan."""

    id: int
    """1, 2, 3, …; never used again."""
    title: str
    """The step's description."""
    status: StepStatus = "pending"
    """The status that the agent last set."""


@attrs.frozen
class Plan:
    """A plan: an objective and its steps."""

    objective: str
    """The goal, as text."""
    status: PlanStatus = "active"
    """`completed` once there are steps and all are `done`."""
    steps: tuple[PlanStep, ...] = ()


@attrs.frozen
class PlanSetUp:
    """A new plan takes the place of the one that there may be."""

    objective: str
    steps: tuple[str, ...] = ()
    """Titles."""


@attrs.frozen
class StepsAdded:
    """Steps were added at the end, `pending`; what `planning_add_step` takes."""

    steps: Annotated[
        tuple[StepTitle, ...], Keywords(minItems=1), "Titles of the new steps, in order"
    ]
    """Titles."""


@attrs.frozen
class StepUpdated:
    """A step has another title, status, or both; what `planning_update_step` takes."""

    step_id: Annotated[int, Keywords(minimum=1), "Id of the step, as planning_read_plan shows it"]
    title: Annotated[str | None, _BOUNDS, "The step's new title; leave out to keep it"] = None
    status: Annotated[StepStatus | None, "The step's new status; leave out to keep it"] = None


def register_plans(session: Session) -> None:
    """Give a session the slice of plans, in subprocess children too; again changes nothing."""
    factory = getattr(session, "maker", None)  # before it has reducers of ours
    is_new = session.register(PlanSetUp, Plan, _set_up, name="plan.set_up")
    session.register(StepsAdded, Plan, _added, name="plan.steps_added")
    session.register(StepUpdated, Plan, _updated, name="plan.step_updated")
    if is_new and factory is not None:
        arguments = {"factory": attrs.asdict(factory)}
        session.factory = Reference(__name__, planned_session.__name__, arguments)


def planned_session(*, factory: dict[str, Any]) -> Session:
    """Return an empty session of `factory`, a reference, with the slice of plans."""
    made = load(Reference(**factory))
    session: Session = made() if callable(made) else made
    register_plans(session)
    return session


def _set_up(_plans: tuple[Plan, ...], event: PlanSetUp) -> tuple[Plan, ...]:
    return (_judged(Plan(event.objective, steps=_numbered(1, event.steps))),)


def _added(plans: tuple[Plan, ...], event: StepsAdded) -> tuple[Plan, ...]:
    first = max((step.id for plan in plans for step in plan.steps), default=0) + 1
    added = _numbered(first, event.steps)
    return tuple(_judged(attrs.evolve(plan, steps=plan.steps + added)) for plan in plans)


def _updated(plans: tuple[Plan, ...], event: StepUpdated) -> tuple[Plan, ...]:
    def evolved(step: PlanStep) -> PlanStep:
        if step.id != event.step_id:
            return step
        title = step.title if event.title is None else event.title
        return PlanStep(step.id, title, event.status or step.status)

    return tuple(
        _judged(attrs.evolve(plan, steps=tuple(map(evolved, plan.steps)))) for plan in plans
    )


def _numbered(first: int, titles: Iterable[str]) -> tuple[PlanStep, ...]:
    return tuple(PlanStep(id, title) for id, title in enumerate(titles, first))  # noqa: A001 - the word of the domain


def _judged(plan: Plan) -> Plan:
    is_done = bool(plan.steps) and all(step.status == "done" for step in plan.steps)
    return attrs.evolve(plan, status="completed" if is_done else "active")


# --- the tools -----------------------------------------------------------------------------------


@attrs.frozen
class SetupPlan:
    """What `planning_setup_plan` takes."""

    objective: Annotated[str, _BOUNDS, "The goal of the plan"]
    initial_steps: Annotated[tuple[StepTitle, ...], "Titles of the first steps, in order"] = (
        attrs.field(default=(), converter=texts)
    )


@attrs.frozen
class ReadPlan:
    """What `planning_read_plan` takes: nothing."""


def _setup_plan(params: SetupPlan, *, context: ToolContext) -> ToolResult[Plan]:
    event = PlanSetUp(_trimmed("Objective", params.objective), _titles(params.initial_steps))
    return _changed(context, event, "Plan set up.")


def _add_step(params: StepsAdded, *, context: ToolContext) -> ToolResult[Plan]:
    _active_plan(context)
    if not params.steps:
        raise ToolValidationError("Provide at least one step to add.")
    return _changed(context, StepsAdded(_titles(params.steps)), f"Added {len(params.steps)}.")


def _update_step(params: StepUpdated, *, context: ToolContext) -> ToolResult[Plan]:
    plan = _active_plan(context)
    if params.title is None and params.status is None:
        raise ToolValidationError("Provide a new title or status to update a step.")
    if params.step_id not in [step.id for step in plan.steps]:
        raise ToolValidationError(f"Step {params.step_id} does not exist.")
    title = None if params.title is None else _trimmed("Title", params.title)
    event = StepUpdated(params.step_id, title, params.status)
    return _changed(context, event, f"Step {params.step_id} updated.")


def _read_plan(_params: ReadPlan, *, context: ToolContext) -> ToolResult[Plan]:
    return ToolResult("The current plan.", _plan(context))


def _changed(context: ToolContext, event: object, message: str) -> ToolResult[Plan]:
    _session(context).dispatch(event)
    return ToolResult(message, _plan(context))


def _session(context: ToolContext) -> Session:
    if context.session is None:
        raise ToolValidationError(
            "Planning is not available: this run has no session. Work without a plan."
        )
    session: Session = context.session
    register_plans(session)
    return session


def _plan(context: ToolContext) -> Plan:
    plan = _session(context).latest(Plan)
    if plan is None:
        raise ToolValidationError("No plan is currently initialised.")
    return plan


def _active_plan(context: ToolContext) -> Plan:
    plan = _plan(context)
    if plan.status != "active":
        raise ToolValidationError(f"Plan must be active. Current status: {plan.status}.")
    return plan


def _titles(titles: Iterable[str]) -> tuple[str, ...]:
    return tuple(_trimmed("Title", title) for title in titles)


def _trimmed(field: str, value: str) -> str:
    text = value.strip()
    if not text:
        raise ToolValidationError(f"{field} must not be empty.")
    if len(text) > TEXT_MAX:
        raise ToolValidationError(f"{field} must be <= {TEXT_MAX} characters.")
    return text


_TOOLS: Final[dict[str, tuple[type, Callable[..., Any], str]]] = {
    "planning_setup_plan": (SetupPlan, _setup_plan, "Start a plan; it replaces the current one."),
    "planning_add_step": (StepsAdded, _add_step, "Add steps to the end of the plan."),
    "planning_update_step": (
        StepUpdated,
        _update_step,
        "Change a step's title or status (pending, in_progress, done).",
    ),
    "planning_read_plan": (ReadPlan, _read_plan, "Read the plan with all its steps."),
}


def planning_tool(name: str) -> PromptTool:
    """Return one of the four by its name; what references lead to."""
    params, handler, description = _TOOLS[name]
    return PromptTool(
        name=name,
        description=description,
        params=params,
        handler=handler,
        why_useless=_why_useless,
        effect="pure",
        reference=Reference(__name__, planning_tool.__name__, {"name": name}),
    )


def _why_useless(own: Session | None, tools: Iterable[Tool]) -> str:
    children = (getattr(each, "children", None) for each in tools)
    if own is not None or any(each and each.takes_session for each in children):
        return ""  # a child of such a tool has a session, even if the run has none
    return "a plan is kept in the run's session: pass one, record(…, session=refold.Session())"


def planning_tools() -> tuple[PromptTool, ...]:
    """Return the four tools."""
    return tuple(map(planning_tool, _TOOLS))


class PlanningToolsSection(MarkdownSection[Any]):
    """The section of a prompt that offers the planning tools."""

    def __init__(
        self, session: Session | SharedSession | None = None, *, accepts_overrides: bool = False
    ) -> None:
        """Prepare `session` for plans, if given; the tools act on the session of the calling run.

        Raises:
            UsageError: `session` is not a session.
        """
        super().__init__(
            title="Planning",
            key="planning-tools",
            template=_GUIDANCE,
            section_tools=planning_tools(),
            accepts_overrides=accepts_overrides,
        )
        if session is not None:
            register_plans(own_session(session))


_GUIDANCE: Final = (
    "Keep a plan for work of several steps: set it up with `planning_setup_plan`, mark each step "
    "`in_progress` and then `done` with `planning_update_step`, add what turns up with "
    "`planning_add_step`, and look it up with `planning_read_plan`."
)
