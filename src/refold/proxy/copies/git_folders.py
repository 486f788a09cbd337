"""The git folders of a copy: each in the place that the record names, as its command sees it.

In the folder, they are inside the copy. Others are beside it: in a sandbox they are seen at their
recorded paths, elsewhere they are bound like the folder. So `.git` files and lists of work trees
are as recorded, and nothing that a log names is written to.

Each repository is made apart from the copy, so no path of a log leads git elsewhere. Remotes and
helpers for passwords are never made, and of hooks only the user's of today, on request. Of today's
configuration only values are taken that run nothing. Rules: CONTRACT.md §16.20.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import GitFailed
from refold.engine.workspace import linked
from refold.engine.workspace.entries import COMMON_TEXTS, SPARSE, FolderStarted, Repository
from refold.engine.workspace.git import SETTINGS, Git
from refold.engine.workspace.inside import FILE, Inside
from refold.engine.workspace.tree import TreeEntry, check_folders, is_below
from refold.proxy.copies.current import is_ordinary

_TOLD: Final = r"^(submodule\..*\.url|remote\..*\.promisor)$"
"""Settings of today's repository for its submodules, and of objects that a partial clone lacks."""
_TODO: Final = "rebase-merge/git-rebase-todo"
_EXEC: Final = re.compile(r"(?m)^(\s*(?:exec|x)\b).*")
"""A line of it that would run a program."""
_BRANCH: Final = "refs/heads/"
_ALONE: Final = "[credential]\n\thelper =\n[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n"
"""Puts aside what the user's own configuration names: helpers, and keys that a sandbox lacks."""


def make_history(
    apart: Path,
    top: Path,
    repository: Repository,
    borrowed: Sequence[str],
    today: Git | None,
) -> Git:
    """Make the git folder of a folder, in the folder `apart`, without what is of one work tree.

    `borrowed` are folders of objects, as the copy names them; `today` is the user's repository, if
    there is one. Returns whom to ask.
    """
    git = Git.made(top, apart, len(repository.commit) or 40, is_plain=False)
    own = Path(git.git_dir)
    git.borrow(borrowed)
    refs = [line.split(" ") for line in repository.refs.splitlines()]
    (own / "packed-refs").write_text("".join(f"{named} {ref}\n" for named, ref, *_ in refs))
    if today is not None:
        _take_over(git, today)
    settings = _settle(git, repository.settings)
    with (own / "config").open("a", encoding="utf-8") as file:
        file.write(settings + _ALONE)
        for ref, follows in (one[1:] for one in refs if one[2:]):
            if ref.startswith(_BRANCH):  # of the repository itself: there are no remotes
                section = f"branch {_quoted(ref.removeprefix(_BRANCH))}"
                file.write(_setting(section, "remote", ".") + _setting(section, "merge", follows))
            else:
                git.line("symbolic-ref", ref, follows)
    _write_texts(own, repository, COMMON_TEXTS)
    return git


def check_out(git: Git, repository: Repository) -> list[str]:
    """Give a git folder the HEAD and the index of a folder whose files are there.

    Returns what could not be given back.
    """
    write_head(Path(git.git_dir), repository.branch or repository.commit)
    _write_texts(Path(git.git_dir), repository, repository.texts.keys() - {*COMMON_TEXTS})
    try:
        _index(git, repository)
    except GitFailed as error:
        return [f"the git index could not be restored: {error.why}"]
    return []


