r"""Regular expressions from models, refused where one line of text could take for ever.

Python's `re` backtracks and holds the interpreter while it does, so that no timeout can stop it:
`(a+)+$` on forty letters outlives the run.  Before a pattern is used, its worst case is estimated,
`choices x n^(loops + 1) / (loops + 1)!` steps for a line of n characters, and n is set so that
this stays within a budget; a pattern that leaves no useful n is refused.  Repeats of groups that
repeat or choose, and backreferences, have no such bound and are refused.  Pure.
"""

import math
import re
from typing import Final

import attrs

STEPS_MAX: Final = 50_000_000
"""Steps that one line may cost: around a second."""
LINE_MAX: Final = 4096
"""Characters of a line that are ever looked at."""
LINE_MIN: Final = 80
"""A pattern that could not look at this many characters is refused."""

_COUNT: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_GROUP: Final = re.compile(r"\?(?::|P<\w+>)")
_FLAGS: Final = re.compile(r"\(\?[aims]+\)")


class PatternRefusedError(Exception):
    """The pattern is no regular expression, or one that could take for ever; says which."""


@attrs.frozen
class Pattern:
    """A pattern and how much of a line it may look at."""

    expression: re.Pattern[str]
    line_max: int


@attrs.define
class _Group:
    branches: int = 1
    repeats: bool = False


def compiled(pattern: str) -> Pattern:
    """Return `pattern`, ready to search single lines.

    Raises:
        PatternRefusedError: with the reason, for whoever wrote the pattern.
    """
    try:
        expression = re.compile(pattern)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise PatternRefusedError(f"no regular expression: {error}") from None
    loops, choices = _Scan(pattern).cost()
    power = loops + 1
    line_max = min(LINE_MAX, int((STEPS_MAX * math.factorial(power) / choices) ** (1 / power)))
    if line_max < LINE_MIN:
        raise PatternRefusedError("it repeats or chooses too often: search for less at once")
    return Pattern(expression, line_max)


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
            self._repeat(exact=not count[2])
        elif letter == "(":
            self._open()
        elif letter == ")":
            self.atom = self.groups.pop()
            self.choices *= self.atom.branches
            self.groups[-1].repeats |= self.atom.repeats
        elif letter == "|":
            self.groups[-1].branches += 1
        else:
            self.atom = _Group()
            self._skip(letter)

    def _open(self) -> None:
        if self.rest.startswith("?", self.at):
            kind = _GROUP.match(self.rest, self.at)
            if kind is None:
                raise PatternRefusedError(
                    "of the (?…) groups, only (?:…) and (?P<name>…) are taken"
                )
            self.at = kind.end()
        self.groups.append(_Group())

    def _repeat(self, *, once: bool = False, exact: bool = False) -> None:
        if not once and (self.atom.repeats or self.atom.branches > 1):
            raise PatternRefusedError("a group that repeats or chooses is repeated itself")
        if self.rest[self.at : self.at + 1] in ("?", "+"):
            self.at += 1
        if once:
            self.choices *= 2
        elif not exact:
            self.loops += 1
        self.groups[-1].repeats |= not exact

    def _skip(self, letter: str) -> None:
        if letter == "\\":
            if self.rest[self.at] in "123456789":
                raise PatternRefusedError("backreferences are not taken")
            self.at += 1
        elif letter == "[":
            self.at += self.rest.startswith("^", self.at)
            self.at += self.rest.startswith("]", self.at)  # in first place it stands for itself
            while self.rest[self.at] != "]":
                self.at += 2 if self.rest[self.at] == "\\" else 1
            self.at += 1
