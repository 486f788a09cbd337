"""Tries the agents that people run, each in each way, and writes the table of docs/agents.md.

    python -m tests.proxy.profiles.matrix [AGENT …] [--way WAY …] [--table]

The programs are those on PATH, and scripts of frameworks that AGENTS_PYTHON has (`{}` in it is the
name of the package), as published, with no option of Refold.  They work in fresh folders, against
`tests.support.upstream`, with ids of tool calls that are drawn anew.  What was seen is kept in
fixtures/agents/matrix.json; a cell that was not tried says so.  `--table` tries nothing and writes
the table again.
"""

import argparse
import contextlib
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import attrs

from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from refold.replay.run.tree_text import scrubbed
from tests.proxy.profiles.agents import AGENTS, SAID, TASKS, Agent
from tests.support.upstream import Upstream

ROOT: Final = Path(__file__).parents[3]
KEPT: Final = ROOT / "fixtures/agents/matrix.json"
PAGE: Final = ROOT / "docs/agents.md"
BEGIN: Final = "<!-- begin: python -m tests.proxy.profiles.matrix -->"
END: Final = "<!-- end -->"
WAYS: Final = {
    "record": "recorded",
    "replay": "replayed",
    "folder": "by another user",
    "mount": "a mount",
    "edit": "edited file",
    "diff": "`diff`",
    "pytest": "pytest",
    "terminal": "terminal",
    "key": "only a key",
    "two": "two at once",
    "submodule": "submodule",
    "worktree": "worktree",
}
"""Each way, and how it heads its column."""
SECONDS: Final = 240
KEYS: Final = {
    "OPENAI_API_KEY": "sk-" + "0" * 40,
    "CODEX_API_KEY": "sk-" + "0" * 40,
    "COPILOT_PROVIDER_API_KEY": "sk-" + "0" * 40,
    "ANTHROPIC_API_KEY": "sk-ant-api03-" + "0" * 80,
    "GEMINI_API_KEY": "AIza" + "0" * 35,
}
QUIET: Final = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "PI_OFFLINE": "1",
    "COPILOT_OFFLINE": "true",
}
"""What keeps programs from asking for more than answers of models."""
JOB: Final = "SURVEY the notes and COMMIT"
READING: Final = "SURVEY the notes"
_MOUNT: Final = 'mkdir -p ~/shared && mount -t tmpfs none ~/shared && exec "$0" "$@"'


# --- one agent, in one way ---------------------------------------------------------------------


class NotSo(Exception):
    """What should be true and is not, in one line."""


class NotTried(Exception):
    """What is not there that a way needs."""


