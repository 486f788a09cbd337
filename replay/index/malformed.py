"""What a function that reads logs raises for data that no recorder writes.

A chain proves nothing about the data in it, and readers of plain data do not check every member.
So a failure is explained once it is there: by the first entry that does not fit its kind.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from refold.engine.errors import RefoldError
from refold.engine.log.names import is_there, tree
from refold.engine.log.reader import read_entries

C = TypeVar("C", bound=Callable[..., Any])


def explains_malformed(called: C, /) -> C:
    """Return a function whose failure over a malformed log is that log's error.

    The logs are those among its arguments, and their children.
    """

    @functools.wraps(called)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return called(*given, **named)
        except RefoldError:
            raise
        except Exception:
            for path in _logs([*given, *named.values()]):
                _check(path)
            raise

    return call  # type: ignore[return-value]  # of the same signature


def _logs(given: list[Any]) -> Iterator[Path]:
    for each in given:
        if isinstance(each, list | tuple):
            yield from _logs([*each])
        elif isinstance(path := getattr(each, "log", each), str | os.PathLike):
            yield from tree(Path(path)) if is_there(Path(path)) else ()


def _check(log: Path) -> None:
    """Raise the error of a log's first entry that is damaged, or does not fit its kind."""
    with contextlib.suppress(OSError):
        for entry in read_entries(log, resolve=True, torn_ok=True):
            entry.event  # noqa: B018 - built here
