"""Agents that do their worst are replayed and forked, and killed meanwhile: nothing is changed.

In a sandbox, of all that the user has; without one, of the folder with its repository.
"""

import random
from pathlib import Path
from typing import Final

import pytest

from refold.proxy.copies.sandbox import SandboxRefused, has_layers
from tests.support.hostile import EVERYWHERE, SANDBOXED, Home, replayed

_REPLAYS: Final = 100
"""Of both ways each."""


@pytest.fixture(params=[True, False], ids=["sandbox", "elsewhere"])
def in_sandbox(request: pytest.FixtureRequest) -> bool:
    """With a sandbox, and as on a system without one."""
    try:
        is_here = has_layers()
    except SandboxRefused:
        is_here = False
    if request.param and not is_here:
        pytest.skip("no sandbox with layers here")
    return bool(request.param)


@pytest.mark.long
def test_nothing_is_changed_by_a_hundred_replays_and_forks(
    tmp_path: Path, *, in_sandbox: bool
) -> None:
    """Each command is carried out to its end once; the others are killed at a random moment."""
    home = Home.made(tmp_path / "all")
    logs = home.recorded({**EVERYWHERE, **(SANDBOXED if in_sandbox else {})})
    before = home.held(is_all=in_sandbox)
    chance = random.Random(7)
    left: list[tuple[str, float | None]] = [(name, None) for name in logs]
    left += [(chance.choice([*logs]), chance.uniform(0.1, 2)) for _ in range(_REPLAYS - len(logs))]

    for number, (name, seconds) in enumerate(left):
        ended = replayed(
            home, logs[name], tmp_path / f"{number}.jsonl", has_sandbox=in_sandbox,
            is_fork=number % 4 == 3, seconds=seconds,
        )  # fmt: skip
        assert seconds is not None or f"in a copy of {home.project}" in ended, (name, ended)

    after = home.held(is_all=in_sandbox)
    assert {
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    } == set()
