r"""Bindings: map a recorded value to its current counterpart, in any place.

A text is split into literal parts and tokens: paths and names that Refold knows in both runs, texts
that look like an id, and values named by a profile. Two texts are equal if their literal parts are,
and each pair of tokens is equal or bound. A pair is bound only if a client draws the value (a
parameter that identifies the caller), if Refold itself sets it (a folder), at a place (one role, or
the result of one tool), or if both are commits that the two runs made, and that are equal but for
their times and authors. A pair is one to one within its kind, and is never undone.

A place is a text `WHERE KIND PATTERN`, such as `result:Agent id agentId: ([0-9a-f]{17})`; the group
of the pattern is the value. Pure. Rules: CONTRACT.md §16.17.
"""

import contextlib
import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from hashlib import sha256
from itertools import chain
from operator import itemgetter
from posixpath import basename, relpath
from typing import Any, Final, Self
from urllib.parse import quote

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.encoding.patterns import LINE_MAX, Pattern, PatternRefusedError, compiled
from refold.engine.errors import UsageError
from refold.engine.observed.file_names import UUID, FileNames, are_beside
from refold.engine.observed.volatile import mapped
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.notation import object_in
from refold.engine.workspace.entries import MadeObject

FOLDERS: Final = "folders"
"""The member of `run.started.rules`: {folder, home, tmp}, each with `other_` for another name."""
NOTED: Final = "noted"
"""The member with other noted values: {date, host, user, zone, locale}."""
OTHER: Final = "other_"
_WORDS: Final = ("date", "host", "user", "zone", "locale")
"""Noted values that are not folders."""
_LENGTH_MIN: Final = 8
"""Characters of a value that is bound elsewhere than at its place; a path's boundary is enough."""
_LEVELS_MIN: Final = 2
"""Levels from which on a path is also known without its first slash and as a folder's name."""

_OWN: Final = "own"
_DATE: Final = "date"
_START: Final = r"(?:(?<![0-9A-Za-z\\])|(?<=\\[nrt]))"
_IDS: Final = (
    r"(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|[A-Za-z]{1,12}_[0-9A-Za-z]{12,80}|g?[0-9a-f]{7,40}|(?=[a-z]{0,64}[0-9])[0-9a-z]{8,64}"
    r")(?![0-9A-Za-z])"
)
"""The shapes of ids: UUIDs, `ses_…`, hexadecimal numbers, words of small letters and digits."""
_CLOCK: Final = r"\d\d:\d\d:\d\d"
_ZONE: Final = r"[+-]\d\d:?\d\d"
_DATES: Final = (
    rf"(?:[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} +\d{{1,2}} {_CLOCK} \d{{4}}(?: {_ZONE})?"
    rf"|[A-Z][a-z]{{2}}, \d{{1,2}} [A-Z][a-z]{{2}} \d{{4}} {_CLOCK} {_ZONE}"
    rf"|\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?: ?{_ZONE}|Z))"
)
_GIT_FORMS: Final = (
    "%a %b %d %H:%M:%S %Y %z", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S %z", "%Y-%m-%dT%H:%M:%S%z",
)  # fmt: skip
"""The forms in which git prints the time of a commit, but for seconds."""
_SHAPE: Final = re.compile(f"{_START}{_IDS}")
_COMMIT: Final = re.compile(r"g?([0-9a-f]{7,64})")
"""The id of a commit, or its beginning; after a `g` as `git describe` has it."""
_DIGITS_MIN: Final = 7
_WAS, _NOW = 0, 1
"""The side on which a value is: the recorded run, or the current one."""
_SAYS_WHO: Final = re.compile(
    r"(?:.*_)?(?:ids?|user|session|key|identifier|metadata|trace|nonce|thread|conversation)"
)
"""Parameters in which clients send ids of their own."""
_WHO_HEADER: Final = re.compile(
    r"(?:.*-)?(?:id|session|user|trace|traceparent|nonce|thread|conversation|metadata)"
)
_WHO: Final = frozenset({"parameters"})
_PROGRAMS: Final = {
    "git": re.compile(r"\bgit\b[^\n|;&]*\b(?:[a-z]+-)*[a-z]{3,}"),
    "ls": re.compile(r"\bls\b[^\n|;&]* (?:-\w*[lno]|--format=[lv])|\bll\b"),
    "tests": re.compile(
        r"\b(?:py\.?test|unittest|tox|nox|jest|vitest|mocha"
        r"|(?:npm|pnpm|yarn|bun|deno|node|cargo|go|make)\b[^\n|;&]*\b(?:test|check))\b"
    ),
}
"""Commands whose results have places of their own, whatever tool runs them."""
_MONTHS: Final = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())  # noqa: SIM905 - one line

_KNOWN_TEXTS: Final = 4096
_BELOW_HOME: Final = {"~": "//", "$HOME": "/./", "${HOME}": "/.//"}
"""How shells call HOME, and a slash in the path of a folder elsewhere, by which each is known."""

KINDS: Final = ("id", "date", "measure", "text")
"""`id`: bound · `date`: of the same form and order · `measure`, `text`: anything; the
last three are ignored at their place alone."""
_RULE: Final = re.compile(
    r"((?:system|user|assistant|parameters|printed|git|(?:result|call|file):[^ ,]+)"
    rf"(?:,[^ ]+)*) ({'|'.join(KINDS)}) (.+)",
    re.DOTALL,
)

