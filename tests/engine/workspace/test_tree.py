"""Trees and their lists."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import FolderRefused
from refold.engine.workspace import forms
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from tests.support.folders import entries
from tests.support.loops import for_each

OID = "a" * 40
SHA = "b" * 64


@given(entries())
def test_a_tree_comes_back_from_its_list(files: list[TreeEntry]) -> None:
    """Whatever is in it; equal trees have equal digests, whatever the order."""
    tree = FileTree.of([Base("", OID)], files)

    assert FileTree.of_text(tree.text) == tree
    assert FileTree.of([Base("", OID)], reversed(files)).digest == tree.digest


@given(entries(), st.data())
def test_two_trees_have_two_digests(files: list[TreeEntry], data: st.DataObject) -> None:
    """One file less is another tree."""
    tree = FileTree.of([], files)
    left = data.draw(st.sampled_from(files)) if files else None
    other = FileTree.of([], [each for each in files if each is not left])

    assert (other.digest == tree.digest) == (left is None)


def _lines(*lines: Any) -> str:
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def _own(path: str, mode: str = "100644") -> list[Any]:
    return [path, mode, "git", OID, 3, SHA]


@for_each(
    "text, named",
    [
        (_lines(_own("../x")), "../x"),
        (_lines(_own("/etc/passwd")), "/etc/passwd"),
        (_lines(_own(".git/hooks/pre-commit")), ".git/hooks/pre-commit"),
        (_lines(_own("a"), _own("a")), "same path twice"),
        (_lines(_own("b"), _own("a")), "in order"),
        (_lines(_own("l", "120000"), _own("l/passwd")), "l/passwd"),
        (_lines(_own("f"), _own("f/g")), "f/g"),
        (_lines(_own("a", "104755")), "104755"),
        (_lines(["a", "100644", "git", "../../x", 3, SHA]), "../../x"),
        (_lines(["a", "100644", "git", OID[:-1], 3, ""]), OID[:-1]),
        (_lines(["a", "100644", "git", OID, -1, SHA]), "-1"),
        (_lines(["a", "100644", "git", OID, None, SHA]), "None"),
        (_lines(["a", "100644", "git", OID, 3, SHA[1:]]), OID),
        (_lines(["a", "100644", "out", "key", 3, SHA]), "key"),
        (_lines(["a", "100644", "out", "because", 3, ""]), "because"),
        (_lines(["a", "100644", "run", "x", 3, ""]), "run"),
        (_lines(["", OID], ["", OID]), "twice"),
        (_lines(["..", OID]), ".."),
        (_lines(["", "HEAD"]), "HEAD"),
        (_lines(_own("a"), ["", OID]), "other words"),
        (_lines({"path": "a"}), "path"),
        (json.dumps(_own("a")) + "\n", "other words"),
        ("[\n", "JSON"),
    ],
)  # fmt: skip
def test_a_list_that_names_what_it_may_not_is_refused_by_name(text: str, named: str) -> None:
    """Nothing is made of any of it."""
    with pytest.raises(FolderRefused, match=named.replace(".", r"\.")):
        FileTree.of_text(text)


def test_a_list_without_end_is_refused_before_it_is_read() -> None:
    """Ten million lines would take gigabytes."""
    with pytest.raises(FolderRefused, match="entries"):
        FileTree.of_text("\n" * (forms.LINES_MAX + 1))


def test_a_whole_tree_has_the_files_of_its_bases_and_what_differs() -> None:
    """Gone files are not in it, files of inner repositories are."""
    tree = FileTree.of(
        [Base("", OID), Base("sub", OID)],
        [TreeEntry("gone", "", "gone"), TreeEntry("new", "100644", "git", OID, 3, SHA)],
    )
    files = [
        TreeEntry("gone", "100644", "git", OID), TreeEntry("sub", "160000", "commit", OID),
        TreeEntry("sub/x", "100755", "git", OID),
    ]  # fmt: skip

    whole = tree.whole({each.path: each for each in files})

    assert [entry.path for entry in whole.differs] == ["new", "sub", "sub/x"]


def test_what_stands_below_a_link_is_refused_though_base_and_list_each_are_sound() -> None:
    """Writing it would follow the link out of the folder."""
    tree = FileTree.of([Base("", OID)], [TreeEntry("a", "120000", "git", OID, 4, SHA)])

    with pytest.raises(FolderRefused, match="a/passwd"):
        tree.whole({"a/passwd": TreeEntry("a/passwd", "100644", "git", OID)})
