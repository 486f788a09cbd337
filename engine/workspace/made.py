"""Finds the commits and annotated tags that are new in the repositories of a folder.

Refs and reflogs do not name all of them: a command can print the id of a commit, and drop every
name of it, as `git stash pop` does. But git writes each as a file of its own, in a folder for the
first byte of its id. Of what it packed since the last look, git is asked, by refs and reflogs.
Rules: CONTRACT.md §16.16.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.errors import GitFailed
from refold.engine.workspace.entries import MadeObject
from refold.engine.workspace.git import Git, RepositoryObjects, blob_id
from refold.engine.workspace.inside import Inside
from refold.engine.workspace.linked import git_at
from refold.engine.workspace.paths import as_text

MOST: Final = 1000
"""Objects of one look, the latest; a fetch can bring any number."""
_TEXT_MAX: Final = 1 << 20
_TEXTS_MAX: Final = 1 << 26
"""Bytes of a file in which ids are looked for, and of all files of one look."""
_GITLINK: Final = "160000"
_ID: Final = re.compile(r"(?<![0-9A-Za-z])g?([0-9a-f]{7,64})(?![0-9A-Za-z])")
_WHOLE: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_TIME: Final = re.compile(r"(?:author|committer|tagger) .*> ([0-9]{1,12} [+-][0-9]{4})")
"""In a log as well; a command can write objects that git would not."""
_PACKED: Final = (
    "rev-list", "--objects", "--no-object-names", "--filter=tree:0", "--all", "--reflog",
    "--ignore-missing", "--stdin",
)  # fmt: skip
"""Commits and tags."""
_KINDS: Final = "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", "--buffer"
_FOLDERS: Final = tuple(f"{number:02x}" for number in range(256))

AsRecorded = Callable[[str], str]


class NewObjects:
    """The objects of a folder's repositories, looked at as often as asked."""

    def __init__(self, top: Path, seen: Mapping[str, str] = MappingProxyType({})) -> None:
        """Take the folder; for `seen`, see `linked.git_at`."""
        self._top = top
        self._led = seen
        self._is_first = True
        self._stores: dict[Path, Git] = {}
        """By folder of objects; worktrees share one."""
        self._places: set[str] = set()
        self._old: list[str] = []
        """The commits that refs and reflogs named at first."""
        self._seen: set[str] = set()
        """Objects that were not in a pack, or new."""
        self._made: dict[str, list[str]] = {}
        """Commits and tags that are new, by their first seven digits."""

    def find_new(
        self, paths: Iterable[str], as_recorded: AsRecorded | None = None
    ) -> tuple[MadeObject, ...]:
        """Return what is new since the last look, in the order of time; at first, nothing is.

        `paths` are those of repositories in the folder. `as_recorded` returns a text with recorded
        values, for a second digest.
        """
        for path in paths:
            self._meet(path)
        looks: list[_NewCommits] = []
        for store, git in self._stores.items():
            if new := self._new(store, git):
                looks.append(_NewCommits(git, self._made, as_recorded))
                with contextlib.suppress(GitFailed):  # a command removes the repository meanwhile
                    looks[-1].find(new)
        self._is_first = False
        found: list[MadeObject] = []
        for look in looks:  # when all ids are known, for one repository can name commits of another
            with contextlib.suppress(GitFailed):
                found += look.made()
        return tuple(found)

    def _meet(self, path: str) -> None:
        """Find the store of the repository at a path."""
        with Inside(self._top) as top:
            is_there = top.held(f"{path}/.git" if path else ".git") is not None
        if path in self._places or not is_there:
            return
        git = git_at(self._top, path, self._led)
        if store := git.line("rev-parse", "--git-path", "objects"):  # else it is not whole yet
            self._places.add(path)
            self._stores.setdefault(Path(git.top, store).resolve(), git)
            if self._is_first:
                self._old += git.line("rev-list", "--no-walk", "--all", "--reflog").split()

    def _new(self, store: Path, git: Git) -> set[str]:
        """Return the ids in a store that were in none before; at first, none."""
        found = {*_names(f"{store}/pack")}
        for name in _FOLDERS:
            found.update(name + rest for rest in _names(f"{store}/{name}"))
        found -= self._seen
        self._seen |= found
        if any(name.endswith(".pack") for name in found) and not self._is_first:
            given = "".join(f"^{each}\n" for each in self._old).encode()
            with contextlib.suppress(GitFailed):
                found |= {*git.output(*_PACKED, given=given).decode().split()} - self._seen
                self._seen |= found
        return set() if self._is_first else {*filter(_WHOLE.fullmatch, found)}