Value = Any


@attrs.frozen
class ValuePlace:
    """A place whose value changes on every run, and the value's pattern."""

    rule: str
    where: frozenset[str]
    """`system`, `user`, `assistant`, `parameters` (those that identify the caller), `printed`,
    `result:TOOL`, `call:TOOL`, `file:NAME`."""
    kind: str
    pattern: Pattern

    @classmethod
    def parsed(cls, rule: str) -> Self:
        """Parse a rule to a place.

        Raises:
            UsageError: it is not a rule, or its pattern could run for ever (CONTRACT.md §10.15).
        """
        found = _RULE.fullmatch(rule)
        if found is None:
            raise UsageError(f"place {rule!r:.80}: expected WHERE KIND PATTERN")
        try:
            pattern = compiled(found[3])
        except PatternRefusedError as error:
            raise UsageError(f"place {rule!r:.80}: {error}") from None
        if pattern.expression.match("") is not None:
            raise UsageError(f"place {rule!r:.80}: it matches the empty string, and so everything")
        return cls(rule, frozenset(found[1].split(",")), found[2], pattern)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of its values in a text."""
        group = min(1, self.pattern.expression.groups)
        return (each.span(group) for each in self.pattern.found(text))


_NOW_PLACE: Final = ValuePlace.parsed(
    r"user date (\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?)"
)
"""The time at which an agent asks: only one of the day of its own run, or of the day beside it."""
_OWNERS: Final = r" {1,9}\d{1,9} [\w.@$+-]{1,32} {1,32}[\w.@$+-]{1,32} {1,32}"
_SIZE: Final = r"[\d.,]{1,12}[BKMGTP]? "
_CHANGED: Final = (
    r"(?:[A-Z][a-z]{2} [ \d]\d (?:\d\d:\d\d| \d{4})"
    r"|(?:\d{4}-)?\d\d-\d\d \d\d:\d\d(?::\d\d\.\d{9} [+-]\d{4})?)(?= )"
)
_RIGHTS: Final = r"[rwxsStT-]{9}[.+@]?"
_MEASURED: Final = tuple(
    ValuePlace(rule, frozenset({where}), "measure", Pattern(re.compile(form), LINE_MAX, 0, 1, ""))
    for where, rule, form in (
        ("ls", "ls -l: links and owners", f"[-bclps]{_RIGHTS}({_OWNERS}){_SIZE}{_CHANGED}"),
        ("ls", "ls -l: times", f"[-bclps]{_RIGHTS}{_OWNERS}{_SIZE}({_CHANGED})"),
        ("ls", "ls -l: folders", f"d{_RIGHTS}({_OWNERS}{_SIZE}{_CHANGED})"),
        ("ls", "ls -l: total", rf"\btotal ({_SIZE[:-1]})(?:\n|\\n)[-bcdlps]{_RIGHTS} "),
        (
            "tests",
            "durations of tests",
            r"\b(?:in|Time:|Duration) {1,9}(\d+(?:\.\d+)? ?m?s\b(?: =+)?)",
        ),
        ("tests", "durations of tests", r"(=+) \d+ (?:passed|failed|skipped|errors?|deselected)\b"),
    )
)
"""What the rows of `ls -l` have from the disk, and from who lists: a copy's files are new ones.
How long tests took, with the bars that pytest makes as long as that leaves room.  The patterns are
linear: no two repeats beside each other match the same character."""
_BUILT_IN: Final = (
    ValuePlace.parsed(r"git measure (\d+ (?:second|minute)s? ago)"), _NOW_PLACE, *_MEASURED,
)  # fmt: skip
_TIMELESS: Final = "timeless"
"""Beside the places of a text: that its time of asking is not looked at."""


def places_of(rules: Iterable[str]) -> tuple[tuple[ValuePlace, ...], tuple[str, ...]]:
    """Return the places of a log, and notes on refused ones, which are left out."""
    found, notes = [], []
    for rule in rules:
        try:
            found.append(ValuePlace.parsed(rule))
        except UsageError as error:
            notes.append(f"left out: {error}")
    return tuple(found), tuple(notes)


def ids_in(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the ids in headers that identify the caller, by place: `session-id/0`."""
    found: dict[str, str] = {}
    for header, value in headers:
        members = (object_in(value) if value.startswith("{") else None) or {header: value}
        for member, text in members.items():
            if isinstance(text, str) and _WHO_HEADER.fullmatch(member.replace("_", "-")):
                ids = (each for each in _SHAPE.findall(text) if _is_bound(each, each))
                found |= {f"{header}/{member}/{n}": each for n, each in enumerate(ids)}
    return found


@attrs.frozen
class IgnoredValue:
    """A value that differs at a place that is not compared."""

    pointer: str
    recorded: str
    now: str
    rule: str


@attrs.frozen
class _Pair:
    """Two tokens in the same place that are not equal."""

    where: frozenset[str]
    pointer: str
    mark: str
    recorded: str
    now: str


class _DiffersError(Exception):
    """Two values differ under every binding."""


