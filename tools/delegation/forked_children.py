"""Shared parts of the tools that pass on a session: the child's program, its session and tools.

A forked child starts from its parent's snapshot, and its session ends with it. Only the outcome
carries out the `Artifact`s of its reducers and the state of its plan, so a replay has them.
Starting and joining are the engine's.  Rules: CONTRACT.md §10.20.
"""

import contextlib
from collections.abc import Iterable
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, text_of_json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import NotCanonical, ProgramNotFound, ToolValidationError, UsageError
from refold.engine.events.outcome import Artifact, Report
from refold.engine.kernel.kernel import is_async
from refold.engine.ports.delegation import Children
from refold.engine.ports.ports import Program, Reference, Tool
from refold.engine.ports.programs import load_program, program_name, reference_of
from refold.engine.session.session import Session
from refold.tools.agents.plans import Plan, planning_tools
from refold.tools.agents.prompts import PromptTool, ToolResult
from refold.tools.contract.options import ChildOptions
from refold.tools.delegation.shared import too_large
from refold.tools.delegation.words import PLAN

FAILED: Final = "Subagent execution failed"
"""The message for a failure without its own message."""


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
class ForkedOptions(ChildOptions):
    """What both tools are set up with."""

    @property
    def children(self) -> Children:
        """What all children need."""
        return attrs.evolve(super().children, takes_session=True)

    def refused(self, params: object) -> ToolResult[Any] | None:
        """Return the failing result of a call whose program is missing, if it is.

        Raises:
            ToolValidationError: a parameter is too large.
        """
        if large := too_large(to_json(params), self.request_bytes):
            raise ToolValidationError(f"arguments: {'; '.join(large)}")
        return (
            ToolResult(f"{FAILED}: {self.missing}", None, success=False) if self.missing else None
        )


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
        """ToolCall a tool, as `run.tool`."""
        return self._run.tool(self._found(tool), **arguments)

    def model(self, messages: Any, /, *, tools: Iterable[Any] = (), **options: Any) -> Any:
        """Ask a model, as `run.model`."""
        offered = [self._found(tool) for tool in tools]
        return self._run.model(messages, tools=offered, **options)

    def _found(self, tool: Any) -> Any:
        return self._extra.get(tool, tool) if isinstance(tool, str) else tool
