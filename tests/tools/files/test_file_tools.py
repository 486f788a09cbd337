import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from refold.engine.errors import ToolError, ToolRefused
from refold.engine.ports.ports import CallContext, Tool
from refold.engine.ports.programs import load
from refold.tools.files.file_tools import FileText, TextMatch, file_tool, file_tools

CONTEXT = CallContext(call="0#1", run_id="r", depth=0, origin="")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "README.md").write_text("one\ntwo\nthree\n")
    (tmp_path / "src" / "b.py").write_text("def b():\r\n    return 1\r\n")
    (tmp_path / "src" / "a.py").write_text("def a(): ...\nx = 'def'\n")
    (tmp_path / "src" / "deep" / "c.txt").write_text("no definition")
    (tmp_path / "data.bin").write_bytes(b"def\0def")
    (tmp_path / "link.py").symlink_to("src/a.py")
    return tmp_path


def call(folder: Path, name: str, arguments: dict[str, Any], **caps: int) -> Any:
    """Call a tool as the engine does: JSON in, a result that went through bytes out."""
    [found] = [each for each in file_tools(folder, **caps) if each.name == name]
    written = orjson.loads(orjson.dumps(found.dump(found.call(arguments, CONTEXT))))
    return found.load(written)


def listed(folder: Path, arguments: dict[str, Any], **caps: int) -> list[str]:
    return [entry.path for entry in call(folder, "list_files", arguments, **caps).entries]


def test_the_tools_read_and_are_sorted(folder: Path) -> None:
    """Three leaf tools that change nothing."""
    tools = file_tools(folder)

    assert [each.name for each in tools] == ["list_files", "read_file", "search_text"]
    assert {each.effect for each in tools} == {"reads"}
    assert all(each.description for each in tools)


def test_a_listing_is_sorted_and_says_what_is_there(folder: Path) -> None:
    """Files with their size, links as links."""
    found = call(folder, "list_files", {})

    assert [(entry.path, entry.kind, entry.size_bytes) for entry in found.entries] == [
        ("README.md", "file", 14),
        ("data.bin", "file", 7),
        ("link.py", "link", None),
        ("src", "folder", None),
    ]
    assert not found.truncated


def test_a_listing_can_be_deep_and_narrow(folder: Path) -> None:
    """A pattern is for names; with a slash, for paths below the folder."""
    assert listed(folder, {"path": "src"}) == ["src/a.py", "src/b.py", "src/deep"]
    assert listed(folder, {"recursive": True, "pattern": "*.py"}) == [
        "link.py",
        "src/a.py",
        "src/b.py",
    ]
    assert listed(folder, {"path": "src", "recursive": True, "pattern": "deep/*"}) == [
        "src/deep/c.txt"
    ]


def test_a_long_listing_is_cut_and_says_so(folder: Path) -> None:
    """Only where more was there."""
    assert not call(folder, "list_files", {}, max_entries=4).truncated
    cut = call(folder, "list_files", {}, max_entries=3)

    assert len(cut.entries) == 3
    assert cut.truncated


def test_names_that_are_no_text_are_counted(folder: Path) -> None:
    """A log could not hold them."""
    with open(os.fsencode(folder) + b"/src/\xff", "wb"):  # noqa: PTH123  a path of bytes
        pass

    found = call(folder, "list_files", {"path": "src"})

    assert found.unnameable == 1
    assert len(found.entries) == 3


def test_a_file_is_read_whole(folder: Path) -> None:
    """Text as it is, line ends included."""
    assert call(folder, "read_file", {"path": "src/b.py"}) == FileText(
        path="src/b.py", text="def b():\r\n    return 1\r\n", start_line=1, size_bytes=24
    )


