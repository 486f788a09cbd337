"""The mutation run over our own lines finds a fault that no test sees.

`python -m tests.mutants` is the run itself.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from tests.mutants.__main__ import EXPLAINED, ROOTS
from tests.mutants.coverage_map import Checks
from tests.mutants.edits import _shown, code_of, mutants

SOURCE: Final = '''
    """A file."""

    LIMIT: int = 3

    def within(depth: int, *, limit: int = LIMIT) -> bool:
        """Whether there is room."""
        if depth < 0:
            raise ValueError("depth is 0 or more")
        return depth < limit and not never(depth, limit=limit)

    def never(depth, limit):
        return False
'''
TESTS: Final = """
    from engine.room import within

    def test_001_there_is_room_below_the_limit():
        assert within(2)
        assert not within(4)
"""
_PROJECT: Final = {
    "engine/__init__.py": "",
    "engine/room.py": SOURCE,
    "tests/test_room.py": TESTS,
    "pyproject.toml": """
        [tool.pytest.ini_options]
        addopts = ["--import-mode=importlib"]
        pythonpath = ["."]
    """,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of one file and one check."""
    for name, text in _PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    return tmp_path


def test_each_edit_is_of_one_line_and_its_code_is_compiled(root: Path) -> None:
    """Comparisons, conditions, constants, statements, arguments, results; no words or types."""
    path = root / "engine/room.py"
    found = mutants(root, path)

    assert [(one.line, one.new) for one in found if one.line in (8, 9, 10)] == [
        (8, "if True:"),
        (8, "if False:"),
        (8, "if depth <= 0:"),
        (8, "if depth < 1:"),
        (9, "pass"),
        (10, "return None"),
        (10, "return depth < limit or not never(depth, limit=limit)"),
        (10, "return not never(depth, limit=limit)"),
        (10, "return depth < limit"),
        (10, "return depth <= limit and (not never(depth, limit=limit))"),
        (10, "return depth < limit and never(depth, limit=limit)"),
        (10, "return depth < limit and (not never(depth))"),
    ]
    assert [(one.line, one.is_inside) for one in found if one.line < 8] == [(4, False)]
    space: dict[str, object] = {}
    (edited,) = (one for one in found if one.new == "LIMIT: int = 4")
    exec(code_of(root, edited, str(path)), space)
    assert space["LIMIT"] == 4


def test_a_check_names_a_line_by_a_word_that_few_share(root: Path) -> None:
    """Of what is edited in it."""
    checks = Checks(root, ["return depth < limit", "return depth"])
    test = "tests/test_room.py::test_001_there_is_room_below_the_limit"

    assert checks.that_name("return depth < limit", "return depth <= limit", [test]) == [test]
    assert checks.that_name("return depth < limit", "return count < limit", [test]) == []
    assert checks.that_name("return limit", "return None", ["tests/test_other.py::test_it"]) == []


@pytest.mark.long
def test_what_is_explained_is_a_line_of_ours_and_has_a_reason() -> None:
    """And each test that a reason names is there."""
    above = Path(__file__).parents[2]
    explained = json.loads(EXPLAINED.read_text(encoding="utf-8"))
    quoted = {name.partition("  ->  ")[0] for name in explained}
    files = {name.partition(":")[0] for name in quoted}
    paths = [path for root in ROOTS for path in (above / root).rglob("*.py") if path.name in files]
    lines = {
        f"{path.name}: {_shown(node)}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.stmt)
    }
    tests = "".join(path.read_text("utf-8") for path in (above / "tests").rglob("test_*.py"))
    named = {name for reason in explained.values() for name in re.findall(r"test_\w+", reason)}

    assert sorted(quoted - lines) == []
    assert sorted(name for name in named if f"def {name}(" not in tests) == []
    assert all(len(reason) > 10 for reason in explained.values())


@pytest.mark.long
def test_a_fault_that_no_test_sees_is_printed(root: Path) -> None:
    """The others are killed: by the check that names the line, or in the second round."""

    def told(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutants", *words, "--root", str(root)],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    told("map", "map.json", "tests")
    both, checked = told("run", "map.json"), told("run", "map.json", "--checks")

    assert "engine/room.py:4: survived\n  - LIMIT: int = 3\n  + LIMIT: int = 4\n" in both
    edits = len(mutants(root, root / "engine/room.py"))
    found = re.search(
        r"^killed +(\d+)\nsurvived +(\d+)\nall +(\d+) +(\d+) not expl", both, re.MULTILINE
    )
    assert found is not None, both
    killed, survived, count, unexplained = map(int, found.groups())
    assert (killed + survived, survived) == (count, unexplained)
    assert 3 < killed < count <= edits
    assert "checks that name it: 001; killed by: none" in checked
    assert re.search(r"^killed by its check +\d+$", checked, re.MULTILINE)
