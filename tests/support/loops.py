"""Tests of many cases: small ones in one loop that lists all that failed, large ones as a sample.

As parameters, a thousand names take longer to be collected than to be tested.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def some(number: int, values: Sequence[Any]) -> list[Any]:
    """Return parameters of which the first so many are tried by default, the others as long tests.

    Several names take tuples.
    """
    rest = (each if isinstance(each, tuple) else (each,) for each in values[number:])
    return [*values[:number], *(pytest.param(*each, marks=pytest.mark.long) for each in rest)]


def half(values: Iterable[Any]) -> list[Any]:
    """Return parameters of which each second is tried by default, the others as long tests."""
    cases = list(values)
    return some(len(cases[::2]), [*cases[::2], *cases[1::2]])


def for_each(names: str, values: Iterable[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return what calls a test with each of `values`, as `parametrize` would, and lists all errors.

    Several names, separated by commas, take tuples. Each has a `tmp_path` of its own.
    """
    cases, arguments = list(values), [name.strip() for name in names.split(",")]

    def looped(test: Callable[..., Any]) -> Any:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            above = fixtures.get("tmp_path")
            for number, case in enumerate(cases):
                if above is not None:
                    fixtures["tmp_path"] = above / f"{number}"
                    fixtures["tmp_path"].mkdir()
                found = dict(zip(arguments, case if len(arguments) > 1 else (case,), strict=True))
                try:
                    test(**found, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below
                    error.add_note(f"with {found!r:.300}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)

        whole = inspect.signature(test)
        kept = [each for name, each in whole.parameters.items() if name not in arguments]
        run.__signature__ = whole.replace(parameters=kept)  # type: ignore[attr-defined]  # pytest asks it
        return run

    return looped


def table(text: str) -> list[tuple[str, ...]]:
    """Return rows of words: a line each, its words apart by two or more spaces; `-` is none."""
    rows = (re.split(r"  +", line.strip()) for line in text.strip().splitlines())
    return [tuple("" if word == "-" else word for word in row) for row in rows]
