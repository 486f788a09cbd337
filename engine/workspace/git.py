"""Queries git about a repository; git writes nothing, and runs no program of the user.

Hooks, filters, file system monitors and fetches that a configuration enables are disabled by
options and variables that override all configuration. git gets its repository and its work
tree, whatever the configuration has, and a limited time: a pipe in the place of a file that
it reads would never end. Rules: CONTRACT.md §16.16.
"""

import contextlib
import hashlib
import os
import re
import select
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

import attrs

from refold.engine.errors import ContentMissing, FolderRefused, GitFailed
from refold.engine.workspace import paths
from refold.engine.workspace.forms import LINES_MAX
from refold.engine.workspace.tree import Kind, TreeEntry

_OFF: Final = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.quotePath=false",
    "diff.external=", "protocol.allow=never",
    "submodule.recurse=false", "core.bigFileThreshold=16m", "index.sparse=false",
)  # fmt: skip
_VARIABLES: Final[Mapping[str, str]] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",  # for git before 2.44, which would fetch all the same
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_DEFAULT_REF_FORMAT": "files",  # of new repositories: git 3.0 has others by itself
    "LC_ALL": "C",
}
_KEPT: Final = re.compile(r"GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)")
SETTINGS: Final[Mapping[str, str]] = {
    "user.name": "", "user.email": "", "author.name": "", "author.email": "",
    "committer.name": "", "committer.email": "",
    "init.defaultbranch": "master", "core.quotepath": "true", "core.abbrev": "auto",
    "core.filemode": "true", "core.sparsecheckout": "false", "core.sparsecheckoutcone": "true",
    "index.sparse": "false",
    "core.autocrlf": "false", "core.eol": "native", "core.safecrlf": "warn",
    "log.date": "default", "log.decorate": "auto", "log.abbrevcommit": "false",
    "format.pretty": "medium", "status.short": "false", "status.branch": "false",
    "status.relativepaths": "true", "status.showuntrackedfiles": "normal",
    "diff.noprefix": "false", "diff.mnemonicprefix": "false", "diff.renames": "true",
    "diff.context": "3", "diff.algorithm": "default", "branch.sort": "refname",
    "tag.sort": "refname", "merge.ff": "true", "merge.conflictstyle": "merge",
    "pull.rebase": "false", "commit.cleanup": "default", "commit.verbose": "false",
    "advice.detachedhead": "true", "color.ui": "auto", "column.ui": "never",
}  # fmt: skip
"""Settings that change git's output, and run nothing, with git's defaults. An identity has no
default; `author` and `committer` come from `git var`."""
_IDENTITY: Final = re.compile(r"(.*) <(.*)> \d+ [+-]\d{4}")
_WHO: Final = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_CHAIN_MAX: Final = 16
"""Repositories that lend objects to each other."""
LIMIT: Final = 60.0
"""Seconds for an answer about a work tree."""
LONG_LIMIT: Final = 3600.0
"""Seconds for an answer that needs the whole history."""
_GIT_KINDS: Final[Mapping[str, Kind]] = {"blob": "git", "commit": "commit"}

_CONFIG: Final = """[core]
\tprotectHFS = false
\tprotectNTFS = false
\tfsync = none
\tlooseCompression = 0
[fastimport]
\tunpackLimit = 0
"""
"""Which names may be recorded is decided before git is asked, and `add_pack` syncs packs."""
_PLAIN: Final = "* -text -eol -filter -ident -working-tree-encoding !diff\n"

CONTENT_MAX: Final = 256 * 1024**2
"""Bytes of one file: a stranger's pack may hold gigabytes in a few kilobytes."""
_CHUNK: Final = 1 << 20
_SHA1: Final = 40
_FOLDER: Final = b"040000 "
_QUOTED: Final = re.compile(r'["\\]')


IndexEntry = tuple[str, str, str, int]
"""Path, mode, id and stage of an entry of an index."""


def is_installed() -> bool:
    """Return whether git can be run here."""
    return shutil.which("git") is not None


