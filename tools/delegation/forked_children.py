"""Shared parts of the tools that pass on a session: the child's program, and the wait.

A forked child starts from its parent's snapshot, and its session ends with it. Only the outcome
carries out the `Artifact`s of its reducers and the state of its plan, so a replay has them.
Starting and joining are the engine's.  Rules: CONTRACT.md §10.20.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import attrs

from refold.engine.encoding.canonical import Json, encode, text_of_json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import NotCanonical, ProgramNotFound, UsageError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact, Report
from refold.engine.kernel.kernel import is_async
from refold.engine.kernel.pending import Child
from refold.engine.ports.delegation import Children, Delegation
from refold.engine.ports.ports import Policy, Program, Reference, Tool
from refold.engine.ports.programs import load_program, program_name, reference_of
from refold.engine.program.agent import caller
from refold.engine.program.run import PlainRun
from refold.engine.session.session import Session
from refold.tools.agents.plans import Plan, planning_tools
from refold.tools.agents.prompts import PromptTool
from refold.tools.contract.memory import settings_of
from refold.tools.delegation.shared import (
    MOMENT_SECONDS,
    call_begins,
    call_ends,
    delegate_each,
    outcome_in,
    plain_settings,
    remaking,
    values_of,
    with_values,
    yields_after,
)
from refold.tools.delegation.words import PLAN

R = TypeVar("R")
T = TypeVar("T")

FAILED: Final = "Subagent execution failed"
"""The message for a failure without its own message."""


# --- waiting for children, from either kind of program -------------------------------------------


@attrs.define
class ForkedCall:
    """What one call of a tool asks of the engine."""

    tool: str
    task: str
    """In words, for the log and the diagnostics."""
    delegations: list[Delegation]
    close: Callable[[], object] = lambda: None
    """Called once the children have ended, however they did."""


def answered(
    run: Any, asked: ForkedCall | R, render: Callable[[tuple[Child, ...]], R]
) -> R | Awaitable[R]:
    """Return `render` of the joined children, or an awaitable of it in an async program.

    A value that is not a `ForkedCall` is returned unchanged. Sessions are released before any
    error.
    """
    run = run.bare if isinstance(run, Equipped) else run
    if not isinstance(run, PlainRun):
        return _awaited(run, asked, render)
    if not isinstance(asked, ForkedCall):
        return asked
    with _noted(run, asked) as children:
        started = _plainly_started(run, asked.delegations)
        run.join(*started)
        children.extend(started)
    return render((*children,))


def _plainly_started(run: PlainRun, delegations: Iterable[Delegation]) -> list[Child]:
    """Start children; a function, so that no frame of a failure holds a child's session."""
    children: list[Child] = []
    for each in delegations:
        if yields_after(len(children)):
            run.sleep(MOMENT_SECONDS)
        children.append(run.start(each))
    return children


async def _awaited(run: Any, asked: ForkedCall | R, render: Callable[[tuple[Child, ...]], R]) -> R:
    if not isinstance(asked, ForkedCall):
        return asked
    with _noted(run, asked) as children:
        children.extend(await delegate_each(run, asked.delegations))
    return render((*children,))


@contextlib.contextmanager
def _noted(run: Any, asked: ForkedCall) -> Iterator[list[Child]]:
    """Log that a call begins and how the children that the block adds ended."""
    ticket = call_begins(run, asked.tool, asked.task)
    children: list[Child] = []
    try:
        yield children
    finally:
        asked.delegations.clear()
        asked.close()
    call_ends(run, ticket, statuses=[outcome_in(child).status for child in children])


# --- the program of a forked child ---------------------------------------------------------------


def forked(program: Program | Reference | str, *, planning: bool = False) -> Program:
    """Return a program that runs `program` and then returns what its session recorded.

    With `planning`, it may call the planning tools even if its parent does not have them.

    Raises:
        ProgramNotFound: it cannot be imported, or is not a program.
    """
    made: Any = reporting(load_program(program), planning=planning)
    with contextlib.suppress(ProgramNotFound):  # then no other process can run it
        plain = attrs.asdict(reference_of(program))
        made.reference = Reference(
            __name__, forked_child.__name__, {"program": plain, "planning": planning}
        )
    return made  # type: ignore[no-any-return]  # a function


def forked_child(*, program: dict[str, Any], planning: bool) -> Program:
    """Return the program that a reference of `forked` describes."""
    return reporting(load_program(Reference(**program)), planning=planning)


def reporting(program: Program, *, planning: bool) -> Program:
    """Return `program` with its session's artifacts, and its plan's state, added to its report."""
    extra = planning_tools() if planning else ()

    async def asynchronous(run: Any, given: Json) -> Any:
        before = _artifacts(run)
        value = await program(Equipped(run, extra) if extra else run, given)
        return _reported(value, run, before)

    def plain(run: Any, given: Json) -> Any:
        before = _artifacts(run)
        value = program(Equipped(run, extra) if extra else run, given)
        return _reported(value, run, before)

    chosen: Any = asynchronous if is_async(program) else plain
    chosen.__name__ = program_name(program)  # `__qualname__` stays: it says that this is no import
    chosen.__wrapped__ = program  # whose source explains a divergence
    return chosen  # type: ignore[no-any-return]  # one of the two above


