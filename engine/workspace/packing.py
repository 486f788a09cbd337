"""The objects of git that a recorded folder needs: where they are, and as files of a pack.

A pack has all objects of the commits that were checked out, and of the rest of the history the
commits alone: enough for `git status` and `git log`, not for `git show` of an old commit.
Rules: CONTRACT.md §16.20.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from refold.engine.errors import ContentMissing, GitFailed
from refold.engine.log.beside import add_pack, packs_of
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.entries import MERGED, STASHES, FolderStarted, Repository
from refold.engine.workspace.git import (
    LONG_LIMIT,
    Git,
    RepositoryObjects,
    object_folders,
    work_tree_around,
)
from refold.engine.workspace.inside import TOTAL_MAX, scratch_folder
from refold.engine.workspace.left_out import is_key
from refold.engine.workspace.tree import ID, Base, TreeEntry

_PACK: Final = ("--stdout", "-q", "--threads=1", "--no-reuse-delta", "--no-reuse-object")
"""So that the same objects give the same bytes."""
_KINDS: Final = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
_TAKE_IN: Final = ("index-pack", "--stdin", f"--max-input-size={TOTAL_MAX}")
"""Not with `--strict`, which wants all that an object names: of the history, a pack has the
commits alone. Nor with `--fsck-objects`, which refuses commits of early versions of git, and many a
repository has some. Names in trees are looked at where they are read."""
_HISTORY: Final = ("rev-list", "--objects", "--filter=tree:0", "--ignore-missing", "--stdin")
"""Commits and tags."""
_OBJECTS: Final = ("rev-list", "--objects", "--no-walk", "--missing=allow-promisor")
_STASH: Final = "refs/stash"
_NAMED: Final = re.compile(rf"(?m)^(?:{ID} )?({ID})(?![0-9a-f])")
"""The id of each line of a file of git; of a reflog the later one."""


def lenders(started: FolderStarted, packed: Git | None = None) -> Mapping[str, Git]:
    """Return repositories that have the objects of a folder's bases and repositories, by path.

    Each is the one in the recorded folder, else in the work tree of the current folder, else
    `packed`, else a shallow clone: one that has the recorded commit, else one that has its files. A
    path without a repository is left out.
    """
    commits = {one.path: [one.commit] * bool(one.commit) for one in started.repositories}
    trees = {base.path: [base.tree] for base in started.tree.bases}
    own, found = Path(started.path), dict[str, Git]()
    folders = [own, *filter(None, [work_tree_around(Path.cwd())])]
    for path in commits | trees:
        made = [Git(folder / path) for folder in folders if (folder / path / ".git").exists()]
        late = [git for git in made if git.top != own / path and is_shallow(git)]
        known = [*(git for git in made if git not in late), *filter(None, [packed]), *late]
        files = trees.get(path, [])
        wanted = [[*files, *commits.get(path, [])], *([files] if files else [])]
        pairs = ((git, ids) for ids in wanted for git in known)
        if git := next((git for git, ids in pairs if _has(git, ids)), None):
            found[path] = git
    return found


def is_shallow(git: Git) -> bool:
    """Return whether a repository lacks a part of its history."""
    return git.line("rev-parse", "--is-shallow-repository") == "true"


def shallow_here() -> Path | None:
    """Return the work tree of the current folder if it is a shallow clone."""
    top = work_tree_around(Path.cwd())
    return top if top is not None and is_shallow(Git(top)) else None


def _has(git: Git, ids: Iterable[str]) -> bool:
    given = "".join(f"{each}\n" for each in ids).encode()
    with contextlib.suppress(GitFailed, OSError):
        return b" missing\n" not in git.output("cat-file", "--batch-check", given=given)
    return False


def pack_objects(
    started: FolderStarted,
    into: Path,
    *,
    most: int | None = None,
    is_public: Callable[[bytes], bool] | None = None,
) -> list[Path]:
    """Add a pack of git for each repository of a recorded folder to those in `into`.

    Files that look like keys are left out, and contents that are not `is_public`. Nothing is
    written if the objects have more than `most` bytes.

    Raises:
        GitFailed: a repository is missing, or has lost objects that the record needs.
    """
    gits = lenders(started)
    told = {one.path: one for one in started.repositories}
    wanted, size = [], 0
    for base in started.tree.bases:
        git = gits.get(base.path)
        if git is None:
            raise GitFailed(started.path, "pack-objects", "the repository is not here")
        given = "\n".join(dict.fromkeys(_wanted(git, base, told.get(base.path)))).encode()
        said = git.output("cat-file", _KINDS, given=given).decode()
        objects = [line.split(" ") for line in said.splitlines()]
        size += sum(int(each[2]) for each in objects if each[2:])
        wanted.append((git, objects))
    packs: list[Path] = []
    if most is not None and size > most:
        return packs
    for git, objects in wanted:
        with RepositoryObjects(git) as contents, scratch_folder() as made:
            given = "".join(
                f"{each[0]}\n"
                for each in objects
                if is_public is None or each[1] != "blob" or _may_go(contents, each[0], is_public)
            ).encode()
            pack = made / "pack"
            pack.write_bytes(git.output("pack-objects", *_PACK, given=given, limit=LONG_LIMIT))
            packs.append(add_pack(into, pack))
    return packs


def packs_with(log: Path, started: FolderStarted, into: Path) -> list[Path]:
    """Return the packs beside a log, and those that it lacks, in the folder `into`.

    Raises:
        GitFailed: a repository is missing, or has lost objects that the record needs.
    """
    reader = packed_repository(log, _ids(started), into / "packed")
    needed = [one.tree for one in started.tree.bases]
    more = [] if _has(reader, needed) else pack_objects(started, into / "more")
    return [*packs_of(log), *more]


def _may_go(contents: RepositoryObjects, named: str, is_public: Callable[[bytes], bool]) -> bool:
    try:
        return is_public(contents.blob(named))
    except ContentMissing:
        return False


def _wanted(git: Git, base: Base, told: Repository | None) -> list[str]:
    """Return the ids of a pack's objects: whole trees of checked-out commits, and all commits."""
    refs = [line.split(" ")[:2] for line in told.refs.splitlines()] if told is not None else []
    texts = told.texts if told is not None else {}
    own = [told.commit] if told is not None and told.commit else []
    own += _NAMED.findall(texts.get(MERGED, ""))
    stashes = [each for each, name in refs if name == _STASH]
    whole = [base.tree, *own, *stashes, *_NAMED.findall(texts.get(STASHES, ""))]
    tips = "\n".join([*own, *(each for each, _ in refs)]).encode()
    objects = git.output(*_OBJECTS, *whole, limit=LONG_LIMIT)
    history = git.output(*_HISTORY, given=tips, limit=LONG_LIMIT) if tips else b""
    named = (line.partition(" ")[::2] for line in os.fsdecode(objects).splitlines())
    ids = [each for each, path in named if not is_key(path)]
    return ids + [line.split(" ")[0] for line in os.fsdecode(history).splitlines()]


