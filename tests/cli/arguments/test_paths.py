"""Paths on the command line."""

from pathlib import Path

import click
import pytest

from refold.cli.arguments.paths import UserPath
from refold.cli.arguments.run_names import RUN
from refold.cli.group import COMMANDS, refold


def test_every_path_of_the_command_line_may_begin_at_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Shells leave `~` as it is in `--log=~/x`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    commands = [refold.get_command(click.Context(refold), name) for name in COMMANDS]
    kinds = {
        param.type
        for command in commands
        if command is not None
        for param in command.params
        if isinstance(param.type, click.Path) and param.type is not RUN  # a folder is its run
    }

    assert len(kinds) > 4
    assert all(isinstance(kind, UserPath) for kind in kinds)
    assert {Path(str(kind.convert("~/", None, None))) for kind in kinds} == {tmp_path}