@attrs.define
class Try:
    """One agent, tried in some ways, in a folder of its own."""

    agent: Agent
    root: Path
    upstream: Upstream | None = None

    def folder(self, name: str, kind: str = "", *, user: str = "Ann") -> Path:
        """Return a repository to work in, made once: plain, with a submodule, or a worktree."""
        path = self.root / name
        if path.exists():
            return path
        made = self.root / f"{name}-main" if kind == "worktree" else path
        made.mkdir(parents=True)
        (made / "a.txt").write_text("one two three four five six\n")
        (made / "b.txt").write_text("one two three four\n")
        (made / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        (made / self.agent.rules).write_text(self.agent.script)
        _git(made, "init -q -b main")
        if kind == "submodule":
            _git(made, f"-c protocol.file.allow=always submodule --quiet add {self.lib()} lib")
        _committed(made)
        if self.agent.hides_home:
            _git(made, f"config user.name {user}")
            _git(made, f"config user.email {user}@refold.test")
        if kind == "worktree":
            _git(made, f"worktree add -q -b work {path}")
        return path

    def lib(self) -> Path:
        """Return a repository that can be a submodule, made once."""
        path = self.root / "lib"
        if not path.exists():
            path.mkdir()
            _git(path, "init -q -b main")
            (path / "lib.txt").write_text("lib\n")
            _committed(path)
        return path

    def environment(self, *, user: str = "Ann") -> dict[str, str]:
        """Return the variables of a start: a HOME with nothing but the user's identity for git."""
        home = self.root / user
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (home / ".gitconfig").write_text(f"[user]\nname = {user}\nemail = {user}@refold.test\n")
        return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **QUIET}

    def led(self, *, keys: Iterable[str] = KEYS) -> dict[str, str]:
        """Return the variables of a start whose requests go to the upstream."""
        assert self.upstream is not None
        given = {name: KEYS[name] for name in keys}
        urls = self.upstream.environment().items()
        given |= {name: url for name, url in urls if name.endswith("_URL")}
        own = {self.agent.base: self.upstream.openai_url} if self.agent.base else {}
        return self.environment() | given | own

    def does(
        self, words: list[str], folder: Path, more: Mapping[str, str], *, terminal: bool = False
    ) -> str:
        """Run Refold in a folder, and return what it printed.

        Raises:
            NotSo: it ended with another code than 0, or not in time.
        """
        code, printed = self.ends(words, folder, more, terminal=terminal)
        if code:
            raise NotSo(_why(printed) or f"exit code {code}")
        return printed

    def ends(
        self, words: list[str], folder: Path, more: Mapping[str, str], *, terminal: bool = False
    ) -> tuple[int, str]:
        """Run Refold in a folder; return its exit code, and what it printed."""
        run = _at_terminal if terminal else _in_pipes
        return run(words, folder, {**more, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})

    def record(
        self, log: str, folder: Path, task: str = JOB, words: list[str] | None = None, **how: Any
    ) -> str:
        """Record a task, and return what was printed."""
        with Upstream(self.agent.told(task)) as self.upstream:
            more = self.led(keys=how.pop("keys", KEYS))
            given = _refold("record", "--log", str(self.root / log), "--")
            return self.does([*given, *(words or self.agent.words(task))], folder, more, **how)

    def replaying(self, log: str, task: str = JOB, words: list[str] | None = None) -> list[str]:
        """Return the command that replays a log."""
        given = _refold("replay", str(self.root / log), "--")
        return [*given, *(words or self.agent.words(task))]

    def replay(self, log: str, folder: Path, *how: Any, user: str = "Ann", **more: Any) -> None:
        """Replay a log, without an upstream, a key, and what the last HOME held."""
        self.does(self.replaying(log, *how), folder, self.environment(user=user), **more)

    def recorded(self) -> Path:
        """Return the folder in which the job was recorded, as a.jsonl; it is recorded once."""
        if not (self.root / "a.jsonl").exists():
            try:
                said = self.record("a.jsonl", self.folder("one"))
                _expect(SAID in said, "the agent did not come to its end")
            except (NotSo, subprocess.TimeoutExpired):
                (self.root / "a.jsonl").unlink(missing_ok=True)
                shutil.rmtree(self.root / "one")
                raise
        return self.folder("one")

    # --- the ways ------------------------------------------------------------------------

    def tried(self, way: str) -> None:
        """Try one way.

        Raises:
            NotSo: it did not do what it should.
            NotTried: something is missing here.
        """
        getattr(self, f"_{way}")()

    def _record(self) -> None:
        folder = self.recorded()
        found = [each for each in _all_of(delegation_tree(self.root / "a.jsonl")) if each.tool]
        tasks = [*TASKS] if self.agent.hands else []
        briefs = sorted(each.brief for each in found)
        _expect(briefs == tasks, f"the tree has {len(found)} subagents, with other tasks")
        _expect(all(each.usage.input_tokens or each.usage.untold for each in found), "no tokens")
        _expect(_git(folder, "rev-list --count HEAD") == "2", "the agent has made no commit")

    def _replay(self) -> None:
        self.replay("a.jsonl", self.recorded())

    def _folder(self) -> None:
        self.recorded()
        self.replay("a.jsonl", self.folder("there/below", user="Bob"), user="Bob")

    def _mount(self) -> None:
        _expect_here(os.geteuid() == 0 and shutil.which("unshare") is not None, "no mounts")
        folder = self.recorded()
        words = ["unshare", "-m", "sh", "-c", _MOUNT, *self.replaying("a.jsonl")]
        self.does(words, folder, self.environment())

    def _edit(self) -> None:
        self.recorded()
        folder = self.folder("edited")
        file = folder / self.agent.rules
        file.write_text(file.read_text().replace("kind", "bold"))
        code, printed = self.ends(self.replaying("a.jsonl"), folder, self.environment())
        _expect(code == 1, f"exit code {code}")
        _expect("kind" in printed and "bold" in printed, _why(printed))

    def _diff(self) -> None:
        self.recorded()
        self.record("b.jsonl", self.folder("in-b"))
        logs = [str(self.root / f"{name}.jsonl") for name in "ab"]
        self.does(_refold("diff", *logs), self.root, self.environment())

    def _pytest(self) -> None:
        source = (
            "import shutil\nfrom pathlib import Path\n\ndef test_it(refold_command, tmp_path):\n"
            "    notes = tmp_path / 'notes'\n"
            "    shutil.copytree(Path(__file__).with_name('notes'), notes)\n"
            f"    done = refold_command({self.agent.words(READING)!r}, cwd=notes)\n"
            f"    assert {SAID!r} in done.stdout\n"
        )
        self.folder("notes")
        (self.root / "test_it.py").write_text(source)
        test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
        test += ["test_it.py"]
        with Upstream(self.agent.told(READING)) as self.upstream:
            self.does([*test, "--refold-record=once"], self.root, self.led())
        self.does(test, self.root, self.environment())

    def _terminal(self) -> None:
        self.record("terminal.jsonl", self.folder("in0"), terminal=True)
        self.replay("terminal.jsonl", self.folder("in1"), terminal=True)

    def _key(self) -> None:
        self.record("key.jsonl", self.folder("in2"), keys=[self.agent.key])
        self.replay("key.jsonl", self.folder("in3"))

    def _two(self) -> None:
        agent = self.agent
        lines = [shlex.join(agent.words(f"SURVEY the {what}")) for what in ("notes", "texts")]
        before, at_end = f"{agent.before_two}; " if agent.before_two else "", ""
        if agent.apart:
            before, at_end = f"mkdir -p {agent.apart}; ", "; cat ~/one.out ~/two.out"
            lines = [f"{lines[0]} > ~/one.out", f"(cd {agent.apart}; {lines[1]}) > ~/two.out"]
        words = ["bash", "-c", f"{before}{lines[0]} & {lines[1]} & wait{at_end}"]
        self.record("two.jsonl", self.folder("in4"), READING, words)
        tree = delegation_tree(self.root / "two.jsonl")
        roots = [each for each in tree.children if "SURVEY the " in each.brief]
        mains = [each for each in roots if "title" not in each.brief]
        _expect(len(mains) == len(lines), f"{len(mains)} agents at the top of the tree")
        self.replay("two.jsonl", self.folder("in5"), READING, words)

    def _submodule(self) -> None:
        self._in_both("submodule")

    def _worktree(self) -> None:
        self._in_both("worktree")

    def _in_both(self, kind: str) -> None:
        folder = self.folder(f"{kind}-a", kind)
        self.record(f"{kind}.jsonl", folder)
        self.replay(f"{kind}.jsonl", folder)
        self.replay(f"{kind}.jsonl", self.folder(f"{kind}-b", kind))


