"""The objects of git that a recorded folder needs: where they are, and as files of a pack.

A pack has all objects of the commits that were checked out, and of the rest of the history the
commits alone: enough for `git status` and `git log`, not for `git show` of an old commit.
Rules: CONTRACT.md §16.20.
"""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from refold.engine.errors import ContentMissing, GitFailed
from refold.engine.log.names import packs_of
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import FolderStarted, Repository
from refold.engine.workspace.git import LONG_LIMIT, Git, RepositoryObjects, work_tree_around
from refold.engine.workspace.left_out import is_key
from refold.engine.workspace.tree import Base, FileTree

_PACK: Final = ("--stdout", "-q", "--threads=1", "--no-reuse-delta", "--no-reuse-object")
"""So that the same objects give the same bytes."""
_KINDS: Final = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
_STASH: Final = "refs/stash"


def lenders(
    started: FolderStarted, packed: Callable[[], Git | None] = lambda: None
) -> Mapping[str, Git]:
    """Return repositories that have the objects of a folder's bases and repositories, by path.

    Each is the one in the recorded folder, else in the work tree in which this process stands, else
    `packed`, else a shallow clone: one that has the recorded commit, else one that has its files. A
    path without a repository is left out.
    """
    wanted: dict[str, list[str]] = {one.path: [] for one in started.repositories}
    for base in started.tree.bases:
        wanted.setdefault(base.path, []).append(base.tree)
    commits = {one.path: [one.commit] for one in started.repositories if one.commit}
    here = work_tree_around(Path.cwd())
    folders, found = (Path(started.path), *([here] if here else [])), dict[str, Git]()
    for path, ids in wanted.items():
        named = [[*ids, *commits.get(path, [])], *([ids] if ids else [])]
        pairs = ((git, each) for each in named for git in _candidates(path, folders, packed))
        if git := next((git for git, each in pairs if _has(git, each)), None):
            found[path] = git
    return found


def _candidates(
    path: str, folders: Sequence[Path], packed: Callable[[], Git | None]
) -> Iterator[Git]:
    """Yield the repositories that may have a path's objects; first that of the first folder."""
    made = [Git(folder / path) for folder in folders if (folder / path / ".git").exists()]
    late = [git for git in made if git.top != folders[0] / path and is_shallow(git)]
    yield from (git for git in made if git not in late)
    if git := packed():
        yield git
    yield from late


def is_shallow(git: Git) -> bool:
    """Return whether a repository lacks a part of its history."""
    try:
        return git.said("rev-parse", "--is-shallow-repository") == b"true\n"
    except (GitFailed, OSError):
        return False


def shallow_here() -> Path | None:
    """Return the work tree in which this process stands if it is a shallow clone."""
    top = work_tree_around(Path.cwd())
    return top if top is not None and is_shallow(Git(top)) else None


def _has(git: Git, ids: Iterable[str]) -> bool:
    try:
        for each in ids:
            git.said("cat-file", "-e", each)
    except (GitFailed, OSError):
        return False
    return True


def pack_objects(
    started: FolderStarted,
    tree: FileTree,
    into: Path,
    *,
    most: int | None = None,
    is_public: Callable[[bytes], bool] | None = None,
) -> list[Path]:
    """Write a pack of git for each repository of a recorded folder into `into`.

    `tree` is the folder at the end. Files that look like keys are left out, and contents that are
    not `is_public`. Nothing is written if the objects have more than `most` bytes.

    Raises:
        GitFailed: a repository is missing, or has lost objects that the record needs.
    """
    gits = lenders(started)
    held = {*started.tree.differs, *tree.differs}
    told = {one.path: one for one in started.repositories}
    wanted, size = [], 0
    for base in started.tree.bases:
        git = gits.get(base.path)
        if git is None:
            raise GitFailed(started.path, "pack-objects", "the repository is not here")
        own = [one for one in held if one.kind == "git" and started.tree.base_of(one.path) == base]
        ids = [*_wanted(git, base, told.get(base.path)), *sorted({one.value for one in own})]
        given = "\n".join(dict.fromkeys(ids)).encode()
        said = git.said("cat-file", _KINDS, given=given).decode()
        objects = [line.split(" ") for line in said.splitlines()]
        size += sum(int(each[2]) for each in objects if each[2:])
        wanted.append((git, objects))
    packs: list[Path] = []
    if most is not None and size > most:
        return packs
    for number, (git, objects) in enumerate(wanted):
        with RepositoryObjects(git) as contents:
            given = "".join(
                f"{each[0]}\n"
                for each in objects
                if is_public is None or each[1] != "blob" or _may_go(contents, each[0], is_public)
            ).encode()
        into.mkdir(exist_ok=True)
        pack = into / f"{number}.pack"
        pack.write_bytes(git.said("pack-objects", *_PACK, given=given, limit=LONG_LIMIT))
        packs.append(pack)
    return packs


def _may_go(contents: RepositoryObjects, named: str, is_public: Callable[[bytes], bool]) -> bool:
    try:
        return is_public(contents.blob(named))
    except ContentMissing:
        return False


def _wanted(git: Git, base: Base, told: Repository | None) -> list[str]:
    """Return the ids of a pack's objects: whole trees of checked-out commits, and all commits."""
    refs = [line.split(" ") for line in told.refs.splitlines()] if told is not None else []
    whole = [base.tree, *(each for each, name in refs if name == _STASH)]
    tips = [each for each, _ in refs]
    if told is not None and told.commit:
        whole.append(told.commit)
        tips.append(told.commit)
    asked = "rev-list", "--objects", "--no-walk"
    objects = os.fsdecode(git.said(*asked, *whole, limit=LONG_LIMIT))
    named = (line.partition(" ")[::2] for line in objects.splitlines())
    ids = [each for each, path in named if not is_key(path)]
    if tips:
        commits = git.said(
            "rev-list", "--ignore-missing", "--stdin", given="\n".join(tips).encode(),
            limit=LONG_LIMIT,
        )  # fmt: skip
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
    gits = lenders(started, functools.cache(lambda: packed_repository(log, into)))
    return Contents(log, gits), gits


def packed_repository(log: Path, into: Path) -> Git | None:
    """Make a repository of the packs beside a log; `None` if none exist.

    Raises:
        GitFailed: a pack is damaged.
    """
    packs = packs_of(log)
    if not packs:
        return None
    git = Git.made(into, into)
    for pack in packs:
        git.said("index-pack", "--stdin", given=pack.read_bytes(), limit=LONG_LIMIT)
    _end_history(git, Path(git.git_dir, "shallow"))
    return git


def _end_history(git: Git, shallow: Path) -> None:
    """End the history at the same commits as a shallow clone's."""
    asked = "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"
    listed = git.said("cat-file", *asked, limit=LONG_LIMIT).decode().splitlines()
    commits = [line.split()[0] for line in listed if line.endswith(" commit")]
    given = "".join(f"{each}\n" for each in commits).encode()
    said = (
        git.said("log", "--no-walk", "--stdin", "--format=%H %P", given=given) if commits else b""
    )
    known = set(commits)
    ends = [line.split()[0] for line in said.decode().splitlines() if not known >= {*line.split()}]
    if ends:
        shallow.write_text("".join(f"{each}\n" for each in ends))
