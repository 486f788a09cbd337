"""Repositories of many shapes: a record made there is replayed there, and from a pack anywhere."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.proxy.test_sessions import refold_does
from tests.support.editing import Step, agent, steps
from tests.support.folders import git, repository
from tests.support.upstream import Upstream

pytestmark = pytest.mark.long

FILES: Final = {"a.py": "one\n", "d/b": "two\n", "d/e/c": "three\n"}
IDS: Final = "git branch -avv; git reflog"
LOOKS: Final = (
    "git status; git branch -a; git stash list; git log --format=%s; "
    "find . -name .git -prune -o -name .bare -prune -o -type f -print | sort"
)
POINTER: Final = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"


def _task(*, prints_ids: bool) -> list[Step]:
    looks = f"{IDS}; {LOOKS}" if prints_ids else LOOKS
    return [
        [("Bash", {"command": f"{looks}; cat -A a.py"})],
        [("Edit", {"file_path": "a.py", "old": "one", "new": "changed"})],
        [("Bash", {"command": "rm -f d/b; echo x > made; git add -A; git commit -qm work"})],
        [("Bash", {"command": f"{looks}; git show --stat --format=%s"})],
    ]


def _submodule(top: Path) -> Path:
    inner = repository(top / "inner", {"s": "sub\n"})
    made = repository(top / "r", FILES)
    git(made, "submodule", "--quiet", "add", str(inner), "sub")
    git(made, "commit", "-qm", "with it")
    (made / "sub" / "s").write_text("changed\n")
    return made


def _worktree(top: Path) -> Path:
    git(repository(top / "main", FILES), "worktree", "add", "-q", "-b", "side", str(top / "r"))
    return top / "r"


def _shallow(top: Path) -> Path:
    far = repository(top / "far", FILES)
    git(far, "commit", "-q", "--allow-empty", "-m", "second")
    git(top, "clone", "-q", "--depth", "1", far.as_uri(), "r")
    return top / "r"


def _sparse(top: Path) -> Path:
    made = repository(top / "r", {**FILES, "left/out": "1\n"})
    git(made, "sparse-checkout", "set", "d/e")
    return made


def _lfs(top: Path) -> Path:
    made = repository(top / "r", {**FILES, "large.bin": POINTER})
    (made / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "rules")
    for name in ("clean", "smudge"):
        git(made, "config", f"filter.lfs.{name}", "printf '%s' evil")
    (made / "large.bin").write_bytes(b"its bytes")
    return made


def _detached(top: Path) -> Path:
    made = repository(top / "r", FILES)
    git(made, "checkout", "-q", "--detach")
    return made


def _unborn(top: Path) -> Path:
    made = repository(top / "r")
    for path, text in FILES.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text)
    return made


def _beside_bare(top: Path) -> Path:
    made = repository(top / "r", FILES)
    (made / ".git").rename(made / ".bare")
    (made / ".git").write_text("gitdir: ./.bare\n")
    (made / ".bare" / "info" / "exclude").write_text(".bare\n")
    return made


def _line_ends(top: Path) -> Path:
    made = repository(top / "r", FILES)
    git(made, "config", "core.autocrlf", "true")
    (made / "a.py").unlink()
    git(made, "checkout", "-q", "a.py")
    assert (made / "a.py").read_bytes() == b"one\r\n"
    return made


def _link(top: Path) -> Path:
    repository(top / "real", FILES)
    (top / "r").symlink_to(top / "real")
    return top / "r"


def _half_merged(top: Path) -> Path:
    made = repository(top / "r", FILES)
    (made / "d" / "e" / "c").write_text("staged\n")
    git(made, "add", "-A")
    (made / "d" / "e" / "c").write_text("and changed\n")
    (made / "é\n").write_bytes(b"\xff")
    return made


def _clone(top: Path) -> Path:
    far = repository(top / "far", FILES)
    git(far, "checkout", "-qb", "other")
    git(top, "clone", "-qb", "main", "far", "r")
    git(far, "checkout", "-q", "main")
    git(far, "commit", "-q", "--allow-empty", "-m", "since")
    git(top / "r", "fetch", "-q")
    return top / "r"


def _stashed(top: Path) -> Path:
    made = repository(top / "r", FILES)
    for text in ("first\n", "second\n"):
        (made / "a.py").write_text(text)
        git(made, "stash")
    git(made, "tag", "-am", "one", "v1")
    git(made, "checkout", "-q", "v1")
    return made


def _merging(top: Path) -> Path:
    made = repository(top / "r", FILES)
    git(made, "checkout", "-qb", "side")
    (made / "d" / "e" / "c").write_text("side\n")
    git(made, "commit", "-qam", "side")
    git(made, "checkout", "-q", "main")
    git(made, "merge", "-q", "--no-ff", "--no-commit", "side")
    return made


SHAPES: Final[dict[str, Callable[[Path], Path]]] = {
    "submodule": _submodule, "worktree": _worktree, "shallow": _shallow, "sparse": _sparse,
    "lfs": _lfs, "detached": _detached, "unborn": _unborn, "beside bare": _beside_bare,
    "line ends": _line_ends, "link": _link, "staged": _half_merged,
    "clone": _clone, "stashed": _stashed, "merging": _merging,
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_is_identical_where_it_was_made_and_from_a_pack(
    tmp_path: Path, shape: str
) -> None:
    """The pack in a folder that has neither the repository nor the log, with another HOME."""
    top = tmp_path / "theirs"
    top.mkdir()
    project = SHAPES[shape](top)
    names = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    more = {**dict.fromkeys(names, "ann"), "HOME": str(tmp_path)}
    log, command = str(tmp_path / "run.jsonl"), agent(tmp_path, "change")
    # A copy has no filters of the repository: its commit has the bytes of `large.bin`.
    task = _task(prints_ids=shape != "lfs")
    with Upstream(steps("change", task)) as upstream:
        words = ["record", "--log", log, "--", *command]
        done = refold_does(*words, folder=project, more={**upstream.environment(), **more})
        assert done.returncode == 0, done.stderr
    assert (project / "made").exists()

    again = refold_does("replay", log, "--", *command, folder=project, more=more)
    assert again.returncode == 0, again.stderr
    if shape == "line ends":  # the log does not say how git converts files
        return
    pack = str(tmp_path / "run.refold")
    packed = refold_does(
        "export", log, "--to", "refold", "--files", "-o", pack, folder=project, more=more
    )
    assert packed.returncode == 0, packed.stderr
    top.rename(tmp_path / "gone")
    for path in tmp_path.glob("run.*"):
        if path.suffix != ".refold":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    there = tmp_path / "there"
    there.mkdir()
    anew = refold_does("replay", pack, "--", *command, folder=there, more=more)
    assert anew.returncode == 0, anew.stderr
    assert os.listdir(there) == []  # noqa: PTH208 - names