def _names(folder: str) -> list[str]:
    """Return what is in a folder; nothing if it is gone, as when git packs what was in it."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - many
    except OSError:
        return []


@attrs.frozen
class _Commit:
    """A commit or a tag, as git stores it."""

    id: str
    kind: str
    named: tuple[str, ...]
    """Its parents, or what it tags."""
    title: str
    """The name of a tag."""
    message: str
    times: tuple[str, ...]

    @classmethod
    def parsed(cls, named: str, kind: str, content: bytes) -> "_Commit":
        head, _, message = content.decode(errors="surrogateescape").partition("\n\n")
        lines = [line.partition(" ")[::2] for line in head.split("\n")]
        wanted = "parent" if kind == "commit" else "object"
        others = tuple(value for name, value in lines if name == wanted and _WHOLE.fullmatch(value))
        title = "".join(value for name, value in lines if name == "tag" and kind == "tag")
        times = tuple(found[1] for line in head.split("\n") if (found := _TIME.fullmatch(line)))
        return cls(named, kind, others, title, message, times)

    @property
    def when(self) -> list[int]:
        return [int(each.split()[0]) for each in reversed(self.times)]


@attrs.define
class _NewCommits:
    """The commits and tags among the new objects of one store."""

    git: Git
    known: dict[str, list[str]]
    as_recorded: AsRecorded | None
    found: list[_Commit] = attrs.field(factory=list)
    texts: dict[str, str] = attrs.field(factory=dict)
    """Contents of files, by id."""

    def find(self, new: set[str]) -> None:
        """Read the commits and tags among new objects."""
        ids = [named for named, kind, _ in self._kinds(sorted(new)) if kind in ("commit", "tag")]
        with RepositoryObjects(self.git) as objects:
            found = [_Commit.parsed(*each) for each in objects.contents(ids)]
        self.found = sorted(found, key=lambda one: (one.when, one.id))[-MOST:]
        for one in self.found:
            self.known.setdefault(one.id[:7], []).append(one.id)

    def made(self) -> list[MadeObject]:
        """Return them in the order of time."""
        changes = self._changes(one for one in self.found if one.kind == "commit")
        small, room = list[str](), _TEXTS_MAX
        blobs = dict.fromkeys(blob for each in changes.values() for _, _, blob in each)
        for blob, kind, size in self._kinds(blobs):
            if kind == "blob" and size <= min(_TEXT_MAX, room):
                small.append(blob)
                room -= size
        with RepositoryObjects(self.git) as objects:
            for blob, _, content in objects.contents(small):
                self.texts[blob] = content.decode(errors="surrogateescape")
        return [self._made_object(one, changes.get(one.id, [])) for one in self.found]

    def _kinds(self, ids: Iterable[str]) -> Iterator[tuple[str, str, int]]:
        """Yield the id, the kind and the size of those objects that are there."""
        given = "".join(f"{named}\n" for named in ids).encode()
        for line in self.git.output(*_KINDS, given=given).decode().splitlines():
            named, kind, *size = line.split(" ")
            if size:
                yield named, kind, int(size[0])

    def _changes(self, commits: Iterable[_Commit]) -> dict[str, list[tuple[str, str, str]]]:
        """Return by commit the path, mode and id of each file that its first parent has not."""
        asked = "".join(f"{' '.join([one.id, *one.named[:1]])}\n" for one in commits)
        wanted = ("-r", "-z", "--root", "--no-renames", "--no-ext-diff", "--always", "--stdin")
        parts = iter(self.git.lines("diff-tree", *wanted, given=asked.encode()) if asked else ())
        found: dict[str, list[tuple[str, str, str]]] = {}
        for part in parts:
            if part.startswith(":"):
                _, mode, _, blob, _ = part.split(" ")
                next(reversed(found.values())).append((next(parts), mode, blob))
            else:
                found[part] = []
        return found

    def _made_object(self, one: _Commit, changes: list[tuple[str, str, str]]) -> MadeObject:
        named = list(one.named)
        message = self._marked(one.message, named)
        texts = list[str]()
        for _, mode, blob in changes:
            named += [blob] if mode == _GITLINK else []
            texts.append("" if mode == _GITLINK else self._marked(self.texts.get(blob, ""), named))
        digests = []
        forms: list[AsRecorded] = [str, *([self.as_recorded] if self.as_recorded else [])]
        for plain in forms:
            files = [
                [as_text(path), mode, self._named(mode, plain(text), blob)]
                for (path, mode, blob), text in zip(changes, texts, strict=True)
            ]
            told = [one.kind, one.title, as_text(plain(message)), files]
            digests.append(sha256(encode(told)).hexdigest())
        return MadeObject(one.id, digests[0], tuple(named), one.times, digests[-1])

    def _named(self, mode: str, text: str, blob: str) -> str:
        """Return the id of a file with such a text; of a submodule none."""
        if mode == _GITLINK:
            return ""
        is_same = text == self.texts.get(blob, "")
        return blob if is_same else blob_id(text.encode(errors="surrogateescape"), len(blob))

    def _marked(self, text: str, named: list[str]) -> str:
        """Return a text with a mark for each id of a new object, which `named` gets."""

        def mark(found: re.Match[str]) -> str:
            for each in self.known.get(found[1][:7], ()):
                if each.startswith(found[1]):
                    named.append(each)
                    return f"\0{len(found[0])}"
            return found[0]

        return _ID.sub(mark, text)
