"""A user's home with a repository, and agents that do there the worst that one can think of.

Whoever replays their records must find all that is the user's as it was.
"""

import contextlib
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import attrs

from tests.support.editing import agent, steps
from tests.support.folders import git, repository
from tests.support.upstream import Upstream

DEADLINE_SECONDS: Final = 120.0
TASK: Final = "work"
FILES: Final = {
    "a.py": "one\n", "b.txt": "b\n", "src/pkg/__init__.py": "value = 1\n", ".gitignore": "deps\n",
    "pyproject.toml": '[project]\nname = "pkg"\nversion = "1"\n', "sub/x": "x\n",
}  # fmt: skip

LINKS: Final = {
    "to_outside": "outside", "to_a": "home/project/a.py", "to_sub": "home/project/sub",
    "deps/abs": "home/project/sub",
}  # fmt: skip
"""Where absolute links of the folder lead."""

EVERYWHERE: Final = {
    "paths": "echo x >> {project}/a.py; cd {project} && rm b.txt && mkdir -p n/m && :> n/m/f",
    "tilde": 'echo y >> ~/project/a.py; cd ~/project && echo y >> b2; cd "$HOME/project" && :> b3',
    "history": (
        "git add -A; git commit -qm more; git tag t; git branch side; git stash -q; git gc -q "
        "--prune=now; git worktree add -q ../wt HEAD; git push -q; git push -q origin HEAD; "
        "git push -q --all; git reset -q --hard HEAD; git clean -qfdx; git config user.name eve"
    ),
    "variables": "git --git-dir=$GIT_DIR commit -q --allow-empty -m v; echo v >> $WHERE/v",
    "links in": "echo z >> to_a; echo z >> deps/abs/x; echo z > to_sub/new; rm -f deps/abs/x",
    "hard links": "ln a.py hard; echo z >> hard; chmod 000 hard; ln deps/m deps/hard; :> deps/hard",
    "editable": "python -c 'import pkg; print(pkg.value)'; cd /; python -c 'import pkg'",
    "kinds of files": (
        "mkfifo pipe; python -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; "
        "truncate -s 1T huge; printf x > \"$(printf 'a\\nb\\377')\"; :> A.PY; mkdir -p é/$(printf "
        "'%0200d' 0)"
    ),
    "modes": "umask 777; mkdir dark; :> dark2; chmod -R 000 sub; chmod 000 .git/HEAD",
    "folders swapped": "rm -rf sub; ln -s {project}/src sub; :> sub/evil; ln -s . l; ln -s / root",
    "outlives": (
        "trap '' TERM HUP INT; (setsid sh -c 'for i in $(seq 200); do echo $i >> a.py; echo $i > "
        "bg$i; git add -A; sleep 0.02; done' &) "
    ),
    "programs of git": (
        "git config core.fsmonitor {evil}; git config core.hooksPath {top}; git config filter.e."
        "clean {evil}; git config filter.e.process {evil}; git config diff.external {evil}; git "
        "config core.sshCommand {evil}; git config core.pager {evil}; echo '* filter=e' > "
        ".gitattributes; mkdir -p .git/hooks; for h in post-index-change post-checkout; do cp "
        "{evil} .git/hooks/$h; done; git init -q in; cp .git/config in/.git/config"
    ),
    "another repository": "rm -rf .git; echo gitdir: {other}/.git > .git; :> more",
    "nothing left": "rm -rf ./* .git; ls -A",
}
"""Commands that replays with and without a sandbox keep from the user's folder."""
SANDBOXED: Final = {
    "outside": "echo x >> ~/note; echo y >> {outside}; echo z >> to_outside; ln {outside} n; :> n",
    "absolute push": "git push -q {remote} HEAD:evil; git push -q file://{remote} +HEAD:main; "
    "git -C {other} commit -q --allow-empty -m evil; git config --global user.name evil",
    "home": "cd ~; rm -rf .config * .note; echo > .profile; mv ~/project ~/gone",
    "up": "rm -rf ../* ../../*; find {top} -depth -delete; chmod -R 777 {top}; cd {top}; rm -rf *",
    "other home": "HOME={top} git config --global alias.x y; rm -rf {site}; cd /; rm -rf {top}",
    "processes": "kill -9 -1; :> ~/killed",
    "rights": "unshare -Ur mount --bind / {top}; mount -t tmpfs t {top}; chown 1:1 {outside}",
    "background home": "(setsid sh -c 'while :; do echo x >> ~/note; :> {top}/up; done' &)",
}  # fmt: skip
"""Commands from which only a sandbox keeps what the user has."""


