"""A copy of a recorded folder: its files, its history, and what today's folder lends.

The user's folder and repository are only read.  Rules: CONTRACT.md §16.20.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import ContentMissing, FolderIncomplete, UsageError
from refold.engine.workspace import paths
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderStarted, FolderState
from refold.engine.workspace.git import Git, object_folders
from refold.engine.workspace.inside import FILE, Inside, held_at, restore
from refold.engine.workspace.left_out import home_folder
from refold.engine.workspace.linked import base_of, git_at, git_file_of
from refold.engine.workspace.packing import contents_of, is_shallow, shallow_here
from refold.engine.workspace.tree import TreeEntry, check_folders, folders_above
from refold.proxy.copies.current import (
    Edits,
    RecordedFolder,
    edits_of,
    is_ordinary,
    todays_folder,
)
from refold.proxy.copies.git_folders import GitFolders, names_of_hooks, take_hooks
from refold.proxy.copies.whose import Files
from refold.replay.observed.report import BARE

LENT_MAX: Final = 1024**3
"""Bytes that are copied of what git ignores and of what else was left out of a record."""
_OBJECTS: Final = "objects"


@attrs.frozen(kw_only=True)
class Copy:
    """A folder made again."""

    top: Path
    """Its place."""
    work: Path
    """What is beside it is below this folder."""
    originals: tuple[Path, ...]
    """The replaced folders: the recorded one and today's, by name and resolved."""
    shown: tuple[tuple[Path, str], ...]
    """Folders of objects, and where the copy looks for them."""
    layered: tuple[tuple[Path, str], ...]
    """Folders of today's, and where a sandbox lays a layer over them."""
    git_folders: GitFolders
    """Its repositories, and what belongs to them outside of it."""
    notes: tuple[str, ...]
    edits: Edits
    """What became of today's files."""
    led: tuple[str, ...]
    """Links that lead into the copy, not to where they were recorded."""
    contents: Contents
    """Reads what files of the record held."""


def make_copy(
    log: Path,
    folder: FolderState,
    command: Sequence[str],
    work: Path,
    left: contextlib.ExitStack,
    *,
    head: str = "",
    files: Files = "edits",
    is_mounted: bool,
    has_layers: bool,
    has_hooks: bool = False,
    is_kept: bool = False,
) -> Copy:
    """Make the folder of a log again, below the empty folder `work`; `left` ends what reads.

    `head` is the log's; `files` chooses among today's; `is_mounted`: it will be seen at
    its recorded path; `has_layers`: folders can be laid over others there; `has_hooks`: it gets the
    hooks of today's repositories; `is_kept`: it gets all objects of its repositories.

    Raises:
        FolderIncomplete: contents are missing: the repository is not here, or has lost them.
        FolderRefused: the log names what no log may name.
        UsageError: `files` is `today`, and this machine does not have them.
        OSError: it could not be written.
    """
    started = folder.started
    assert started is not None
    top = work / "copy" / os.path.relpath(started.path, base_of(started))
    top.mkdir(parents=True)
    try:
        contents, gits = contents_of(log, started, work / "packed")
        left.enter_context(contents)
        whole = contents.whole(started.tree)
    except ContentMissing as error:
        raise _incomplete(log, [error]) from None
    recorded = RecordedFolder(log, head, folder, contents, whole, gits)
    today = todays_folder(recorded)
    if files == "today" and today is None:
        expected = "start it in the recorded folder, or in a clone or a copy of it"
        raise UsageError(f"--copy today: {started.path} is not on this machine: {expected}")
    edits = edits_of(recorded, today, files, command)

    def content(entry: TreeEntry) -> bytes:
        used = edits.held.get(entry.path)
        if used is not None:
            return used.content
        try:
            return contents.content(entry)
        except ContentMissing:
            held = None if today is None else held_at(today, entry.path)
            if held is None or not held.is_as(entry):
                raise
            return held.content

    tree = edits.tree(whole)
    check_folders(tree.by_path, [started.below, *(one.path for one in started.repositories)])
    if missing := restore(tree.differs, content, top):
        raise _incomplete(log, missing)
    places_of_log = {started.log, *folders_above(started.log)}
    if started.log and tree.by_path.keys().isdisjoint(places_of_log):
        with Inside(top) as copy:  # commands list it
            copy.make(started.log, FILE, b"")
    places = _shown_at(started.path, today) if is_mounted else []
    git_folders = GitFolders(started, tree.by_path, top, work, places)
    told, shown = _histories(
        git_folders, started, work, contents, gits, has_hooks=has_hooks, is_kept=is_kept
    )
    lenders = dict.fromkeys(each for each in (today, recorded.place) if each is not None)
    modes = {one.path for one in started.modes}
    lent = BorrowedFiles([*lenders], top, started.path, is_mounted, has_layers)
    lent.take(
        entry
        for entry in whole.differs
        if not entry.is_restorable
        and not (entry.value == "unreadable" and entry.path in modes)
        and not git_folders.holds(entry.path)
    )
    notes = [*edits.notes(started.path), *told, *lent.notes({*folder.altered, *folder.states})]
    named = (Path(started.path), *([] if today is None else [today]))
    whole_names = dict.fromkeys([*named, *map(Path, map(os.path.realpath, named))])
    home = home_folder()
    originals = tuple(each for each in whole_names if is_ordinary(str(each)) or str(each) == home)
    led, out = ([], []) if is_mounted else _retarget_links(top, originals)
    if led:
        notes.append(f"links into {started.path} point to the copy instead: {paths.names_of(led)}")
    if out:
        notes.append(f"links that point outside the copy: {paths.names_of(sorted(out))}")
    return Copy(
        top=top, work=work, originals=originals, shown=tuple(shown), layered=tuple(lent.layered),
        git_folders=git_folders, notes=tuple(notes), contents=contents, edits=edits, led=tuple(led),
    )  # fmt: skip


