"""Events to plain data and back, exactly.

What lives here: what reads and writes each kind, made once a class and dispatched by dict, and the
text rule for volatile tails. `engine.encoding.strict` reads the contents of fields, and describes
wrong data. Bytes belong to `engine.encoding.canonical`, lines to `engine.log`, hashes to
`engine.encoding.digest`. Nothing is coerced: `"12"` is not an integer, an unknown field is refused.
Rules: CONTRACT.md §2 (events and their fields), §6.2 (volatile tails).

To add an event: `engine.events.events` is enough; the tables below are built from `KINDS`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import attrs

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.conversation import check_messages, check_reply
from refold.engine.encoding.hints import is_union
from refold.engine.encoding.shapes import hook_for
from refold.engine.encoding.strict import problems_of
from refold.engine.errors import EventMalformed, LogUnsupported, NotCanonical
from refold.engine.events.events import (
    KIND_OF,
    KINDS,
    MEMBERS,
    TAILS,
    ChildStarted,
    Event,
    Extension,
    ModelAnswered,
    ModelAsked,
    Recorded,
    RunStarted,
)
from refold.engine.values import Value

_Members = TypeVar("_Members", bound=attrs.AttrsInstance)

Data = dict[str, Any]
"""The `data` of an entry: a JSON object."""

EXTENSION_PREFIX: Final = "x-"

_TIMEOUT: Final = b'{"limit":"timeout_seconds",'


def kind_of(event: Recorded) -> str:
    """Return the kind that a log uses for `event`."""
    return event.kind if type(event) is Extension else KIND_OF[event.__class__]  # type: ignore[index]  # the union without Extension


def unstructure(event: Recorded) -> Data:
    """Return the data of `event`; members in the order of its fields, `None` left out."""
    return DUMPS[event.__class__](event)


def structure(kind: str, data: Json) -> Recorded:
    """Return the event of `kind` with this `data`; blobs must have been resolved.

    Raises:
        EventMalformed: a field is missing, unknown, or not of its type.
        LogUnsupported: the kind is unknown and no extension; its path is left empty.
    """
    if kind not in KINDS:
        return _extension(kind, data)
    load = _LOADS[kind]
    try:
        event = load(data)
    except Exception:  # noqa: BLE001 - whatever malformed data makes the fast hooks raise
        raise _explained(kind, data) from None
    if kind in _INSIDE:
        try:
            _check_inside(event)
        except NotCanonical as wrong:
            raise EventMalformed(kind, wrong.pointer, wrong.expected, wrong.found) from None
    return event


_INSIDE: Final = frozenset({"run.started", "child.started", "model.asked", "model.answered"})
"""Kinds whose members have members that readers rely on."""


def _check_inside(event: Any) -> None:
    """Raise NotCanonical for a tool without a name, or malformed limits or tool calls."""
    match event:
        case ChildStarted(delegation={"limits": limits}) if not isinstance(limits, dict):
            raise NotCanonical("/delegation/limits", "an object", shown(limits))
        case RunStarted(tools=tools):
            for at, tool in enumerate(tools):
                if type(tool.get("name")) is not str:
                    raise NotCanonical(f"/tools/{at}/name", "a string", shown(tool.get("name")))
        case ModelAsked(added=added):
            check_messages(added)
        case ModelAnswered(message=dict(message)):
            check_reply(message, "/message")


def digestible(kind: str, data: bytes) -> bytes:
    """Return `data`, the canonical bytes of an entry's data, without its volatile tail (§6.2).

    The cut is textual. A quote inside a string is escaped, and no tail holds its own marker, so the
    last occurrence is the tail itself. Cut once: the rest may hold the marker again.
    """
    field = TAILS.get(kind)
    if field is None:
        if kind != "limit.hit" or not data.startswith(_TIMEOUT):
            return data
        field = "observed"
    marker = b'"%b":' % field.encode()
    at = data.rfind(b"," + marker)
    if at >= 0:
        return data[:at]
    return data[:1] if data.startswith(marker, 1) else data


def _extension(kind: str, data: Json) -> Extension:
    if not kind.startswith(EXTENSION_PREFIX):
        raise LogUnsupported("", "a kind that this version knows", f"kind {kind!r}")
    if type(data) is not dict:
        raise EventMalformed(kind, "", "an object", type(data).__name__)
    if (known := MEMBERS.get(kind)) is not None:
        members(known, data, kind)
    return Extension(kind, data)


def members(known: type[_Members], data: Mapping[str, Any], kind: str) -> _Members:
    """Return the members of `data` that `known`, an attrs class, has; others are passed over.

    Raises:
        EventMalformed: one is missing, or not of its type: the chain of a log may hold nonsense.
    """
    names = attrs.fields_dict(known)
    try:
        found: _Members = hook_for(known)({k: v for k, v in data.items() if k in names})
        check_messages(getattr(found, "added", ()))
    except Exception as error:  # noqa: BLE001 - whatever the reader raises is explained
        wrong = next(problems_of(error))
        raise EventMalformed(kind, wrong.pointer, wrong.expected, wrong.found) from None
    return found


# --- reading, exactly ------------------------------------------------------------------------


def _twin(event: type[Event]) -> type:
    """Return a mutable class with the slots of `event`, and nothing to build it with.

    Building a frozen instance costs four times a mutable one.  The slots are the same, so an
    instance of the twin becomes a frozen event by a change of class: no field is set twice.
    """
    slots = tuple(field.name for field in attrs.fields(event))
    return type(event.__name__, event.__bases__, {"__slots__": slots})


def _loader(event: type[Event]) -> Callable[[Any], Event]:
    """Return the function that makes an `event` of its data, or raises.

    Generated, as attrs does it: reading a log is this function above all, and each call
    that it makes shows.  The source holds names of fields and classes, nothing from a log.
    """
    known: dict[str, Any] = {"twin": _twin(event), "event": event}
    fields = attrs.fields(event)
    needed = sum(field.default is attrs.NOTHING for field in fields)
    lines = [
        "def load(data):",
        "    if data.__class__ is not dict: raise TypeError(data)",
        "    loaded = twin()",
        f"    members = {needed}",
    ]
    for field in fields:
        lines.extend(f"    {line}" for line in _field_lines(field, known))
    lines += [
        "    if members != len(data): raise TypeError(data)",
        "    loaded.__class__ = event",
        "    return loaded",
    ]
    exec("\n".join(lines), known)  # noqa: S102 - our own text, of our own classes
    return known["load"]  # type: ignore[no-any-return]  # it was just defined


def _field_lines(field: "attrs.Attribute[Any]", known: dict[str, Any]) -> list[str]:
    """Return the lines that load one field; add the names that they use to `known`."""
    kind: Any = field.type if field.default is not None else _stated(field.type)
    name, wrong = field.name, _wrong(kind)
    lines = [f"value = data[{name!r}]"]
    if wrong is None:
        known[f"load_{name}"] = hook_for(kind)
        lines.append(f"value = load_{name}(value)")
    elif wrong:
        lines.append(f"if {wrong}: raise TypeError(data)")
    lines.append(f"loaded.{name} = value")
    if field.default is attrs.NOTHING:
        return lines
    factory = getattr(field.default, "factory", None)
    known[f"default_{name}"] = factory or field.default
    default = f"default_{name}()" if factory else f"default_{name}"
    otherwise = f"else: loaded.{name} = {default}"
    lines.append("members += 1")
    return [f"if {name!r} in data:", *(f"    {line}" for line in lines), otherwise]


def _wrong(kind: Any) -> str | None:
    """Return when `value` is not of `kind`, as Python; `None`: too much for one condition."""
    if kind is Any:
        return ""
    if kind is float:
        return "value.__class__ is not float and value.__class__ is not int"
    if kind in (int, str, bool):
        return f"value.__class__ is not {kind.__name__}"
    if kind == dict[str, Any]:
        return "value.__class__ is not dict"
    if get_origin(kind) is list:
        inner = get_args(kind)[0]
        each = (get_origin(inner) or inner).__name__
        return f"value.__class__ is not list or not {{{each}}}.issuperset(map(type, value))"
    if get_origin(kind) is Literal:
        words = ", ".join(map(repr, get_args(kind)))
        return f"value not in {{{words}}}"  # nothing else in JSON equals a word
    return None


def _stated(kind: Any) -> Any:
    """Return the type of an optional field's value: a member without one is left out (§2.1)."""
    return (
        next(each for each in get_args(kind) if each is not type(None)) if is_union(kind) else kind
    )