def _reported(value: Any, run: Any, before: tuple[Artifact, ...]) -> Any:
    found = tuple(item for item in _artifacts(run) if item not in before)
    plan = _plan_of(run)
    if not (found or plan):
        return value
    if isinstance(value, Report):
        return attrs.evolve(value, artifacts=(*value.artifacts, *found), own=(*value.own, *plan))
    try:
        output = to_json(value)
    except NotCanonical:
        return value  # which ends the run, and says why
    summary = "" if output is None else text_of_json(output)
    return Report(summary=summary, output=output, artifacts=found, own=plan)


def _artifacts(run: Any) -> tuple[Artifact, ...]:
    session = _own_session_of(run)
    return () if session is None else tuple(session.select_all(Artifact))


def _plan_of(run: Any) -> tuple[Artifact, ...]:
    session = _own_session_of(run)
    plan = None if session is None else session.latest(Plan)
    if plan is None:
        return ()
    return (Artifact(kind="json", name=PLAN, value=encode(to_json(plan)).decode()),)


# --- how a tool is set up ------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ForkedOptions:
    """What both tools are set up with.  The model that calls them can change none of it."""

    program: Program | Reference | str = "agent"
    """The child's program; its input is {"agent": {"name", "system"}, "task"}."""
    model: str = ""
    """A child's model, by a name given to `record(models=…)`; empty for the caller's own."""
    parameters: Mapping[str, Json] = {}
    """Parameters of its model, over those of the caller's if it has the caller's model."""
    levels: int | None = None
    """How many levels below the caller may exist; None for no cap of its own."""
    limits: Limits | None = None
    """A child's limits, in addition to the caller's."""
    policy: Policy = Policy()
    runner: str = ""
    """What children run on; empty for the run's default."""
    missing: str = ""
    """Why the program cannot be had; found out at the first call of a run."""

    @property
    def children(self) -> Children:
        """What all children need."""
        return Children(
            program=self.program,
            models=(self.model,) if self.model else (),
            levels=self.levels,
            runner=self.runner,
            takes_session=True,
        )

    @property
    def reference(self) -> Reference | None:
        """How a subprocess makes the same tool; None where it cannot."""
        return remaking(type(self).__module__, values_of(self), self.program)

    def delegation(self, tool: str, agent: str, system: str, task: str, **more: Any) -> Delegation:
        """Return a child with a system prompt; `more` are attributes that the tool itself sets."""
        own = caller().child(
            name=agent, system=system, model=self.model, parameters=self.parameters
        )
        return Delegation(
            input={"agent": own, "task": task},
            brief=task,
            agent=agent,
            tool=tool,
            levels=self.levels,
            limits=self.limits,
            policy=self.policy,
            runner=self.runner,
            **more,
        )


def recorded(run: Any, name: str, options: T) -> T:
    """Return a tool's options as recorded in this run, from its first use on.

    So a replay does not need an equally configured tool, except for the user's own program, because
    a log never determines the code to import.
    """
    return with_values(options, settings_of(run, name, lambda: plain_settings(options)))


# --- sessions ------------------------------------------------------------------------------------


def own_or_new(session: Any) -> Any:
    """Return the session, or an empty one for a caller that has none."""
    return Session() if session is None else session


def _own_session_of(run: Any) -> Any:
    """Return a run's own session, or None; one child cannot report a shared session."""
    try:
        session = run.session
    except UsageError:
        return None
    return session if session.is_own else None


class Equipped:
    """A `run` that has more tools: program code, which needs nothing of the parent's."""

    def __init__(self, run: Any, extra: Iterable[PromptTool]) -> None:
        self._run = run
        known = {tool.name for tool in run.tools}
        self._extra: dict[str, Tool] = {each.name: each for each in extra if each.name not in known}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    @property
    def bare(self) -> Any:
        """The `run` itself, below all that add tools to it."""
        return getattr(self._run, "bare", self._run)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, sorted by name."""
        return tuple(sorted((*self._run.tools, *self._extra.values()), key=lambda tool: tool.name))

    def tool(self, tool: Any, /, **arguments: Any) -> Any:
        """Call a tool, as `run.tool`."""
        return self._run.tool(self._found(tool), **arguments)

    def model(self, messages: Any, /, *, tools: Iterable[Any] = (), **options: Any) -> Any:
        """Ask a model, as `run.model`."""
        offered = [self._found(tool) for tool in tools]
        return self._run.model(messages, tools=offered, **options)

    def _found(self, tool: Any) -> Any:
        return self._extra.get(tool, tool) if isinstance(tool, str) else tool
