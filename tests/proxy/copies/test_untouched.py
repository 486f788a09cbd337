"""Agents that do their worst run again, and are killed meanwhile: nothing is changed.

In a sandbox, of all that the user has; without one, of the folder with its repository.
"""

from pathlib import Path
from typing import Final

import pytest

from refold.proxy.copies.sandbox import SandboxRefused, no_layers
from tests.support.hostile import changed_by

_REPLAYS: Final = 100
"""Of both ways each."""


@pytest.fixture(params=[True, False], ids=["sandbox", "elsewhere"])
def in_sandbox(request: pytest.FixtureRequest) -> bool:
    """With a sandbox, and as on a system without one."""
    try:
        is_here = not no_layers()
    except SandboxRefused:
        is_here = False
    if request.param and not is_here:
        pytest.skip("no sandbox with layers here")
    return bool(request.param)


@pytest.mark.long
def test_nothing_is_changed_by_a_hundred_replays_forks_and_resumes(
    tmp_path: Path, *, in_sandbox: bool
) -> None:
    """Each command is carried out to its end once; the others are killed at a random moment."""
    assert changed_by(tmp_path, has_sandbox=in_sandbox, count=_REPLAYS) == set()
