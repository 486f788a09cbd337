"""Where `.git` files lead, and which git folders a recorded folder needs outside of it."""

from pathlib import Path

from refold.engine.workspace import linked
from refold.engine.workspace.entries import FolderStarted, Repository, Worktree
from refold.engine.workspace.git import Git
from refold.engine.workspace.tree import FileTree
from tests.support.folders import git, repository


def test_a_linked_work_tree_tells_of_the_others(tmp_path: Path) -> None:
    """Not of itself; a plain repository has no file."""
    main = repository(tmp_path / "main", {"a": "one\n"})
    for name in ("one", "two"):
        git(main, "worktree", "add", "-q", "-b", f"b-{name}", f"../{name}")
    commons = main / ".git"

    plain = linked.places_of(Git(main), commons)
    one = linked.places_of(Git(tmp_path / "one"), commons / "worktrees" / "one")

    heads = [(each.name, each.head) for each in plain[2]]
    assert plain[:2] == ("", "")
    assert heads == [("one", "refs/heads/b-one"), ("two", "refs/heads/b-two")]
    assert one[:2] == (str(commons / "worktrees" / "one"), "../..")
    assert one[2] == (
        Worktree("", "", "refs/heads/main"),
        Worktree("two", str(tmp_path / "two" / ".git"), "refs/heads/b-two"),
    )


def test_of_addresses_in_reflogs_no_password_is_read(tmp_path: Path) -> None:
    """`git pull ADDRESS` is in the reflog of HEAD, and in the message of a merge."""
    top = repository(tmp_path / "r", {"f": "1\n"})
    pulled = "https://ann:tok%40n@git.example/a@b.git"
    (top / ".git" / "MERGE_MSG").write_text(f"Merge branch 'main' of {pulled}\n")
    with (top / ".git" / "logs" / "HEAD").open("a") as file:
        file.write(f"{'0' * 40} {'1' * 40} Ann <a@b> 1 +0000\tpull {pulled}: Merge made\n")

    *_, texts = linked.places_of(Git(top), top / ".git")

    assert "tok" not in str(texts)
    assert texts["MERGE_MSG"] == "Merge branch 'main' of https://git.example/a@b.git\n"
    assert "Ann <a@b>" in texts["logs/HEAD"]


def test_what_is_outside_is_named_once_with_what_it_holds() -> None:
    """A submodule of a linked work tree is in the git folder of the main one."""
    led = "/m/.git/worktrees/w"
    others = (Worktree("", "", "refs/heads/main"), Worktree("v", "/v/.git", "refs/heads/v"))
    top = Repository("", git_file=led, common="../..", worktrees=others)
    sub = Repository("sub", git_file="../../m/.git/worktrees/w/modules/sub")
    started = FolderStarted("/w", "", FileTree(), (top, sub))

    assert linked.outside(started) == ["/m/.git"]
    assert linked.base_of(started) == "/"
    assert linked.noted(started) == {"git folder 1": "/m", "work tree 1": "/v"}


def test_of_a_copy_the_place_is_asked_that_its_command_sees(tmp_path: Path) -> None:
    """A path from the folder, and an absolute one; others are asked as they are."""
    copy, beside = tmp_path / "copy", tmp_path / "beside"
    (copy / "sub").mkdir(parents=True)
    seen = {"/r": str(copy), "/m/.git": str(beside)}
    for file, expected in (
        ("../.git/modules/sub", f"{copy}/.git/modules/sub"),
        ("/m/.git/worktrees/w", f"{beside}/worktrees/w"),
        ("/elsewhere", ""),
    ):
        (copy / "sub" / ".git").write_text(f"gitdir: {file}\n")

        assert linked.git_at(copy, "sub", seen).git_dir == expected
        assert linked.git_at(copy, "sub", {}).git_dir == ""
