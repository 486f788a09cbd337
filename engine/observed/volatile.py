"""Rules for the parts of requests that are not compared: places and texts that always change.

By default nothing is ignored. Rules are `model:NAME/pointer`, into a request as returned by
`Asked.as_json` (`model:*/messages/0/content`, `model:gpt-5/parameters/user`), and regular
expressions, whose matches in any text count as equal, applied one after the other. They also come
from logs, so expressions that could run for ever are refused.

Results of parallel calls of one turn, and a profile's notices, vary in order between runs, and so
do the lines of some tools' lists: files by modification time, or as threads find them. Before two
requests are compared, results are put in the order of their calls, and adjacent notices and such
lines in the order of their texts. Pure. Rules: CONTRACT.md §16.6, §16.7, §16.13.
"""

import contextlib
import fnmatch
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import eq, is_not, itemgetter
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json, encode
from refold.engine.encoding.patterns import Pattern, PatternRefusedError, compiled
from refold.engine.errors import UsageError
from refold.engine.secrets.redaction import changed_at, replaced
from refold.engine.secrets.vault import checked_volatile
from refold.engine.wire.parts.exchange import Asked

Message = dict[str, Any]
_ROLE: Final = itemgetter("role")
ORDER: Final = "order of parallel results"
"""The rule by which another order is listed."""
LINES: Final = "order of the lines of a listing"
"""Likewise, within a message."""
SET: Final = "order of a set"
"""Likewise, of a list or of the lines of a text, at a place that a rule names."""


def order_of(messages: Sequence[Message], is_notice: Callable[[Message], bool]) -> Sequence[int]:
    """Return the places of messages in the order in which they are compared; a range if as is."""
    as_is = range(len(messages))
    # Where nobody speaks twice in a row nothing can change places: a replay of 500 turns takes half
    # the time, and the least where no step of the look is in Python.
    with contextlib.suppress(KeyError):  # a log may hold a message of nobody
        roles = list(map(_ROLE, messages))
        if not any(map(eq, roles, roles[1:])):
            return as_is
    places = list(as_is)
    kinds = _kinds(messages, is_notice)
    edges = [at for at in places if at == 0 or kinds[at] is not kinds[at - 1]]
    for start, end in pairwise([*edges, len(messages)]):
        kind = kinds[start]
        if end - start > 1 and kind is not None:
            places[start:end] = sorted(places[start:end], key=kind.__getitem__)
    return as_is if places == list(as_is) else places


def in_order(messages: Sequence[Message], order: Sequence[int]) -> tuple[Message, ...]:
    """Return messages in an order; where turns begin is a matter of places, and stays."""
    return tuple(
        messages[at] if at == to else _with_turn(messages[at], messages[to])
        for to, at in enumerate(order)
    )


def with_lines_in_order(
    messages: Sequence[Message], tools: Sequence[str], plain: Callable[[str], str]
) -> list[Message]:
    """Return messages in which the lines listed by `tools` are sorted by their texts.

    The other messages are the same objects; `plain` removes the parts of a line that are not
    compared.
    """
    names: dict[Any, Any] = {}
    found = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call.get("id")] = call.get("name")
        said = message.get("content")
        is_listing = names.get(message.get("tool_call_id")) in tools
        lines = said.split("\n") if is_listing and isinstance(said, str) else []
        order = sorted(lines, key=lambda line: (plain(line), line))
        found.append(message if order == lines else {**message, "content": "\n".join(order)})
    return found


def _kinds(
    messages: Sequence[Message], is_notice: Callable[[Message], bool]
) -> list[dict[int, Any] | None]:
    """Return each message's sort key among its neighbours; `None` if it is not sorted."""
    kinds: list[dict[int, Any] | None] = []
    calls: dict[Any, int] = {}
    results: dict[int, Any] = {}
    notices: dict[int, Any] = {}
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            # Some servers number the calls of each answer anew, so ids hold for one turn.
            calls = {call.get("id"): n for n, call in enumerate(message.get("tool_calls") or ())}
            results = {}
        if role == "tool" and message.get("tool_call_id") in calls:
            results[at] = calls[message["tool_call_id"]]
            kinds.append(results)
        elif role == "user" and is_notice(message):
            notices[at] = encode(message)
            kinds.append(notices)
        else:
            kinds.append(None)
    return kinds


def _with_turn(message: Message, there: Message) -> Message:
    turn = (there.get("provider") or {}).get("turn")
    provider = {name: v for name, v in (message.get("provider") or {}).items() if name != "turn"}
    provider |= {"turn": turn} if turn is not None else {}
    plain = {name: value for name, value in message.items() if name != "provider"}
    return plain | ({"provider": provider} if provider else {})


Change = Callable[[str], str]
_LISTED: Final = ("volatile", "volatile_texts", "unordered", "unordered_lines")
"""The members of `run.started.rules` with the kinds of rules."""
MARK: Final = "[volatile]"
"""Replaces a text that is not compared."""


def _checked(patterns: Iterable[str], what: str = "volatile text") -> tuple[str, ...]:
    found = tuple(patterns)
    for pattern in found:
        if why := _problem_of(pattern):
            raise UsageError(f"{what} {pattern!r}: {why}")
    return found


def _unordered(given: Iterable[str]) -> tuple[str, ...]:
    found = tuple(given)
    checked_volatile(each for each in found if _is_set(each))
    _checked((each for each in found if not _is_set(each)), "volatile order")
    return found


def _is_set(rule: Any) -> bool:
    """Return whether a rule of `unordered` is a place: `model:*/tools`."""
    return isinstance(rule, str) and rule.startswith("model:") and "/" in rule


@functools.lru_cache
def _compiled(pattern: str) -> Pattern:
    return compiled(pattern)


