"""The request to a child's runner: the delegation, and values from the run above.

Rules: CONTRACT.md §7.1 (outcomes and runners), §9.1 (identities).
"""

from collections.abc import Mapping
from typing import Any

from refold.engine.log.names import child_path
from refold.engine.ports.delegation import Delegation
from refold.engine.ports.effects import RunChild
from refold.engine.ports.offers import chosen_tools
from refold.engine.ports.ports import (
    ChildRequest,
    Identity,
    MoreTokens,
    Parentage,
    SessionPort,
    Tool,
)
from refold.engine.ports.programs import found_program, program_name
from refold.engine.recording.run_request import RunRequest, by_name


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
        tools=tuple(_offered(delegation, above.tools).values()),
        runner=delegation.runner or above.runner,
        session=session,
        host=host,
        tokens=tokens,
    )


def _offered(delegation: Delegation, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the tools above that the delegation lets through, and its own, which go first."""
    names = tools if delegation.tools is None else delegation.tools
    return chosen_tools(names, tools) | by_name(delegation.own_tools)
