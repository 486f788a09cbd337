"""Tries the agents that people run, each in each way, and writes the table of docs/agents.md.

    python -m tests.proxy.profiles.matrix [AGENT …] [--way WAY …] [--table]

The programs are those on PATH (the Python of Claude's SDK is AGENTS_PYTHON), as published, with no
option of Refold.  Each cell is tried on its own, against `tests.support.upstream` with ids of tool
calls that are drawn anew, in fresh folders.  What was seen is kept in fixtures/agents/matrix.json;
a cell that was not tried says so.  `--table` tries nothing and writes the table again.
"""

import argparse
import contextlib
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from refold.replay.run.tree_text import scrubbed
from tests.support.traffic import Call, Reply, Rule
from tests.support.upstream import Upstream

ROOT: Final = Path(__file__).parents[3]
KEPT: Final = ROOT / "fixtures/agents/matrix.json"
PAGE: Final = ROOT / "docs/agents.md"
BEGIN: Final = "<!-- begin: python -m tests.proxy.profiles.matrix -->"
END: Final = "<!-- end -->"
WAYS: Final = {
    "record": "recorded",
    "replay": "replayed",
    "folder": "another folder",
    "diff": "`diff`",
    "pytest": "pytest",
    "terminal": "terminal",
    "key": "only a key",
    "two": "two at once",
    "commit": "a commit",
}
"""Each way, and how it heads its column."""
SECONDS: Final = 240
KEYS: Final = {
    "OPENAI_API_KEY": "sk-" + "0" * 40,
    "CODEX_API_KEY": "sk-" + "0" * 40,
    "ANTHROPIC_API_KEY": "sk-ant-api03-" + "0" * 80,
    "GEMINI_API_KEY": "AIza" + "0" * 35,
}
SDK: Final = """
import sys
import anyio
from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, TextBlock, query

async def main():
    options = ClaudeAgentOptions(allowed_tools=["Read", "Agent", "Bash(git *)"])
    async for message in query(prompt=sys.argv[1], options=options):
        if isinstance(message, AssistantMessage):
            print(*[block.text for block in message.content if isinstance(block, TextBlock)])

anyio.run(main)
"""
COMMIT: Final = (
    "git add -A && git commit -q -m notes && git log -1 && git rev-parse HEAD && git status"
)
CONTINUE: Final = (
    'printf "name: a\\nversion: 1.0.0\\nschema: v1\\nmodels:\\n  - {name: m, provider: openai, '
    'model: gpt-5-mini, apiKey: %s, apiBase: %s}\\n" "$OPENAI_API_KEY" "$OPENAI_BASE_URL" '
    '> "$HOME/cn.yaml"; exec cn -p "$0" --auto --config "$HOME/cn.yaml"'
)
CLINE: Final = (
    'cline auth -p openai -k "$OPENAI_API_KEY" -m gpt-5-mini -b "$OPENAI_BASE_URL" >/dev/null && '
    'exec cline -P openai -m gpt-5-mini "$0"'
)


# --- what models say ---------------------------------------------------------------------------

Tool = Callable[[str], Call]
"""Makes a call of one argument: a file to be read, a command, a subagent's number."""


def function(name: str, argument: str = "", **more: Any) -> Tool:
    """Return what makes a call that has one argument of that name, and `more`."""
    return lambda value: Call(id="", name=name, arguments=json.dumps({argument: value, **more}))


def script(code: str) -> Tool:
    """Return what makes a call of Codex's tool, which takes a program."""
    return lambda value: Call(
        id="", name="exec", arguments=code.format(json.dumps(value)), is_custom=True
    )


def delegation(name: str, said: str = "prompt", **more: Any) -> Tool:
    """Return what makes a call that hands a task over, with a description of it."""
    described = {} if name == "invoke_agent" else {"description": "count"}
    return lambda word: Call(
        id="", name=name, arguments=json.dumps({**described, said: f"{word}: count words", **more})
    )


def calls(*given: Call) -> Reply:
    return Reply(calls=given)


