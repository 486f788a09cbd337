"""A stranger's log, and whatever its command leaves, change nothing but the copy.

The members are those of the closed list in SECURITY.md.
"""

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.engine.errors import FolderIncomplete, FolderRefused, GitFailed, UsageError
from refold.engine.observed.binding import Bindings
from refold.engine.workspace.entries import (
    COMMON_TEXTS,
    OWN_TEXTS,
    FolderChanged,
    FolderStarted,
    FolderState,
    Mode,
    Repository,
    Staged,
    read_entry,
)
from refold.engine.workspace.tree import Base, FileTree, TreeEntry
from refold.proxy.copies.placing import Copying, placed
from tests.proxy.copies.test_placing import ran
from tests.support.folders import git, kept, patch_with, repository

ROOT: Final = Path(__file__).parents[3]
MEMBERS: Final = (
    "path",
    "below",
    "log",
    "tree",
    "repositories",
    "umask",
    "modes",
    "changes",
    "files",
)
"""Of `x-refold.folder` and `x-refold.left`."""
_CONTENT: Final = b"theirs"
_NAMES: Final = ("a", "b", "a/b", "b/c", "a/b/c")
_FOLDERS: Final = (
    "{home}", "{home}/mine", "{home}/.ssh", "{home}/new", "/", "/usr/x", "/etc", "{tmp}",
)  # fmt: skip
_TARGETS: Final = (
    "{home}/mine", "{home}/.ssh", "{home}/.ssh/key", "{home}", "/", "..", "../..", "a", "b/c",
)  # fmt: skip
# `readlink -f` in place of `cd` has no end at a link like b -> b/c.
_COMMAND: Final = """
    for each in .git a/.git b/.git a/b/.git; do
        test "$(cd -P "$each" && pwd)" = "$PWD/$each" || continue
        ln -s "$0" "$each/objects/zz"; echo "$0" > "$each/objects/info/alternates"
        ln -sf "$0/key" "$each/info/exclude"; ln -sf "$0/key" "$each/HEAD"
        printf '[core]\\n\\tworktree = %s\\n' "$0" > "$each/config"
        printf '\\tfsmonitor = touch %s/run\\n' "$0" >> "$each/config"
    done
    rm -rf c; ln -s "$0" c; ln -s "$0/key" d; mkfifo p
"""
_drawn = st.lists(
    st.tuples(st.sampled_from(_NAMES), st.sampled_from(("own", "folder", "out", *_TARGETS))),
    max_size=4,
    unique_by=lambda one: one[0],
)


@st.composite
def _logs(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "path": draw(st.sampled_from(_FOLDERS)),
        "below": draw(st.sampled_from(("", "a", "b/c"))),
        "tree": draw(_drawn),
        "bases": draw(st.lists(st.sampled_from(("", *_NAMES)), max_size=2, unique=True)),
        "repositories": draw(st.lists(st.sampled_from(("", *_NAMES)), max_size=2, unique=True)),
        "modes": draw(st.lists(st.sampled_from(("", "d", *_NAMES)), max_size=2, unique=True)),
        "has_commit": draw(st.booleans()),
        "texts": draw(st.lists(st.sampled_from((*OWN_TEXTS, *COMMON_TEXTS)), max_size=3)),
        "changes": draw(st.sampled_from(_NAMES)),
    }


def _entry(path: str, kind: str, log: Path, places: dict[str, str]) -> TreeEntry:
    if kind == "own":
        return kept(path, _CONTENT, "100755", log)
    if kind in ("folder", "out"):
        return TreeEntry(path, "040000", kind, "ignored" if kind == "out" else "")  # type: ignore[arg-type]
    return kept(path, os.fsencode(kind.format(**places)), "120000", log)


def _state(log: Path, drawn: dict[str, Any], home: Path) -> FolderState:
    """Return the folder of a log as it is read: Refold refuses what no log may hold."""
    places = {"home": str(home), "tmp": str(home.parent)}
    own = kept("a/new", _CONTENT, log=log)
    tree_id, commit = (git(home / "mine", "rev-parse", each) for each in ("HEAD^{tree}", "HEAD"))
    index = (Staged("a/new", "100644", own.value, 0, own.digest, len(_CONTENT)),)
    tree = FileTree.of(
        [Base(path, tree_id) for path in drawn["bases"]],
        [_entry(path, kind, log, places) for path, kind in drawn["tree"]],
    )
    repositories = tuple(
        Repository(path, commit if drawn["has_commit"] else "", "refs/heads/pwned",
                   f"{commit} refs/tags/v1\n{commit} refs/heads/b refs/tags/v1\n"
                   f"{commit} refs/remotes/c refs/heads/b\n", index,
                   texts=dict.fromkeys(drawn["texts"], f"{home}/.ssh/key\n"),
                   settings={"user.name": "--edit", "init.defaultbranch": "../../x"})
        for path in sorted(drawn["repositories"])
    )  # fmt: skip
    path = drawn["path"].format(**places)
    modes = tuple(Mode(each, "100000") for each in drawn["modes"])
    started = FolderStarted(path, drawn["below"], tree, repositories, umask="077", modes=modes)
    state = FolderState()
    for event in (
        started.as_event(),
        FolderChanged((), is_end=True).as_event(),
    ):
        state.apply(read_entry(event.data))
    return state


def _seen(home: Path) -> list[tuple[str, int, int, bytes]]:
    """Return all that the user has, with its rights and the times of the last change."""
    return [
        (
            str(each),
            each.lstat().st_mode,
            each.lstat().st_mtime_ns,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in sorted(home.rglob("*"))
    ]


def _harms_nobody(drawn: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    """Make the copy, run the command, compare, keep, and apply; then look at the user's folders."""
    with tempfile.TemporaryDirectory() as tmp:
        home, log = Path(tmp, "home").resolve(), Path(tmp, "run.jsonl").resolve()
        top = repository(home / "mine", {"b/c": "mine", "run.py": "mine"})
        git(top, "tag", "v1")
        git(top, "pack-refs", "--all")
        (home / ".ssh").mkdir()
        (home / ".ssh" / "key").write_text("secret")
        (home.parent / "tmp").mkdir()
        patch.setenv("HOME", str(home))
        patch.setattr(tempfile, "tempdir", str(home.parent / "tmp"))
        patch.chdir(home.parent)
        before = _seen(home)
        known = (FolderRefused, FolderIncomplete, UsageError, GitFailed)
        with contextlib.suppress(*known):
            state = _state(log, drawn, home)
            keep = Copying(keep=home.parent / "kept")
            with placed(log, state, ["sh", "agent.sh"], keep) as place:
                ran(place, f"set -- ; exec sh -c '{_quoted()}' {home}/.ssh")
                assert place.comparison is not None
                place.comparison.end(state, Bindings())
        for path, kind in drawn["tree"]:
            with contextlib.suppress(OSError, RuntimeError, *known):
                (home.parent / "project").mkdir(exist_ok=True)
                place = home.parent / "project" / path
                if place.parent.resolve() == place.parent:
                    place.symlink_to(kind.format(home=home, tmp=tmp))
        with contextlib.suppress(OSError, RuntimeError, *known):
            patch_with(
                home.parent / "project", Path(tmp, "new"), {drawn["changes"]: _CONTENT}
            ).apply()
        assert _seen(home) == before
        kept = home.parent / "kept"
        held = [each for each in kept.rglob("*") if each.is_file() and not each.is_symlink()]
        assert not any(b"secret" in each.read_bytes() for each in held)
        patch.undo()


def _quoted() -> str:
    return _COMMAND.replace("'", "'\\''")


_QUIET: Final = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


def _harm_nobody(examples: int) -> None:
    @settings(max_examples=examples, **_QUIET)  # type: ignore[arg-type]
    @given(drawn=_logs())
    def harms_nobody(drawn: dict[str, Any]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            _harms_nobody(drawn, patch)

    harms_nobody()


@pytest.mark.usefixtures("way")
def test_a_strangers_log_harms_nobody() -> None:
    """Whether there is a sandbox or none."""
    _harm_nobody(5)


@pytest.mark.long
@pytest.mark.usefixtures("way")
def test_a_thousand_logs_harm_nobody() -> None:
    """500 in each way."""
    _harm_nobody(500)


def test_the_list_of_members_is_closed() -> None:
    """SECURITY.md names what these tests draw, and what entries hold is drawn."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = text.partition("## What a log chooses")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?:folder|left) `(\w+)`", section, re.MULTILINE)
    assert sorted(rows) == sorted(MEMBERS)
