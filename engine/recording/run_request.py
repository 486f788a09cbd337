"""The input and the result of recording one run.

Values that pass between the caller that starts a run and the recorder, and from a run to the runner
of its child; nothing here acts. Rules: CONTRACT.md §7.1 (outcomes and runners), §9.1 (identities).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from refold.engine.events.events import RunFinished
from refold.engine.kernel.unawaited import Slip
from refold.engine.log.names import child_path
from refold.engine.ports.effects import RunChild
from refold.engine.ports.offers import chosen_tools
from refold.engine.ports.ports import (
    ChildRequest,
    Delegation,
    Identity,
    MoreTokens,
    Parentage,
    Program,
    Question,
    SessionPort,
    Terms,
    Tool,
)
from refold.engine.ports.program_types import PLAIN, ProgramTypes
from refold.engine.ports.programs import found_program, program_name
from refold.engine.secrets.vault import Vault
from refold.engine.state.folding import Fold
from refold.engine.values import Value


@attrs.frozen(kw_only=True)
class RunRequest(Terms):
    """All that recording one run takes."""

    program: Program
    log: Path
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    meta: dict[str, int | str] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    vault: Vault = attrs.field(factory=Vault)
    """Redaction, secrets and volatile paths."""


@attrs.frozen(kw_only=True)
class RecordedRun(Value):
    """One recorded run: its last event and its log's path."""

    finished: RunFinished
    log: Path
    head: str
    entries: int
    fold: Fold
    duration_ms: int
    interrupted: bool = False
    place: tuple[str, int] | None = None
    """File and line of the program that raised, if it did."""
    raised: BaseException | None = None
    """Its exception."""
    questions: tuple[Question, ...] = ()
    """The open questions of a suspended run; its log has no `run.finished`."""
    slips: tuple[Slip, ...] = ()
    """Calls that the program never awaited."""
    unheard: tuple[Slip, ...] = ()
    """Exceptions that nobody awaited."""
    types: ProgramTypes = PLAIN
    """Of the program."""


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return tools by their names, sorted."""
    return {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}


def child_request(
    effect: RunChild,
    above: RunRequest,
    *,
    path: str,
    start_hash: str,
    session: SessionPort | None,
    host: Any,
    tokens: MoreTokens | None = None,
) -> ChildRequest:
    """Return the request of the run `above` to the child's runner.

    `path` is the child's, `start_hash` the hash of its `child.started`, `tokens` asks `above` for
    more.
    """
    delegation, identity = effect.delegation, above.identity
    kept = ("durability", "models", "clock", "runners", "people", "resume", "vault")
    return ChildRequest(
        **{name: getattr(above, name) for name in kept},
        program=found_program(delegation.program),
        program_name=program_name(delegation.program),
        input=delegation.input,
        identity=Identity(
            run_id=effect.run_id,
            root_id=identity.root_id,
            path=path,
            depth=identity.depth + 1,
            seed=identity.seed,
            parent=Parentage(run=identity.run_id, call=effect.call, hash=start_hash),
            agent=delegation.agent,
        ),
        limits=effect.limits,
        policy=delegation.policy,
        brief=delegation.brief,
        log=child_path(above.log, effect.number),
        tools=tuple(offered(delegation, above.tools).values()),
        runner=delegation.runner or above.runner,
        session=session,
        host=host,
        tokens=tokens,
    )


def offered(delegation: Delegation, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the tools above that the delegation lets through, and its own, which go first."""
    names = tools if delegation.tools is None else delegation.tools
    return chosen_tools(names, tools) | by_name(delegation.own_tools)