def _explained(kind: str, data: Json) -> EventMalformed:
    """Describe the problem of data that its loader refused."""
    try:
        hook_for(KINDS[kind])(data)
    except Exception as error:  # noqa: BLE001 - whatever the hook raises is explained
        wrong = next(problems_of(error))
        return EventMalformed(kind, wrong.pointer, wrong.expected, wrong.found)
    optional = (field.name for field in attrs.fields(KINDS[kind]) if is_union(field.type))
    name = next(name for name in optional if data.get(name, name) is None)
    return EventMalformed(kind, f"/{name}", "a value, or no such member", "null")


# --- writing ---------------------------------------------------------------------------------


def _dumper(kind: type) -> Callable[[Any], Data]:
    """Return the function that makes data of a `kind`, generated like a loader."""
    lines = ["def dump(value):", "    data = {}"]
    for field in attrs.fields(kind):
        member = got = f"value.{field.name}"
        if _wrong(_stated(field.type)) is None:
            member = f"plain({got})"
        unless_none = f"if {got} is not None: " if field.default is None else ""
        lines.append(f"    {unless_none}data[{field.name!r}] = {member}")
    known: dict[str, Any] = {"plain": _plain}
    exec("\n".join([*lines, "    return data"]), known)  # noqa: S102 - as for a loader
    return known["dump"]  # type: ignore[no-any-return]  # it was just defined


def _plain(value: Any) -> Any:
    """Return the value of a field that may be of a class of ours, or a tuple of such."""
    if type(value) is tuple:
        return [*map(_plain, value)]
    return DUMPS[type(value)](value) if isinstance(value, Value) else value


class _Loads(dict[str, Callable[[Any], Event]]):
    def __missing__(self, kind: str) -> Callable[[Any], Event]:
        load = self[kind] = _loader(KINDS[kind])
        return load


class _Dumps(dict[type, Callable[[Any], Data]]):
    def __missing__(self, kind: type) -> Callable[[Any], Data]:
        dump = self[kind] = _dumper(kind)
        return dump


# Hooks are made when a kind is first met: most runs use a few, and a child starts without waiting
# for the rest.
_LOADS: Final = _Loads()
DUMPS: Final = _Dumps({Extension: lambda event: event.data})
"""How each class becomes data: for the log's writer, which looks it up itself."""