def survey(reads: Tool | None, hands: Tool | None, ends: Tool | None = None) -> list[Rule]:
    """Return rules by which an agent reads two files, by subagents where it has these."""
    said = Reply(text="six and four")
    if reads is None:
        return [Rule(name="says", when={"user": "SURVEY"}, then=said)]
    names = ("a.txt", "b.txt")
    first = [hands("FIRST"), hands("SECOND")] if hands else [*map(reads, names)]
    rules = [
        Rule(name="asks", when={"user": "SURVEY"}, then=calls(*first)),
        Rule(name="ends", when={"user": "SURVEY", "results": ["", ""]}, then=said),
    ]
    for word, name in zip(("FIRST", "SECOND"), names, strict=True):
        over = Reply(text=f"{name} was read")
        over = calls(ends(f"{name} was read")) if ends else over
        rules += [
            Rule(name=f"reads {name}", when={"user": word}, then=calls(reads(name))),
            Rule(name=f"read {name}", when={"user": word, "results": ["one"]}, then=over),
        ]
    return rules


def commit(runs: Tool | None) -> list[Rule]:
    """Return rules by which an agent commits, and looks at its commit."""
    if runs is None:
        return []
    return [
        Rule(name="commits", when={"user": "COMMIT"}, then=calls(runs(COMMIT))),
        Rule(name="looked", when={"user": "COMMIT", "results": ["commit "]},
             then=Reply(text="committed")),
    ]  # fmt: skip


BESIDE: Final = [
    Rule(name="titles", when={"user": "Write the title"}, then=Reply(text='{"title": "Survey"}')),
    Rule(name="names", when={"system": "title generator"}, then=Reply(text="Survey")),
    Rule(name="chooses", when={"system": "Task Routing AI"},
         then=Reply(text='{"reasoning": "simple", "model_choice": "flash"}')),
]  # fmt: skip
"""What is asked beside the work."""
EDIT: Final = (
    "calc.py\n```python\n<<<<<<< SEARCH\nreturn a - b\n=======\nreturn a + b\n>>>>>>> REPLACE\n```"
)
AIDER_COMMITS: Final = [
    Rule(name="message", when={"system": "commit message"}, then=Reply(text="fix: add")),
    Rule(name="was told", when={"user": "TOLD"}, then=Reply(text="nothing to do")),
    Rule(name="edits", when={"user": "COMMIT"}, then=Reply(text=EDIT)),
]
"""After its edit it commits by itself, runs a test that says TOLD, and tells the model of both."""


