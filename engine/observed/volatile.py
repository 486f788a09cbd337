"""Rules for the parts of requests that are not compared: places and texts that always change.

By default nothing is ignored. Rules are `model:NAME/pointer`, into a request as returned by
`Asked.as_json` (`model:*/messages/0/content`, `model:gpt-5/parameters/user`), and regular
expressions, whose matches in any text count as equal, applied one after the other. They also come
from logs, so expressions that could run for ever are refused. Pure. Rules: CONTRACT.md §16.7.
"""

import fnmatch
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.patterns import Pattern, PatternRefusedError, compiled
from refold.engine.errors import UsageError
from refold.engine.observed.order import in_order, order_of, with_lines_in_order
from refold.engine.secrets.redaction import changed_at, replaced
from refold.engine.secrets.vault import checked_volatile
from refold.engine.wire.parts.exchange import Asked

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