def _refold(*words: str) -> list[str]:
    return [sys.executable, "-m", "refold", *words]


def _git(folder: Path, line: str) -> str:
    """Run git as somebody else, at a time that is always the same: equal commits have equal ids."""
    own = ["-c", "user.name=Carol", "-c", "user.email=carol@refold.test"]
    then = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
    done = subprocess.run(
        ["git", *own, *line.split()], cwd=folder, env=os.environ | then, check=True,
        capture_output=True,
    )  # fmt: skip
    return done.stdout.decode().strip()


def _committed(folder: Path) -> None:
    for line in ("add -A", "commit -q -m first"):
        _git(folder, line)


def _expect_here(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - as `assert` is written
    if not holds:
        raise NotTried(otherwise)


def _expect(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - as `assert` is written
    if not holds:
        raise NotSo(otherwise)


def _all_of(node: RunNode) -> Iterator[RunNode]:
    for child in node.children:
        yield child
        yield from _all_of(child)


def _in_pipes(command: list[str], folder: Path, more: Mapping[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=dict(more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(errors="replace")


def _at_terminal(command: list[str], folder: Path, more: Mapping[str, str]) -> tuple[int, str]:
    """Run a command whose output is a terminal of 80 columns."""
    ours, its = pty.openpty()
    printed = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # how a terminal ends
            while content := os.read(ours, 65536):
                printed.extend(content)

    thread = threading.Thread(target=read)
    process = subprocess.Popen(
        command, cwd=folder, env={**more, "TERM": "xterm-256color"}, stdin=subprocess.DEVNULL,
        stdout=its, stderr=subprocess.STDOUT,
    )  # fmt: skip
    os.close(its)
    thread.start()
    try:
        code = process.wait(SECONDS)
    finally:
        process.kill()
        thread.join()
        os.close(ours)
    return code, printed.decode(errors="replace")


def _why(printed: str) -> str:
    """Return what was not so: the first difference and what changed, else the last line."""
    lines = [" ".join(line.split()) for line in printed.splitlines() if line.strip()]
    begins = ("differs ", "refold: ", "/")
    found = (line.startswith(begins) or ": the files differ" in line for line in lines)
    at = next((at for at, is_found in enumerate(found) if is_found), None)
    changed = () if at is None else (x for x in lines[at:] if x[:1] in "-+…" or "{+" in x)
    said = lines[-1] if at is None and lines else " ".join([*lines[at:][:1], *changed][:3])
    said = scrubbed(said).replace("|", "/")
    return said if len(said) <= 160 else f"{said[:160]}…"


# --- what was seen -----------------------------------------------------------------------------


def kept() -> dict[str, Any]:
    """Return what was seen: {agent: {version, cells: {way: {ok, said?}}}}."""
    found: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def _keep(name: str, version: str, way: str, cell: dict[str, Any]) -> None:
    seen = kept()
    row = seen.setdefault(name, {"version": version, "cells": {}})
    if row["version"] != version:  # what was seen of another one says nothing of it
        row["cells"] = {}
    row["version"] = version
    row["cells"][way] = cell
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps(seen, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def table(seen: Mapping[str, Any]) -> str:
    """Return the table, and below it what was not as it should be."""
    lines = [f"| agent | version | {' | '.join(WAYS.values())} |", f"|{'---|' * (len(WAYS) + 2)}"]
    notes: list[str] = []
    for name, agent in AGENTS.items():
        row = seen.get(name, {"version": "-", "cells": {}})
        cells = [row["cells"].get(way) for way in WAYS]
        words = ["not tried" if cell is None else "yes" if cell["ok"] else "no" for cell in cells]
        lines.append(f"| {agent.title} | {row['version']} | {' | '.join(words)} |")
        notes += [
            f"- {agent.title}, {WAYS[way]}: {cell['said']}"
            for way, cell in zip(WAYS, cells, strict=True)
            if cell is not None and not cell["ok"]
        ]
    below = ["", "These cells failed, for the reasons given here:", "", *notes]
    return "\n".join([*lines, *(below if notes else [])])


def write_page(seen: Mapping[str, Any]) -> None:
    """Put the table in its place."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(seen)}\n\n{END}{after}", encoding="utf-8")


def tried(name: str, ways: Iterable[str], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each way that can be tried, and whether all was as it should be, and what was not."""
    one = Try(AGENTS[name], folder)
    for way in ways:
        try:
            one.tried(way)
        except NotTried:
            continue
        except NotSo as error:
            yield way, {"ok": False, "said": str(error)}
        except subprocess.TimeoutExpired:
            yield way, {"ok": False, "said": f"not at its end after {SECONDS} s"}
        else:
            yield way, {"ok": True}


def version_of(agent: Agent) -> str:
    """Return the version of a program; empty where it is not there."""
    if shutil.which(agent.program) is None:
        return ""
    done = subprocess.run(
        agent.version, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    numbers = re.findall(r"\d+\.\d+(?:[.-]\w+)*", done.stdout)
    return numbers[0] if done.returncode == 0 and numbers else ""


def main() -> None:
    """Try cells, and write down each when it was tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.proxy.profiles.matrix")
    parser.add_argument("agents", nargs="*", help=f"default: all of {', '.join(AGENTS)}")
    parser.add_argument("--way", action="append", choices=[*WAYS], help="default: all")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--keep", type=Path, help="a folder for logs, which are removed otherwise")
    parser.add_argument("--jobs", type=int, default=1, help="how many agents at once; default: 1")
    given = parser.parse_args()
    lock = threading.Lock()

    def try_agent(name: str) -> None:
        if not (version := version_of(AGENTS[name])):
            return
        with tempfile.TemporaryDirectory() as made:
            folder = given.keep / name if given.keep else Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            for way, cell in tried(name, given.way or WAYS, folder):
                with lock:
                    _keep(name, version, way, cell)
                print(name, way, cell, flush=True)  # noqa: T201 - that is its output

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(try_agent, [] if given.table else given.agents or AGENTS))
    write_page(kept())


if __name__ == "__main__":
    main()
