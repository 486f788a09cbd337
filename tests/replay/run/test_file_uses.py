"""Files that conversations changed, added up."""

from refold.engine.workspace.entries import FileChange, FolderChanged
from refold.engine.workspace.tree import TreeEntry
from refold.replay.run.run_node import FileUse, RunNode
from refold.replay.run.watched import ROOT, FileUses


def _file(path: str, digit: str) -> TreeEntry:
    return TreeEntry(path, "100644", "git", digit * 40, 3)


def _change(path: str, before: str, after: str, *calls: str) -> FileChange:
    old, new = (_file(path, each) if each else None for each in (before, after))
    return FileChange(path, old, new, added=2, removed=1, calls=calls)


def _changed(files: tuple[FileUse, ...]) -> str:
    return RunNode(name="x", files=files).changed


def _uses(*changes: FileChange) -> FileUses:
    uses = FileUses()
    for change in changes:
        uses.take(FolderChanged((change,), ("0/1#2", "0/1/1#2")))
    return uses


def test_changes_of_a_file_add_up() -> None:
    """Added and changed is added; what is again as it was is none."""
    uses = _uses(
        _change("new", "", "a", "0/1#2"), _change("new", "a", "b", "0/1#3"),
        _change("back", "a", "b", "0/1#2"), _change("back", "b", "a", "0/1#3"),
        _change("gone", "a", "", "0/1/1#2"),
    )  # fmt: skip

    assert uses.of("0/1") == (FileUse(path="new", change="added", lines_added=4, lines_removed=2),)
    assert [use.change for use in uses.of("0/1/1")] == ["removed"]
    assert _changed(uses.of(ROOT)) == "+1 -1"


def test_who_may_have_made_a_change_has_it_as_one_of_several() -> None:
    """The command has it for sure; without calls, the command alone."""
    uses = _uses(_change("x", "a", "b"))
    assert [use.is_sole for scope in (ROOT, "0/1", "0/1/1") for use in uses.of(scope)] == [
        True, False, False,
    ]  # fmt: skip
    assert _changed(uses.of("0/1")) == "~1 (1 perhaps by others)"

    alone = FileUses()
    alone.take(FolderChanged((_change("x", "a", "b"),)))
    assert _changed(alone.of(ROOT)) == "~1"
