"""Checks the needs of delegation tools before the first line of a log.

A delegation tool declares the needs of all its children (`Tool.children`); a user's tool that
declares none is not checked. A tool that can never succeed in the run (`Tool.why_useless`) is a
problem too. A problem found here, or only at a child's start, ends the run,
because a model could not fix it. Rules: CONTRACT.md §10.4.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from refold.engine.encoding.strict import nearest
from refold.engine.errors import NotReady, ProgramNotFound, UsageError
from refold.engine.ports.ports import Children, Tool
from refold.engine.ports.program_types import types_of
from refold.engine.ports.programs import load_program, reference_of
from refold.engine.recording.run_request import RunRequest


def preflight(request: RunRequest) -> RunRequest:
    """Return the request if nothing is missing that all children of one of its tools need.

    Raises:
        NotReady: names all that is missing, each with the tools that need it.
    """
    missing: dict[str, list[str]] = {}
    for tool in request.tools.values():
        children: Children | None = getattr(tool, "children", None)
        if children is not None and _levels_left(request, children) > 0:
            for each in dict.fromkeys(_missing(request, children)):
                missing.setdefault(each, []).append(tool.name)
        why_useless = getattr(tool, "why_useless", None)
        if why_useless and (why := why_useless(request.session, request.tools.values())):
            missing.setdefault(why, []).append(tool.name)
    if missing:
        problems = (f"{what} (for {', '.join(names)})" for what, names in missing.items())
        raise NotReady(tuple(problems))
    return request


def _levels_left(request: RunRequest, children: Children) -> int:
    """Return how many levels of runs a tool may start below the run."""
    limits, own = request.limits, children.levels
    left = (limits.max_depth or 0) - request.identity.depth
    return 0 if limits.max_children == 0 else left if own is None else min(left, own)


def _missing(request: RunRequest, children: Children) -> Iterator[str]:
    name = children.runner or request.runner
    runner = request.runners.get(name)
    if runner is None:
        yield f"runner {name!r}: {_known(name, request.runners)}"
    elif children.shares_session and not getattr(runner, "shares_memory", False):
        yield f"runner {name!r}: its children cannot share their caller's session"
    try:
        types_of(load_program(children.program))
    except UsageError as error:
        yield str(error)
    for each in children.models:
        if each not in request.models:
            yield f"model {each!r}: {_known(each, request.models)}"
    for each in (*(children.tools or ()), *children.named_tools):
        if each not in request.tools:
            yield f"tool {each!r}: {_known(each, request.tools)}"
    for file in children.files:
        if not Path(file).is_file():
            yield f"file {file}: no such file"
    if getattr(runner, "needs_references", False):
        yield from _unreachable(request, children)


def _unreachable(request: RunRequest, children: Children) -> Iterator[str]:
    """Yield what children have and no other process can make."""
    from refold.engine.children.envelope import (  # noqa: PLC0415 - few runs have such children
        why_no_model,
        why_no_session,
        why_unreachable,
    )

    offered = _offered(request)
    try:
        reference_of(children.program)
    except ProgramNotFound as error:
        yield str(error)
    is_last = _levels_left(request, children) == 1  # then they are offered no delegation tools
    for name in offered if children.tools is None else children.tools:
        tool = offered.get(name)  # None: named before, or not the root agent's
        if tool is None or (is_last and getattr(tool, "children", None) is not None):
            continue
        if why := why_unreachable(tool):
            yield why if why.startswith("program") else f"tool {name!r}: {why}"
    yield from filter(None, map(why_no_model, request.models.values()))
    if children.takes_session and (why := why_no_session(request.session)):
        yield why


def _offered(request: RunRequest) -> Mapping[str, Tool]:
    """Return the tools of the root's agent, if it names its own, or all that the run has."""
    given = request.input if request.program_name == "agent" else None
    agent = given.get("agent") if isinstance(given, dict) else None
    names = agent.get("tools") if isinstance(agent, dict) else None
    if not isinstance(names, list):
        return request.tools
    return {name: tool for name, tool in request.tools.items() if name in names}


def _known(name: str, known: Mapping[str, object]) -> str:
    names = sorted(filter(None, known))
    listed = ", ".join(names) or "none"
    return f"not found{nearest(name, names)} (known: {listed})"