def contents_of(
    log: Path, started: FolderStarted, into: Path
) -> tuple[Contents, Mapping[str, Git]]:
    """Return what reads a log's contents, and the repositories that lend objects, by path.

    They are of this machine, else one in the folder `into`, of the packs beside the log.

    Raises:
        ContentMissing: a pack is damaged.
        GitFailed: git cannot be run.
    """
    packed = packed_repository(log, _ids(started), into)
    gits = lenders(started, packed)
    folders = (each for git in gits.values() if git != packed for each in object_folders(git))
    packed.borrow(folders)
    return Contents(packed), gits


def missing_contents(
    log: Path, named: Sequence[TreeEntry], passes: Iterable[Path]
) -> list[tuple[TreeEntry, ContentMissing]]:
    """Return which contents the packs beside a log, without those that it `passes`, do not have.

    Raises:
        ContentMissing: a pack is damaged.
        GitFailed: git cannot be run.
    """
    missing, ids = [], [entry.value for entry in named]
    with (
        scratch_folder() as made,
        Contents(packed_repository(log, ids, made, passes)) as contents,
    ):
        for entry in named:
            try:
                contents.content(entry)
            except ContentMissing as error:
                missing.append((entry, error))
    return missing


def packed_repository(
    log: Path, ids: Sequence[str], into: Path, passes: Iterable[Path] = ()
) -> Git:
    """Make a repository of the packs beside a log, without those that it `passes`.

    `ids` are some of its objects. All are computed anew, and nothing else beside the log is read.

    Raises:
        ContentMissing: a pack is damaged.
        GitFailed: git cannot be run.
    """
    git = Git.made(into, into, len(ids[0]) if ids else 40)
    for pack in [one for one in packs_of(log) if one not in {*passes}]:
        try:
            with pack.open("rb") as file:
                git.output(*_TAKE_IN, given=file, limit=LONG_LIMIT)
        except GitFailed as error:
            raise ContentMissing(pack.name, str(log), f"damaged: {error.why}") from None
    return git


def _ids(started: FolderStarted) -> list[str]:
    tree = started.tree
    return [*(one.tree for one in tree.bases), *(one.value for one in tree.differs if one.digest)]
