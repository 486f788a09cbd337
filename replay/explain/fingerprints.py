"""What else is not as it was when a run was recorded: program, tools, model, versions.

A fingerprint explains a divergence and never decides one (CONTRACT.md §12.5).  Each has a name that
a person knows (`tool search: schema /properties/q/type`, `parameters /temperature`) and two short
texts, recorded and now.
"""

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import refold.engine
from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import RefoldError
from refold.engine.events.events import RunStarted
from refold.engine.events.flags import ENGINE_VERSION
from refold.engine.log.reader import read_entries
from refold.engine.ports.offers import is_ours, offer_of
from refold.engine.ports.ports import ModelRequest, Program, Tool
from refold.engine.ports.program_types import types_of
from refold.engine.ports.programs import fingerprint_of, program_name
from refold.engine.recording.bookends import FORMAT_VERSION
from refold.engine.state.digests import STATE_VERSION
from refold.replay.difference.pointer_diff import Difference, differences, shown
from refold.replay.index.asked_items import Item
from refold.replay.index.chains import Chains

Changes = dict[str, tuple[str, str]]
"""Name → (recorded, now)."""

_SHOWN: Final = 60
_SCHEMA_CHANGES: Final = 3
"""Places named of one schema that changed."""


def changed(started: RunStarted, program: Program, tools: Mapping[str, Tool]) -> Changes:
    """Return the changes in the program, its tools and this Python since the recording."""
    now = fingerprint_of(program)
    found = {
        name: (started.fingerprint.get(name, ""), now.get(name, ""))
        for name in ("source", "hash_seed")
        if started.fingerprint.get(name, "") != now.get(name, "")
    }
    name = program_name(program)
    if not started.parent and name != started.program:
        found["program"] = (started.program, name)
    found |= dict(_input(started.input, program)) | dict(_versions(started.versions))
    for offer, other in _redefined(started.tools, tools):
        found |= dict(_definition(f"tool {offer['name']}", offer, other))
    return found


def _input(recorded: Json, program: Program) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the fields with defaults that the type of the input adds to the recorded one."""
    with contextlib.suppress(RefoldError):  # an input that does not fit ends the program anyway
        for one in differences(recorded, to_json(types_of(program).read_input(recorded))):
            if one.kind == "added":
                yield f"input {one.pointer}", _pair(one)


def _versions(recorded: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    here = {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "engine": ENGINE_VERSION,
        "format": FORMAT_VERSION,
        "state": STATE_VERSION,
    }
    for name, now in here.items():
        if recorded.get(name) != now:
            yield name, (str(recorded.get(name)), str(now))


def redefined(offers: Iterable[Mapping[str, Any]], tools: Mapping[str, Tool]) -> tuple[str, ...]:
    """Return the names of tools that are defined differently than recorded."""
    return tuple(offer["name"] for offer, _ in _redefined(offers, tools))


def _redefined(
    offers: Iterable[Mapping[str, Any]], tools: Mapping[str, Tool]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for offer in offers:
        tool = tools.get(offer["name"])
        if tool is not None and tool.description:
            now = offer_of(tool)
            if now["digest"] != offer["digest"]:
                yield offer, now


def _definition(
    name: str, recorded: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the changed parts of one tool's definition: its text, effect class and schema."""
    for part in ("description", "effect"):
        if part in now and recorded.get(part) != now[part]:
            yield f"{name}: {part}", (_cut(recorded.get(part)), _cut(now[part]))
    places = differences(recorded.get("schema"), now["schema"])
    for one in places[:_SCHEMA_CHANGES]:
        yield f"{name}: schema {one.pointer}", _pair(one)
    if len(places) > _SCHEMA_CHANGES:
        yield f"{name}: schema, {len(places) - _SCHEMA_CHANGES} more places", ("", "")


def of_release(
    started: RunStarted, tools: Mapping[str, Tool], changes: Changes, diff: Sequence[Difference]
) -> str:
    """Return which tools of Refold another release defines otherwise, in words.

    Empty if the release is the same, or if anything else differs: then it is the program's change.
    """
    release = started.versions.get("release")
    names = {name[5:].partition(":")[0] for name in changes if name.startswith("tool ")}
    is_all = [one.pointer for one in diff] == ["/arguments/tools"]
    ours = is_all and names and all(is_ours(tools.get(name)) for name in names)
    if not ours or release == refold.__version__:
        return ""
    return (
        f"the log was recorded with Refold {release}, and Refold {refold.__version__} has "
        f"different definitions of its own tools {', '.join(sorted(names))}. The "
        "program is not the cause: replay with that release, or record again"
    )


def of_requests(
    recorded: Item | None, now: Item | None, offers: Sequence[Mapping[str, Any]],
    request: ModelRequest | None,
) -> Changes:  # fmt: skip
    """Return the differences of two model requests: model, parameters, tools, prompt."""
    if recorded is None or now is None or not recorded.kind == now.kind == "model":
        return {}
    found: Changes = {}
    if recorded.name != now.name:
        found["model"] = (recorded.name, now.name)
    old, new = recorded.arguments, now.arguments
    for one in differences(old["parameters"], new["parameters"]):
        found[f"parameters {one.pointer}"] = _pair(one)
    if old["tools"] != new["tools"]:
        found |= _offered(old["tools"], offers, request) or {"tools": (old["tools"], new["tools"])}
    return found


def _offered(
    recorded: str, offers: Sequence[Mapping[str, Any]], request: ModelRequest | None
) -> Changes:
    """Return which tools the model is offered otherwise, as far as the record names them."""
    found: Changes = {}
    known = {offer["name"]: offer for offer in offers}
    for tool in request.tools if request is not None else ():
        offer = known.get(tool.name)
        if offer is None:
            found[f"tool {tool.name}: offered"] = ("", "offered")
        else:
            now = {"description": tool.description, "schema": tool.parameters}
            found |= dict(_definition(f"tool {tool.name}", offer, now))
    if request is not None and recorded == _digest_of(offers):
        kept = {tool.name for tool in request.tools}
        found |= {f"tool {name}: offered": ("offered", "") for name in known if name not in kept}
    return found


def _digest_of(offers: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of a request that offers all the tools of the run."""
    members = {"name": "name", "description": "description", "parameters": "schema"}
    return digest.of_key([{k: offer[v] for k, v in members.items()} for offer in offers])


def _cut(value: Json) -> str:
    return shown(value, _SHOWN)


def _pair(one: Difference) -> tuple[str, str]:
    before = "" if one.kind == "added" else _cut(one.before)
    return before, "" if one.kind == "removed" else _cut(one.after)


def conversation(log: str | os.PathLike[str], item: Item) -> list[Json] | None:
    """Return the whole conversation of a recorded request; `None` where the log does not have it.

    A log holds each message once, and names what went before by its chain digest (CONTRACT.md
    §2.4).
    """
    chains, ends = Chains(), dict[str | None, str]()
    with contextlib.suppress(KeyError):
        for entry in read_entries(log, torn_ok=True, resolve=True):
            data = entry.data
            if entry.seq >= item.seq:
                break
            if entry.kind == "model.asked":
                ends[entry.call] = chains.after(data["predecessor"], data["added"])
            elif entry.kind == "model.answered" and data.get("message"):
                chains.after(ends[entry.call], [data["message"]])
        return [*chains.messages(item.arguments["predecessor"]), *item.arguments["added"]]
    return None
