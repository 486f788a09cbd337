"""Shared parts of the tools that pass on a session: the child's program and its session.

A forked child starts from its parent's snapshot, and its session ends with it. Only the outcome
carries out the `Artifact`s of its reducers and the state of its plan, so a replay has them.
Starting and joining are the engine's.  Rules: CONTRACT.md §10.20.
"""

import contextlib
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, text_of_json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import NotCanonical, ProgramNotFound, ToolValidationError, UsageError
from refold.engine.events.outcome import Artifact, Report
from refold.engine.kernel.kernel import is_async
from refold.engine.ports.ports import Children, Program, Reference
from refold.engine.ports.programs import load_program, program_name, reference_of
from refold.engine.session.session import Session
from refold.tools.agents.plans import Plan
from refold.tools.agents.prompts import ToolResult
from refold.tools.contract.options import ChildOptions
from refold.tools.delegation.shared import too_large
from refold.tools.delegation.words import PLAN

FAILED: Final = "Subagent execution failed"
"""The message for a failure without its own message."""


# --- the program of a forked child ---------------------------------------------------------------


def forked(program: Program | Reference | str) -> Program:
    """Return a program that runs `program` and then returns what its session recorded.

    Raises:
        ProgramNotFound: it cannot be imported, or is not a program.
    """
    made: Any = reporting(load_program(program))
    with contextlib.suppress(ProgramNotFound):  # then no other process can run it
        plain = attrs.asdict(reference_of(program))
        made.reference = Reference(__name__, forked_child.__name__, {"program": plain})
    return made  # type: ignore[no-any-return]  # a function


def forked_child(*, program: dict[str, Any]) -> Program:
    """Return the program that a reference of `forked` describes."""
    return reporting(load_program(Reference(**program)))


def reporting(program: Program) -> Program:
    """Return `program` with its session's artifacts, and its plan's state, added to its report."""

    async def asynchronous(run: Any, given: Json) -> Any:
        before = _artifacts(run)
        return _reported(await program(run, given), run, before)

    def plain(run: Any, given: Json) -> Any:
        before = _artifacts(run)
        return _reported(program(run, given), run, before)

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
        why = f"{FAILED}: {self.missing}"
        return ToolResult(why, None, success=False) if self.missing else None


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
