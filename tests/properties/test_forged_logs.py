"""The law of logs that anyone may have made: each reader refuses or shows whatever entries say.

A chain proves nothing about the data in it, so its values are changed at random, and all hashes are
made anew. No reader may then fail as if it had a fault itself.
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from refold.cli.group import refold
from refold.cli.output.exit_codes import FAULT
from tests.support.fixtures import LOGS
from tests.support.forging import Change, altered
from tests.support.loops import for_each, some

READERS: Final = (
    "show", "show --effects", "show --events", "show --turn 1", "show --at -1", "show --files",
    "show --notable --json", "why -1", "why 5 --all", "verify", "diff ORIGINAL", "files",
    "export --to otlp --content -o OUT", "export --to atif -o OUT", "export --to html -o OUT",
    "export --to perfetto -o OUT", "export --to markdown -o OUT", "explore", "resume --list",
)  # fmt: skip
"""Commands that read one log, without it."""

EXAMPLES: Final[tuple[tuple[str, str, str, Any, str], ...]] = (
    ("watched", "x-refold.conversation", "scope", [None], "show --events"),
    ("watched", "x-refold.conversation", "call", 1, "show --effects"),
    ("watched", "model.asked", "parameters/api", {"type": 5}, "show --effects"),
    ("watched", "model.answered", "message/tool_calls", [True], "show --turn 1"),
    ("watched", "model.answered", "message/tool_calls", [True], "why -1"),
    ("watched", "model.answered", "message/tool_calls", 5, "export --to atif -o OUT"),
    ("watched", "model.asked", "added/0/role", [], "export --to atif -o OUT"),
    ("delegating", "x-refold.measured", "places", [{}], "diff ORIGINAL"),
    ("waiting", "run.started", "models", None, "show"),
    ("everything", "child.finished", "outcome/duration_ms", 2**63 - 1, "export --to otlp -o OUT"),
)
"""What failed once: the log, the kind and the member that is changed, its value, the reader."""

VALUES: Final[list[Any]] = [
    None, True, 0, -1, 2**63 - 1, 1e300, "", "\0\x1b[2J\u202e\n", "0#1", "99#99", [], {}, [None],
    [[]], [{}], {"": None}, {"$blob": "0" * 64}, ["x"], {"type": 5}, "a" * 5000, "{", "2026-99-99",
]  # fmt: skip
SEEDS: Final = 200


def outcome_of(words: str, log: Path, original: Path) -> tuple[int, str]:
    """Return the exit code and the output of a command that reads a log."""
    out = log.with_suffix(".out")
    out.unlink(missing_ok=True)
    named = {"ORIGINAL": original, "OUT": out}
    command, *rest = words.split()
    given = [str(named.get(each, each)) for each in rest]
    done = CliRunner().invoke(refold, [command, str(log), *given])
    return done.exit_code, done.output


@pytest.mark.parametrize(("name", "kind", "place", "value", "reader"), some(4, EXAMPLES))
def test_what_failed_once_is_refused_or_shown(
    name: str, kind: str, place: str, value: Any, reader: str, tmp_path: Path
) -> None:
    def change(own: str, data: dict[str, Any]) -> None:
        *above, last = place.split("/")
        at: Any = data
        for step in above:
            at = at[int(step)] if isinstance(at, list) and at else at.get(step) if at else None
        if own == kind and isinstance(at, dict):
            at[last] = value
            if value is None:
                del at[last]

    original = LOGS / f"{name}.jsonl"
    code, said = outcome_of(reader, altered(original, tmp_path / "a.jsonl", change), original)
    assert code != FAULT, said


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a value: what it is in, and its name there."""
    for name in [*value] if isinstance(value, dict) else range(len(value)):
        yield value, name
        if isinstance(value[name], dict | list):
            yield from _places(value[name])


def _at_random(chance: random.Random, count: int) -> Change:
    """Return what changes or removes one value of one of `count` entries."""
    numbers, number = iter(range(count)), chance.randrange(count)
    drawn: tuple[float, float, Any] = chance.random(), chance.random(), chance.choice(VALUES)

    def change(_kind: str, data: dict[str, Any]) -> None:
        nonlocal numbers
        if (at := next(numbers, None)) is None:  # the log is written once more
            numbers = iter(range(1, count))
            at = 0
        places = [*_places(data)] if at == number else []
        if places:
            inside, name = places[int(drawn[0] * len(places))]
            inside[name] = copy.deepcopy(drawn[2])
            if drawn[1] < 0.2 and isinstance(inside, dict):
                del inside[name]

    return change


@pytest.mark.long
@for_each("seed", range(SEEDS))
def test_no_reader_fails_over_what_an_entry_says(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    roots = [path for path in sorted(LOGS.glob("*.jsonl")) if path.name.count(".") == 1]
    original = chance.choice(roots)
    count = len(original.read_bytes().splitlines())
    log = altered(original, tmp_path / "a.jsonl", _at_random(chance, count))
    ended = {reader: outcome_of(reader, log, original) for reader in READERS}
    assert not {reader: said for reader, (code, said) in ended.items() if code == FAULT}
