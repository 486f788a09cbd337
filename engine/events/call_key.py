"""Call keys: a call's position in the tree of tasks, and its number there (CONTRACT.md §9.1).

`0/2#3` is the third call of the task `0/2`, and `0/2@1` is the first timer that it set.  In a tree
of runs, a key also names the run: `0#2 > 0/2#3` is that call of the child that the root's call
`0#2` started, and `0#2` is the path of that child.  They are texts in every log and API; who needs
a part of one asks here.
"""

import re
from collections.abc import Iterator
from typing import Final

_PARTS: Final = re.compile(r"\d+|\D+")


def parts_of(call: str) -> tuple[str, str, str]:
    """Return the task, the mark and the number, as text: `("0/2", "#", "3")`.

    A text that is not a call key is kept whole in place of the number.
    """
    return call.rpartition("@" if "@" in call else "#")


def key_in(run: str, call: str) -> str:
    """Return the key of a call in the run at the path `run`, which is empty for the root."""
    return f"{run} > {call}" if run else call


def run_and_call(key: str) -> tuple[str, str]:
    """Return the path of the run, empty for the root, and the call: `key_in` the other way."""
    run, _, call = key.rpartition(" > ")
    return run, call


def scope_of(call: str) -> str:
    """Return the task that a call is made in, `0/2`; empty where the entry has no key."""
    return parts_of(call)[0]


def scope_above(scope: str) -> str:
    """Return the task that began this one, `0` for `0/2`; empty above the first."""
    return scope.rpartition("/")[0]


def with_above(scope: str) -> Iterator[str]:
    """Yield a task and those above it, the nearest first."""
    while scope:
        yield scope
        scope = scope_above(scope)


def number_of(call: str) -> int:
    """Return which call of its task it is, or which timer, from 1.

    Raises:
        ValueError: the text is not a call key.
    """
    return int(parts_of(call)[2])


def in_order(call: str) -> tuple[tuple[int, str], ...]:
    """Return what keys are sorted by: by numbers and not as text, `0#2` before `0#10`."""
    return tuple((int(p), "") if p.isdigit() else (-1, p) for p in _PARTS.findall(call))