def anew(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield rules with other ids of tool calls, as a provider draws them."""
    for rule in rules:
        reply = rule.then
        if isinstance(reply, Reply):
            drawn = [attrs.evolve(c, id=f"call_{uuid.uuid4().hex[:24]}") for c in reply.calls]
            rule = attrs.evolve(rule, then=attrs.evolve(reply, calls=tuple(drawn)))  # noqa: PLW2901
        yield rule


# --- agents ------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Agent:
    """One program as published."""

    title: str
    version: tuple[str, ...]
    """A command that prints it."""
    words: Callable[[str], list[str]]
    """Returns the command for a task."""
    key: str = "OPENAI_API_KEY"
    """The one that it needs."""
    reads: Tool | None = None
    hands: Tool | None = None
    ends: Tool | None = None
    runs: Tool | None = None
    commits: tuple[Rule, ...] = ()
    """Where it commits by itself."""
    told: str = ""
    """What of it is special here, for the page."""
    before_two: str = ""
    """A command that runs before two at once."""
    apart: str = ""
    """The second one's folder if two at once would write into each other's lines: outputs, too."""

    @property
    def program(self) -> str:
        """What has to be there."""
        return self.version[0]


def _python() -> str:
    return os.environ.get("AGENTS_PYTHON", sys.executable)


def _aider(task: str) -> list[str]:
    words = ["aider", "--model", "openai/gpt-5-mini", "--yes-always", "--no-check-update"]
    words += ["--no-analytics", "--no-show-model-warnings", "--no-show-release-notes"]
    words += ["--no-gitignore", "--edit-format", "diff", "--message", task]
    test = ["--auto-test", "--test-cmd", "echo TOLD; exit 1"]
    return [*words, *test, "calc.py"] if "COMMIT" in task else [*words, "--no-git"]


_CLAUDE: Final[dict[str, Any]] = {
    "key": "ANTHROPIC_API_KEY",
    "reads": function("Read", "file_path"),
    "hands": delegation("Agent", subagent_type="general-purpose", run_in_background=False),
    "runs": function("Bash", "command", description="commit"),
}
_OPENCODE: Final[dict[str, Any]] = {
    "version": ("opencode", "--version"),
    "reads": function("read", "filePath"),
    "hands": delegation("task", subagent_type="general"),
    "runs": function("bash", "command", description="commit"),
    "before_two": "opencode session list > /dev/null 2>&1",  # else both make its database
}
AGENTS: Final = {
    "claude-code": Agent(
        title="Claude Code", version=("claude", "--version"),
        words=lambda task: ["claude", "-p", task, "--allowedTools", "Read,Agent,Bash(git *)"],
        **_CLAUDE,
    ),
    "claude-agent-sdk": Agent(
        title="Claude agent SDK",
        version=(_python(), "-c", "import claude_agent_sdk as c; print(c.__version__)"),
        words=lambda task: [_python(), "agent.py", task], **_CLAUDE,
    ),
    "codex": Agent(
        title="Codex", version=("codex", "--version"), key="CODEX_API_KEY",
        words=lambda task: ["codex", "exec", "--skip-git-repo-check", "-s", "danger-full-access",
                            task],
        reads=script("text(await tools.exec_command({{cmd: 'cat ' + {}}}));"),
        runs=script("text(await tools.exec_command({{cmd: {}}}));"),
        told="without subagents",
    ),
    "opencode-openai": Agent(
        title="opencode (OpenAI)", **_OPENCODE,
        words=lambda task: ["opencode", "run", "-m", "openai/gpt-5-mini", task],
    ),
    "opencode-anthropic": Agent(
        title="opencode (Anthropic)", key="ANTHROPIC_API_KEY", **_OPENCODE,
        words=lambda task: ["opencode", "run", "-m", "anthropic/claude-sonnet-4-5", task],
    ),
    "gemini-cli": Agent(
        title="Gemini CLI", version=("gemini", "--version"), key="GEMINI_API_KEY",
        words=lambda task: ["gemini", "--skip-trust", "-y", "-p", task],
        reads=function("read_file", "file_path"),
        hands=delegation("invoke_agent", agent_name="generalist"),
        ends=lambda said: Call(
            id="", name="complete_task", arguments=json.dumps({"result": {"response": said}})
        ),
        runs=function("run_shell_command", "command"),
    ),
    "aider": Agent(
        title="aider", version=("aider", "--version"), words=_aider,
        commits=tuple(AIDER_COMMITS), told="it has no tools and no subagents", apart="below",
    ),
    "qwen-code": Agent(
        title="Qwen Code", version=("qwen", "--version"),
        words=lambda task: ["qwen", "--auth-type", "openai", "-m", "gpt-5-mini", "-y", "-p", task],
        reads=lambda name: function("run_shell_command", "command", is_background=False)(
            f"cat {name}"
        ),
        runs=function("run_shell_command", "command", is_background=False),
        told="without subagents",
    ),
    "continue": Agent(
        title="Continue", version=("cn", "--version"),
        words=lambda task: ["bash", "-c", CONTINUE, task],
        reads=lambda name: function("Bash", "command")(f"cat {name}"),
        runs=function("Bash", "command"), told="without subagents",
    ),
    "cline": Agent(
        title="Cline", version=("cline", "--version"),
        words=lambda task: ["bash", "-c", CLINE, task],
        reads=lambda name: Call(
            id="", name="run_commands", arguments=json.dumps({"commands": [f"cat {name}"]})
        ),
        runs=lambda line: Call(
            id="", name="run_commands", arguments=json.dumps({"commands": [line]})
        ),
        told="without subagents", apart=".",
    ),
}  # fmt: skip


# --- one agent, in one way ---------------------------------------------------------------------


class NotSo(Exception):
    """What should be true and is not, in one line."""


@attrs.define
class Try:
    """One agent, tried in one way, in a folder of its own."""

    agent: Agent
    root: Path
    upstream: Upstream | None = None
    home: str = "home"
    """The folder that is HOME, below `root`; it is empty at each start."""

    def folder(self, name: str, *, is_repository: bool = False) -> Path:
        """Make a folder to work in."""
        path = self.root / name
        path.mkdir(parents=True)
        (path / "a.txt").write_text("one two three four five six\n")
        (path / "b.txt").write_text("one two three four\n")
        (path / "agent.py").write_text(SDK)
        (path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        if is_repository:
            for line in ("init -q -b main", "config user.email a@b.test", "config user.name Ann"):
                subprocess.run(["git", *line.split()], cwd=path, check=True)
        return path

    def environment(self, *, is_live: bool, has_all_keys: bool = True) -> dict[str, str]:
        """Return all variables of a start: an empty HOME, keys, and where the upstream is."""
        home = self.root / self.home
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        given = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        if not is_live:
            return given
        assert self.upstream is not None
        led = self.upstream.environment()
        given |= {name: url for name, url in led.items() if name.endswith("_URL")}
        return given | (KEYS if has_all_keys else {self.agent.key: KEYS[self.agent.key]})

    def does(
        self, words: list[str], folder: Path, more: Mapping[str, str], *, terminal: bool = False
    ) -> str:
        """Run Refold in a folder, and return what it printed.

        Raises:
            NotSo: it ended with another code than 0, or not in time.
        """
        command = [sys.executable, "-m", *words]
        run = _at_terminal if terminal else _in_pipes
        code, printed = run(command, folder, {**more, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
        if code:
            raise NotSo(_why(printed) or f"exit code {code}")
        return printed

    def record(self, log: str, task: str, folder: Path, **how: Any) -> str:
        """Record a task."""
        has_all_keys, terminal = how.get("has_all_keys", True), how.get("terminal", False)
        words = how.get("words") or self.agent.words(task)
        rules = [*BESIDE, *self.agent.commits, *commit(self.agent.runs)]
        rules += survey(self.agent.reads, self.agent.hands, self.agent.ends)
        with Upstream([*anew(rules)]) as self.upstream:
            more = self.environment(is_live=True, has_all_keys=has_all_keys)
            given = ["refold", "record", "--log", str(self.root / log), "--", *words]
            return self.does(given, folder, more, terminal=terminal)

    def replay(self, log: str, task: str, folder: Path, **how: Any) -> None:
        """Replay it, without an upstream, a key, and what the last HOME held."""
        words = how.get("words") or self.agent.words(task)
        given = ["refold", "replay", str(self.root / log), "--", *words]
        terminal = how.get("terminal", False)
        self.does(given, folder, self.environment(is_live=False), terminal=terminal)

    # --- the ways ------------------------------------------------------------------------

    def tried(self, way: str) -> None:
        """Try one way.

        Raises:
            NotSo: it did not do what it should.
        """
        getattr(self, f"_{way}")()

    def _record(self) -> None:
        said = self.record("a.jsonl", "SURVEY the notes", self.folder("one"))
        _expect("six and four" in said, "the agent did not come to its end")
        found = [each for each in _all_of(delegation_tree(self.root / "a.jsonl")) if each.tool]
        wanted = ["FIRST: count words", "SECOND: count words"] if self.agent.hands else []
        briefs = sorted(each.brief for each in found)
        _expect(briefs == wanted, f"the tree has {len(found)} subagents, with other tasks")
        _expect(all(each.usage.input_tokens for each in found), "a subagent without tokens")

    def _replay(self) -> None:
        folder = self.folder("one")
        self.record("a.jsonl", "SURVEY the notes", folder)
        self.replay("a.jsonl", "SURVEY the notes", folder)

    def _folder(self) -> None:
        self.record("a.jsonl", "SURVEY the notes", self.folder("one"))
        self.home = "users"
        self.replay("a.jsonl", "SURVEY the notes", self.folder("there/below"))

    def _diff(self) -> None:
        for name in "ab":
            self.record(f"{name}.jsonl", "SURVEY the notes", self.folder(f"in-{name}"))
        logs = [str(self.root / f"{name}.jsonl") for name in "ab"]
        self.does(["refold", "diff", *logs], self.root, self.environment(is_live=False))

    def _pytest(self) -> None:
        words = self.agent.words("SURVEY the notes")
        source = (
            "import shutil\nfrom pathlib import Path\n\ndef test_it(refold_command, tmp_path):\n"
            "    notes = tmp_path / 'notes'\n"
            "    shutil.copytree(Path(__file__).with_name('notes'), notes)\n"
            "    (tmp_path / 'home').mkdir()\n    env = {'HOME': str(tmp_path / 'home')}\n"
            f"    done = refold_command({words!r}, cwd=notes, env=env)\n"
            "    assert 'six and four' in done.stdout\n"
        )
        self.folder("notes")
        (self.root / "test_it.py").write_text(source)
        test = ["pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_it.py"]
        rules = [*BESIDE, *survey(self.agent.reads, self.agent.hands, self.agent.ends)]
        with Upstream([*anew(rules)]) as self.upstream:
            more = self.environment(is_live=True)
            self.does([*test, "--refold-record=once"], self.root, more)
        self.does(test, self.root, self.environment(is_live=False))

    def _terminal(self) -> None:
        for turn, do in enumerate((self.record, self.replay)):
            do("a.jsonl", "SURVEY the notes", self.folder(f"in{turn}"), terminal=True)

    def _key(self) -> None:
        self.record("a.jsonl", "SURVEY the notes", self.folder("one"), has_all_keys=False)
        self.replay("a.jsonl", "SURVEY the notes", self.folder("there"))

    def _two(self) -> None:
        lines = [shlex.join(self.agent.words(f"SURVEY the {what}")) for what in ("notes", "texts")]
        agent = self.agent
        before, at_end = f"{agent.before_two}; " if agent.before_two else "", ""
        if agent.apart:
            before, at_end = f"mkdir -p {agent.apart}; ", "; cat ~/one.out ~/two.out"
            lines = [f"{lines[0]} > ~/one.out", f"(cd {agent.apart}; {lines[1]}) > ~/two.out"]
        words = ["bash", "-c", f"{before}{lines[0]} & {lines[1]} & wait{at_end}"]
        self.record("a.jsonl", "", self.folder("one"), words=words)
        tree = delegation_tree(self.root / "a.jsonl")
        roots = [each for each in tree.children if "SURVEY the " in each.brief]
        mains = [each for each in roots if "title" not in each.brief]
        _expect(len(mains) == len(lines), f"{len(mains)} agents at the top of the tree")
        self.replay("a.jsonl", "", self.folder("there"), words=words)

    def _commit(self) -> None:
        folder = self.folder("one", is_repository=True)
        said = self.record("a.jsonl", "COMMIT the notes", folder)
        _expect(bool(said), "the agent said nothing")
        git = ["git", "rev-parse", "HEAD"]
        done = subprocess.run(git, cwd=folder, capture_output=True, check=False)
        _expect(done.returncode == 0, "the agent has made no commit")
        self.replay("a.jsonl", "COMMIT the notes", self.folder("there", is_repository=True))


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


def try_one(name: str, way: str, folder: Path) -> dict[str, Any]:
    """Try one cell; say whether it was as it should be, and what was not."""
    agent = AGENTS[name]
    if way == "commit" and agent.runs is None and not agent.commits:
        return {"ok": False, "said": "no way to commit"}
    try:
        Try(agent, folder).tried(way)
    except NotSo as error:
        return {"ok": False, "said": str(error)}
    except subprocess.TimeoutExpired:
        return {"ok": False, "said": f"not at its end after {SECONDS} s"}
    return {"ok": True}


def version_of(agent: Agent) -> str:
    """Return the version of a program; empty where it is not there."""
    if shutil.which(agent.program) is None:
        return ""
    done = subprocess.run(
        agent.version, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    numbers = [word for word in done.stdout.split() if word[:1].isdigit()]
    return numbers[0] if done.returncode == 0 and numbers else ""


def main() -> None:
    """Try cells, and write down each when it was tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.proxy.profiles.matrix")
    parser.add_argument("agents", nargs="*", help=f"default: all of {', '.join(AGENTS)}")
    parser.add_argument("--way", action="append", choices=[*WAYS], help="default: all")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--keep", type=Path, help="a folder for logs, which are removed otherwise")
    given = parser.parse_args()
    for way in [] if given.table else given.way or WAYS:
        for name in given.agents or AGENTS:
            if not (version := version_of(AGENTS[name])):
                continue
            with tempfile.TemporaryDirectory() as made:
                folder = given.keep / f"{name}-{way}" if given.keep else Path(made)
                folder.mkdir(parents=True, exist_ok=True)
                cell = try_one(name, way, folder)
            _keep(name, version, way, cell)
            print(name, way, cell, flush=True)  # noqa: T201 - that is its output
    write_page(kept())


if __name__ == "__main__":
    main()
