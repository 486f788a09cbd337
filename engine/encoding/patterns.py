r"""Patterns from models, refused where one line of text could take for ever.

Python's `re` backtracks and holds the interpreter while it does, so that no timeout can stop it:
`(a+)+$` on forty letters outlives the run.  Before a pattern is used, its worst case is estimated,
`choices x n^(loops + 1) / (loops + 1)!` steps for a line of n characters, and n is set so that
this stays within a budget; a pattern that leaves no useful n is refused.  Repeats of groups that
repeat or choose, and backreferences, have no such bound and are refused.  A long shell pattern is
refused too: `fnmatch` looks for a `]` behind each `[`.  Pure.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Final

import attrs

PATTERN_MAX: Final = 4096
"""Characters of a regular expression."""
GLOB_MAX: Final = 256
"""Characters of a shell pattern."""
STEPS_MAX: Final = 50_000_000
"""Steps that one line may cost: around a second."""
LINE_MAX: Final = 4096
"""Characters of a line that are ever looked at."""
LINE_MIN: Final = 80
"""A pattern that could not look at this many characters is refused."""

TEXT_STEPS_MAX: Final = 250_000_000
"""Steps that one text of any length may cost: a few seconds."""

_COUNT: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_GROUP: Final = re.compile(r"\?(?::|P<\w+>)")
_FEW: Final = 8
"""A repeat of so many more at most is a choice of their number."""
_WORDS: Final = re.compile(r"[A-Za-z0-9_ -]+")
_FLAGS: Final = re.compile(r"\(\?[aims]+\)")
_BEGINNING: Final = re.compile(r"(?:[\w \"'<>:/,;=%@-]|\\[^\w])*(?![*+?{])")
"""The beginning of each match, as written in a pattern: no letter of it is repeated."""


class PatternRefusedError(Exception):
    """The pattern is not a regular expression, or could run for ever; has the reason."""


@attrs.frozen
class Pattern:
    """A pattern and how much of a line it may look at."""

    expression: re.Pattern[str]
    line_max: int
    loops: int = 0
    choices: int = 1
    beginning: str = ""
    """What each match begins with; empty where that is not one text."""

    def replaced(self, text: str, mark: str) -> str:
        """Return `text`, of any length, with `mark` for each match that `found` yields."""
        pieces, kept = [], 0
        for each in self.found(text):
            pieces += [text[kept : each.start()], mark]
            kept = each.end()
        return "".join((*pieces, text[kept:]))

    def found(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the matches in a text of any length.

        A text longer than `line_max` is searched window by window, the smaller the longer it is: a
        match that shows in no window is not found, and of a text that leaves no useful window none.
        If all matches begin alike, windows are needed only at these places.
        """
        if len(text) <= self.line_max:
            yield from self.expression.finditer(text)
            return
        window, there = self._window(len(text)), self._window_behind(text)
        if there > window:
            yield from self._found_behind(text, there)
            return
        at = 0 if window >= LINE_MIN else len(text)
        while at < len(text):
            end = min(at + window, len(text))
            found = self.expression.search(text, at, end)
            if found is None or (found.start() - at >= window // 2 and end < len(text)):
                at += window // 2
                continue
            at = max(found.end(), found.start() + 1)
            if whole := self._whole(text, found, end):
                yield whole
                at = max(whole.end(), at)

    def _found_behind(self, text: str, window: int) -> Iterator[re.Match[str]]:
        """As `found`, looking only where a match may begin."""
        at = 0
        while (at := text.find(self.beginning, at)) >= 0:
            end = min(at + window, len(text))
            found = self.expression.match(text, at, end)
            whole = self._whole(text, found, end) if found else None
            if whole:
                yield whole
            at = whole.end() if whole else at + 1

    def _window_behind(self, text: str) -> int:
        """Return how much may be looked at wherever a match may begin; 0 for too little."""
        if not self.beginning:
            return 0
        if not self.loops:
            return self.line_max
        most = (text.count(self.beginning) or 1) * len(self.beginning)  # they may overlap
        steps = TEXT_STEPS_MAX * math.factorial(self.loops) / (most * self.choices)
        window = min(self.line_max, int(steps ** (1 / self.loops)))
        return window if window >= LINE_MIN else 0

    def _window(self, length: int) -> int:
        """Return how much of a text is looked at at once, so that all of it is within a budget."""
        if not self.loops:
            return self.line_max
        steps = TEXT_STEPS_MAX * math.factorial(self.loops + 1) / (2 * length * self.choices)
        return min(self.line_max, int(steps ** (1 / self.loops)))

    def _whole(self, text: str, found: re.Match[str], end: int) -> re.Match[str] | None:
        """Return a match that reached the end of its window, whole; `None` if it fails there."""
        most = STEPS_MAX * math.factorial(self.loops) / self.choices
        longest = int(most ** (1 / self.loops)) if self.loops else len(text)
        whole: re.Match[str] | None = found
        while whole and whole.end() == end < len(text) and end - found.start() < longest:
            end = min(len(text), found.start() + 2 * (end - found.start()))
            whole = self.expression.match(text, found.start(), end)
        return whole


@attrs.define
class _Group:
    branches: int = 1
    repeats: bool = False
    start: int = 0


def compiled(pattern: str) -> Pattern:
    """Return `pattern`, ready to search single lines.

    Raises:
        PatternRefusedError: with the reason, for the author of the pattern.
    """
    _check_length(pattern, PATTERN_MAX)
    try:
        expression = re.compile(pattern)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise PatternRefusedError(f"not a regular expression: {error}") from None
    scan = _Scan(pattern)
    loops, choices = scan.cost()
    power = loops + 1
    line_max = min(LINE_MAX, int((STEPS_MAX * math.factorial(power) / choices) ** (1 / power)))
    if line_max < LINE_MIN:
        raise PatternRefusedError("it has too many repeats or alternatives: use a simpler pattern")
    # A top-level choice has a beginning for each branch.
    plain = _BEGINNING.match(pattern) if scan.groups[0].branches == 1 else None
    beginning = re.sub(r"\\(.)", r"\1", plain[0]) if plain else ""
    return Pattern(expression, line_max, loops, choices, beginning)


def glob_of(pattern: str) -> Callable[[str], bool]:
    """Return a test of paths: a pattern with a `/` is for the whole path, another for its name.

    Raises:
        PatternRefusedError: the pattern is too long.
    """
    _check_length(pattern, GLOB_MAX)
    is_for_paths = "/" in pattern
    return lambda path: fnmatchcase(path if is_for_paths else path.rpartition("/")[2], pattern)


def _check_length(pattern: str, most: int) -> None:
    if len(pattern) > most:
        raise PatternRefusedError(f"expected at most {most} characters, found {len(pattern)}")


class _Scan:
    """One pass over a pattern that `re` has accepted, counting what makes it slow."""

    def __init__(self, pattern: str) -> None:
        self.rest = pattern
        self.at = 0
        self.loops = 0
        self.choices = 1
        self.groups = [_Group()]
        self.atom = _Group()

    def cost(self) -> tuple[int, int]:
        """Return how many loops and how many choices multiply."""
        if flags := _FLAGS.match(self.rest):
            self.at = flags.end()
        while self.at < len(self.rest):
            self._step(self.rest[self.at])
        return self.loops, self.choices * self.groups[0].branches

    def _step(self, letter: str) -> None:
        self.at += 1
        if letter in "*+?":
            self._repeat(once=letter == "?")
        elif letter == "{" and (count := _COUNT.match(self.rest, self.at - 1)) and count[0] != "{}":
            self.at = count.end()
            more = int(count[3]) - int(count[1] or 0) if count[3] else LINE_MAX
            self._repeat(exact=not count[2], more=more)
            if self.rest[count.start() - 1] == ")":  # an empty group costs each of its repeats
                self.choices *= max(1, int(count[1] or 0))
        elif letter == "(":
            self._open()
        elif letter == ")":
            self.atom = self.groups.pop()
            self.choices *= 1 if self._are_apart() else self.atom.branches
            self.groups[-1].repeats |= self.atom.repeats
        elif letter == "|":
            self.groups[-1].branches += 1
        else:
            self.atom = _Group()
            self._skip(letter)

    def _are_apart(self) -> bool:
        """Return whether at most one branch of the group that ends here can match: plain words."""
        words = self.rest[self.atom.start : self.at - 1].lower().split("|")
        plain = all(_WORDS.fullmatch(word) for word in words)
        return plain and not any(b.startswith(a) for a, b in itertools.pairwise(sorted(words)))

    def _open(self) -> None:
        if self.rest.startswith("?", self.at):
            kind = _GROUP.match(self.rest, self.at)
            if kind is None:
                raise PatternRefusedError(
                    "of the (?…) groups, only (?:…) and (?P<name>…) are supported"
                )
            self.at = kind.end()
        self.groups.append(_Group(start=self.at))

    def _repeat(self, *, once: bool = False, exact: bool = False, more: int = LINE_MAX) -> None:
        if not once and (self.atom.repeats or self.atom.branches > 1):
            raise PatternRefusedError("a group with a repeat or alternatives is itself repeated")
        if self.rest[self.at : self.at + 1] in ("?", "+"):
            self.at += 1
        if once:
            self.choices *= 2
        elif not exact and more <= _FEW:
            self.choices *= more + 1
        elif not exact:
            self.loops += 1
        self.groups[-1].repeats |= not exact

    def _skip(self, letter: str) -> None:
        if letter == "\\":
            if self.rest[self.at] in "123456789":
                raise PatternRefusedError("backreferences are not supported")
            self.at += 1
        elif letter == "[":
            self.at += self.rest.startswith("^", self.at)
            self.at += self.rest.startswith("]", self.at)  # in first place it stands for itself
            while self.rest[self.at] != "]":
                self.at += 2 if self.rest[self.at] == "\\" else 1
            self.at += 1
