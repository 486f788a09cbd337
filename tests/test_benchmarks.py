"""The benchmarks run: what nobody runs by chance breaks without a sound."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.parametrize("section", ["log", "watched", "goals"])
def test_a_section_prints_its_table(section: str) -> None:
    """In a process of its own, whose servers end with it; its figures are not looked at."""
    words = [sys.executable, "-m", "tests.benchmarks", section, "--rounds", "1"]

    done = subprocess.run(
        words, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True
    )

    assert " x " in done.stdout
