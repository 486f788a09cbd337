"""The scripts of `.ci/` name tests that are there, and one runs every long test."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_long_test_is_run_by_the_nightly_script() -> None:
    """One that no script runs is red, and nobody sees it."""
    script = (ROOT / ".ci" / "nightly").read_text(encoding="utf-8")

    assert re.search(r"^\S*pytest [^|&;]*-m long tests$", script, re.MULTILINE)


def test_what_a_script_names_is_there() -> None:
    """And its files are in the folder that it names."""
    named = {
        f"{folder}{name}"
        for script in (ROOT / ".ci").iterdir()
        for folder, names, rest in re.findall(
            r"\b(tests/[\w/]*)(?:\{([\w,]+)\}|([\w.]*))", script.read_text(encoding="utf-8")
        )
        for name in (names or rest).split(",")
    }

    assert len(named) > 10
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []
