"""The git folders of a copy: each in the place that the record names, as its command sees it.

In the folder, they are inside the copy. Others are beside it: in a sandbox they are seen at their
recorded paths, elsewhere they are bound like the folder. So `.git` files and lists of work trees
are as recorded, and nothing that a log names is written to. Rules: CONTRACT.md §16.20.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import GitFailed
from refold.engine.workspace import linked
from refold.engine.workspace.entries import FolderStarted, Repository
from refold.engine.workspace.git import Git
from refold.engine.workspace.inside import FILE, Inside
from refold.engine.workspace.tree import TreeEntry, check_folders, is_below
from refold.proxy.copies.current import is_ordinary
from refold.proxy.copies.history import check_out, make_history, write_head

_OF_SUBMODULES: Final = "/modules/"


@attrs.frozen
class Beside:
    """A folder that belongs to a copy, and is not in it."""

    place: Path
    seen: str
    """Its path for the command."""
    recorded: str


class GitFolders:
    """Makes the repositories of one copy."""

    def __init__(
        self,
        started: FolderStarted,
        files: Mapping[str, TreeEntry],
        top: Path,
        work: Path,
        shown: Sequence[str],
    ) -> None:
        """Take the recorded folder, its files by path, its copy, and a folder for the rest.

        `shown` are the paths at which a sandbox shows the copy; none without one.
        """
        self.started = started
        self._files = files
        self._top = top
        self._work = work
        self.shown = shown
        self._at = shown[0] if shown else os.fspath(top)
        self._own = {linked.git_folder(started.path, one) for one in started.repositories}
        self._made: dict[str, Git] = {}
        """By recorded path: git folders that have branches."""
        self.beside: list[Beside] = []
        self.trees: list[Beside] = []
        for path in linked.outside(started):
            self._beside(self.beside, path)

    @property
    def seen(self) -> dict[str, str]:
        """The places of the copy's folders by their paths for the command (`linked.git_at`)."""
        found = {each.seen: os.fspath(each.place) for each in self.beside}
        return {self._at: os.fspath(self._top), **found}

    @property
    def bound(self) -> dict[str, str]:
        """The values of `linked.noted` for this copy."""
        now = {each.recorded: each.seen for each in (*self.beside, *self.trees)}
        trees = {linked.work_tree_of(was): linked.work_tree_of(now[was]) for was in now}
        return {name: trees.get(path, path) for name, path in linked.noted(self.started).items()}

    def holds(self, path: str) -> bool:
        """Return whether a path of the copy is a git folder that was made."""
        return linked.resolved(self.started.path, path) in self._made

    def in_order(self) -> list[Repository]:
        """Return the repositories: those that have the branches of others come before them."""
        top = self.started.path
        return sorted(
            self.started.repositories,
            key=lambda one: (linked.common_folder(top, one), bool(one.common), one.path),
        )

    def make(
        self,
        one: Repository,
        borrowed: Sequence[str],
        today: Git | None,
    ) -> tuple[Git, list[str]]:
        """Make a repository whose files are there; see `make_history` and `check_out`.

        Returns whom to ask of what its work trees share, and what could not be given back.

        Raises:
            FolderRefused: its place leads through a file or a link.
            OSError: the system refuses to write.
        """
        top, at = self.started.path, Path(self._top, one.path)
        was, own_was = linked.common_folder(top, one), linked.git_folder(top, one)
        if was in self._made:
            common = self._made[was]
            common.borrow(borrowed)
        else:
            common = self._made[was] = self._common(one, at, borrowed, today)
        place, seen = self._place(own_was)
        is_first = not (place / "HEAD").exists() or own_was == was
        if own_was != was:
            place.mkdir(parents=True, exist_ok=True)
            way = os.path.relpath(self._place(was)[1], seen)
            (place / "commondir").write_bytes(os.fsencode(f"{way}\n"))
            tree = linked.resolved(self._at, one.path, ".git")
            (place / "gitdir").write_bytes(os.fsencode(f"{tree}\n"))
        self._others(one, common)
        if one.git_file:
            as_was = linked.resolved(self._at, one.path, one.git_file) == seen
            text = f"gitdir: {one.git_file if as_was else seen}\n"
            with Inside(self._top) as copy:
                path = f"{one.path}/.git" if one.path else ".git"
                copy.make(path, FILE, os.fsencode(text))
        return common, check_out(Git(at, os.fspath(place)), one) if is_first else []

    def _common(self, one: Repository, at: Path, borrowed: Sequence[str], today: Git | None) -> Git:
        was = linked.common_folder(self.started.path, one)
        apart = self._work / f"apart{len(self._made)}"
        made = make_history(apart, at, one, borrowed, today)
        place, seen = self._place(was)
        if place.is_relative_to(self._top):
            with Inside(self._top) as copy:
                copy.take(Path(made.git_dir), os.fspath(place.relative_to(self._top)))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            Path(made.git_dir).rename(place)
        git = Git(at, os.fspath(place))
        if one.common:
            is_bare = linked.work_tree_of(was) == was and _OF_SUBMODULES not in was
            git.output("config", "core.bare", str(is_bare).lower())
        elif _OF_SUBMODULES in was:  # as git has it
            way = os.path.relpath(linked.resolved(self._at, one.path), seen)
            git.output("config", "core.worktree", way)
        return git

    def _others(self, one: Repository, common: Git) -> None:
        """Let a repository know the recorded work trees that are not in the copy."""
        top, place = self.started.path, Path(common.git_dir)
        for other in one.worktrees:
            own = place / "worktrees" / other.name if other.name else place
            was = linked.resolved(linked.common_folder(top, one), os.path.relpath(own, place))
            if other.name and (was in self._own or own.exists()):
                continue
            if other.name:
                own.mkdir(parents=True)
                (own / "commondir").write_text("../..\n")
                git_seen = self._place(was)[1]
                tree = self._tree(linked.worktree_at(top, one, other), git_seen)
                (own / "gitdir").write_bytes(os.fsencode(f"{tree}/.git\n"))
            write_head(own, other.head)
            with contextlib.suppress(GitFailed):  # its commit is not here
                Git(common.top, os.fspath(own)).output("read-tree", "HEAD")

    def _tree(self, was: str, git_seen: str) -> str:
        """Return where a command sees a work tree that is not in the copy.

        git tells of one that is missing, so an empty one is put in the place.
        """
        if is_below(was, self.started.path):
            return f"{self._at}{was.removeprefix(self.started.path)}"
        if self.shown and (os.path.lexists(was) or not self._is_free(was)):
            return was
        tree = self._beside(self.trees, was)
        tree.place.mkdir(parents=True)
        (tree.place / ".git").write_bytes(os.fsencode(f"gitdir: {git_seen}\n"))
        return tree.seen

    def _place(self, was: str) -> tuple[Path, str]:
        """Return the place of a recorded git folder, and its path for the command.

        Raises:
            FolderRefused: it is behind a file or a link of the folder.
        """
        top = self.started.path
        path = was.removeprefix(f"{top}/")
        if path != was and not any(is_below(each, path) for each in self._files):
            check_folders(self._files, [path])
            return self._top / path, f"{self._at}/{path}"
        above = next((each for each in self.beside if is_below(was, each.recorded)), None)
        above = above or self._beside(self.beside, was)
        path = was.removeprefix(above.recorded)
        return Path(f"{above.place}{path}"), f"{above.seen}{path}"

    def _beside(self, found: list[Beside], was: str) -> Beside:
        way = os.path.relpath(was, linked.base_of(self.started))
        place = self._work / "copy" / way  # a `.git` file may have a path from the folder
        if found is self.trees or way.startswith("..") or place.exists():
            number = len(self.beside) + len(self.trees)
            place = self._work / f"beside{number}" / os.path.basename(was)  # noqa: PTH119 - a text
        is_seen_there = bool(self.shown) and self._is_free(was)
        found.append(Beside(place, was if is_seen_there else os.fspath(place), was))
        return found[-1]

    def _is_free(self, was: str) -> bool:
        """Return whether a sandbox can show something of the copy at a recorded path."""
        return is_ordinary(was) and not any(
            is_below(was, each) or is_below(each, was) for each in self.shown
        )