def _write_texts(git_folder: Path, repository: Repository, names: Iterable[str]) -> None:
    for name in repository.texts.keys() & {*names}:
        file, text = git_folder / name, repository.texts[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as texts:  # today's history may end elsewhere, too
            texts.write((_EXEC.sub(r"\1 :", text) if name == _TODO else text).encode())


def write_head(git_folder: Path, head: str) -> None:
    """Check out a branch, `refs/…`, or a commit, without its files."""
    begin = "ref: " if head.startswith("refs/") else ""
    (git_folder / "HEAD").write_text(f"{begin}{head}\n")


def take_hooks(git: Git, today: Git) -> None:
    """Give the repository of a copy the hooks of today's, which are the user's own.

    Raises:
        GitFailed: no repository was found.
    """
    hooks, elsewhere = _hooks_of(today)
    if hooks.is_dir():
        shutil.copytree(hooks, Path(git.git_dir, "hooks"), dirs_exist_ok=True)
    if elsewhere:
        git.output("config", "core.hooksPath", elsewhere)


def names_of_hooks(today: Git) -> list[str]:
    """Return the hooks of git that a repository runs; none if it is not one of this machine."""
    with contextlib.suppress(GitFailed, OSError):
        hooks, elsewhere = _hooks_of(today)
        found = Path(today.top, elsewhere) if elsewhere else hooks
        files = (each for each in found.iterdir() if each.suffix != ".sample" and each.is_file())
        return sorted(each.name for each in files if os.access(each, os.X_OK))
    return []


def _hooks_of(today: Git) -> tuple[Path, str]:
    """Return the folder of hooks in a repository, and the one that its configuration names."""
    common = os.fsdecode(today.output("rev-parse", "--git-common-dir")).removesuffix("\n")
    elsewhere = ""
    with contextlib.suppress(GitFailed):  # they are nowhere else
        (elsewhere,) = today.lines("config", "-z", "--local", "--get", "core.hooksPath")
    return Path(today.top, common, "hooks"), elsewhere


def _index(git: Git, repository: Repository) -> None:
    if repository.commit:
        git.output("read-tree", repository.commit)
    lines = []
    for one in repository.index:
        if one.stage <= 1 or not one.mode:  # the stages of a conflict stand for the plain entry
            lines.append(f"0 {'0' * git.width}\t{one.path}")
        if one.mode:
            lines.append(f"{one.mode} {one.id} {one.stage}\t{one.path}")
    given = os.fsencode("".join(f"{line}\0" for line in lines))
    git.output("update-index", "-z", "--index-info", given=given)
    git.line("update-index", "-q", "--refresh", "--unmerged", "--ignore-submodules")
    passed = os.fsencode("".join(f"{path}\0" for path in repository.passed))
    if SPARSE in repository.texts and repository.settings.get("core.sparsecheckout") == "true":
        passed += git.output("ls-files", "-d", "-z")
    git.output("update-index", "-z", "--skip-worktree", "--stdin", given=passed)


def _settle(git: Git, recorded: Mapping[str, str]) -> str:
    """Return the recorded settings, and git's defaults for those that only this user has."""
    plain = {name: SETTINGS[name] for name in git.settings() if SETTINGS[name]}
    named = ((*name.split("."), value) for name, value in {**plain, **recorded}.items())
    return "".join(_setting(*each) for each in named)


def _setting(section: str, name: str, value: str) -> str:
    return f"[{section}]\n\t{name} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    """Return a text as git's configuration files have it: bare, `#` and `;` begin comments."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _take_over(git: Git, today: Git) -> None:
    """Copy what today's repository knows of this machine, and where its history ends."""
    with contextlib.suppress(GitFailed):  # it says none of these
        for line in today.lines("config", "-z", "--local", "--get-regexp", _TOLD):
            name = line.partition("\n")[0]  # `git submodule status` wants an address, or `active`
            git.output("config", re.sub(r"\.url$", ".active", name), "true")
    shallow = Path(today.top, today.line("rev-parse", "--git-path", "shallow"))
    if shallow.is_file():
        Path(git.git_dir, "shallow").write_bytes(shallow.read_bytes())


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
        self._shared: dict[str, Mapping[str, str]] = {}
        """Likewise: the settings in their configuration, which are of the first work tree."""
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
        if one.settings != (shared := self._shared.setdefault(was, one.settings)):
            self._settle_apart(common, place, one.settings, shared)
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
        inner = (each.removeprefix(f"{one.path}/") for each in self._submodules(one))
        text = "".join(_setting("submodule", "active", f":(literal){each}") for each in inner)
        with Path(git.git_dir, "config").open("ab") as file:
            file.write(os.fsencode(text))
        return git

    def _submodules(self, one: Repository) -> Iterator[str]:
        for each in self.started.repositories:
            is_one = _OF_SUBMODULES in linked.git_folder(self.started.path, each)
            if is_one and each != one and is_below(each.path, one.path):
                yield each.path

    def _settle_apart(
        self, common: Git, place: Path, own: Mapping[str, str], shared: Mapping[str, str]
    ) -> None:
        """Give a work tree settings of its own: it may be sparse where others are not."""
        common.output("config", "extensions.worktreeConfig", "true")
        named = {name: own.get(name, SETTINGS[name]) for name in sorted({*own, *shared})}
        apart = (
            (*name.split("."), value)
            for name, value in named.items()
            if value not in ("", shared.get(name))
        )
        text = "".join(_setting(*each) for each in apart)
        (place / "config.worktree").write_text(text, encoding="utf-8")

    def _others(self, one: Repository, common: Git) -> None:
        """Let a repository know the recorded work trees that are not in the copy."""
        top, place = self.started.path, Path(common.git_dir)
        for other in one.worktrees:
            own = place / "worktrees" / other.name if other.name else place
            was = linked.resolved(linked.common_folder(top, one), os.path.relpath(own, place))
            if was in self._own or (other.name and own.exists()):
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