@pytest.mark.parametrize(
    ("arguments", "text", "next_line"),
    [
        ({"max_lines": 1}, "one\n", 2),
        ({"start_line": 2, "max_lines": 1}, "two\n", 3),
        ({"start_line": 3}, "three\n", None),
        ({"start_line": 3, "max_lines": 9}, "three\n", None),
        ({"start_line": 4}, "", None),
        ({"start_line": 99}, "", None),
    ],
)
def test_a_file_is_read_in_pieces(
    folder: Path, arguments: dict[str, Any], text: str, next_line: int | None
) -> None:
    """`next_line` is where to go on; none at the end of the file."""
    found = call(folder, "read_file", {"path": "README.md", **arguments})

    assert (found.text, found.next_line, found.truncated) == (text, next_line, False)


@pytest.mark.parametrize(("most", "lines"), [(7, 1), (8, 2), (9, 2)])
def test_a_line_that_just_fits_is_read(folder: Path, most: int, lines: int) -> None:
    """Of one byte more, that line is the next."""
    (folder / "two.txt").write_text("one\ntwo\n")

    found = call(folder, "read_file", {"path": "two.txt"}, max_file_bytes=most)

    assert found.text == "one\ntwo\n"[: 4 * lines]
    assert found.next_line == (2 if lines == 1 else None)


def test_reading_on_gives_the_whole_file(folder: Path) -> None:
    """Whatever the cap, following `next_line` misses no line."""
    lines = [f"{number}" * (number % 7) + "\n" for number in range(200)]
    (folder / "long.txt").write_text("".join(lines))
    text = ""
    at: int | None = 1

    while at is not None:
        piece = call(folder, "read_file", {"path": "long.txt", "start_line": at}, max_file_bytes=50)
        assert len(piece.text) <= 50
        assert piece.truncated is (piece.next_line is not None)
        text += piece.text
        at = piece.next_line

    assert text == "".join(lines)


@pytest.mark.parametrize(
    ("text", "next_line"), [("x" * 100, None), ("x" * 10 + "\nnext\n", 2), ("x" * 10 + "\n", None)]
)
def test_behind_a_line_over_the_cap_is_the_next_line_or_none(
    folder: Path, text: str, next_line: int | None
) -> None:
    """Whether the line ends in the file or not, or just at the cap."""
    (folder / "wide.txt").write_text(text)

    cut = call(folder, "read_file", {"path": "wide.txt"}, max_file_bytes=10)

    assert (cut.text, cut.truncated, cut.next_line) == ("x" * 10, True, next_line)


def test_a_line_over_the_cap_is_cut_and_the_next_one_follows(folder: Path) -> None:
    """It says that something is missing."""
    (folder / "wide.txt").write_text("x" * 100 + "\nnext\n")

    cut = call(folder, "read_file", {"path": "wide.txt"}, max_file_bytes=10)
    rest = call(folder, "read_file", {"path": "wide.txt", "start_line": 2}, max_file_bytes=10)

    assert (cut.text, cut.truncated, cut.next_line) == ("x" * 10, True, 2)
    assert (rest.text, rest.truncated, rest.next_line) == ("next\n", False, None)


@pytest.mark.parametrize(
    ("path", "more", "code"),
    [
        ("data.bin", {}, "binary"),
        ("README.md", {"start_line": 0}, "arguments"),
        ("README.md", {"max_lines": 0}, "arguments"),
        ("link.py", {}, "not_readable"),
        ("../x", {}, "outside_root"),
    ],
)
def test_what_cannot_be_read_is_a_tool_error(
    folder: Path, path: str, more: dict[str, Any], code: str
) -> None:
    """With a code of its own."""
    with pytest.raises(ToolError) as refused:
        call(folder, "read_file", {"path": path, **more})

    assert refused.value.code == code


def test_bytes_that_are_no_utf8_are_replaced(folder: Path) -> None:
    """A log holds text only."""
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")

    assert call(folder, "read_file", {"path": "latin.txt"}).text == "caf\ufffd\n"