@attrs.define
class Joined:
    """Bindings; after a pair of requests, also the mapping from the current to the recorded one."""

    ids: dict[str, str] = attrs.field(factory=dict)
    ids_back: dict[str, str] = attrs.field(factory=dict)
    commits: dict[str, None] = attrs.field(factory=dict)
    """Recorded commits for which others stand now."""
    own: dict[str, None] = attrs.field(factory=dict)
    """What Refold knows itself, and was used."""
    passed: list[IgnoredValue] = attrs.field(factory=list)
    """Of this pair alone; likewise below."""
    is_crossed: bool = False
    """Whether headers name callers that are bound to others: the same is asked by another one."""
    dates: list[tuple[str, str]] = attrs.field(factory=list)

    def following(self) -> "Joined":
        """Return the bindings with which the next pair begins."""
        return Joined(dict(self.ids), dict(self.ids_back), dict(self.commits), dict(self.own))

    def bind_header_ids(self, recorded: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Bind callers' ids from headers, unless either is already bound."""
        for name in recorded.keys() & now.keys():
            was, here = recorded[name], now[name]
            known = self.ids.get(was), self.ids_back.get(here)
            if was != here and known == (None, None):
                self.bind(was, here)
            self.is_crossed |= known not in ((None, None), (here, was))

    def bind(self, was: str, now: str) -> None:
        """Bind two ids; raises _DiffersError if either is bound to another one."""
        if self.ids.setdefault(was, now) != now or self.ids_back.setdefault(now, was) != was:
            raise _DiffersError

    def check_date_order(self) -> None:
        """Raise _DiffersError unless dates have the same form and the same order."""
        forms: dict[str, list[tuple[tuple[Any, ...], tuple[Any, ...]]]] = {}
        for one, other in self.dates:
            if _form(one) != _form(other):
                raise _DiffersError
            forms.setdefault(_form(one), []).append((_moment(one), _moment(other)))
        for pairs in forms.values():
            pairs.sort()
            latest: tuple[Any, ...] = ()
            for at, (was, now) in enumerate(pairs):
                if at and pairs[at - 1][0] < was:
                    latest = max(latest, pairs[at - 1][1])
                if now < latest:
                    raise _DiffersError


Cut = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""The literal parts of a text, and the tokens between them: (mark, value)."""


@attrs.define
class _Commits:
    """The commits and tags that two runs made, and which of them are each other's.

    Two are if all is equal but times and authors: kinds, messages, changes, and parents, which are
    the same or each other's. Of several alike, the first made is paired with the first.
    """

    waiting: dict[str, list[MadeObject]] = attrs.field(factory=dict)
    """Recorded ones without a pair, by digest, in order."""
    unpaired: list[MadeObject] = attrs.field(factory=list)
    """Those of now."""
    pairs: dict[str, str] = attrs.field(factory=dict)
    """The current id, by the recorded one."""
    ends: tuple[dict[str, list[str]], dict[str, list[str]]] = attrs.field(factory=lambda: ({}, {}))
    """The recorded ids that are paired, by their first digits; and by those of the current."""
    moments: set[tuple[str, str]] = attrs.field(factory=set)
    """Their times, recorded and now, as `_moment_of` has them."""
    dates: dict[str, str] = attrs.field(factory=dict)
    """One name for all times, of either run, that stand for each other."""

    def record(self, made: Iterable[MadeObject]) -> None:
        for one in made:
            self.waiting.setdefault(one.digest, []).append(one)

    def see(self, made: Iterable[MadeObject]) -> bool:
        """Take those of now; return whether there are more pairs."""
        self.unpaired += made
        before, count = len(self.pairs), -1
        while count < len(self.pairs):
            count = len(self.pairs)
            self.unpaired = [one for one in self.unpaired if not self._is_paired(one)]
        return len(self.pairs) > before

    def _is_paired(self, now: MadeObject) -> bool:
        same = [self.waiting.get(each, []) for each in dict.fromkeys(now.digests)]
        found = [one for each in same for one in each if self._are_alike(one, now)]
        if not found:
            return False
        was = next((one for one in found if one.id == now.id), found[0])
        self.waiting[was.digest].remove(was)
        self.pairs[was.id] = now.id
        for end, named in zip(self.ends, (was.id, now.id), strict=True):
            end.setdefault(named[:_DIGITS_MIN], []).append(was.id)
        for one, other in zip(was.times, now.times, strict=False):
            for each in zip(_moments_of(one), _moments_of(other), strict=True):
                self._pair_moments(*each)
        return True

    def _pair_moments(self, was: str, now: str) -> None:
        if was != now:
            self.moments.add((was, now))
            names = [self.dates.setdefault(each, each) for each in (was, now)]
            self.dates = {k: names[0] if v == names[1] else v for k, v in self.dates.items()}

    def _are_alike(self, was: MadeObject, now: MadeObject) -> bool:
        named = zip(was.named, now.named, strict=False)
        return len(was.named) == len(now.named) and all(
            one == other or self.pairs.get(one) == other for one, other in named
        )

    def held(self, was: str, now: str) -> str:
        """Return the recorded commit of which two texts are the ids; empty for none."""
        return next((one for one, here in self._named(was, 0) if here == now), "")

    def translated(self, text: str, side: int) -> str:
        """Return the other side's id, of the same length, of a recorded (0) or current (1) one.

        If it has none, the text is returned.
        """
        return next((other for _, other in self._named(text, side)), text)

    def _named(self, text: str, side: int) -> Iterator[tuple[str, str]]:
        """Yield the recorded commit and the other side's text of each that a text names."""
        if (found := _COMMIT.fullmatch(text)) is None:
            return
        begin, begins = text[: found.start(1)], found[1]
        for was in self.ends[side].get(begins[:_DIGITS_MIN], ()):
            both = (was, self.pairs[was])
            if both[side].startswith(begins):
                yield was, begin + both[1 - side][: len(begins)]


class Bindings:
    """The bindings of one replay, or of one comparison of two logs."""

    def __init__(
        self,
        places: Sequence[ValuePlace] = (),
        recorded: Mapping[str, str] | None = None,
        now: Mapping[str, str] | None = None,
        *,
        made: Iterable[MadeObject] = (),
    ) -> None:
        """Take places, and the noted values of both runs: folders, date, host, user.

        `made` are the commits that the recorded run made.
        """
        self._places = (*places, *_BUILT_IN, *_uuids_below(recorded or {}, now or {}))
        was_day, now_day = (_day(each.get("date", "")) for each in (recorded or {}, now or {}))
        self._days = was_day, now_day
        self._times: dict[str, str] = {}
        """A mark for each time of asking that was ignored, of either run."""
        self._file_names = FileNames(self._days)
        pairs = list(_own_pairs(recorded or {}, now or {}))
        self._was: dict[str, set[tuple[str, int]]] = {}
        self._here: dict[str, set[tuple[str, int]]] = {}
        self._forth: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for key, was, here in pairs:
            self._was.setdefault(was, set()).add(key)
            self._here.setdefault(here, set()).add(key)
            self._forth.setdefault(was, here)
            self._back.setdefault(here, was)
        own = _own_tokens({*self._was, *self._here})
        tokens = (rf"{_START}(?P<{_DATE}>{_DATES})", *own, rf"{_START}(?P<id>{_IDS})")
        self._token = re.compile("|".join(tokens))
        # A conversation says with each request all that it said before.
        self.cut = functools.lru_cache(_KNOWN_TEXTS)(self._cut_anew)
        self._unequal = functools.lru_cache(_KNOWN_TEXTS)(self._unequal_anew)
        self._marked_text = functools.lru_cache(_KNOWN_TEXTS)(self._marked_anew)
        self._in_text = functools.lru_cache(_KNOWN_TEXTS)(self._in_text_anew)
        self._known = Joined()
        self._passed: set[tuple[str, str, str]] = set()
        """Values that were ignored: by which rule, recorded, and now."""
        self._commits = _Commits()
        self._commits.record(made)
        self.unproven: dict[str, None] = {}
        """Recorded texts in the shape of a commit's id for which others stood, without proof."""
        self._digests: dict[int, tuple[Value, bytes]] = {}
        self._offers: dict[str, bytes] = {}

    # --- the canonical form ----------------------------------------------------------------

    def _cut_anew(self, text: str) -> Cut:
        marks: dict[tuple[int, int], str] = {}
        for number, place in enumerate(self._places):
            for span in place.spans(text):
                marks[span] = f"{marks.get(span, '')},{number}"
        found = _apart((*span, mark) for span, mark in marks.items())
        names = ((each.span(), each.lastgroup or _OWN) for each in self._token.finditer(text))
        found = _apart([*found, *((*span, name) for span, name in names)])
        parts: list[str] = []
        tokens: list[tuple[str, str]] = []
        at = 0
        for start, end, mark in sorted(found):
            parts.append(text[at:start])
            tokens.append((mark, text[start:end]))
            at = end
        return (*parts, text[at:]), tuple(tokens)

    def _skeleton(self, value: Value) -> Value:
        if isinstance(value, str):
            parts, tokens = self.cut(value)
            return ["\0", *parts, *(mark for mark, _ in tokens)] if tokens else value
        if isinstance(value, dict):  # clients write its members in any order
            items = [(encode(self._skeleton(k)).decode(), v) for k, v in value.items()]
            found = {k: self._skeleton(v) for k, v in sorted(items, key=itemgetter(0))}
            if len(found) == len(value):
                return found
            return {"\0": sorted(([k, self._skeleton(v)] for k, v in items), key=encode)}
        if isinstance(value, list | tuple):
            return [self._skeleton(item) for item in value]
        return value

    def _digest(self, value: Value) -> bytes:
        """Return the digest of a message; each object is gone through once."""
        known = self._digests.get(id(value))
        if known is None or known[0] is not value:
            known = value, sha256(encode(self._skeleton(value))).digest()
            self._digests[id(value)] = known
        return known[1]

    def key(self, asked: Asked) -> str:
        """Return what all requests share that may be the same as this one: 64 hex digits."""
        offer = asked.tools_digest()
        if offer not in self._offers:
            self._offers[offer] = sha256(encode(self._skeleton(asked.tools))).digest()
        parts = [encode([asked.api, asked.model, self._skeleton(asked.parameters)])]
        parts += [self._offers[offer], *map(self._digest, asked.messages)]
        return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()

    # --- the comparison --------------------------------------------------------------------

    def joined(self, recorded: Asked, now: Asked) -> Joined | None:
        """Return what makes `now` the recorded request; `None` if they are not the same."""
        if recorded.api != now.api or recorded.model != now.model:
            return None
        try:
            join = self._known.following()
            join.bind_header_ids(recorded.ids, now.ids)
            tools = self._pairs([*recorded.tools], [*now.tools], frozenset(), "/tools")
            messages = self._of_messages(recorded, now)
            return self._join(join, chain(self._of_parameters(recorded, now), messages, tools))
        except _DiffersError:
            return None

    def learn(self, recorded: Asked, now: Asked) -> None:
        """Bind the values of two requests in the same place, which may differ in their texts."""
        if (whole := self.joined(recorded, now)) is not None:
            self.commit(whole)
            return
        apart: tuple[dict[str, Any], ...] = ({"messages": ()}, {"parameters": {}})
        both = (attrs.evolve(each, **less) for less in apart for each in (recorded, now))
        for one, other in zip(both, both, strict=False):
            if (part := self.joined(one, other)) is not None:
                self.commit(part)

    def joined_values(self, recorded: Value, now: Value, where: str = "printed") -> Joined | None:
        """Likewise, of two values at one place."""
        try:
            pairs = self._pairs(recorded, now, frozenset({where}), "")
            return self._join(self._known.following(), pairs)
        except _DiffersError:
            return None

    def is_same_file(self, path: str, recorded: str, now: str) -> bool:
        """Return whether two final texts of a file are equal; bind their values."""
        now = self.as_printed(now)
        joined = self.joined_values(recorded, now, f"file:{basename(path)}")
        if joined is not None:
            self.commit(joined)
        return joined is not None

    def file_pairs(
        self, recorded: Iterable[str], now: Iterable[str], is_same: Callable[[str, str], bool]
    ) -> dict[str, str]:
        """Pair the files that one run alone has by their names (`FileNames.pairs`)."""
        return self._file_names.pairs(recorded, now, self.as_recorded_text, is_same)

    def as_printed(self, text: str) -> str:
        """Return a text of now with the recorded names of paired files."""
        return self._file_names.renamed(text)

    def commit(self, joined: Joined) -> None:
        """Bind for good."""
        if joined.ids != self._known.ids:
            self._in_text.cache_clear()
        self._known = joined
        self._passed |= {(each.rule, each.recorded, each.now) for each in joined.passed}
        for one in joined.passed:
            if one.rule == _NOW_PLACE.rule and one.now not in self._times:
                name = self._times.setdefault(one.recorded, f"[time {len(self._times)}]")
                self._times[one.now] = name
                self._marked_text.cache_clear()

    def see(self, made: Iterable[MadeObject]) -> None:
        """Take commits and tags that the current run made since the last call."""
        if self._commits.see(made):
            self._in_text.cache_clear()
            self._marked_text.cache_clear()

    def _of_parameters(self, recorded: Asked, now: Asked) -> Iterator[_Pair]:
        if recorded.parameters.keys() != now.parameters.keys():
            raise _DiffersError
        for name, value in recorded.parameters.items():
            is_who = _SAYS_WHO.fullmatch(name) is not None
            where = frozenset({"parameters"} if is_who else ())
            yield from self._pairs(value, now.parameters[name], where, f"/parameters/{name}")

    def _of_messages(self, recorded: Asked, now: Asked) -> Iterator[_Pair]:
        """Yield the tokens that are not equal."""
        if len(recorded.messages) != len(now.messages):
            raise _DiffersError
        known = _Wheres()
        for at, (one, other) in enumerate(zip(recorded.messages, now.messages, strict=True)):
            where = known.of(one)
            if one is other or (one == other and self._digest(one) == self._digest(other)):
                continue  # 1 and true are equal, and do not say the same
            olds, news = one.get("tool_calls") or (), other.get("tool_calls") or ()
            yield from self._pairs(_rest(one), _rest(other), where, f"/messages/{at}")
            if len(olds) != len(news):
                raise _DiffersError
            for n, calls in enumerate(zip(olds, news, strict=True)):
                yield from self._pairs(*calls, _called(calls[0]), f"/messages/{at}/tool_calls/{n}")

    def _pairs(
        self, one: Value, other: Value, where: frozenset[str], pointer: str
    ) -> Iterator[_Pair]:
        """Yield the tokens of two values that are not equal.

        Raises:
            _DiffersError: anything else is not.
        """
        if isinstance(one, str) and isinstance(other, str):
            yield from self._of_texts(one, other, where, pointer)
        elif isinstance(one, dict) and isinstance(other, dict):
            for was, here in self._same_keys(one, other):
                if was != here:
                    yield from self._of_texts(was, here, where, pointer)
                yield from self._pairs(one[was], other[here], where, f"{pointer}/{was}")
        elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
            if len(one) != len(other):
                raise _DiffersError
            for at, (was, here) in enumerate(zip(one, other, strict=True)):
                yield from self._pairs(was, here, where, f"{pointer}/{at}")
        elif type(one) is not type(other) or one != other:
            raise _DiffersError

    def _same_keys(
        self, one: Mapping[str, Any], other: Mapping[str, Any]
    ) -> Iterable[tuple[str, str]]:
        """Return the names of members that are the same: a name may be a path.

        Raises:
            _DiffersError: one of them has others.
        """
        if one.keys() == other.keys():
            return zip(one, one, strict=True)
        names = {self.as_recorded_text(name): name for name in other}
        if names.keys() == one.keys() and len(one) == len(other):
            return names.items()
        olds, news = ({encode(self._skeleton(k)): k for k in each} for each in (one, other))
        if olds.keys() != news.keys() or not len(olds) == len(one) == len(other):
            raise _DiffersError
        return ((key, news[name]) for name, key in olds.items())

    def _of_texts(
        self, one: str, other: str, where: frozenset[str], pointer: str
    ) -> Iterator[_Pair]:
        if one == other:
            return
        if (found := self._unequal(one, other)) is None:
            raise _DiffersError
        for each in found:
            yield _Pair(where, pointer, *each)

    def _unequal_anew(self, one: str, other: str) -> tuple[tuple[str, str, str], ...] | None:
        """Return the tokens of two texts that are not equal; `None` if anything else is not."""
        (parts, tokens), (others, heres) = self.cut(one), self.cut(other)
        if parts != others or [mark for mark, _ in tokens] != [mark for mark, _ in heres]:
            return None
        pairs = zip(tokens, heres, strict=True)
        return tuple((mark, was, here) for (mark, was), (_, here) in pairs if was != here)

    def _join(self, join: Joined, pairs: Iterable[_Pair]) -> Joined:
        left = [pair for pair in pairs if not self._introduces(pair, join)]
        for pair in left:
            if keys := self._was.get(pair.recorded, set()) & self._here.get(pair.now, set()):
                join.own |= dict.fromkeys(sorted(name for name, _ in keys))
            elif was := self._commits.held(pair.recorded, pair.now):
                join.commits[was] = None
            elif join.ids.get(pair.recorded) != pair.now and not self._is_time(pair):
                if all(map(_COMMIT.fullmatch, (pair.recorded, pair.now))):
                    self.unproven[pair.recorded] = None
                raise _DiffersError
        join.check_date_order()
        return join

    def _introduces(self, pair: _Pair, join: Joined) -> bool:
        """Return whether a pair is at a place that introduces or ignores its kind; note it."""
        place = self._place_of(pair.mark, pair.where) or self._printed_place(pair)
        both = pair.recorded, pair.now
        if place is _NOW_PLACE and not are_beside(self._days, [*map(_day, both)]):
            return False
        kind = place.kind if place is not None else self._kind(pair)
        if kind is None:
            return False
        rule = place.rule if place is not None else ""
        if kind == "id" and _is_bound(*both):
            join.bind(*both)
            return True
        if kind == "date":
            join.dates.append(both)
        join.passed.append(IgnoredValue(pair.pointer, *both, rule))
        return True

    def _printed_place(self, pair: _Pair) -> ValuePlace | None:
        """Return the place at which a request had the pair that is printed now; `None` for none."""
        is_printed = "printed" in pair.where
        places = self._of_mark(pair.mark) if is_printed else ()
        known = ((place.rule, pair.recorded, pair.now) in self._passed for place in places)
        return next(itertools.compress(self._of_mark(pair.mark), known), None)

    def _of_mark(self, mark: str) -> list[ValuePlace]:
        return [self._places[int(number)] for number in mark.split(",") if number.isdigit()]

    def _place_of(self, mark: str, where: frozenset[str]) -> ValuePlace | None:
        """Return the place of a token; `None` if it has none."""
        return next((place for place in self._of_mark(mark) if place.where & where), None)

    def _kind(self, pair: _Pair) -> str | None:
        is_id = pair.mark != _OWN and "parameters" in pair.where
        return "id" if is_id and all(map(_SHAPE.fullmatch, (pair.recorded, pair.now))) else None

    def _is_time(self, pair: _Pair) -> bool:
        """Return whether two texts are the times of two commits that are each other's."""
        moments = (_moment_of(pair.recorded), _moment_of(pair.now))
        return _form(pair.recorded) == _form(pair.now) and moments in self._commits.moments

    # --- translation -----------------------------------------------------------------------

    def as_now(self, value: Value) -> Value:
        """Return a recorded value with the values of now; itself if none is bound."""
        return self._translated(value, _WAS)

    def as_recorded(self, asked: Asked) -> Asked:
        """Return a request of now with recorded values, to be shown beside a recorded one."""
        value = asked.as_json()
        plain = self._translated(value, _NOW)
        return asked if plain == value else asked.asking({**plain, "model": asked.model})

    def as_recorded_value(self, value: Value) -> Value:
        """Likewise, of any value."""
        return self._translated(value, _NOW)

    def as_recorded_text(self, text: str) -> str:
        """Likewise, of a text."""
        return self._in_text(text, _NOW)

    def as_recorded_file(self, text: str) -> str:
        """Likewise, of a text that may be long; it is not remembered."""
        return self._in_text_anew(text, _NOW)

    def plain(self, asked: Asked, *, timeless: bool = False) -> Asked:
        """Return a request with a mark for each value that its place lets be another one.

        A time of asking has one if it was ignored, or in a `timeless` request.
        """
        known, messages, when = _Wheres(), [], (_TIMELESS,) if timeless else ()
        for message in asked.messages:
            marked = self._marked(_rest(message), known.of(message).union(when))
            if calls := message.get("tool_calls"):
                marked["tool_calls"] = [self._marked(call, _called(call)) for call in calls]
            messages.append(marked)
        who = {
            name: self._marked(value, _WHO) if _SAYS_WHO.fullmatch(name) else value
            for name, value in asked.parameters.items()
        }
        if messages == list(asked.messages) and who == asked.parameters:
            return asked
        plain = asked.asking({**asked.as_json(), "messages": messages})
        return attrs.evolve(plain, parameters=who)

    def plain_text(self, text: str, where: str = "printed") -> str:
        """Likewise, for a text at one place: the output, or a role."""
        return str(self._marked(text, frozenset({where})))

    def marked_result(self, call: Mapping[str, Any], result: Value) -> Value:
        """Likewise, of the result of a call {name, arguments}."""
        return self._marked(result, _results_of(call))

    def line_key(self, line: str) -> str:
        """Return the sort key of a listing's line, which is equal in both runs."""
        parts, _ = self.cut(line)
        return "\0".join(parts)

    def _marked(self, value: Value, where: frozenset[str]) -> Value:
        return mapped(value, lambda text: self._marked_text(text, where))

    def _marked_anew(self, text: str, where: frozenset[str]) -> str:
        parts, tokens = self.cut(text)
        said = [self._mark(mark, token, where) for mark, token in tokens]
        return "".join(_woven(parts, said)) if tokens else text

    def _mark(self, mark: str, token: str, where: frozenset[str]) -> str:
        place = self._place_of(mark, where)
        if place is _NOW_PLACE:
            return "[time]" if _TIMELESS in where else self._times.get(token, token)
        if place is not None:
            return f"[{place.kind}]"
        is_date = mark == _DATE or token[:1].isdigit()
        date = self._commits.dates.get(_moment_of(token)) if is_date else None
        return token if date is None else f"[date {date}]"

    def _translated(self, value: Value, side: int) -> Value:
        def change(text: str) -> str:
            return self._in_text(text, side)

        return mapped(value, change, change)

    def _in_text_anew(self, text: str, side: int) -> str:
        parts, tokens = self.cut(text)
        if not tokens:
            return text
        ids = (self._known.ids, self._known.ids_back)[side]
        own = (self._forth, self._back)[side]
        found = (
            ids.get(one) or own.get(one) or self._commits.translated(one, side) for _, one in tokens
        )
        return "".join(_woven(parts, [*found]))

    # --- the report ------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """Return the bound values as text; empty if none differed."""
        own = self._known.own
        counts = Counter(dict.fromkeys(own, 1))
        counts["id"] = sum(was != now for was, now in self._known.ids.items())
        counts["commit"] = len(self._known.commits)
        counts["file name"] = self._file_names.count
        told = [
            name if name in own else f"{count} {name}{'s' * (count > 1)}"
            for name, count in counts.items()
            if count
        ]
        return [f"{counts.total()} bound: {', '.join(told)}"] if told else []


class _Wheres:
    """Finds the places of one conversation's messages: by role, or by the tool they answer."""

    def __init__(self) -> None:
        self._calls: dict[Any, Mapping[str, Any]] = {}

    def of(self, message: Mapping[str, Any]) -> frozenset[str]:
        """Return the places of the next message's texts."""
        for call in message.get("tool_calls") or ():
            self._calls[call.get("id")] = call
        if message.get("role") == "tool":
            call = self._calls.get(message.get("tool_call_id"))
            return _results_of(call) if call is not None else frozenset()
        return frozenset({str(message.get("role"))})


def _rest(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without its calls, which have their own places."""
    return {name: value for name, value in message.items() if name != "tool_calls"}


def _called(call: Mapping[str, Any]) -> frozenset[str]:
    return frozenset({f"call:{call.get('name')}"})


def _results_of(call: Mapping[str, Any]) -> frozenset[str]:
    """Return the places of a call's result."""
    said = f"result:{call.get('name')}"
    command = _command_of(call)
    return frozenset({said, *(name for name, form in _PROGRAMS.items() if form.search(command))})


def _command_of(call: Mapping[str, Any]) -> str:
    """Return the texts of a call's arguments: a command may be a list of words."""
    said = call.get("arguments") or {}
    values = said.values() if isinstance(said, dict) else [said]
    return "\n".join(" ".join(map(str, v)) if isinstance(v, list) else str(v) for v in values)


def _is_bound(was: str, now: str) -> bool:
    """Return whether two values hold elsewhere, too: long enough, and no numbers."""
    is_number = was.isdigit() or now.isdigit()
    return not is_number and min(len(was), len(now)) >= _LENGTH_MIN


def _day(text: str) -> date | None:
    with contextlib.suppress(ValueError):
        return date.fromisoformat(text[:10])
    return None


def _uuids_below(*noted: Mapping[str, str]) -> Iterator[ValuePlace]:
    """Yield the place of an agent's own folder below HOME, named by an id that it draws."""
    homes = {each["home"].rstrip("/") for each in noted if each.get("home", "").startswith("/")}
    below = "|".join(map(re.escape, sorted(homes - {""})))
    if below:
        with contextlib.suppress(UsageError):
            yield ValuePlace.parsed(rf"user,system id (?:{below})/[\w./-]{{1,200}}/({UUID})")


def _woven(parts: Sequence[str], tokens: Sequence[str]) -> Iterator[str]:
    for part, token in zip(parts, tokens, strict=False):
        yield part
        yield token
    yield parts[-1]


def _apart(spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return spans that do not overlap: of those that do, the first listed."""
    found: list[tuple[int, int, str]] = []
    taken = bytearray()
    for start, end, mark in spans:
        if len(taken) < end:
            taken.extend(bytes(end - len(taken)))
        if start >= 0 and not any(taken[start:end]):  # a value may be empty
            taken[start:end] = b"\1" * (end - start)
            found.append((start, end, mark))
    return found


def _form(text: str) -> str:
    return re.sub(" +", " ", re.sub(r"[A-Za-z]{2,}", "a", re.sub(r"\d+", "0", text)))


def _moment(text: str) -> tuple[Any, ...]:
    """Return a date or a time as what sorts by it."""
    words = re.findall(r"[A-Za-z]+|\d+", text)
    numbers = [int(word) for word in words if word.isdigit()]
    months = [_MONTHS.index(w[:3].lower()) for w in words if w[:3].lower() in _MONTHS]
    if not months:
        return (*numbers,)
    years = [number for number in numbers if number > 1000]  # noqa: PLR2004 - a year
    return (*years, *months, *(number for number in numbers if number not in years))


def _moments_of(time: str) -> tuple[str, ...]:
    """Return the texts that tell a time of git, as `_moment_of` has them; as seconds, too."""
    seconds, zone = time.split(" ")
    minutes = int(f"{zone[0]}1") * (int(zone[1:3]) * 60 + int(zone[3:]))
    try:
        there = datetime.fromtimestamp(int(seconds) + 60 * minutes, UTC)
    except (OverflowError, ValueError, OSError):
        return seconds, "", ""
    plain = f"{there:%Y %m %d %H %M %S}"
    return seconds, plain, f"{plain} {zone}"


def _moment_of(text: str) -> str:
    """Return a date of git in one form: `2026 01 31 23 59 59 +0100`, seconds as they are."""
    if text.isdigit():
        return text
    for form in _GIT_FORMS:
        with contextlib.suppress(ValueError):
            return f"{datetime.strptime(text, form):%Y %m %d %H %M %S %z}".rstrip()  # noqa: DTZ007 - it may have no zone
    return ""


# --- what Refold knows itself ------------------------------------------------------------------


def _own_pairs(
    recorded: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[tuple[tuple[str, int], str, str]]:
    for name in recorded:
        if name in _WORDS or name.startswith(OTHER) or not now.get(name):
            continue
        for was, here in zip(_paths(recorded, name), _paths(now, name), strict=True):
            for at, pair in enumerate(zip(_spellings(was), _spellings(here), strict=False)):
                if pair[0] != pair[1]:
                    yield (name, at), *pair
    whole = all(
        each.get(n, "").startswith("/") for each in (recorded, now) for n in ("folder", "home")
    )
    if whole:  # as Qwen Code names files of HOME: from the folder
        was, here = (relpath(each["home"], each["folder"]) for each in (recorded, now))
        if was != here and all(re.search(r"\w", each) for each in (was, here)):
            yield ("home", -1), was, here
        yield from _below_home(recorded, now)
    for name in _WORDS[:3]:
        olds, news = (_texts_of_value(name, each.get(name, "")) for each in (recorded, now))
        for at, (was, here) in enumerate(zip(olds, news, strict=False)):
            if was != here and min(len(was), len(here)) >= _LENGTH_MIN:
                yield (name, at), was, here


def _below_home(
    recorded: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[tuple[tuple[str, int], str, str]]:
    """Yield shells' names of the folder below HOME, with the current folder's names."""
    was, here = (relpath(each["folder"], each["home"]) for each in (recorded, now))
    above, _, name = now["folder"].rstrip("/").rpartition("/")
    for at, (home, slash) in enumerate(_BELOW_HOME.items()):
        if was != here and was[0] != ".":
            below = f"{home}/{here}" if here[0] != "." else f"{above}{slash}{name}"
            yield ("folder", -1 - at), f"{home}/{was}", below


def _own_tokens(spelled: Iterable[str]) -> Iterator[str]:
    r"""Yield the pattern of known texts, the longest first; a path ends where its name does.

    A path is not the end of a longer one, and begins no longer name: `/home/a` is not in
    `/home/a-old`; a full stop may end a sentence.
    """
    found = sorted(spelled, key=len, reverse=True)
    each = (("" if one[0] in "/-\\%" else "(?<!/)") + re.escape(one) for one in found)
    if found:
        start = r"(?:(?<![\w.-])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
        yield rf"(?P<own>{start}(?:{'|'.join(each)})(?!\.*[\w-]))"


def _paths(folders: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return a folder's two paths, as given and resolved, without a slash at the end."""
    given = folders[name].rstrip("/")
    other = folders.get(OTHER + name, given).rstrip("/")
    plain = [path for path in (given, other) if path.startswith("/")] or [""]
    return plain[0], plain[-1]


def _spellings(path: str) -> tuple[str, ...]:
    r"""Return how programs spell a path: the closed list.

    As it is; with `\/`; as a part of a URL; as JSON spells its letters; as the name of a folder
    (Claude Code); and from / on, as opencode names files outside of a git repository.
    """
    if path.strip("/") == "":
        return ()
    in_json = json.dumps(path)[1:-1]
    plain = (path, path.replace("/", r"\/"), quote(path, safe=""), quote(path), in_json)
    if path.count("/") < _LEVELS_MIN:
        return plain
    return (*plain, re.sub(r"[^A-Za-z0-9]", "-", path), path[1:], path[1:].replace("/", r"\/"))


def _texts_of_value(name: str, value: str) -> tuple[str, ...]:
    """Return the texts of a value; a date in the forms that prompts use."""
    if name != "date" or not value:
        return (value,)
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return ()
    forms = ("%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%A, %B {d}, %Y", "%B {d}, %Y", "%b {d}, %Y")
    more = ("%a %b %d %Y", "{d} %B %Y", "%a, %b {d}, %Y", "%A %B {d} %Y")
    return tuple(day.strftime(form.replace("{d}", str(day.day))) for form in (*forms, *more))
