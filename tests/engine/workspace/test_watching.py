"""Which call can have changed a file; commands are in tests/proxy/test_folders_recorded.py."""

from pathlib import Path

from refold.engine.log.names import files_of
from refold.engine.workspace.entries import FolderChanged, FolderEntry, read_entry
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.watching import Suspect, WatchedFolder, may_change, suspects
from tests.support.folders import repository
from tests.support.loops import for_each

EDIT = Suspect("0/1#2", "Edit", ("src/a.py", "old", "new"))
WHOLE = Suspect("0/1#2", "str_replace_editor", ("/top/src/a.py",))
PATCH = Suspect("0/1#2", "apply_patch", ("*** Begin Patch\n*** Update File: src/a.py\n@@\n",))
GIT_PATCH = Suspect("0/1#2", "patch", ("--- a/src/a.py\n+++ b/src/a.py\n",))
BASH = Suspect("0/1#3", "Bash", ("make all",))
OTHERS_BASH = Suspect("0/1/1#2", "Bash", ("make all",))
OTHERS_SED = Suspect("0/1/1#2", "Bash", ("sed -i s/x/y/ src/a.py",))
READ = Suspect("0/1#4", "Read", ("src/a.py",))


@for_each("edit", [EDIT, WHOLE, PATCH, GIT_PATCH])
def test_an_edit_is_known_by_its_path(edit: Suspect) -> None:
    """As a whole text, or in a patch; a file of the same end is another."""
    assert suspects("/top", "src/a.py", [BASH, edit, READ]) == ("0/1#2",)
    assert suspects("/top", "a.py", [BASH, edit, READ]) == ("0/1#3",)


@for_each(
    "calls, named",
    [
        ([], ()),
        ([READ], ("0/1#4",)),
        ([READ, BASH, OTHERS_BASH], ("0/1#3", "0/1/1#2")),
        ([EDIT, OTHERS_BASH], ("0/1#2",)),
        ([EDIT, OTHERS_SED], ("0/1#2", "0/1/1#2")),
        ([BASH, BASH], ("0/1#3",)),
    ],
)
def test_all_that_may_have_changed_a_file_are_named(
    calls: list[Suspect], named: tuple[str, ...]
) -> None:
    """And if only what reads was in progress, that: the program may do more than it says."""
    assert suspects("/top", "src/a.py", calls) == named


def test_a_file_that_no_edit_names_may_be_changed_after_an_edit() -> None:
    """By a hook of the agent that formats."""
    assert suspects("/top", "b.py", [EDIT]) == ("0/1#2",)


def test_the_folder_is_looked_at_after_all_but_what_only_reads() -> None:
    """A look takes time in a large folder, and agents mostly read."""
    reads = ("Read", "Grep", "Glob", "LS", "WebFetch", "list_directory", "read_file", "view")
    others = ("Bash", "Edit", "TodoWrite", "read_and_replace", "shell", "str_replace", "mcp__x")

    assert not any(map(may_change, reads))
    assert all(map(may_change, others))


def test_a_call_that_began_and_ended_while_a_look_was_under_way_is_named(tmp_path: Path) -> None:
    """It may have changed what that look found."""
    top = repository(tmp_path / "r", {"a": "one\n"})
    log = tmp_path / "x.jsonl"
    entries: list[FolderEntry] = []
    scanner = Scanner(top, LogFiles(log, top, top), packs=files_of(log))
    append = lambda event: entries.append(read_entry(event.data))  # noqa: E731 - one line
    with WatchedFolder(top, top, log, scanner, append) as folder:
        folder.begin()
        (top / "a").write_text("two\n")
        folder.begin_scan([Suspect("0/1#2", "Bash", ())])
        folder.begin_scan([Suspect("0/2#2", "Bash", ())])
        folder.settle(lambda: [Suspect("0/3#2", "Bash", ())])

    _, changed = entries
    assert isinstance(changed, FolderChanged)
    assert changed.calls == ("0/1#2", "0/2#2", "0/3#2")