def _incomplete(log: Path, missing: Iterable[ContentMissing]) -> FolderIncomplete:
    shallow = shallow_here()
    return FolderIncomplete(str(log), tuple(map(str, missing)), str(shallow or ""))


def _histories(
    git_folders: GitFolders,
    started: FolderStarted,
    work: Path,
    contents: Contents,
    lenders: Mapping[str, Git],
    *,
    has_hooks: bool,
    is_kept: bool,
) -> tuple[list[str], list[tuple[Path, str]]]:
    """Make each repository of a copy; one that `is_kept` gets all objects.

    Returns the notes, and the folders that lend objects.
    """
    notes, shown = list[str](), list[tuple[Path, str]]()
    for number, one in enumerate(git_folders.in_order()):
        lender, named = lenders.get(one.path), dict[str, Path]()
        lent = object_folders(lender) if lender is not None else ()
        own = [contents.folder] if any(each.digest for each in one.index) else []
        for folder in dict.fromkeys((*own, *lent)):
            at = work / _OBJECTS / f"{number}.{len(named)}"
            at.parent.mkdir(exist_ok=True)
            at.symlink_to(folder)
            named[str(at)] = folder
        is_borrowed = lender is not None and lender.top != Path(started.path, one.path)
        if lender is not None and is_borrowed and not lender.git_dir and is_shallow(lender):
            notes.append(
                f"{lender.top} is a shallow clone, so older commits are missing in the copy: fetch "
                "them (git fetch --unshallow, or fetch-depth: 0 in CI), or record with "
                "--keep-content"
            )
        git, told = git_folders.make(one, [*named], lender)
        notes += told
        if has_hooks and lender is not None:
            take_hooks(git, lender)
        elif lender is not None and (found := names_of_hooks(lender)):
            of = f"{lender.top} has git hooks that did not run here"
            notes.append(f"{of}: {paths.names_of(found)}; to run them: --copy hooks")
        if is_kept:
            for folder in named.values():
                objects = Path(git.git_dir, _OBJECTS)
                shutil.copytree(folder, objects, copy_function=_copied_once, dirs_exist_ok=True)
            Path(git.git_dir, _OBJECTS, "info", "alternates").unlink()
        else:
            shown += [(folder, at) for at, folder in named.items()]
    if started.repositories:
        hooks = "your hooks" if has_hooks else "no hooks"
        notes.append(f"{BARE}{hooks}, no remotes and no credential helper")
    return notes, shown


def _shown_at(recorded: str, today: Path | None) -> list[str]:
    """Return where a sandbox shows a copy: the recorded path, and the place of today's folder."""
    found = [recorded]
    if today is not None and is_ordinary(str(today)):
        place = Path(os.path.realpath(recorded))
        if not (today.is_relative_to(place) or place.is_relative_to(today)):
            found.append(str(today))
    return found


def keep_copy(copy: Copy, into: Path) -> None:
    """Copy a copy to where it is kept, with git folders beside it; no link is followed.

    Raises:
        FolderRefused: its command left a link in the place of a folder.
        OSError: it cannot be written.
    """
    into = Path(os.path.abspath(into))  # noqa: PTH100 - links stay
    kept = {copy.top: into}
    for number, each in enumerate(copy.git_folders.beside):
        kept[each.place] = into.with_name(f"{into.name}.git{number or ''}")
    led = {
        one.path: Path(git_at(copy.top, one.path, copy.git_folders.seen).git_dir)
        for one in copy.git_folders.started.repositories
        if one.git_file
    }
    for path, git in led.items():
        for place, to in kept.items():
            if git.is_relative_to(place):
                file = copy.work / "git-file"
                file.write_bytes(os.fsencode(f"gitdir: {to / git.relative_to(place)}\n"))
                with Inside(copy.top) as folder:
                    folder.take(file, f"{path}/.git" if path else ".git")
    for place, to in kept.items():
        if why := _copied(place, to):
            raise OSError(why)


