"""A program with a session, to be broken off anywhere, and the session that it starts with."""

from typing import Any

import attrs

from refold import Delegation, Run, Session
from refold.engine.session import ToolInvoked, append_all
from tests.support.resumable import step


@attrs.frozen
class Finding:
    """Something found."""

    text: str


@attrs.frozen
class Heard:
    """A tool that was called, and by which child."""

    tool: str
    by: str


def _heard(items: tuple[Heard, ...], told: ToolInvoked) -> tuple[Heard, ...]:
    return (*items, Heard(told.name, told.by))


def session() -> Session:
    """Return an empty session with the slices that these programs need."""
    fresh = Session()
    fresh.register(Finding, Finding, append_all)
    fresh.register(ToolInvoked, Heard, _heard)
    return fresh


async def noting(run: Run, n: int) -> Any:
    """Put what tools give into the session, and give it back."""
    for each in range(n):
        run.session.dispatch(Finding(str(await run.tool(step, n=each))))
    before = run.session.snapshot()
    run.session.dispatch(Finding("not kept"))
    run.session.rollback(before)
    return [finding.text for finding in run.session.select_all(Finding)]


async def shares(run: Run, n: int) -> int:
    """A child that acts on its parent's session."""
    run.session.dispatch(Finding(f"child {await run.tool(step, n=n)}"))
    run.session.dispatch(Finding(f"child {await run.tool(step, n=n + 1)}"))
    return len(run.session.select_all(Finding))


async def sharing(run: Run, n: int) -> Any:
    """Share the session with a child, between changes of one's own."""
    run.session.dispatch(Finding("first"))
    delegation = Delegation(program=shares, input=n, session=run.session, shared=True)
    seen = (await run.delegate(delegation)).output
    run.session.dispatch(Finding("last"))
    heard = [told.by for told in run.session.select_all(Heard)]
    return [seen, heard, [finding.text for finding in run.session.select_all(Finding)]]
