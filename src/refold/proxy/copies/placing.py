"""Chooses the folder for running a watched command again: a copy of the recorded one, or this one.

In a sandbox the copy is at its recorded path; elsewhere it is a folder of its own, and paths are
bound. The next process removes the leftovers of a killed one. Rules: CONTRACT.md §16.20.
"""

import contextlib
import functools
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs

from refold.engine.errors import RefoldError, UsageError
from refold.engine.workspace.entries import FolderState
from refold.engine.workspace.git import is_installed
from refold.engine.workspace.inside import scratch_folder, set_modes, umask_as
from refold.proxy.command import Starter, started
from refold.proxy.copies.copied import Copy, keep_copy, make_copy
from refold.proxy.copies.current import Edits, is_ordinary
from refold.proxy.copies.ended import FolderComparison
from refold.proxy.copies.sandbox import Sandbox, SandboxRefused, SandboxView, no_layers, opened

_OF_GIT: Final = frozenset(
    f"GIT_{name}"
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "COMMON_DIR", "OBJECT_DIRECTORY", "NAMESPACE",
                 "ALTERNATE_OBJECT_DIRECTORIES")
)  # fmt: skip
"""Variables that name a repository; git sets them for its hooks."""
_WHO: Final = {
    f"GIT_{who}_{part}": f"{who}.{part}".lower()
    for who in ("AUTHOR", "COMMITTER")
    for part in ("NAME", "EMAIL")
}
"""Variables that name who commits, and the settings in which a record has that."""


@attrs.frozen(kw_only=True)
class Copying:
    """The options for the place of a repeated command."""

    in_place: bool = False
    """The current folder, with the user's own files."""
    keep: Path | None = None
    """A new folder that gets the copy when the command has ended."""
    has_network: bool = False
    has_hooks: bool = False
    """Whether the copy has the git hooks of the user's repository."""
    files: Literal["", "recorded", "today"] = ""
    """Whose files the copy gets; empty: today's where they are edits of the program under test."""
    ignored: tuple[str, ...] = ()
    """Patterns of paths that are not compared at the end."""

    def leaves_copy(self, folder: FolderState) -> bool:
        """Return whether a command works on the user's files though a folder is recorded."""
        return self.in_place and folder.started is not None


@attrs.frozen(kw_only=True)
class Placement:
    """The place of a command."""

    start: Starter = started
    listening: socket.socket | None = None
    """The proxy's socket, if the command has a loopback of its own."""
    folders: Mapping[str, str] = attrs.field(factory=dict)
    """The folder as the command sees it, if it is not one of today's: {folder}."""
    top: Path | None = None
    """The copy; `None` without one."""
    comparison: FolderComparison | None = None
    """The comparison of the copy with the record; `None` without a copy."""
    notes: tuple[str, ...] = ()
    edits: Edits = attrs.field(factory=Edits)
    """Today's folder, and what became of its files; without a copy, none."""
    is_offline: bool = False
    """Whether it is a sandbox without a network."""
    unfit: str = ""
    """What the place lacks that a command may need; empty if nothing is known."""
    line: str = ""
    """The folder whose files it gets, if it is not the recorded one."""
    copy: Copy | None = None

    @property
    def seen(self) -> Mapping[str, str]:
        """The places of the copy's folders by their paths for the command (`linked.git_at`)."""
        return self.copy.git_folders.seen if self.copy is not None else {}


@contextlib.contextmanager
def placed(
    log: Path,
    folder: FolderState,
    command: Sequence[str],
    copying: Copying,
    *,
    head: str = "",
    only_own: bool = False,
    unkept: list[str] | None = None,
) -> Iterator[Placement]:
    """Give the place where a command runs again; a copy is removed after the block.

    `head` is the log's. With `only_own`, a copy gets of today's files the agent's own alone.
    `unkept` gets the reason if the copy cannot be kept; without it, that is raised.

    Raises:
        FolderIncomplete: contents are missing.
        FolderRefused: the log names what no log may name.
        UsageError: `keep` is there already, today's files are not here, or git is not installed.
    """
    if (why := _why_here(folder, copying)) or folder.started is None:
        yield Placement(notes=(f"{why}: the command ran in the current folder, with your files",))
        return
    if not is_installed():
        raise UsageError(
            "git is not installed, and is needed to restore the folder: pass --copy none"
        )
    if copying.keep is not None and copying.keep.exists():
        raise UsageError(f"--copy keep:{copying.keep}: this folder already exists: pass a new one")
    with scratch_folder() as work, contextlib.ExitStack() as left:
        no_sandbox, no_layer = _missing()
        is_mounted = is_ordinary(folder.started.path) and not no_sandbox
        with umask_as(folder.started.umask):
            copy = make_copy(
                log, folder, command, work, left, head=head,
                files=copying.files or ("own" if only_own else "edits"),
                is_mounted=is_mounted, has_layers=not no_layer, has_hooks=copying.has_hooks,
                is_kept=copying.keep is not None,
            )  # fmt: skip
            place = _placed(copy, copying, no_sandbox, no_layer, left)
        yield place
        left.close()
        if copying.keep is not None:
            try:
                keep_copy(copy, copying.keep)
            except (OSError, RefoldError) as error:
                if unkept is None:
                    raise
                unkept.append(f"{copying.keep}: {error}")


def _missing() -> tuple[str, str]:
    """Return why there is no sandbox here, and why it has no layers; empty if there is."""
    try:
        return "", no_layers()
    except SandboxRefused as error:
        return str(error), "no sandbox"