@attrs.frozen
class Home:
    """A user's home with a repository, and an agent outside of it."""

    top: Path

    @property
    def project(self) -> Path:
        """The folder in which the agent works."""
        return self.top / "home" / "project"

    @classmethod
    def made(cls, top: Path) -> "Home":
        """Make all of it: a remote, another repository, links, an editable install."""
        home, site = top / "home", top / "site"
        project = repository(home / "project", FILES)
        repository(home / "other", {"o": "o\n"})
        git(top, "init", "-q", "--bare", "remote.git")
        git(project, "remote", "add", "origin", str(top / "remote.git"))
        git(project, "push", "-q", "-u", "origin", "HEAD")
        (top / "outside").write_text("mine\n")
        (project / "deps").mkdir()
        (project / "deps" / "m").write_text("m")
        for link, target in LINKS.items():
            (project / link).symlink_to(top / target)
        (project / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
        site.mkdir()  # what `pip install -e` leaves
        (site / "pkg.pth").write_text(f"{project}/src\n")
        (site / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(site)!r})\n")
        (home / "note").write_text("note\n")
        (home / ".gitconfig").write_text("[user]\n\tname = ann\n\temail = ann@example.org\n")
        (top / "evil").write_text(f"#!/bin/sh\n: > {top}/ran-evil\n")
        (top / "evil").chmod(0o755)
        file = Path(agent(top, TASK)[1])
        carried_out = 'known[named["name"]](**json.loads(named["arguments"]))'
        assert carried_out in file.read_text()
        told = '{"Write": "written", "Edit": "edited", "Bash": "exit 0"}[named["name"]]'
        (top / "harmless.py").write_text(file.read_text().replace(carried_out, told))
        return cls(top)

    def recorded(self, commands: Mapping[str, str]) -> dict[str, Path]:
        """Record, for each command, an agent whose model says it, and that carries out nothing."""
        return {name: self._recorded(each) for name, each in commands.items()}

    def _recorded(self, said: str) -> Path:
        names = {
            "outside": "outside",
            "evil": "evil",
            "remote": "remote.git",
            "site": "site",
            "top": "",
        }
        at = {name: str(self.top / place) for name, place in names.items()}
        told = said.format(project=self.project, other=self.top / "home" / "other", **at)
        log = self.top / "runs" / f"{len(list(self.top.glob('runs/*.jsonl')))}.jsonl"
        written = {"file_path": str(self.project / "made.py"), "text": "new\n"}
        edited = {"file_path": str(self.project / "a.py"), "old": "one", "new": "two"}
        # What a command prints is dropped: it depends on who is faster.
        run = {"command": f"({told}) >/dev/null 2>&1; true"}
        asked = [[("Write", written), ("Edit", edited)], [("Bash", run)]]
        with Upstream(steps(TASK, asked)) as upstream, tempfile.TemporaryFile("w+") as printed:
            words = ["record", "--log", str(log), "--", *self.command("harmless.py")]
            done = self.started(*words, said=printed, more=upstream.environment())
            assert done.wait(DEADLINE_SECONDS) == 0
        return log

    def command(self, name: str = "agent.py") -> list[str]:
        """Return the command of the agent."""
        return [sys.executable, str(self.top / name), TASK]

    def started(
        self, *words: str, said: IO[str], more: Mapping[str, str], code: str = ""
    ) -> "subprocess.Popen[bytes]":
        """Start `refold` in the folder, with a file for what it says; `code` goes before."""
        own = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.top / "home"), "PYTHONPATH": str(self.top / "site"),
            "GIT_DIR": str(self.project / ".git"), "WHERE": str(self.project),
        }  # fmt: skip
        main = f"{code}\nfrom refold.cli import main\nmain()"
        return subprocess.Popen(
            [sys.executable, "-c", main, *words], cwd=self.project, env={**own, **more},
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip

    def held(self, *, is_all: bool) -> dict[str, tuple[int, str]]:
        """Return mode and digest of all that the user has, or of the folder alone.

        What Refold notes of its own logs is left out.
        """
        found = {}
        for folder, folders, names in os.walk(self.top if is_all else self.project):
            for path in (Path(folder, name) for name in (*folders, *names)):
                mode, content = path.lstat().st_mode, b""
                if path.is_symlink():
                    content = os.fsencode(path.readlink())
                elif path.is_file():
                    content = path.read_bytes()
                found[str(path)] = (mode, hashlib.sha256(content).hexdigest())
        return {path: held for path, held in found.items() if "/.local" not in path}


NO_SANDBOX: Final = """
from refold.proxy.copies import placing, sandbox
def none(): raise sandbox.SandboxRefused("forbidden")
placing.no_layers = none
"""
"""Makes a system one that has no sandbox."""


HOW: Final[Mapping[str, tuple[str, ...]]] = {
    "replay": (),
    "fork": ("--at", "-3", "--into"),
    "resume": ("--yes", "--into"),  # a log that was cut is of nobody's
}
"""The commands that run a record again, each with the options before a new log's name."""


def _broken_off(log: Path, broken: Path) -> Path:
    """Copy a record without its end: its command was killed."""
    for path in log.parent.glob(f"{log.stem}.*"):
        other = broken.with_suffix(path.suffix)
        if path.is_dir():
            shutil.copytree(path, other, dirs_exist_ok=True)
    *kept, _ = log.read_bytes().splitlines(keepends=True)
    broken.write_bytes(b"".join(kept))
    return broken


def replayed(
    home: Home, log: Path, into: Path, *, has_sandbox: bool, how: str, seconds: float | None
) -> str:
    """Replay, fork or resume a record, and kill that after a time; return what it said."""
    words = [how, *HOW[how], *([str(into)] if HOW[how] else [])]
    log = _broken_off(log, into.with_stem(f"{into.stem}-broken")) if how == "resume" else log
    with Upstream([]) as live, tempfile.TemporaryFile("w+") as said:
        process = home.started(
            *words, str(log), "--", *home.command(), said=said,
            more=live.environment() if HOW[how] else {}, code="" if has_sandbox else NO_SANDBOX,
        )  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DEADLINE_SECONDS if seconds is None else seconds)
        process.kill()
        process.wait()
        said.seek(0)
        return said.read()


def changed_by(folder: Path, *, has_sandbox: bool, count: int) -> set[str]:
    """Replay, fork and resume so many times; return the paths that are not as they were.

    Each command is carried out to its end once; the others are killed at a random moment.
    """
    home = Home.made(folder / "all")
    logs = home.recorded({**EVERYWHERE, **(SANDBOXED if has_sandbox else {})})
    before = home.held(is_all=has_sandbox)
    chance = random.Random(7)
    left: list[tuple[str, float | None]] = [(name, None) for name in logs]
    left += [(chance.choice([*logs]), chance.uniform(0.1, 2)) for _ in range(count - len(logs))]
    for number, (name, seconds) in enumerate(left):
        said = replayed(
            home, logs[name], folder / f"{number}.jsonl", has_sandbox=has_sandbox,
            how=("replay", "resume", "replay", "fork")[number % 4], seconds=seconds,
        )  # fmt: skip
        where = f"in a copy of {'the recorded ' if has_sandbox else ''}{home.project}"
        assert seconds is not None or where in said, (name, said)
    after = home.held(is_all=has_sandbox)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
