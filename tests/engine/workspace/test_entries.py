"""What the entries of a folder say, read strictly and folded."""

import contextlib
import copy
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import FolderRefused
from refold.engine.workspace.entries import (
    FileChange,
    FolderChanged,
    FolderEntry,
    FolderLost,
    FolderStarted,
    FolderState,
    Mode,
    Repository,
    read_entry,
)
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from tests.support.folders import entries, kept
from tests.support.loops import for_each

OID = "a" * 40
REFS = f"{OID} refs/heads/main refs/remotes/o/main\n{OID} refs/remotes/o/HEAD refs/remotes/o/main\n"
TEXTS = {
    "logs/HEAD": f"{'0' * 40} {OID} Ann <a@b> 1 +0000\tcommit: x\n",
    "MERGE_HEAD": f"{OID}\n",
    "rebase-merge/interactive": "",
}
OWN = kept("a", b"own")
BASED = TreeEntry("a", "100644", "git", OID)
_BACK = FileChange("a", OWN, BASED, added=1, removed=2, calls=("0/1#2",))
START = FolderStarted(
    "/home/me/project",
    "src",
    FileTree.of([Base("", OID)], [OWN]),
    (Repository("", OID, "refs/heads/main", REFS, (), texts=TEXTS, passed=("a",)),),
    12,
)


@for_each(
    "entry",
    [
        START,
        attrs.evolve(START, umask="027", modes=(Mode("", "040555"), Mode("src/a", "100600"))),
        FolderChanged((_BACK,), ("0/1#2",)),
        FolderChanged((), (), START.repositories, is_end=True),
        FolderLost("the disk is full"),
    ],
)
def test_an_entry_comes_back_from_its_data(entry: FolderEntry) -> None:
    """Every member."""
    assert read_entry(entry.as_event().data) == entry


@given(st.lists(entries(), min_size=1, max_size=4))
def test_a_tree_and_its_changes_are_the_next_tree(trees: list[list[TreeEntry]]) -> None:
    """The law of folding: the differences of each two, in any order, lead to the last tree."""
    first, *later = (FileTree.of([Base("", OID)], files) for files in trees)
    state = FolderState()
    state.apply(attrs.evolve(START, tree=first, repositories=()))
    before, touched = first, set[str]()
    for after in later:
        changes = [
            FileChange(path, before.by_path.get(path), now)
            for path in before.by_path.keys() | after.by_path.keys()
            if before.by_path.get(path) != (now := after.by_path.get(path))
        ]
        state.apply(FolderChanged(tuple(changes), is_end=after is later[-1]))
        before, touched = after, touched | {change.path for change in changes}

    assert state.tree.whole({}) == before.whole({})
    assert ({*state.states}, state.is_ended) == (touched, bool(later))


def test_a_file_of_the_base_goes_and_comes_back() -> None:
    """The tree is then the first one again."""
    tree = FileTree.of([Base("", OID)], [])
    gone = FileTree.of(tree.bases, [TreeEntry("a", "", "gone")])
    state = FolderState()
    state.apply(attrs.evolve(START, tree=tree))
    state.apply(FolderChanged((FileChange("a", BASED, None),)))
    assert state.tree == gone

    state.apply(FolderChanged((FileChange("a", None, BASED),)))
    assert state.tree == tree


def test_a_folder_has_one_start() -> None:
    """A log cannot say two things of one folder."""
    state = FolderState()
    state.apply(START)

    with pytest.raises(FolderRefused, match="one start"):
        state.apply(START)


_START: dict[str, Any] = START.as_event().data
_REPOSITORY: dict[str, Any] = _START["repositories"][0]


@for_each(
    "data",
    [
        {},
        {"when": "later"},
        {**_START, "path": "home"},
        {**_START, "modes": [["../x", "040555"]]},
        {**_START, "modes": [["x", "104555"]]},
        {**_START, "modes": [["x", "100855"]]},
        {**_START, "umask": "777"},
        {**_START, "below": "../x"},
        {**_START, "repositories": [{**_REPOSITORY, "commit": "--help"}]},
        {**_START, "repositories": [{**_REPOSITORY, "branch": "refs/../../x"}]},
        {**_START, "repositories": [{**_REPOSITORY, "refs": f"{OID} HEAD"}]},
        {**_START, "repositories": [{**_REPOSITORY, "refs": f"{OID} refs/remotes/o/HEAD HEAD\n"}]},
        {**_START, "repositories": [{**_REPOSITORY, "texts": {"config": ""}}]},
        {**_START, "repositories": [{k: v for k, v in _REPOSITORY.items() if k != "texts"}]},
        {**_START, "repositories": [{**_REPOSITORY, "texts": {"MERGE_MSG": "\ud800"}}]},
        {**_START, "repositories": [{**_REPOSITORY, "index": '["../x","","",0,""]\n'}]},
        *(
            {**_START, "repositories": [{**_REPOSITORY, "settings": settings}]}
            for settings in (
                {"core.pager": "x"},
                {"alias.x": "!x"},
                {"user.name": 1},
                {"user.name": "a\0b"},
                {"user.name": "\ud800"},
                {"user.name": "a\nb"},
                {"user.name": "a" * 1001},
            )
        ),
        {**_START, "repositories": [{}]},
        {"when": "change", "changes": "{}\n", "calls": []},
        {"when": "change", "changes": '["a",null,null,0,0,[]]\n', "calls": []},
        {"when": "change", "changes": "", "calls": [1]},
    ],
)
def test_an_entry_that_says_something_else_is_refused(data: dict[str, Any]) -> None:
    """As every part of a log that comes from elsewhere."""
    with pytest.raises(FolderRefused):
        read_entry(data)


@pytest.mark.parametrize("place", ["a", "a/b"])
def test_a_repository_in_the_place_of_a_link_is_refused(place: str) -> None:
    """Git would open the target of the link, at the start and after a change."""
    link = kept("a", b"/home/me/other", "120000")
    linked = FileTree.of([], [link])
    start = FolderStarted("/work", "", linked, (Repository(place),))
    change = FolderChanged((FileChange("a", None, link),), repositories=(Repository(place),))
    state = FolderState()
    state.apply(FolderStarted("/work", "", FileTree()))

    with pytest.raises(FolderRefused, match="a folder for the repository"):
        read_entry(start.as_event().data)
    with pytest.raises(FolderRefused, match="a folder for the repository"):
        state.apply(change)


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values in data."""
    if not isinstance(value, dict | list):
        return [place]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [place, *(found for name, each in inner for found in _places(each, (*place, name)))]


_ENTRIES: list[dict[str, Any]] = [
    START.as_event().data,
    FolderChanged((_BACK,), ("0/1#2",), START.repositories).as_event().data,
    FolderLost("the disk is full").as_event().data,
]


@given(
    st.sampled_from([(data, place) for data in _ENTRIES for place in _places(data)[1:]]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([]) | st.just({}),
)
def test_a_value_of_any_type_is_read_or_refused(at: tuple[Any, Any], value: Any) -> None:
    """No place in an entry leads to another error."""
    data, (*way, last) = copy.deepcopy(at[0]), at[1]
    inner = data
    for name in way:
        inner = inner[name]
    inner[last] = value
    with contextlib.suppress(FolderRefused):
        read_entry(data)
