"""The objects of git that a recorded folder needs: where they are, and as files of a pack.

A pack has all objects of the commits that were checked out, and of the rest of the history the
commits alone: enough for `git status` and `git log`, not for `git show` of an old commit.
Rules: CONTRACT.md §16.20.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from refold.engine.errors import GitFailed
from refold.engine.log.names import packs_of
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderStarted, FolderState, Repository
from refold.engine.workspace.git import Git
from refold.engine.workspace.tree import Base

_PACK: Final = ("--stdout", "-q", "--threads=1", "--no-reuse-delta", "--no-reuse-object")
"""So that the same objects give the same bytes."""
_STASH: Final = "refs/stash"


def lenders(started: FolderStarted) -> Mapping[str, Git]:
    """Return repositories that have the objects of a folder's bases and repositories, by path.

    Each is the one in the recorded folder, else in the work tree in which this process stands: one
    that has the recorded commit, else one that has its files. A path without one is left out.
    """
    wanted: dict[str, list[str]] = {one.path: [] for one in started.repositories}
    for base in started.tree.bases:
        wanted.setdefault(base.path, []).append(base.tree)
    commits = {one.path: [one.commit] for one in started.repositories if one.commit}
    folders, found = (Path(started.path), *_here()), dict[str, Git]()
    for path, ids in wanted.items():
        made = [Git(at) for each in folders if Path(at := Path(each, path), ".git").exists()]
        named = [[*ids, *commits.get(path, [])], *([ids] if ids else [])]
        if git := next((one for each in named for one in made if _has(one, each)), None):
            found[path] = git
    return found


def _here() -> Iterator[Path]:
    with contextlib.suppress(GitFailed):
        said = os.fsdecode(Git(Path.cwd()).said("rev-parse", "--show-toplevel"))
        yield Path(said.removesuffix("\n"))


def _has(git: Git, ids: Iterable[str]) -> bool:
    try:
        for each in ids:
            git.said("cat-file", "-e", each)
    except (GitFailed, OSError):
        return False
    return True


def pack_objects(folder: FolderState, into: Path) -> list[Path]:
    """Write a pack of git for each repository of a recorded folder into `into`.

    Raises:
        GitFailed: a repository is missing, or has lost objects that the record needs.
    """
    started = folder.started
    if started is None:
        return []
    gits = lenders(started)
    held = {*started.tree.differs, *folder.tree.differs}
    told = {one.path: one for one in started.repositories}
    packs = []
    for number, base in enumerate(started.tree.bases):
        git = gits.get(base.path)
        if git is None:
            raise GitFailed(started.path, "pack-objects", "the repository is not here")
        own = [one for one in held if one.kind == "git" and started.tree.base_of(one.path) == base]
        ids = [*_wanted(git, base, told.get(base.path)), *sorted({one.value for one in own})]
        pack = into / f"{number}.pack"
        pack.write_bytes(
            git.said("pack-objects", *_PACK, given="\n".join(dict.fromkeys(ids)).encode())
        )
        packs.append(pack)
    return packs


def _wanted(git: Git, base: Base, told: Repository | None) -> list[str]:
    """Return the ids of a pack's objects: whole trees of checked-out commits, and all commits."""
    refs = [line.split(" ") for line in told.refs.splitlines()] if told is not None else []
    whole = [base.tree, *(each for each, name in refs if name == _STASH)]
    tips = [each for each, _ in refs]
    if told is not None and told.commit:
        whole.append(told.commit)
        tips.append(told.commit)
    objects = git.said("rev-list", "--objects", "--no-walk", *whole).decode(errors="replace")
    ids = [line.partition(" ")[0] for line in objects.splitlines()]
    if tips:
        commits = git.said(
            "rev-list", "--ignore-missing", "--stdin", given="\n".join(tips).encode()
        )
        ids += commits.decode().split()
        kinds = git.said("cat-file", "--batch-check", given="\n".join(tips).encode()).decode()
        ids += [line.split(" ")[0] for line in kinds.splitlines() if " tag " in line]
    return ids


def contents_of(
    log: Path, started: FolderStarted, into: Path
) -> tuple[Contents, Mapping[str, Git]]:
    """Return what reads a log's contents, and the repositories that lend objects, by path.

    They are of this machine, else one in the folder `into`, of the packs beside the log.

    Raises:
        GitFailed: a pack is damaged.
    """
    gits = dict(lenders(started))
    places = {one.path for one in started.tree.bases} | {one.path for one in started.repositories}
    lost = places - gits.keys()
    if lost and (packed := packed_repository(log, into)) is not None:
        gits |= dict.fromkeys(lost, packed)
    return Contents(log, gits), gits


def packed_repository(log: Path, into: Path) -> Git | None:
    """Make a repository of the packs beside a log; `None` if none exist.

    Raises:
        GitFailed: a pack is damaged.
    """
    packs = packs_of(log)
    if not packs:
        return None
    into.mkdir(exist_ok=True)
    Git(into).said("init", "-q", "--bare", "--template=", ".")
    git = Git(into, str(into))
    for pack in packs:
        git.said("index-pack", "--stdin", given=pack.read_bytes())
    _end_history(git, into / "shallow")
    return git


def _end_history(git: Git, shallow: Path) -> None:
    """End the history at the same commits as a shallow clone's."""
    asked = "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"
    listed = git.said("cat-file", *asked).decode().splitlines()
    commits = [line.split()[0] for line in listed if line.endswith(" commit")]
    given = "".join(f"{each}\n" for each in commits).encode()
    said = (
        git.said("log", "--no-walk", "--stdin", "--format=%H %P", given=given) if commits else b""
    )
    known = set(commits)
    ends = [line.split()[0] for line in said.decode().splitlines() if not known >= {*line.split()}]
    if ends:
        shallow.write_text("".join(f"{each}\n" for each in ends))
