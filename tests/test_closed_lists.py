"""A table over a closed list of words names each word: who adds a word learns what it needs.

A closed list is a `Literal`. Any module-level dict, tuple or set whose words are all of such a list
is a table over it, and so is one that mixes most of them with other words.
"""

import contextlib
import functools
import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final, Literal, get_args, get_origin

PARTIAL: Final = {
    "refold.engine.observed.links._INFERRED": "the others show who called whom",
    "refold.proxy.copies.current._FILES": "the others are no files",
    "refold.cli.commands.inspect.export._TIMES": "heads and reports of replays are no exports",
    "refold.cli.commands.inspect.export._SUFFIXES": "a report of replays is named by the caller",
    "refold.cli.commands.check.replay._STYLES": "the others have the style of failure",
    "refold.cli.commands.inspect.show._THERE": "the states in which a log is read",
    "refold.cli.commands.inspect.show._WORDS": "the states of which more is said",
    "refold.engine.recording.recorder._GUARDED": "what is never done twice unasked",
    "refold.replay.bulk.bulk.BAD": "the results that end with an exit code",
    "refold.replay.compare.observed_calls._OWN": "what a call alone differs in",
    "refold.engine.workspace.contents._IN_NO_TREE": "git has an object, or an entry, of the others",
    "refold.replay.run.opened_run._READ": "of the others no entry verifies",
    "refold.replay.explain.run_on._COMPLETED_BY": "a child is completed by its outcome",
    "refold.replay.partial.drift_report._WORDS": "nothing is said of what is the same",
    "refold.replay.reexecute.comparison._OF_ORDER": "the categories that an order can explain",
    "refold.replay.partial.sources._PLACES": "a person is always asked",
    "refold.replay.reexecute.comparison._OF_RAISING": "the categories that raising can explain",
    "refold.replay.reexecute.comparison._OF_TIMERS": "the categories that a timer can explain",
    "refold.replay.run.opened_run._UNKNOWN": "the states in which nothing is known",
    "refold.replay.difference.causes._GOT": "after the others a run knows nothing different",
    "refold.testing.refold_models.LIVE": "the modes that ask a model",
}
"""Tables that are partial or mixed on purpose: what the words that they lack get."""


@functools.cache
def _all_modules() -> tuple[ModuleType, ...]:
    """Return every module; on first use, for that takes seconds."""
    return tuple(_modules())


def _modules() -> Iterator[ModuleType]:
    for path in (
        "engine",
        "replay",
        "tools",
        "cli",
        "page",
        "exports",
        "proxy",
        "store",
        "testing",
        "adapters",
    ):
        package = importlib.import_module(f"refold.{path}")
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(("runners.stub", "runners.child")):  # they run at import
                with contextlib.suppress(ModuleNotFoundError):  # an extra that is not installed
                    yield importlib.import_module(found.name)
    yield importlib.import_module("refold.options")


def _lists() -> dict[frozenset[str], str]:
    return {
        frozenset(words): name
        for module in _all_modules()
        for name, value in vars(module).items()
        if get_origin(value) is Literal
        if len(words := [word for word in get_args(value) if isinstance(word, str)]) > 2
    }


def _tables() -> dict[str, set[str]]:
    """Return the words of every table, by the module that defines it."""
    found: dict[int, tuple[str, Any]] = {}
    for module in _all_modules():
        for name, value in vars(module).items():
            is_table = isinstance(value, dict | tuple | frozenset | set | list) and len(value) > 1
            if is_table and not name.startswith("__") and all(isinstance(w, str) for w in value):
                found.setdefault(id(value), (f"{module.__name__}.{name}", value))
    return {name: set(value) for name, value in found.values()}


def _is_over(table: set[str], words: frozenset[str]) -> bool:
    mixed = len(table & words) >= max(3, len(words) / 2)
    return table < words or (mixed and words != table)


@functools.cache
def _incomplete() -> dict[str, list[str]]:
    """Return the words that each table lacks, of the list that it is over."""
    lists = _lists()
    return {
        name: sorted(words - table)
        for name, table in _tables().items()
        for words in lists
        if _is_over(table, words) and words - table
    }


def test_a_table_over_a_closed_list_is_total_or_says_why_not() -> None:
    assert {name: lacks for name, lacks in _incomplete().items() if name not in PARTIAL} == {}


def test_what_is_said_to_be_partial_is_there() -> None:
    assert set(PARTIAL) - set(_incomplete()) == set()


def test_the_lists_and_tables_are_found() -> None:
    assert {"Status", "Durability", "Category", "Result", "CallKind"} <= set(_lists().values())
    assert "refold.engine.log.writer.SYNCED_EACH" in _tables()
    assert "refold.replay.bulk.bulk.BAD" in _incomplete(), "a partial one is noticed"