def _placed(
    copy: Copy, copying: Copying, why: str, bare: str, left: contextlib.ExitStack
) -> Placement:
    """Place a copy: in a sandbox, unless `why` says that there is none; `bare`: without layers."""
    recorded = copy.git_folders.started
    set_modes(copy.top, recorded.modes)
    taken, seen = (*copy.edits.used, *copy.led), copy.git_folders.seen
    compared = FolderComparison(copy.top, copy.contents, copying.ignored, taken, recorded.log, seen)
    left.enter_context(compared)
    at, unfit = str(Path(copy.top, recorded.below)), ""
    if why:
        start: Starter = functools.partial(_started, at)
        listening, is_placed = None, False
        told = [
            (
                f"ran in a copy of {recorded.path} at a different path, because no sandbox is "
                f"available: {why}"
            ),
            "changes made outside the copy are permanent",
        ]
    else:
        told = [f"ran in a sandbox, in a copy of the recorded {recorded.path}"]
        is_placed = is_ordinary(recorded.path)
        if is_placed:
            at = os.path.join(recorded.path, recorded.below).rstrip("/")  # noqa: PTH118 - a text
        else:
            told.append(f"{recorded.path} cannot be replaced, so the copy is at a different path")
        box = _boxed(copy, at, copying, left, layers=not bare)
        start, listening = box.start, box.listening
        told += ["the sandbox has network access"] if copying.has_network else []
        if bare:
            unfit = f"HOME is read-only, because the system refuses layers over it: {bare}"
            told.append(unfit)
    return Placement(
        start=_leading(copy, start, "" if is_placed else at), listening=listening, top=copy.top,
        comparison=compared, edits=copy.edits, is_offline=not (why or copying.has_network),
        line=copy.edits.line(recorded.path), copy=copy, unfit=unfit, notes=(*told, *copy.notes),
        folders={"folder": at, "other_folder": at, **copy.git_folders.bound},
    )  # fmt: skip


def _boxed(
    copy: Copy, at: str, copying: Copying, left: contextlib.ExitStack, *, layers: bool
) -> Sandbox:
    """Open the sandbox of a copy.

    Raises:
        UsageError: it cannot be opened, though this system has sandboxes: a folder of a log is
            never the reason to do without.
    """
    work, git_folders = copy.work, copy.git_folders
    recorded = git_folders.started.path
    shown = git_folders.shown or (str(copy.top),)
    (work / "layers").mkdir()
    layered = (
        (source, f"{place}{path.removeprefix(recorded)}")
        for place in shown
        for source, path in copy.layered
    )
    beside = ((each.place, each.seen) for each in (*git_folders.beside, *git_folders.trees))
    places = (*((copy.top, place) for place in shown), *beside)
    view = SandboxView(
        scratch=work / "layers", hidden=work, places=places,
        layered=tuple(layered), shown=copy.shown, has_network=copying.has_network,
    )  # fmt: skip
    try:
        return left.enter_context(opened(view, at, layers))
    except SandboxRefused as error:
        advice = "to run without a sandbox, use --copy none"
        raise UsageError(f"no sandbox for the folder {recorded}: {error}; {advice}") from None


def why_unboxed(folder: FolderState, copying: Copying) -> str:
    """Return why a command will run without a sandbox; empty if it will run in one."""
    return _why_here(folder, copying) or _missing()[0]


def _why_here(folder: FolderState, copying: Copying) -> str:
    if copying.in_place:
        return "--copy none"
    return "the log does not contain its folder" if folder.started is None else ""


def _started(
    folder: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    output: int,
    errors: int | None,
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, env=variables, cwd=folder, stdout=output, stderr=errors)


def _leading(copy: Copy, start: Starter, folder: str) -> Starter:
    """Return what starts a command in a copy, with its umask.

    It has no variables that lead git out of the copy, or that name as who commits somebody else
    than the record. In a folder that is not at its recorded path, words and variables name the
    copy. The first word does not: it is the program that the user chose.
    """
    recorded = copy.git_folders.started
    who = next((one.settings for one in recorded.repositories), {})

    def begin(
        command: Sequence[str], variables: Mapping[str, str], output: int, errors: int | None
    ) -> "subprocess.Popen[bytes]":
        told = {
            name: value
            for name, value in variables.items()
            if name not in _OF_GIT and who.get(_WHO.get(name, ""), value) == value
        }
        if folder:
            told |= {n: _relocated(value, copy) for n, value in told.items() if n != "PATH"}
            # A package that is installed to be edited is imported from the user's folder.
            told |= {"PWD": folder, "PYTHONPYCACHEPREFIX": str(copy.work / "compiled")}
            command = [command[0], *(_relocated(word, copy) for word in command[1:])]
        with umask_as(recorded.umask):
            return start(command, told, output, errors)

    return begin


def _relocated(text: str, copy: Copy) -> str:
    """Return a text with paths of the user's folder led into a copy, if that has their folders.

    So a virtual environment, of which a copy has nothing, is found.
    """

    def inner(found: re.Match[str]) -> str:
        path = f"{copy.top}{found[1]}"
        return path if os.path.lexists(os.path.dirname(path)) else found[0]  # noqa: PTH120

    for original in copy.originals:
        text = re.sub(
            rf"(?<![\w.-]){re.escape(str(original))}((?:/[^:;,\"'\s]*)?)(?![\w.-])", inner, text
        )
    return text