def environment() -> dict[str, str]:
    """Return git's environment, without the user's variables that would redirect it.

    A hook of git that starts a program sets GIT_DIR and others for it.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or _KEPT.fullmatch(name)
    }
    return {**own, **_VARIABLES}


@attrs.frozen
class Git:
    """Asks git of one work tree."""

    top: Path
    git_dir: str = ""
    """Of a repository elsewhere, which is this process's; empty: `.git` in the work tree."""
    index: str = ""
    """Another index than the repository's own."""
    width: int = 40
    """Digits of an id; of a repository of this process alone."""

    @classmethod
    def made(cls, top: Path, apart: Path, width: int = 40, *, is_plain: bool = True) -> Self:
        """Make an empty repository for a work tree: `.git` in another folder.

        Its ids have 40 or 64 digits. One that `is_plain` takes files byte by byte.

        Raises:
            GitFailed: it cannot be made.
        """
        apart.mkdir(parents=True, exist_ok=True)
        git = cls(top, str(apart.resolve() / ".git"), width=width)
        begin = ["git", f"--git-dir={git.git_dir}"]
        kind = "sha256" if width > _SHA1 else "sha1"
        variables = {**git.variables(), "GIT_DEFAULT_HASH": kind}  # git before 2.29 has no option
        _run(apart, begin, ("init", "-q", "--template="), variables)
        if is_plain:
            own = Path(git.git_dir)
            with (own / "config").open("a") as file:
                file.write(_CONFIG)
            (own / "info").mkdir()
            (own / "info" / "attributes").write_text(_PLAIN)
        return git

    def variables(self, lent: Iterable[Path] = ()) -> dict[str, str]:
        """Return git's environment; a repository of this process has no other's settings.

        `lent` are folders with more objects.
        """
        found = environment()
        if self.git_dir:
            found |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
            found |= {"GIT_CONFIG_COUNT": "0", "GIT_ATTR_NOSYSTEM": "1"}
        if self.index:
            found["GIT_INDEX_FILE"] = self.index
        if quoted := [_QUOTED.sub(r"\\\g<0>", os.fspath(one)) for one in lent]:
            found["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(f'"{one}"' for one in quoted)
        return found

    def borrow(self, folders: Iterable[str | Path]) -> None:
        """Look for objects in other folders, too; for a repository of this process."""
        info = Path(self.git_dir, "objects", "info")
        info.mkdir(exist_ok=True)
        with (info / "alternates").open("a") as file:
            file.writelines(f"{one}\n" for one in folders)

    def _begin(self) -> list[str]:
        options = (part for value in _OFF for part in ("-c", value))
        return ["git", f"--git-dir={self.git_dir or '.git'}", "--work-tree=.", *options]

    def output(
        self,
        *arguments: str,
        given: bytes | IO[bytes] = b"",
        limit: float | None = None,
        lent: Iterable[Path] = (),
    ) -> bytes:
        """Return what git prints, in at most `limit` seconds (60); `given` is text or a file.

        Raises:
            GitFailed: it cannot be run, failed, or did not end in time.
        """
        return _run(self.top, self._begin(), arguments, self.variables(lent), given, limit)

    def lines(self, *arguments: str, given: bytes = b"", lent: Iterable[Path] = ()) -> list[str]:
        """Return git's output with `-z`, decoded like paths.

        Raises:
            GitFailed: as of `output`.
        """
        return os.fsdecode(self.output(*arguments, given=given, lent=lent)).split("\0")[:-1]

    def line(self, *arguments: str) -> str:
        """Return a line of git's output, without its end; empty if git has no answer."""
        try:
            return os.fsdecode(self.output(*arguments)).removesuffix("\n")
        except GitFailed:
            return ""

    def index_as(
        self, files: Iterable[tuple[str, TreeEntry | None]], *, is_quick: bool = False
    ) -> None:
        """Give paths of an index other entries, `None` for none.

        Unless it `is_quick`, git notes the times of all files: it need not read them again.

        Raises:
            GitFailed: git failed.
        """
        none = f"0 {'0' * self.width}"
        named = ((path, none if one is None else f"{one.mode} {one.value}") for path, one in files)
        if given := os.fsencode("".join(f"{told}\t{path}\0" for path, told in named)):
            self.output("update-index", "-z", "--index-info", given=given)
        if not is_quick:
            self.line("update-index", "-q", "--refresh", "--ignore-submodules")  # 1: some differ

    def staged(self, *options: str) -> Iterator[IndexEntry]:
        """Yield the entries of an index.

        Raises:
            GitFailed: git failed.
        """
        for line in self.lines("ls-files", "-s", "-z", *options):
            told, _, path = line.partition("\t")
            mode, named, stage = told.split(" ")
            yield path, mode, named, int(stage)

    def tree_of_index(self) -> str:
        """Return the id of the git tree of an index.

        Raises:
            GitFailed: git failed.
        """
        return self.output("write-tree", "--missing-ok").decode().strip()

    def settings(self) -> dict[str, str]:
        """Return those of `SETTINGS` that hold in this repository, also by the user's own files.

        Values that are not printable are left out: no log can hold bytes that are not UTF-8.
        """
        found: dict[str, str] = {}
        names = "|".join(name.replace(".", r"\.") for name in SETTINGS)
        asked = "config", "-z", "--get-regexp", f"^({names})$"
        with contextlib.suppress(GitFailed):  # it says none of these
            said = os.fsdecode(_run(self.top, self._begin()[:3], asked, environment()))
            found = dict(line.split("\n", 1) for line in said.split("\0") if "\n" in line)
        own = {name: value for name, value in os.environ.items() if name.startswith(_WHO)}
        for who in ("author", "committer"):
            with contextlib.suppress(GitFailed):  # nobody is known
                asked_who = "var", f"GIT_{who.upper()}_IDENT"
                said = os.fsdecode(_run(self.top, self._begin(), asked_who, environment() | own))
                if identity := _IDENTITY.fullmatch(said.strip()):
                    found |= {f"{who}.name": identity[1], f"{who}.email": identity[2]}
        return {name: value for name, value in found.items() if value.isprintable()}

    def excluding(self) -> list[Path]:
        """Return the files with the user's own rules on what git ignores in this repository."""
        found = [self.line("rev-parse", "--git-path", "info/exclude")]
        asked = "config", "-z", "--type=path", "--get", "core.excludesFile"
        with contextlib.suppress(GitFailed):  # it is of the user's settings, for a copy as well
            said = _run(self.top, self._begin(), asked, environment())
            found.append(os.fsdecode(said).removesuffix("\0"))
        return [self.top / one for one in found if one]

    def started(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start git, with pipes to it and from it; its error output is dropped.

        Raises:
            GitFailed: it cannot be run.
        """
        try:
            return subprocess.Popen(
                [*self._begin(), *arguments],
                cwd=self.top, env=self.variables(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            raise GitFailed(str(self.top), arguments[0], str(error)) from None


def _run(
    folder: Path,
    begin: Sequence[str],
    arguments: Sequence[str],
    variables: Mapping[str, str],
    given: bytes | IO[bytes] = b"",
    limit: float | None = None,
) -> bytes:
    source: dict[str, Any] = {"input": given} if isinstance(given, bytes) else {"stdin": given}
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            [*begin, *arguments], cwd=folder, env=variables,
            capture_output=True, check=True, timeout=LIMIT if limit is None else limit, **source,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()[:200]
    except subprocess.TimeoutExpired as error:
        why = f"no answer within {error.timeout:g} seconds"
    except OSError as error:
        why = "git is not installed" if error.filename == "git" else str(error)
    else:
        return done.stdout
    raise GitFailed(str(folder), arguments[0], why)


def work_tree_around(here: Path) -> Path | None:
    """Return the top of the work tree that contains a folder, or `None`.

    git decides whether the repository is one, and may be used: it can belong to somebody else. The
    setting `core.worktree` is not followed.
    """
    asked = "rev-parse", "--absolute-git-dir"
    with contextlib.suppress(GitFailed):
        found = _run(here, ["git"], asked, environment())
        is_inside = here.is_relative_to(os.fsdecode(found).removesuffix("\n"))
        for top in () if is_inside else (here, *here.parents):
            with contextlib.suppress(GitFailed):
                if os.path.lexists(top / ".git") and Git(top).output(*asked) == found:
                    return top
    return None


class RepositoryObjects(contextlib.AbstractContextManager["RepositoryObjects"]):
    """The objects of the repository of a work tree, read by one process of git.

    Nothing larger is read than a file of `CONTENT_MAX` bytes, and a list of `LINES_MAX` files.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._running: subprocess.Popen[bytes] | None = None

    def blob(self, named: str) -> bytes:
        """Return the content of a blob, checked against its id.

        Raises:
            ContentMissing: it does not exist, is too large, or does not match its id.
        """
        kind, content = self._read(named)
        if kind != "blob" or blob_id(content, len(named)) != named:
            why = "the object is damaged" if kind == "blob" else f"expected a file, found a {kind}"
            raise ContentMissing(named, str(self._git.top), why)
        return content

    def contents(self, ids: Iterable[str]) -> Iterator[tuple[str, str, bytes]]:
        """Yield the id, the kind and the content of those objects that are there."""
        for each in ids:
            with contextlib.suppress(ContentMissing):
                yield each, *self._read(each)

    def _read(self, named: str) -> tuple[str, bytes]:
        try:
            if self._running is None:
                self._running = self._git.started("cat-file", "--batch")
            given, out = _pipes(self._running)
            given.write(f"{named}\n".encode())
            given.flush()
            _await(out)
            match out.readline().decode().split():
                case [_, kind, size] if int(size) <= CONTENT_MAX:
                    return kind, out.read(int(size) + 1)[:-1]
                case [_, _, size]:  # its content is never read
                    why = f"expected at most {CONTENT_MAX} bytes, found {size}"
                    self.close()
                case [_, _]:
                    why = "the repository has no such file"
                case _:
                    why = "git has ended"
                    self.close()
        except (OSError, GitFailed, ValueError) as error:
            self.close()
            why = str(error)
        raise ContentMissing(named, str(self._git.top), why)

    def files(self, tree: str, path: str = "") -> list[TreeEntry]:
        """Return all files of a git tree, their paths below `path`.

        Raises:
            ContentMissing: it does not exist, or has too many files.
            FolderRefused: it contains a forbidden path, or a path twice.
        """
        count, found, rest = 0, list[TreeEntry](), b""
        try:
            running = self._git.started("ls-tree", "-rtz", "--full-tree", tree)
        except GitFailed as error:
            raise ContentMissing(tree, str(self._git.top), str(error)) from None
        with running:
            given, out = _pipes(running)
            given.close()
            try:
                while count <= LINES_MAX and (more := out.read(_CHUNK)):
                    *lines, rest = (rest + more).split(b"\0")
                    count += len(lines)
                    # folders count, too: a few of them, each in each, make millions without a file
                    files = (line for line in lines if not line.startswith(_FOLDER))
                    found += [listed(os.fsdecode(line), path) for line in files]
            finally:
                out.close()  # git ends, for nobody reads it
        if count > LINES_MAX:
            why = f"expected at most {LINES_MAX} files and folders, found more"
            raise ContentMissing(tree, str(self._git.top), why)
        if running.returncode:
            raise ContentMissing(tree, str(self._git.top), "the repository has no such tree")
        if len({one.path for one in found}) < len(found):
            raise FolderRefused(tree, "each path once", "the same path twice")
        return found

    def close(self) -> None:
        """End the process of git."""
        if self._running is not None:
            for pipe in _pipes(self._running):
                pipe.close()
            self._running.kill()
            self._running.wait()
            self._running = None

    def __exit__(self, *_: object) -> None:
        self.close()


def _await(out: IO[bytes]) -> None:
    ready = select.poll()
    ready.register(out, select.POLLIN)
    if not ready.poll(LIMIT * 1000):
        raise TimeoutError(f"git: no answer within {LIMIT:g} seconds")


def _pipes(running: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    assert running.stdin is not None
    assert running.stdout is not None
    return running.stdin, running.stdout


def listed(line: str, path: str = "") -> TreeEntry:
    """Return the file of a line of `git ls-tree -r -z`.

    Raises:
        FolderRefused: it names what no tree may name.
    """
    said, _, name = line.partition("\t")
    mode, kind, named = said.split(" ")
    mode = "100644" if mode == "100664" else mode  # of early versions of git
    return TreeEntry(
        paths.checked(f"{path}/{name}" if path else name), mode, _GIT_KINDS[kind], named
    )


def object_folders(git: Git) -> list[Path]:
    """Return the object folders of a repository: its own, and those that it borrows from.

    Raises:
        GitFailed: no repository was found.
    """
    own = git.output("rev-parse", "--git-path", "objects").decode(errors="surrogateescape")
    found = [Path(git.top, own.removesuffix("\n")).resolve()]
    for folder in found:
        listed = folder / "info" / "alternates"
        lines = listed.read_text(errors="surrogateescape").splitlines() if listed.is_file() else []
        more = (folder / line for line in lines if line and not line.startswith("#"))
        found += [each.resolve() for each in more if each.resolve() not in found]
        if len(found) > _CHAIN_MAX:
            break
    return found


def blob_id(content: bytes, length: int = 40) -> str:
    """Return the id that git gives a blob: of 40 hex digits, or of 64 in newer repositories."""
    kind = hashlib.sha1 if length == _SHA1 else hashlib.sha256
    found = kind(b"blob %d\0" % len(content), usedforsecurity=False)
    found.update(content)  # apart: a large content is in memory once
    return found.hexdigest()