def _problem_of(pattern: Any) -> str:
    """Return why a pattern cannot be used; empty for a good one."""
    if not isinstance(pattern, str):
        return "no text"
    try:
        is_nothing = _compiled(pattern).expression.match("") is not None
    except PatternRefusedError as error:
        return str(error)
    return "matches the empty string, and so everything" if is_nothing else ""


@attrs.frozen
class VolatileRules:
    """Places and texts that are not compared.

    Raises:
        UsageError: a place or a pattern is invalid, or a pattern could run for ever (CONTRACT.md
            §10.15).
    """

    paths: tuple[str, ...] = attrs.field(default=(), converter=checked_volatile)
    texts: tuple[str, ...] = attrs.field(default=(), converter=_checked)
    unordered: tuple[str, ...] = attrs.field(default=(), converter=_unordered)
    """The beginning of messages that may be in any order among their neighbours; places whose
    items, or whose lines, may: `model:*/tools`."""
    unordered_lines: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Tools whose results are lists: their lines may be in any order."""

    @classmethod
    def recorded(cls, rules: Mapping[str, Any]) -> "tuple[VolatileRules, tuple[str, ...]]":
        """Return the rules in a `run.started`, and notes on those left out.

        Patterns that are refused today, but were accepted by earlier versions, are left out.
        Without them more is compared, never less.
        """
        paths, texts, *orders = (rules.get(name, ()) for name in _LISTED)
        problems = [(text, _problem_of(text)) for text in texts]
        notes = tuple(
            f"the recorded volatile text {text!r:.80} is not used: {why}; pass a "
            "different one with --volatile text:REGEX"
            for text, why in problems
            if why
        )
        kept = (text for text, why in problems if not why)
        return cls(paths, kept, *orders), notes

    def __bool__(self) -> bool:
        return bool(self.paths or self.texts)

    def as_json(self) -> dict[str, Json]:
        """Return the rules as `run.started` lists them; none for none."""
        listed = zip(_LISTED, attrs.astuple(self), strict=True)
        return {name: list(rules) for name, rules in listed if rules}

    def plus(self, other: "VolatileRules") -> "VolatileRules":
        """Return the rules of both, each once."""
        both = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return VolatileRules(*(dict.fromkeys((*ours, *theirs)) for ours, theirs in both))

    def text(self, text: str) -> str:
        """Return a text with all that is not compared taken out of it."""
        for each in self.texts:
            text = _compiled(each).replaced(text, MARK)
        return text

    def applied_to(self, value: Any, what: str) -> Any:
        """Return a JSON value without the parts that are not compared.

        `what` is its request, as rules name it: `model:NAME`, `tool:NAME`.
        """
        for path in self.paths:
            selector, _, pointer = path.partition("/")
            if fnmatch.fnmatchcase(what, selector):
                value = replaced(value, pointer.split("/"), MARK)
        return mapped(value, self.text) if self.texts else value

    def order(self, asked: Asked) -> Sequence[int]:
        """Return the places of a request's messages in the order in which they are compared.

        It is a range exactly if they are compared in their own order.
        """
        return order_of(asked.messages, self._is_notice)

    def _is_notice(self, message: dict[str, Any]) -> bool:
        said = message.get("content")
        return isinstance(said, str) and any(
            _compiled(each).expression.match(said) for each in self.unordered if not _is_set(each)
        )

    def listed(self, messages: Sequence[Any], line_key: Change = str) -> list[Any]:
        """Return messages with the lines of listings in the order in which they are compared.

        `line_key` returns the part of a line that is equal in both runs.
        """
        return with_lines_in_order(
            messages, self.unordered_lines, lambda line: line_key(self.text(line))
        )

    def applied(self, asked: Asked, line_key: Change = str) -> Asked:
        """Return a request with all that is not compared taken out of it; itself for nothing."""
        if self.paths or self.texts:
            value = self.applied_to(asked.as_json(), f"model:{asked.model}")
            asked = asked.asking(value)
        for place in filter(_is_set, self.unordered):
            selector, _, pointer = place.partition("/")
            if fnmatch.fnmatchcase(f"model:{asked.model}", selector):
                said = functools.partial(_sorted, line_key)
                asked = asked.asking(changed_at(asked.as_json(), pointer.split("/"), said))
        if self.unordered_lines:
            lines = self.listed(asked.messages, line_key)
            if any(map(is_not, lines, asked.messages)):
                asked = attrs.evolve(asked, messages=tuple(lines), said=None)
        order = self.order(asked)
        if isinstance(order, range):
            return asked
        return attrs.evolve(asked, messages=in_order(asked.messages, order), said=None)


def _sorted(line_key: Change, value: Any) -> Any:
    """Return a list, or a text by its lines, in the order in which it is compared."""
    if isinstance(value, str):
        return "\n".join(sorted(value.splitlines(), key=lambda line: (line_key(line), line)))
    if isinstance(value, list):
        texts = [json.dumps(item, sort_keys=True) for item in value]
        order = sorted(range(len(value)), key=lambda at: (line_key(texts[at]), texts[at]))
        return [value[at] for at in order]
    return value


def mapped(value: Any, change: Change, of_name: Change = str) -> Any:
    """Return a JSON value with its texts changed, and the names of members by `of_name`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {of_name(key): mapped(item, change, of_name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(item, change, of_name) for item in value]
    return value


def match_key(asked: Asked, chain: str | None = None) -> str:
    """Return the key that two requests share exactly if they are equal: 64 hex digits.

    `chain` is the chain digest of the messages, if known.
    """
    if chain is None:
        chain = functools.reduce(digest.chained, asked.messages, "")
    asks = [asked.api, asked.model, chain, asked.parameters, asked.tools_digest()]
    return digest.of_key(asks)
