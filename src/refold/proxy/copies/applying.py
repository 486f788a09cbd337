"""The final content of a copy, as a patch for the user's folder; nothing else writes there.

The patch is git's, and so is its application: only if each file of it is as the record left it.
Rules: CONTRACT.md §16.21.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR

import attrs

from refold.engine.errors import GitFailed
from refold.engine.workspace.entries import FolderState
from refold.engine.workspace.forms import json_lines
from refold.engine.workspace.git import Git
from refold.engine.workspace.inside import Inside, scratch_folder
from refold.engine.workspace.left_out import is_volatile
from refold.engine.workspace.paths import names_of
from refold.engine.workspace.tree import ENTRY, FilePair, changed, folders_above, is_below
from refold.proxy.copies.current import is_ordinary
from refold.replay.observed.folder import contents_of


@attrs.frozen
class FolderPatch:
    """The files of the user's folder that a copy has otherwise."""

    folder: Path
    files: Sequence[FilePair] = ()
    """As the record left them, and as the copy has them."""
    patch: bytes = b""
    """Git's."""

    @property
    def text(self) -> str:
        r"""The patch; a byte that is not UTF-8 is `\xHH`."""
        return self.patch.decode(errors="backslashreplace")

    def names(self) -> str:
        """Return the names of some of its files."""
        return names_of(path for path, *_ in self.files)

    def why_not(self, *, is_trusted: bool) -> str:
        """Return why nothing may be written; empty if it may be. A log may name any folder."""
        try:
            self.apply("--check")
        except GitFailed as error:
            return f"{self.folder} is not as the record left it: {error.why}"
        if not is_ordinary(str(self.folder)):
            return f"{self.folder} is not a folder of work"
        if not Path.cwd().is_relative_to(self.folder.resolve()):
            return f"--copy apply writes only where you stand: run it in {self.folder}"
        return "" if is_trusted else "the log was probably not recorded on this machine"

    def apply(self, *options: str) -> None:
        """Write the files into the user's folder, or with `--check` none.

        Raises:
            GitFailed: a file is not as the record left it, or below a link, or something is in its
                way; nothing is written.
        """
        if not self.files:
            return
        before = [(path, one) for path, one, _ in self.files if one is not None]
        width = next(len(one.value) for one in self.files[0][1:] if one is not None)
        with scratch_folder() as made:
            git = Git.made(self.folder, made, width)
            git.index_as(before)
            if other := git.lines("diff-files", "-z", "--name-only"):
                raise GitFailed(str(self.folder), "apply", f"changed: {names_of(other)}")
            if other := sorted({*self._in_the_way()}):  # git would see it when it has begun
                raise GitFailed(str(self.folder), "apply", f"in the way: {names_of(other)}")
            git.output("apply", "--whitespace=nowarn", *options, given=self.patch)

    def _in_the_way(self) -> Iterator[str]:
        """Yield files in the place of folders, folders of files, and read-only folders."""
        gone = {path for path, _, after in self.files if after is None}
        with Inside(self.folder) as folder:
            for path, *_ in self.files:
                found = [(each, folder.status(each)) for each in folders_above(path)]
                there = [(each, one) for each, one in found if one is not None]
                yield from (
                    each for each, one in there if not S_ISDIR(one.st_mode) and each not in gone
                )
                near = next((each for each, one in there if S_ISDIR(one.st_mode)), "")
                if not os.access(self.folder / near, os.W_OK | os.X_OK):
                    yield near or "."
                own = folder.status(path)
                if path not in gone and own is not None and S_ISDIR(own.st_mode):
                    below = (self.folder / path).rglob("*")
                    names = (os.fspath(each.relative_to(self.folder)) for each in below)
                    yield from (
                        name for name in names if not any(is_below(one, name) for one in gone)
                    )


def patch_of(log: Path, folder: FolderState, left: str, top: Path | None) -> FolderPatch | None:
    """Return the differences of a copy, whose log this is, from what the record left.

    `left` has the lines of what the record left of each file that it changed; `top` is the user's
    folder. `None` without a folder.

    Raises:
        ContentMissing: a tree is missing.
        GitFailed: git failed, or a content is missing.
    """
    if folder.started is None or top is None:
        return None
    with contents_of(log, folder) as contents:
        start, copy = (contents.whole(tree) for tree in (folder.started.tree, folder.tree))
        before = dict(start.by_path)
        before |= {one.path: one for one in map(ENTRY.read, json_lines(left))}
        before = {path: one for path, one in before.items() if one.kind != "gone"}
        files = [
            change
            for change in changed(before, copy.by_path)
            if not is_volatile(change[0])
            and all(one is None or one.kind == "git" for one in change[1:])
        ]
        return FolderPatch(top, files, contents.patch(files))
