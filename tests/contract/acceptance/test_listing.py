"""Every numbered check of the five documents, and of the engine under them, has a test."""

import re
from pathlib import Path
from typing import Final

CHECKS: Final = range(1, 129)
_TEST: Final = re.compile(r"^(?:async )?def (test_(\d{3})_\w+)\(", re.MULTILINE)
_SKIPPED: Final = re.compile(r"pytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)\b")


def _texts() -> dict[str, str]:
    here = Path(__file__)
    files = (path for path in sorted(here.parent.glob("test_*.py")) if path != here)
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def test_every_check_has_a_test_named_after_its_number() -> None:
    """`test_NNN_…`; those that are missing are named."""
    found = {int(number) for text in _texts().values() for _, number in _TEST.findall(text)}

    assert [number for number in CHECKS if number not in found] == []
    assert found <= set(CHECKS)


def test_a_check_is_in_the_file_of_its_document() -> None:
    """So that a reader finds it, and no number is used twice for different things."""
    files = {
        "test_000_dispatch_subagent.py": range(1, 29),
        "test_001_dispatch_subagents.py": range(29, 54),
        "test_002_subagent_dispatch.py": range(54, 73),
        "test_003_subagent.py": range(73, 94),
        "test_004_spawn.py": range(94, 119),
        "test_engine.py": range(119, 129),
    }

    for name, text in _texts().items():
        outside = [test for test, number in _TEST.findall(text) if int(number) not in files[name]]
        assert outside == [], name


def test_no_check_is_skipped() -> None:
    """A check that does not run says nothing."""
    assert [name for name, text in _texts().items() if _SKIPPED.search(text)] == []
