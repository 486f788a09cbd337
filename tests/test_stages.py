"""Each long test is run by a script of `.ci/`: one that none runs is red, and nobody sees it."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = re.compile(r"mark\.long|\bsome\(")
"""The mark, or what puts it on some of the parameters (`tests/support/loops.py`)."""


def long_tests(path: Path) -> Iterator[str]:
    """Yield the id of each test of a file that is marked `long`, or has parameters that are."""
    text = path.read_text(encoding="utf-8")
    if not LONG.search(text):  # nor need be parsed
        return
    tree = ast.parse(text)
    name = path.relative_to(ROOT).as_posix()
    whole = any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and "mark.long" in ast.unparse(node.value)
        for node in tree.body
    )
    constants = {  # lists of parameters
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and LONG.search(ast.unparse(node))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test"
        ):
            marks = " ".join(map(ast.unparse, node.decorator_list))
            if whole or LONG.search(marks) or constants & set(re.findall(r"\w+", marks)):
                yield f"{name}::{node.name}"


def selected() -> list[str]:
    """Return the paths and ids of which the scripts run the long tests."""
    found = []
    for script in (ROOT / ".ci").iterdir():
        text = script.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^.*\bpytest .*$", text, re.MULTILINE):
            words = shlex.split(line.replace("$", ""), comments=True)
            if "-m" in words and re.search(r"(?<!not )\blong\b", words[words.index("-m") + 1]):
                found += [word for word in words if word.startswith("tests")]
    return found


def test_each_long_test_is_run_by_a_script() -> None:
    chosen = selected()
    tests = [each for path in sorted(ROOT.glob("tests/**/test_*.py")) for each in long_tests(path)]

    def is_run(test: str) -> bool:
        return any(test == each or test.startswith((f"{each}/", f"{each}::")) for each in chosen)

    assert len(tests) > 100
    assert [each for each in tests if not is_run(each)] == []
