"""What must not reach a log, and how it is taken out: by exact value, by path, by tool.

The rules and the walk, pure; `engine.secrets.vault` knows the secret values,
`engine.recording.recorder` applies the rules. Removed values leave a marker: `[redacted:NAME]` for
an exact secret, `[redacted]` for a path or a tool. They are removed before the log *and* before
delivery, so that a program receives exactly the same values in a replay (CONTRACT.md §3.9).
"""

import binascii
import functools
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, Final, Literal, Protocol, get_origin

import attrs

from refold.engine.encoding.canonical import Json, unescaped
from refold.engine.encoding.parameters import names_nearest, texts
from refold.engine.encoding.strict import nearest
from refold.engine.errors import UsageError
from refold.engine.events.events import (
    Event,
    ModelAnswered,
    ModelAsked,
    RunFinished,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from refold.engine.events.outcome import ChildRef, Truncated, Usage
from refold.engine.values import Value

LENGTH_MIN: Final = 4
"""Characters of an exact secret; a shorter one would be found everywhere."""
_ENCODED_MIN: Final = 8
"""Characters of an encoded form that is looked for: shorter ones occur by chance."""
REDACTED: Final = "[redacted]"
MARKER: Final = re.compile(r"\[redacted(?::[^\[\]]*)?\]")
_ANY: Final = "*"
_SELECTOR: Final = re.compile(r"(?:tool|model):[^/\s]+|run")
_WHOLE: Final = (ChildRef, Truncated, Usage)
"""Values of numbers and hashes, in which nothing is looked for."""


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return texts(values, "Redaction", is_secret=True)


def _paths(paths: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    given: object = paths
    if not isinstance(given, Mapping):
        found = type(given).__name__
        raise UsageError(
            f"Redaction(paths=…): expected a dict with keys such as tool:NAME; found {found}"
        )
    read = {key: _texts(pointers) for key, pointers in paths.items()}
    for key, pointers in read.items():
        if not _SELECTOR.fullmatch(key):
            raise UsageError(
                f"Redaction(paths={{{key!r}: …}}): expected tool:NAME, model:NAME or run"
            )
        for pointer in pointers:
            check_pointer(pointer, f"Redaction(paths={{{key!r}: …}})")
    return read


def check_pointer(pointer: str, where: str) -> None:
    """Refuse anything but a JSON pointer below the data of an entry.

    Raises:
        UsageError: it is not one; names the place.
    """
    if not pointer.startswith("/") or pointer == "/":
        raise UsageError(
            f"{where}: expected a JSON pointer such as /result/token, found {pointer!r}"
        )


@names_nearest
@attrs.frozen(kw_only=True)
class Redaction(Value):
    """Values to remove from the texts of tools, models and callers.

    Raises:
        UsageError: a secret is too short to search for, or a path is invalid.
    """

    secrets: tuple[str, ...] = attrs.field(default=(), converter=_texts, repr=False)
    """Exact values; found as they are, and percent-encoded, in JSON, `repr`, base64 and hex."""
    environment: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Names of environment variables whose values are secret."""
    paths: dict[str, tuple[str, ...]] = attrs.field(factory=dict, converter=_paths)
    """JSON pointers into the data of entries, `*` for any member or element, by the subject of
    the entries: `{"tool:fetch": ("/result/token",), "model:*": ("/message/content",)}`; `run` is
    the run's `/input` and `/output`."""
    tools: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Names of tools whose arguments and results are taken out whole; `*` is any part of a name,
    here and in `paths`.  A name without one has to be of a tool that the run is offered."""

    def as_json(self) -> dict[str, Json]:
        """Return the rules as `run.started` lists them: names, paths, and how many secrets."""
        listed = {
            "environment": sorted(self.environment),
            "paths": {key: list(self.paths[key]) for key in sorted(self.paths)},
            "secrets": len(self.secrets),
            "tools": sorted(self.tools),
        }
        return {name: value for name, value in listed.items() if value}


def named(rules: Redaction) -> Iterator[tuple[str, str, str]]:
    """Yield what rules name exactly: where, `tool` or `model`, and the name; no pattern."""
    for name in rules.tools:
        if _ANY not in name:
            yield f"Redaction(tools=[{name!r}])", "tool", name
    for selector in rules.paths:
        kind, _, name = selector.partition(":")
        if name and _ANY not in name:
            yield f"Redaction(paths={{{selector!r}: …}})", kind, name


def check_named(rules: Redaction, tools: Iterable[str], models: Iterable[str]) -> None:
    """Refuse rules for a tool or model that a run does not have: they would take out nothing.

    Raises:
        UsageError: one is; with the nearest name.
    """
    known = {"tool": sorted(tools), "model": sorted(models)}
    for where, kind, name in named(rules):
        if name in known[kind]:
            continue
        meant = nearest(name, known[kind]) or "."
        listed = ", ".join(known[kind]) or "none"
        raise UsageError(
            f"{where}: no {kind} is named {name!r}{meant} This run has: {listed}. To make the rule "
            f"optional, write {name + _ANY!r}"
        )


def narrowed(rules: Redaction, tools: Iterable[str], models: Iterable[str]) -> Redaction:
    """Return the rules without those for tools and models that a run does not have.

    For rules that several runs share, such as a configuration's.
    """
    known = {"tool": {*tools}, "model": {*models}}
    absent = {f"{kind}:{name}" for _, kind, name in named(rules) if name not in known[kind]}
    return attrs.evolve(
        rules,
        tools=[name for name in rules.tools if f"tool:{name}" not in absent],
        paths={key: value for key, value in rules.paths.items() if key not in absent},
    )


def _matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern, in which `*` is any text."""
    if _ANY not in pattern:
        return pattern == name
    first, *between, last = pattern.split(_ANY)
    at, end = len(first), len(name) - len(last)
    if at > end or not (name.startswith(first) and name.endswith(last)):
        return False
    for each in between:  # no regular expression: patterns of a log could make it take for ever
        found = name.find(each, at, end)
        if found < 0:
            return False
        at = found + len(each)
    return True


# --- exact secrets ---------------------------------------------------------------------------


def forms_of(secret: str) -> tuple[str, ...]:
    """Return expressions that together match a secret in all its forms.

    The forms are: unchanged, percent-encoded, in JSON in JSON to depth 3 or Python's `repr` of
    that, character by character, because encoders differ in the characters that they escape; and
    base64 and hex of it. Base64 in all three alignments, without the characters that depend on its
    neighbours. Each begins with a literal: `re` then checks the rest only at its occurrences.
    """
    found = _as_text(secret)
    for form in _encoded(secret.encode()):
        found += _branches(form, _PACKED)
    return tuple(dict.fromkeys(found))


def plain_parts(secret: str) -> tuple[str, ...]:
    """Return texts of which one occurs in every form of a secret; `""` for none."""
    forms = (secret, *_encoded(secret.encode()))
    return tuple(max(re.findall("[A-Za-z0-9]*", form), key=len) for form in forms)


def _encoded(raw: bytes) -> list[str]:
    """Return hex and base64 of a secret, as far as they are long enough to be looked for."""
    forms = [raw.hex(), raw.hex().upper()]
    for before in range(3):
        text = binascii.b2a_base64(b"\0" * before + raw, newline=False).decode().rstrip("=")
        start = (0, 2, 3)[before]
        forms.append(text[start : len(text) - (1 if (before + len(raw)) % 3 else 0)])
    return [form for form in forms if len(form) >= _ENCODED_MIN]


_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-_")
"""Characters that no encoder touches."""
_PACKED: Final = {
    "+": ("\\+", "-", "%2[Bb]"),
    "/": ("/", "_", "%2[Ff]", r"\\\\{0,62}/"),
}
"""What base64 has in the place of two of its characters: in URLs, and in JSON."""
_CONTROLS: Final = dict(zip("\b\t\n\f\r", "btnfr", strict=True))
_ESCAPE: Final = r"\\\\{0,62}"
"""Backslashes before a character, one at least; begins with a literal."""
_POWERS: Final = (64, 32, 16, 8, 4, 2, 1)
_LATIN: Final = 0xFF
_RUN: Final = re.compile(r"\\+|[\s\S]")


def _as_text(secret: str) -> tuple[str, ...]:
    units = _RUN.findall(secret)
    return _branches(units, {unit: _ways(unit) for unit in {*units} - _PLAIN})


def _branches(units: Iterable[str], ways: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return an expression for each way in which the first unit may be written."""
    first, *rest = (ways.get(unit, (unit,)) for unit in units)
    after = "".join(each[0] if len(each) == 1 else f"(?:{'|'.join(each)})" for each in rest)
    return tuple(each + after for each in first)


def _ways(unit: str) -> tuple[str, ...]:
    """Return expressions for the encodings of one character, or of a run of backslashes.

    Each level of JSON or `repr` doubles backslashes; up to six levels are matched. One backslash
    becomes a power of two: otherwise one that escapes the next character would match too.
    """
    own, codes = re.escape(unit), [f"{byte:02x}" for byte in unit.encode()]
    percent = "".join(f"%(?:25)?{_any_case(code)}" for code in codes)
    if unit[0] == "\\":
        return (
            *(rf"\\\\{{{len(unit) * times - 1}}}" for times in _POWERS),
            (_ESCAPE + "u005[Cc]") * len(unit),
            percent,
        )
    raw = unit.encode("utf-16-be").hex()
    escaped = [
        own,
        *(_CONTROLS.get(unit, ())),
        _ESCAPE.join(f"u{_any_case(raw[at : at + 4])}" for at in range(0, len(raw), 4)),
        _ESCAPE.join(f"x{_any_case(code)}" for code in codes),  # the repr of bytes
        *([f"x{_any_case(f'{ord(unit):02x}')}"] if ord(unit) <= _LATIN else ()),
        f"U{_any_case(f'{ord(unit):08x}')}",
    ]
    space = (r"\+",) if unit == " " else ()
    return (own, f"{_ESCAPE}(?:{'|'.join(dict.fromkeys(escaped))})", percent, *space)


def _any_case(code: str) -> str:
    """Return an expression for a hexadecimal number with letters in either case."""
    return re.sub("[a-f]", lambda letter: f"[{letter[0].upper()}{letter[0]}]", code)


def expression_of(secrets: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return one expression for all forms of all secrets, longest first, and their names.

    An empty group ends each form: the match's `lastindex` identifies the name.
    """
    ordered = sorted(secrets, key=lambda name: len(secrets[name]), reverse=True)
    forms = [(form, name) for name in ordered for form in forms_of(secrets[name])]
    return "|".join(f"{form}()" for form, _ in forms), tuple(name for _, name in forms)


_NAME: Final = frozenset(string.ascii_letters + string.digits + "_.-")


def marker_of(name: str) -> str:
    """Return the replacement for the secret of that name."""
    return f"[redacted:{''.join(each if each in _NAME else '_' for each in name)}]"


class Finder(Protocol):
    """What secrets are found with: a regular expression, or what searches like one."""

    def search(self, text: str, /) -> object | None:
        """Return the first that is found, or `None`."""

    def sub(self, stands_for: Callable[[re.Match[str]], str], text: str, /) -> str:
        """Return `text` with something else in the place of each."""


def scrubbed(value: Any, pattern: Finder, name_of: Callable[[re.Match[str]], str]) -> Any:
    """Return `value`, an event or a JSON value, without exact secrets; itself if it has none."""
    kind: Any = type(value)
    if kind is str:
        if pattern.search(value) is None:
            return value
        return pattern.sub(lambda found: marker_of(name_of(found)), value)
    if kind is dict:
        members = {
            scrubbed(key, pattern, name_of): scrubbed(item, pattern, name_of)
            for key, item in value.items()
        }
        same = all(map(is_, members, value)) and all(map(is_, members.values(), value.values()))
        return value if same else members
    if kind is list or kind is tuple:
        items = [scrubbed(item, pattern, name_of) for item in value]
        return value if all(map(is_, items, value)) else kind(items)
    changed = {}
    for name in _searched(kind):
        old = getattr(value, name)
        if (new := scrubbed(old, pattern, name_of)) is not old:
            changed[name] = new
    return attrs.evolve(value, **changed) if changed else value


@functools.cache
def _searched(kind: type) -> tuple[str, ...]:
    """Return the fields in which secrets are looked for: of an event, all but its fixed words."""
    if not attrs.has(kind) or kind in _WHOLE:
        return ()
    return tuple(each.name for each in attrs.fields(kind) if get_origin(each.type) is not Literal)


# --- paths and tools -------------------------------------------------------------------------


def without_hidden(rules: Redaction, event: Event, name: str) -> Any:
    """Return an event without what paths and tools name; `name` is of its call's tool or model."""
    match event:
        case ToolCalled(tool=name):
            if _is_hidden(rules, name):
                event = attrs.evolve(event, arguments=dict.fromkeys(event.arguments, REDACTED))
            return _at(rules, event, "tool", name)
        case ToolReturned():
            event = _hidden_result(event) if _is_hidden(rules, name) else event
            return _at(rules, event, "tool", name)
        case ModelAsked(model=name):
            return _at(rules, event, "model", name)
        case ModelAnswered():
            return _at(rules, event, "model", name)
        case RunStarted() | RunFinished():
            return _at(rules, event, "run", "")
        case _:
            return event


def _is_hidden(rules: Redaction, tool: str) -> bool:
    return any(_matches(pattern, tool) for pattern in rules.tools)


def _at(rules: Redaction, event: Any, kind: str, name: str) -> Any:
    for selector, pointers in rules.paths.items():
        if _matches(selector, f"{kind}:{name}" if name else kind):
            for pointer in pointers:
                field, _, rest = pointer[1:].partition("/")
                old = getattr(event, field, None)
                if old is not None:
                    new = replaced(old, rest.split("/") if rest else [], REDACTED)
                    event = attrs.evolve(event, **{field: new})
    return event


def _hidden_result(event: ToolReturned) -> ToolReturned:
    if event.status == "ok":
        return attrs.evolve(event, result=REDACTED)
    return attrs.evolve(event, error={**(event.error or {}), "message": REDACTED})


def replaced(value: Json, steps: list[str], inside: Json) -> Json:
    """Return `value` with `inside` at the steps of a pointer, if there is such a place.

    `*` is any member and any element.
    """
    return changed_at(value, steps, lambda _value: inside)


def changed_at(value: Json, steps: list[str], change: Callable[[Json], Json]) -> Json:
    """Return `value` with the value at a pointer's steps changed; `*` as above."""
    if not steps:
        return change(value)
    step, rest = unescaped(steps[0]), steps[1:]
    if isinstance(value, dict):
        return {
            key: changed_at(item, rest, change) if step in ("*", key) else item
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            changed_at(item, rest, change) if step in ("*", str(at)) else item
            for at, item in enumerate(value)
        ]
    return value