def _copied_once(source: str, target: str) -> None:
    if not os.path.lexists(target):
        shutil.copy2(source, target)


def _retarget_links(top: Path, originals: Collection[Path]) -> tuple[list[str], list[str]]:
    """Lead links of a copy that end in the user's folder into the copy.

    So with a `.git` file that the user's folder lent. A link to a folder above it is removed.
    Returns the paths of these links, and of others that lead out of the copy.
    """
    led, out = list[str](), list[str]()
    for above, folders, files in os.walk(top):
        if git := git_file_of(Path(above)) if ".git" in files else "":
            for each in originals:
                if (led_to := Path(above, git)).is_relative_to(each):
                    text = f"gitdir: {top / led_to.relative_to(each)}\n"
                    Path(above, ".git").write_bytes(os.fsencode(text))
        for link in (Path(above, name) for name in (*folders, *files)):
            if not link.is_symlink():
                continue
            real = Path(os.path.realpath(link))
            within = next((each for each in originals if real.is_relative_to(each)), None)
            if real.is_relative_to(top):
                continue
            is_led = within is not None or any(each.is_relative_to(real) for each in originals)
            (led if is_led else out).append(os.fspath(link.relative_to(top)))
            if is_led:
                link.unlink()
            if within is not None:
                link.symlink_to(top / real.relative_to(within))
    return led, out


@attrs.define
class BorrowedFiles:
    """Files of today's folder that the record left out: a command may need them."""

    folders: Sequence[Path]
    top: Path
    at: str
    """The path of the copy for a command that sees it at its recorded path."""
    is_mounted: bool
    has_layers: bool
    layered: list[tuple[Path, str]] = attrs.field(factory=list)
    _left: int = attrs.field(factory=lambda: LENT_MAX)
    _taken: dict[Path, list[str]] = attrs.field(factory=dict)
    _out: list[str] = attrs.field(factory=list)

    def take(self, entries: Iterable[TreeEntry]) -> None:
        """Lend what can be lent."""
        for path in (entry.path for entry in entries):
            by = next((each for each in self.folders if self._take(path, each / path)), None)
            (self._out if by is None else self._taken.setdefault(by, [])).append(path)

    def _take(self, path: str, source: Path) -> bool:
        target = self.top / path
        is_folder = source.is_dir() and not source.is_symlink()
        is_there = is_folder and target.exists()  # the record has some of it
        is_there |= source.is_file() and not os.access(source, os.R_OK)
        if is_there or not (is_folder or source.is_file() or source.is_symlink()):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_folder and self.has_layers:
            target.mkdir()
            self.layered.append((source, f"{self.at}/{path}"))
            return True
        # What names its own path would lead to the user's folder: virtual environments do.
        if not self.is_mounted and (source.is_symlink() or (source / "pyvenv.cfg").exists()):
            return False
        size = _size(source, self._left)
        if size > self._left:
            return False
        self._left -= size
        target.unlink(missing_ok=True)
        _copied(source, target)
        return True

    def notes(self, changed: Collection[str]) -> list[str]:
        """Return the lent and the missing files, in words; the run `changed` some."""
        told = [
            f"not in the log, so taken from {folder}: {paths.names_of(taken)}"
            for folder, taken in self._taken.items()
        ]
        taken = (path for taken in self._taken.values() for path in taken)
        if altered := [path for path in taken if path in changed]:
            names = paths.names_of(altered)
            told.append(
                f"changed during the recorded run, but as they are now in the copy: {names}; if "
                "the replay differs, put them back as they were, or record again"
            )
        if self._out:
            told.append(f"neither in the log nor in the copy: {paths.names_of(self._out)}")
        return told


def _size(source: Path, most: int) -> int:
    if not source.is_dir() or source.is_symlink():
        return source.lstat().st_size
    size = 0
    for folder, _, names in os.walk(source):
        for name in names:
            size += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - many
        if size > most:
            break
    return size


def _copied(source: Path, target: Path) -> str:
    """Copy a file or a folder, by reference where the file system can; links stay.

    Returns why a part was not copied, in words of `cp`; empty if all was.
    """
    command = ["cp", "-a", "--reflink=auto", "--", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode and not target.exists():  # another cp than GNU's
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
        return ""
    lines = done.stderr.decode(errors="replace").splitlines()
    return lines[-1] if done.returncode and lines else ""
