"""Paths as texts, and which paths a log may name."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.canonical import encode
from refold.engine.errors import FolderRefused
from refold.engine.workspace import paths
from tests.support.loops import for_each

NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name)


@given(NAMES)
def test_every_name_of_a_file_is_a_text_of_a_log_and_comes_back(name: bytes) -> None:
    """Names are bytes: not UTF-8, newlines, backslashes."""
    path = os.fsdecode(name)

    text = paths.as_text(path)

    encode(text)
    assert paths.of_text(text) == path


@given(NAMES, NAMES)
def test_two_names_are_never_one_text(one: bytes, other: bytes) -> None:
    """Else two files of a folder were one in a log."""
    same = paths.as_text(os.fsdecode(one)) == paths.as_text(os.fsdecode(other))

    assert same == (one == other)


@for_each("text", ["a\\", "\\x41", "\\xc3\\xa4", "a\\n", "\\xFF"])
def test_another_spelling_of_a_path_is_refused(text: str) -> None:
    """One path, one text."""
    with pytest.raises(FolderRefused):
        paths.of_text(text)


@for_each(
    "path",
    [
        "", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", ".git/hooks/post-checkout",
        "sub/.GIT/config", ".git", ".git./x", "git~1/config", ".g\u200dit/config", ".git::$DATA/x",
        "a\0b", "n" * 256, "/".join(["n" * 200] * 30),
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused_by_name(path: str) -> None:
    """A log may come from anybody."""
    with pytest.raises(FolderRefused):
        paths.checked(path)


@for_each("path", ["a", "a/b", ".gitignore", ".github/x", "a..b", "n" * 255, "\n"])
def test_other_paths_are_not(path: str) -> None:
    """Edges of the rules."""
    assert paths.checked(path) == path


def test_many_names_are_counted() -> None:
    """As a log holds them."""
    assert paths.names_of(["a\\", "\udcff"]) == "a\\\\, \\xff"
    assert paths.names_of("abcdefghij") == "a, b, c, d, e, f, g, h and 2 more"
