"""Files of folders, drawn; and repositories of git, made."""

import os
import subprocess
from pathlib import Path

from hypothesis import strategies as st

from refold.engine.errors import FolderRefused
from refold.engine.log.blobs import digest_only
from refold.engine.log.names import files_of
from refold.engine.workspace import paths
from refold.engine.workspace.contents import Contents, Store
from refold.engine.workspace.entries import FolderStarted
from refold.engine.workspace.git import blob_id
from refold.engine.workspace.packing import packed_repository
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.tree import TreeEntry
from refold.proxy.copies.applying import FolderPatch

_NAMES = st.one_of(
    st.sampled_from(["a", "b", "src", "x.py", "ä", "\\", "new\nline"]),
    st.binary(min_size=1, max_size=8).map(os.fsdecode),
)


def _is_path(path: str) -> bool:
    try:
        return bool(paths.checked(path))
    except FolderRefused:
        return False


PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join).filter(_is_path)
_DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
_SIZES = st.integers(0, 10**7)


@st.composite
def entries(draw: st.DrawFn) -> list[TreeEntry]:
    """Entries of one tree, none below one that is no folder."""
    found: list[TreeEntry] = []
    for path in draw(st.lists(PATHS, unique=True, max_size=6)):
        is_apart = all(
            not path.startswith(f"{one.path}/") and not one.path.startswith(f"{path}/")
            for one in found
        )
        if is_apart:
            found.append(draw(_entry(path)))
    return found


@st.composite
def _entry(draw: st.DrawFn, path: str) -> TreeEntry:
    mode = draw(st.sampled_from(["100644", "100755"]))
    match draw(st.sampled_from(["git", "own", "cut", "out"])):
        case "git":
            return TreeEntry(path, mode, "git", draw(_DIGESTS)[:40])
        case "own":
            return kept(path, draw(st.binary(max_size=9)), draw(st.sampled_from([mode, "120000"])))
        case "cut":
            return TreeEntry(path, mode, "cut", draw(_DIGESTS)[:40], draw(_SIZES), draw(_DIGESTS))
        case _:
            return TreeEntry(path, mode, "out", "large", draw(_SIZES))


def kept(path: str, content: bytes, mode: str = "100644", log: Path | None = None) -> TreeEntry:
    """Return the entry of a file or link by content, which is kept beside a log."""
    if log is not None:
        with Store(log.parent, "sha1", files_of(log)) as store:
            store.put(content)
            store.keep()
    return TreeEntry(path, mode, "git", blob_id(content), len(content), digest_only(content))


def start_of(scanner: Scanner, top: Path, below: str = "") -> FolderStarted:
    """Scan a folder for the first time, and return its start."""
    scanner.scan()
    state = scanner.state
    return FolderStarted(str(top), below, state.tree, state.repositories, state.by_git)


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user would, with a name and no configuration of this machine; return its say."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main"]
    how = ["-c", "protocol.file.allow=always", "-c", "maintenance.auto=false"]  # 3 ms a commit
    command = ["git", *who, *how, *arguments]
    done = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    """Make a repository with these files in one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    for path, text in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    if files:
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "first")
    return folder


def patch_with(folder: Path, work: Path, files: dict[str, bytes]) -> FolderPatch:
    """Return a patch that makes files in a folder; a folder `work` gets what it needs."""
    work.mkdir(exist_ok=True)
    log = work / "patched.jsonl"
    new = [kept(path, content, log=log) for path, content in files.items()]
    changes = [(one.path, None, one) for one in new]
    with Contents(packed_repository(log, [one.value for one in new], work / "made")) as contents:
        return FolderPatch(folder, changes, contents.patch(changes))
