"""`parse_source` counts what Python files hold, below its root only, and never runs them."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.ports.programs import load
from refold.programs.parsing import largest, parse_tool


def _parse(root: Path, *paths: str) -> dict[str, Any]:
    found: dict[str, Any] = parse_tool(root=str(root))(paths=list(paths))
    return found


def test_it_counts_files_lines_functions_classes_and_imports(sources: Path) -> None:
    found = _parse(sources, "alpha.py", "beta/__init__.py", "beta/deep.py")

    assert {name: found[name] for name in ("files", "lines", "functions", "classes")} == {
        "files": 3,
        "lines": 13,
        "functions": 2,
        "classes": 1,
    }
    assert found["imports"] == {"json": 1, "os": 2}
    assert found["largest"][0] == {"name": "A.long", "file": "beta/deep.py", "line": 2, "lines": 4}


@pytest.mark.parametrize(
    "source",
    ["if x:\n    {}", "try:\n    {}\nexcept E:\n    pass", "match x:\n    case 1:\n        {}",
     "for a in b:\n    pass\nelse:\n    {}", "with a:\n    {}", "class B:\n    {}"],
)  # fmt: skip
def test_functions_are_found_wherever_a_statement_may_stand(source: str, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(source.format("def inner(): pass"))

    assert _parse(tmp_path, "m.py")["functions"] == 1


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("broken.py", b"def (:\n", "SyntaxError"),
        ("nul.py", b"a = 1\0\n", ""),
        ("deep.py", b"(" * 100_000, ""),
        ("bytes.py", b"# coding: nonsense\n", "SyntaxError"),
    ],
)
def test_what_cannot_be_parsed_is_said_and_stops_nothing(
    name: str, content: bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.py").write_text("def f(): pass\n")

    found = _parse(tmp_path, name, "good.py")

    assert found["functions"] == 1
    assert [each["file"] for each in found["unparsed"]] == [name]
    assert why in found["unparsed"][0]["why"]


@pytest.mark.parametrize("path", ["../secret.py", "/etc/passwd", "link.py"])
def test_nothing_outside_the_root_is_read(path: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.py").write_text("def secret(): pass\n")
    (root / "link.py").symlink_to(tmp_path / "secret.py")

    found = _parse(root, path)

    assert found["functions"] == 0
    assert len(found["unparsed"]) == 1


def test_another_process_finds_the_same_tool(sources: Path) -> None:
    tool = parse_tool(root=str(sources))
    assert tool.reference is not None

    again = load(tool.reference)

    assert again(paths=["alpha.py"]) == tool(paths=["alpha.py"])


def test_the_largest_come_in_an_order_of_their_own() -> None:
    found = [
        {"name": name, "file": file, "line": 1, "lines": size}
        for name, file, size in (("b", "y", 2), ("c", "x", 2), ("a", "z", 9))
    ]

    assert [each["name"] for each in largest(found, 3)] == ["a", "c", "b"]
