"""The command line in this process, as from another folder with another environment."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from refold.cli.group import refold


def refold_here(*words: object, folder: Path, environment: Mapping[str, str]) -> Result:
    """Run `refold` in a folder, with these variables alone; a process of its own costs 0.4 s."""
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        for name in {*os.environ} - {*environment}:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        return CliRunner().invoke(refold, [str(each) for each in words])
