"""The envelope: all information for a subprocess child, as one JSON line (CONTRACT.md §7.5).

Versioned, because parent and child may be different installations. It crosses a pipe and is in no
log: it may contain paths, `sys.path` and the working directory of this machine.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.children.tokens import asking
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import LogUnsupported, ProgramNotFound, ToolRefused, UsageError
from refold.engine.events.limits import Limits
from refold.engine.ports.clock import fixed_at
from refold.engine.ports.ports import (
    ChildRequest,
    Identity,
    Model,
    Parentage,
    People,
    Policy,
    Reference,
    Tool,
)
from refold.engine.ports.programs import elsewhere, load, reference_of
from refold.engine.secrets.vault import unpacked

VERSION: Final = 1

_AS_THEY_ARE: Final = ("program_name", "brief", "input", "durability", "runner")


def pack(request: ChildRequest, *, entry: str, tokens_fd: int | None = None) -> bytes:
    """Return the envelope of a child, newline included.

    `entry` is the function that the stub calls with it, `module:function`; `tokens_fd` is the
    descriptor, as the child has it, over which it asks for more tokens.

    Raises:
        ProgramNotFound: the program cannot be imported by another process.
        ToolRefused: nor can a tool.
        UsageError: nor can a model.
    """
    people = attrs.asdict(request.people, filter=attrs.filters.exclude("ask"))
    envelope: dict[str, Json] = {name: getattr(request, name) for name in _AS_THEY_ARE} | {
        "version": VERSION,
        "entry": entry,
        "program": attrs.asdict(reference_of(request.program)),
        "identity": attrs.asdict(request.identity),
        "limits": request.limits.as_json(),
        "policy": to_json(request.policy),
        "log": os.path.abspath(request.log) if request.log else None,  # noqa: PTH100 - links stay
        "tools": [_tool_reference(tool) for tool in request.tools],
        "models": {name: _model_reference(model) for name, model in request.models.items()},
        "session": _session(request.session),
        "people": to_json(people),  # who can be asked stays with the root's process
        "resume": attrs.asdict(request.resume) if request.resume else None,
        "vault": request.vault.packed() if request.vault else None,
        "tokens_fd": tokens_fd,
        "clock_us": request.clock.time_us() if request.clock else None,
        "sys_path": [os.path.abspath(entry) for entry in sys.path],  # noqa: PTH100 - the same
        "cwd": os.getcwd(),  # noqa: PTH109 - the same
    }
    return json.dumps(envelope).encode() + b"\n"  # a path may have bytes that are not UTF-8


def unpack(line: bytes) -> ChildRequest:
    """Return the request of an envelope, its program, tools and models imported.

    Raises:
        LogUnsupported: the parent is a newer version.
        ProgramNotFound: something cannot be imported here.
        LimitRefused: nonsense as a limit.
    """
    envelope: dict[str, Any] = json.loads(line)
    if envelope.get("version") != VERSION:
        found = f"version {envelope.get('version')}"
        raise LogUnsupported("the envelope", f"version {VERSION}", found)
    identity, clock_us = envelope["identity"], envelope["clock_us"]
    parent, policy, people = identity.pop("parent"), envelope["policy"], envelope["people"]
    policy["artifact_kinds"] = tuple(policy["artifact_kinds"])
    people |= {name: frozenset(people[name]) for name in ("retry", "fail")}
    return ChildRequest(
        **{name: envelope[name] for name in _AS_THEY_ARE},
        program=Reference(**envelope["program"]),
        identity=Identity(**identity, parent=Parentage(**parent) if parent else None),
        limits=Limits.from_json(envelope["limits"]),
        policy=Policy(**policy),
        log=Path(envelope["log"]) if envelope["log"] else None,
        tools=tuple(load(Reference(**tool)) for tool in envelope["tools"]),
        models={name: load(Reference(**ref)) for name, ref in envelope["models"].items()},
        session=_made_session(envelope["session"]),
        people=People(**people),
        resume=Reference(**envelope["resume"]) if envelope["resume"] else None,
        vault=unpacked(envelope["vault"]) if envelope["vault"] else None,
        clock=fixed_at(clock_us) if clock_us is not None else None,
        tokens=asking(envelope["tokens_fd"]) if envelope["tokens_fd"] is not None else None,
    )


def _tool_reference(tool: Tool) -> dict[str, Json]:
    if (why := why_unreachable(tool)) or tool.reference is None:
        raise ToolRefused(tool.name, "in a subprocess", why)
    return attrs.asdict(elsewhere(tool.reference))


def why_unreachable(tool: Tool) -> str:
    """Return why no other process can make a tool; empty if one can."""
    try:
        if tool.reference is not None:
            elsewhere(tool.reference)
            return ""
        if (children := getattr(tool, "children", None)) is not None:
            reference_of(children.program)
    except ProgramNotFound as error:
        return str(error)
    return getattr(tool, "unreachable", "") or (
        "a subprocess cannot import it; define it at module level"
    )


def why_no_session(session: Any) -> str:
    """Return why no other process can make a session; empty if one can."""
    if session is None or getattr(session, "maker", None) is not None:
        return ""
    return (
        "a subprocess child can only have a session with a factory: "
        "Session(factory=Reference(__name__, 'make_it', {}))"
    )


def why_no_model(model: Model) -> str:
    """Return why no other process can make a model; empty if one can."""
    if model.reference is not None:
        return ""
    return f"model {model.name!r}: a subprocess cannot create it; give it a `reference`"


def _session(session: Any) -> Json:
    """Return how another process makes the session: its factory, and its slices."""
    if session is None:
        return None
    if why := why_no_session(session):
        raise UsageError(why)
    return {
        "factory": attrs.asdict(elsewhere(session.maker)),
        "snapshot": session.snapshot().as_json(),
        "events": _events(session),
    }


def _events(session: Any) -> list[str]:
    return sorted({kind.__qualname__ for kind in session.event_types})


def _made_session(packed: Any) -> Any:
    if packed is None:
        return None
    factory = Reference(**packed["factory"])
    session = load(factory)
    session = session() if callable(session) else session
    if lacking := sorted({*packed["events"]} - {*_events(session)}):
        raise UsageError(
            f"session: the one that {factory.name} in {factory.source} makes has no reducer for "
            f"{', '.join(lacking)}: register all reducers there"
        )
    if getattr(session, "factory", None) is None:
        session.factory = factory  # or a child of this one, in a third process, could have none
    session.restore(packed["snapshot"])
    return session


def _model_reference(model: Model) -> dict[str, Json]:
    if (why := why_no_model(model)) or model.reference is None:
        raise UsageError(why)
    return attrs.asdict(elsewhere(model.reference))
