"""What git's status says, read."""

from refold.engine.workspace.status import GitStatus

OID = "a" * 40
STAGED = "b" * 40


def test_every_kind_of_line() -> None:
    """As git 2.39 prints them; names with blanks."""
    found = GitStatus.of(
        [
            f"# branch.oid {OID}", "# branch.head main", "# branch.upstream origin/main",
            "# branch.ab +0 -0", "# stash 2",
            f"1 .M N... 100644 100644 100644 {OID} {OID} a name",
            f"1 A. N... 000000 100755 100755 {'0' * 40} {STAGED} new",
            f"1 D. N... 100644 000000 000000 {OID} {'0' * 40} gone",
            f"u UU N... 100644 100644 100755 100644 {OID} {STAGED} {OID} both",
            "? gone", "? untracked", "? nested/", "! ignored/", "! x.o",
        ]
    )  # fmt: skip

    assert (found.commit, found.branch, found.stashes) == (OID, "refs/heads/main", "2")
    assert found.changed == {
        "a name": ("100644", OID), "new": ("", ""), "gone": ("100644", OID),
        "both": ("100644", STAGED), "untracked": ("", ""),
    }  # fmt: skip
    assert found.staged == [
        ("new", "100755", STAGED, 0), ("gone", "", "", 0),
        ("both", "100644", OID, 1), ("both", "100644", STAGED, 2), ("both", "100755", OID, 3),
    ]  # fmt: skip
    assert (found.inner, found.ignored) == (["nested"], ["ignored/", "x.o"])


def test_no_commit_no_branch_and_attributes() -> None:
    """Edges of the headers."""
    first = GitStatus.of(
        ["# branch.oid (initial)", "# branch.head (detached)", "? x/.gitattributes"]
    )

    assert (first.commit, first.branch, first.touches_attributes) == ("", "", True)
    assert not GitStatus.of(["? x.gitattributes"]).touches_attributes