def test_a_search_finds_lines_in_order(folder: Path) -> None:
    """By path, then by line; binary files and links are left out."""
    found = call(folder, "search_text", {"pattern": "^def|'def'"})

    assert found.matches == (
        TextMatch(path="src/a.py", line=1, text="def a(): ..."),
        TextMatch(path="src/a.py", line=2, text="x = 'def'"),
        TextMatch(path="src/b.py", line=1, text="def b():"),
    )
    assert (found.files, found.truncated, found.partial) == (4, False, ())


def test_a_search_can_be_narrow(folder: Path) -> None:
    """To one file, a folder, a shell pattern."""
    only = {"pattern": "def", "path": "src/b.py"}
    below = {"pattern": "def", "path": "src", "glob": "*.txt"}

    assert [match.path for match in call(folder, "search_text", only).matches] == ["src/b.py"]
    assert [match.path for match in call(folder, "search_text", below).matches] == [
        "src/deep/c.txt"
    ]


def test_a_search_stops_at_its_caps_and_says_so(folder: Path) -> None:
    """Matches, bytes of a file, characters of a line."""
    (folder / "z.txt").write_text("y" * 300 + "\nzebra\n")
    (folder / "w.txt").write_text(" " * 5000 + "zebra\n")

    many = call(folder, "search_text", {"pattern": "def"}, max_matches=2)
    exact = call(folder, "search_text", {"pattern": "zebra"}, max_matches=1)
    short = call(folder, "search_text", {"pattern": "zebra"}, max_file_bytes=200)

    assert (len(many.matches), many.truncated) == (2, True)
    assert ([match.path for match in exact.matches], exact.partial) == (["z.txt"], ("w.txt",))
    assert not exact.truncated
    assert (short.matches, short.partial) == ((), ("w.txt", "z.txt"))


def test_only_file_tools_are_made_by_name(folder: Path) -> None:
    """A reference of another version may name one that is not there."""
    caps = {"max_file_bytes": 1, "max_entries": 1, "max_matches": 1}
    with pytest.raises(ToolRefused, match="list_files, read_file, search_text"):
        file_tool("write_file", root=str(folder), **caps)


def test_a_search_reads_64_mib_and_says_that_it_stopped(tmp_path: Path) -> None:
    """Of all files together, whatever may be read of each."""
    size = 40 * 1024 * 1024
    for name in "uvw":
        (tmp_path / name).write_text("zebra\n" + "horse\n" * 2000)
        os.truncate(tmp_path / name, size)

    found = call(tmp_path, "search_text", {"pattern": "zebra$"}, max_file_bytes=size)

    assert [match.path for match in found.matches] == ["u", "v"]
    assert (found.files, found.partial, found.truncated) == (2, ("u", "v"), True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_text", {"pattern": "("}),
        ("search_text", {"pattern": "(a+)+$"}),
        ("search_text", {"pattern": "(?:(?:){65535}){65535}"}),
        ("search_text", {"pattern": "a", "glob": "[" * 60_000}),
        ("list_files", {"pattern": "[" * 60_000}),
    ],
)
def test_a_pattern_that_is_not_taken_is_a_tool_error(
    folder: Path, name: str, arguments: dict[str, Any]
) -> None:
    """It says why, and nothing was searched."""
    with pytest.raises(ToolError) as refused:
        call(folder, name, arguments)

    assert refused.value.code == "pattern"


def test_a_reference_makes_the_same_tool(folder: Path) -> None:
    """In another process: the factory, the root and the caps."""
    for each in file_tools(folder, max_entries=2):
        assert each.reference is not None
        again: Tool = load(each.reference)

        assert (again.name, again.parameters) == (each.name, each.parameters)
        assert again.reference == each.reference


def test_a_root_that_is_no_folder_is_refused(folder: Path) -> None:
    """When the tools are made; caps are positive."""
    with pytest.raises(ToolRefused, match="is not a folder"):
        file_tools(folder / "README.md")
    with pytest.raises(ToolRefused, match="positive integer"):
        file_tools(folder, max_entries=0)
