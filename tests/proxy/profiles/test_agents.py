"""The agents that people run, as published: recorded, told and replayed with no option.

Each is skipped where its program is not on PATH; docs/agents.md has the versions that were tried.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.matching import Matcher
from refold.replay.observed.record import read_record
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from tests.proxy.test_sessions import refold_does
from tests.support.traffic import Call, Reply, Rule
from tests.support.upstream import Upstream

pytestmark = pytest.mark.long

BRIEFS: Final = ("FIRST: count the words of a.txt", "SECOND: count the words of b.txt")
KEYS: Final = {
    "OPENAI_API_KEY": "sk-" + "0" * 40,
    "CODEX_API_KEY": "sk-" + "0" * 40,  # Codex sends none of OPENAI_API_KEY without a login
    "ANTHROPIC_API_KEY": "sk-ant-api03-" + "0" * 80,
    "GEMINI_API_KEY": "AIza" + "0" * 35,
}
"""Of the shape that the agents expect."""
_TYPED_SECONDS: Final = 90.0
"""Until something is there to be seen at the terminal of a test."""
TITLE: Final = Reply(text='{"title": "Survey"}')


def _calls(tool: str, *arguments: dict[str, Any]) -> Reply:
    return Reply(
        calls=tuple(
            Call(id=f"call_{tool}_{at}", name=tool, arguments=json.dumps(each))
            for at, each in enumerate(arguments)
        )
    )


def _survey(tool: str, more: dict[str, Any], reading: str, path: str) -> list[Rule]:
    """Return rules by which an agent hands work to two others, who read a file each."""
    handed = [
        {"description": f"count {letter}", "prompt": brief, **more}
        for letter, brief in zip("ab", BRIEFS, strict=True)
    ]
    rules = [
        Rule(name="titles", when={"user": "Write the title"}, then=TITLE),
        Rule(name="names", when={"system": "title generator"}, then=TITLE),
        Rule(name="hands over", when={"user": "SURVEY"}, then=_calls(tool, *handed)),
        Rule(name="ends", when={"user": "SURVEY", "results": ["six", "four"]},
             then=Reply(text="six and four")),
    ]  # fmt: skip
    for letter, word, count in (("a", "FIRST", "six"), ("b", "SECOND", "four")):
        reads = _calls(reading, {path: f"{letter}.txt"})
        rules += [
            Rule(name=f"reads {letter}", when={"user": word}, then=reads),
            Rule(name=f"counts {letter}", when={"user": word, "results": ["one"]},
                 then=Reply(text=f"{letter}.txt has {count} words")),
        ]  # fmt: skip
    return rules


@attrs.frozen
class Agent:
    """A program as published, and what its models say."""

    command: tuple[str, ...]
    rules: list[Rule]
    names: tuple[str, ...] = ()
    """Of its subagents."""


def _generalists() -> list[Rule]:
    """Return rules for Gemini CLI: a model is chosen first, and subagents end by a tool."""
    handed = [{"agent_name": "generalist", "prompt": brief} for brief in BRIEFS]
    chosen = Reply(text='{"reasoning": "simple", "model_choice": "flash"}')
    rules = [Rule(name="chooses", when={"system": "Task Routing AI"}, then=chosen)]
    for word, letter, count in (("FIRST", "a", "six"), ("SECOND", "b", "four")):
        reads = _calls("read_file", {"file_path": f"{letter}.txt"})
        said = f"{letter}.txt has {count} words"
        ends = _calls("complete_task", {"result": {"response": said}})
        rules += [
            Rule(name=f"reads {letter}", when={"user": word}, then=reads),
            Rule(name=f"counts {letter}", when={"user": word, "results": ["one"]}, then=ends),
        ]
    return [
        *rules,
        Rule(name="hands over", when={"user": "SURVEY"}, then=_calls("invoke_agent", *handed)),
        Rule(name="ends", when={"user": "SURVEY", "results": ["six", "four"]},
             then=Reply(text="six and four")),
    ]  # fmt: skip


AGENTS: Final = {
    "claude-code": Agent(
        ("claude", "-p", "SURVEY the notes", "--allowedTools", "Read,Agent"),
        _survey("Agent", {"subagent_type": "general-purpose", "run_in_background": False},
                "Read", "file_path"),
        ("count a", "count b"),
    ),
    "opencode-anthropic": Agent(
        ("opencode", "run", "-m", "anthropic/claude-sonnet-4-5", "SURVEY the notes"),
        _survey("task", {"subagent_type": "general"}, "read", "filePath"),
        ("count a", "count b"),
    ),
    "opencode-openai": Agent(
        ("opencode", "run", "-m", "openai/gpt-5-mini", "SURVEY the notes"),
        _survey("task", {"subagent_type": "general"}, "read", "filePath"),
        ("count a", "count b"),
    ),
    "codex": Agent(
        ("codex", "exec", "--skip-git-repo-check", "-s", "danger-full-access", "SURVEY the notes"),
        [Rule(name="says", when={"user": "SURVEY"}, then=Reply(text="six and four"))],
    ),
    "gemini-cli": Agent(
        ("gemini", "--skip-trust", "-y", "-p", "SURVEY the notes"),
        _generalists(),
        ("generalist", "generalist"),
    ),
}  # fmt: skip


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "a.txt").write_text("one two three four five six\n")
    (path / "b.txt").write_text("one two three four\n")
    return path


def _home(path: Path) -> Path:
    """Return a home; Gemini CLI asks at the terminal how one logs in, unless it is said there."""
    settings = path / ".gemini/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    return path


BAREST: Final = {
    "claude-code": "ANTHROPIC_API_KEY",
    "opencode-anthropic": "ANTHROPIC_API_KEY",
    "opencode-openai": "OPENAI_API_KEY",
    "codex": "CODEX_API_KEY",
    "gemini-cli": "GEMINI_API_KEY",
    "aider": "OPENAI_API_KEY",
}
"""The one key that each has."""
_AIDER: Final = (
    "aider", "--model", "openai/gpt-5-mini", "--yes-always", "--no-check-update", "--no-git",
    "--no-analytics", "--no-show-model-warnings", "--no-show-release-notes", "--message",
)  # fmt: skip


@pytest.mark.parametrize("name", BAREST)
def test_an_agent_in_the_barest_start_is_recorded_and_replayed(name: str, tmp_path: Path) -> None:
    """An empty HOME, a key and nothing else, as in a container; the replay has no key."""
    rules = [
        Rule(name="chooses", when={"system": "Task Routing AI"},
             then=Reply(text='{"complexity_reasoning": "simple", "complexity_score": 1}')),
        Rule(name="says", when={}, then=Reply(text="well")),
    ]  # fmt: skip
    command = AGENTS[name].command if name in AGENTS else (*_AIDER, "SURVEY the notes")
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    log = str(tmp_path / "run.jsonl")
    with Upstream(rules) as upstream:
        led = {name: url for name, url in upstream.environment().items() if name.endswith("_URL")}
        key = KEYS[BAREST[name]]
        more = {"HOME": str(_empty(tmp_path / "home")), BAREST[name]: key, **led}
        folder = _folder(tmp_path / "one")
        done = refold_does("record", "--log", log, "--", *command, folder=folder, more=more)
    assert done.returncode == 0, done.stderr
    assert "well" in done.stdout

    more = {"HOME": str(_empty(tmp_path / "other"))}
    folder = _folder(tmp_path / "there")
    # Aider prints why it cannot look up prices: in a sandbox, it is another reason.
    printed = ["--volatile", "output:ignore"] if name == "aider" else []
    again = refold_does("replay", *printed, log, "--", *command, folder=folder, more=more)
    assert again.returncode == 0, again.stderr


def _empty(path: Path) -> Path:
    path.mkdir()
    return path


def _all_of(node: RunNode) -> Iterator[RunNode]:
    for child in node.children:
        yield child
        yield from _all_of(child)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_as_published_is_told_and_replays_identical(name: str, tmp_path: Path) -> None:
    """In another folder and home, with the upstream off; each subagent once, with its task."""
    agent = AGENTS[name]
    if shutil.which(agent.command[0]) is None:
        pytest.skip(f"{agent.command[0]} is not installed")
    log = str(tmp_path / "run.jsonl")
    with Upstream(agent.rules) as upstream:
        home = {"HOME": str(_home(tmp_path / "home")), **KEYS}
        more = {**upstream.environment(), **home}
        words = ["record", "--log", log, "--", *agent.command]
        done = refold_does(*words, folder=_folder(tmp_path / "one"), more=more)
    assert done.returncode == 0, done.stderr

    found = [each for each in _all_of(delegation_tree(Path(log))) if each.tool]
    assert sorted(each.name for each in found) == sorted(agent.names)
    for each, brief in zip(
        sorted(found, key=lambda one: (one.name, one.brief)), BRIEFS, strict=False
    ):
        assert each.brief == brief
        assert each.usage.input_tokens > 0

    for turn in range(2):
        folder = _folder(tmp_path / f"there{turn}" / "below")
        more = {"HOME": str(_home(tmp_path / f"home{turn}")), **KEYS}
        again = refold_does("replay", log, "--", *agent.command, folder=folder, more=more)
        assert again.returncode == 0, again.stderr


def test_two_of_claude_code_at_once_are_two_roots_with_their_own_costs(tmp_path: Path) -> None:
    """People run fleets so; the second stood below a call of the first, and added to its costs."""
    if shutil.which("claude") is None:
        pytest.skip("claude is not installed")
    one = 'claude -p "SURVEY the notes" --allowedTools Read,Agent'
    two = one.replace("notes", "notes, again")
    log = str(tmp_path / "run.jsonl")
    with Upstream(AGENTS["claude-code"].rules) as upstream:
        more = {**upstream.environment(), "HOME": str(_empty(tmp_path / "home")), **KEYS}
        words = ["record", "--log", log, "--", "bash", "-c", f"{one} & {two} & wait"]
        done = refold_does(*words, folder=_folder(tmp_path / "one"), more=more)
    assert done.returncode == 0, done.stderr

    roots = delegation_tree(Path(log)).children
    assert [each.name for each in roots] == ["main", "main"]
    for each in roots:
        assert sorted(child.name for child in each.children) == ["count a", "count b"]
    assert roots[0].usage.cost_usd_micros == roots[1].usage.cost_usd_micros


def test_claude_code_typed_at_in_a_terminal_is_identical(tmp_path: Path) -> None:
    """All that is asked is compared, and not what it paints, which depends on its spinner."""
    if shutil.which("claude") is None or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not installed")
    log, command = str(tmp_path / "run.jsonl"), ["--", "claude", "--allowedTools", "Read,Agent"]
    with Upstream(AGENTS["claude-code"].rules) as upstream:
        _typed(tmp_path / "one", upstream.environment() | KEYS, "record", "--log", log, *command)
    for turn in range(2):
        said = _typed(tmp_path / f"again{turn}", {}, "replay", "--yes", log, *command)
        assert "identical: " in said, said
        assert "the command's terminal output was not compared" in said


def _typed(place: Path, more: dict[str, str], *words: str) -> str:
    """Type a task at `refold` in a terminal, end the program, and return what refold says."""
    place.mkdir()
    folder, home = _folder(place / "there"), _empty(place / "home")
    trusted = (folder, place.parent / "one/there")  # a replay shows it as it was recorded
    settings = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["0" * 20], "rejected": []},
        "projects": {str(each): {"hasTrustDialogAccepted": True} for each in trusted},
    }
    (home / ".claude.json").write_text(json.dumps(settings))
    told = {**more, "PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color"}
    given = [f"{name}={value}" for name, value in told.items()]
    line = shlex.join(["env", "-i", *given, sys.executable, "-m", "refold", *words])
    said, end = place / "said", place / "end"

    def tmux(*more: str) -> str:
        made = ["tmux", "-S", str(place / "socket"), *more]
        return subprocess.run(made, capture_output=True, encoding="utf-8", check=False).stdout

    def until(shown: str) -> None:
        """Wait until it is shown, or all is over."""
        late = time.monotonic() + _TYPED_SECONDS
        while shown not in (screen := tmux("capture-pane", "-p")) and not end.exists():
            assert time.monotonic() < late, screen
            time.sleep(0.1)

    tmux("new-session", "-d", "-x", "120", "-y", "40", "-c", str(folder),
         f"{line} 2>{said}; touch {end}")  # fmt: skip
    try:
        until("? for shortcuts")
        for text, shown in (("SURVEY the notes", "six and four"), ("/exit", "\0")):
            tmux("send-keys", text)
            until(text)
            tmux("send-keys", "Enter")
            until(shown)
    finally:
        tmux("kill-server")
    return said.read_text()


EDITS: Final = (
    ("duration_ms: 500", "duration_ms: 50000"),
    ("tasks/build.output", "tasks/deploy.output"),
    ("<task-id>prod</task-id>", "<task-id>test</task-id>"),
    (".claude/plans/deploy-prod.md", ".claude/plans/deploy-test.md"),
    ('"end_time": 1700000000', '"end_time": 17'),
    ('"timestamp": "2026-11-22T16:33:20.798Z"', '"timestamp": "2026-11-22T16:33:20.799Z"'),
    ('"session_id": "f468db8b-b8c8-4b1a-aca5-c89411438081"',
     '"session_id": "f468db8b-b8c8-4b1a-aca5-c89411438082"'),
    ("- Shell: bash", "- Shell: fish"),
    ("Today's date is 2026-01-22", "Today's date is 1999-01-22"),
    ("in background with ID: alpha", "in background with ID: omega"),
    ("[main abc1234] Change", "[main abc1235] Change"),
    ("agentId: a21a536276f60d36a", "agentId: a21a536276f60d36b"),
    ("/4176a7d7-9356-4ed9-b504-642afa2d21e5/", "/4176a7d7-9356-4ed9-b504-642afa2d21e6/"),
)  # fmt: skip
"""Lines of a file that an agent works on, each with a change."""
MORE_EDITS: Final = (
    ("subagent_tokens: 15773", "subagent_tokens: 15774"),
    ("SendMessage with to: 'a21a536276f60d36a'", "SendMessage with to: 'a21a536276f60d36b'"),
    ("cc_version=2.1.197.a3f;", "cc_version=2.1.197.a3e;"),
    ("- OS Version: Linux 6.18", "- OS Version: Linux 6.19"),
    ("tool-results/b2dwmfpm8.txt", "tool-results/b2dwmfpm9.txt"),
    ("Recent commits: f53a8dc", "Recent commits: f53a8dd"),
    ('"totalDurationMs":2112', '"totalDurationMs":2113'),
    (f'"device_id":"{"0dcc15c9" * 8}"', f'"device_id":"{"0dcc15c8" * 8}"'),
    ("Wall time 0.1 seconds", "Wall time 0.2 seconds"),
    ('"chunk_id":"c1c376"', '"chunk_id":"c1c377"'),
    ("original token count: 50028", "original token count: 50029"),
    ("Process Group PGID: 4711", "Process Group PGID: 4712"),
    ("Background PIDs: 4713, 4714", "Background PIDs: 4713, 4715"),
    ("ses_df9c13d9affe0NephpXMWO3UvT", "ses_df9c13d9affe0NephpXMWO3UvU"),
    ("call_bb0b35fcee5a451d93ad6744", "call_bb0b35fcee5a451d93ad6745"),
    ("toolu_1a30970c6ed8469087bd111c", "toolu_1a30970c6ed8469087bd111d"),
    ("commit 8f14e45fceea167a5a36", "commit 8f14e45fceea167a5a37"),
    ("index 12ee743..4693ad3 100644", "index 12ee743..4693ad4 100644"),
    ("HEAD is now at cc53533 Add a", "HEAD is now at cc53534 Add a"),
    ("committed with git hash e29f67f", "committed with git hash e29f67e"),
    ("Date:   Mon Nov 23 10:00:00 2026 +0000", "Date:   Mon Nov 23 10:00:01 2026 +0000"),
    ("2026-11-23 09:59:59 +0100", "2026-11-23 09:58:59 +0100"),
    ("3 minutes ago", "4 minutes ago"),
    ("# aider chat started at 2026-11-23 18:16:57", "# aider chat started at 2026-11-23 18:16:58"),
    ("Cost: $0.00059 message", "Cost: $0.00058 message"),
    ("listening on 127.0.0.1:8123", "listening on 127.0.0.1:8124"),
    ("http://localhost:3000/callback", "http://localhost:3001/callback"),
    ("pid 20936 exited", "pid 20937 exited"),
    ("took 12.5 s", "took 12.6 s"),
    ("total 518 bytes", "total 519 bytes"),
    ("sha256:9f86d081884c7d659a2feaa0c55ad015", "sha256:9f86d081884c7d659a2feaa0c55ad016"),
    ("d41d8cd98f00b204e9800998ecf8427e  empty", "d41d8cd98f00b204e9800998ecf8427f  empty"),
    ("build 20261122.4", "build 20261122.5"),
    ("version = 1.4.7", "version = 1.4.8"),
    ("/tmp/build-xk2v9/out", "/tmp/build-xk2v8/out"),
    ("/home/ann/project-old/x", "/home/ann/project-new/x"),
    ("user ann on host vm1", "user ann on host vm2"),
    ("Sunday, November 22, 2026", "Sunday, November 29, 2026"),
    ("22/11/2026 16:33", "22/11/2026 16:34"),
    ("req_011CQ9xYzAbCdEfGhIjK", "req_011CQ9xYzAbCdEfGhIjL"),
    ("1795401775229", "1795401775230"),
)  # fmt: skip
"""Likewise, of other agents, of git, and of what logs and settings hold."""


def _claude(rules: list[Rule], log: str, tmp_path: Path, folder: Path, *command: str) -> str:
    if shutil.which("claude") is None:
        pytest.skip("claude is not installed")
    with Upstream(rules) as upstream:
        home = {"HOME": str(_home(tmp_path / "home")), **KEYS}
        words = ["record", "--log", log, "--", *command]
        done = refold_does(*words, folder=folder, more={**upstream.environment(), **home})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _changed(asked: Asked, line: str, edited: str) -> Asked:
    """Return a request with another line in all texts."""
    old, new = (json.dumps(text)[1:-1] for text in (line, edited))
    return asked.asking(json.loads(json.dumps(asked.as_json()).replace(old, new)))


def test_each_edit_of_a_file_that_claude_code_reads_is_noticed(tmp_path: Path) -> None:
    """Whatever it looks like: the change is named, and without one all is identical."""
    reads = _calls("Read", {"file_path": "conf.txt"})
    rules = [
        Rule(name="titles", when={"user": "Write the title"}, then=TITLE),
        Rule(name="reads", when={"user": "SURVEY"}, then=reads),
        Rule(name="ends", when={"user": "SURVEY", "results": ["first"]}, then=Reply(text="done")),
    ]
    plain = "\n".join(["first", *(line for line, _ in (*EDITS, *MORE_EDITS)), "last"])
    command = ("claude", "-p", "SURVEY the file", "--allowedTools", "Read")
    folder, log = _folder(tmp_path / "one"), str(tmp_path / "run.jsonl")
    (folder / "conf.txt").write_text(plain)
    _claude(rules, log, tmp_path, folder, *command)

    for number, (line, edited) in enumerate((("", ""), *EDITS)):
        there = _folder(tmp_path / f"there{number}" / "below")
        (there / "conf.txt").write_text(plain.replace(line, edited) if line else plain)
        more = {"HOME": str(_home(tmp_path / f"home{number}")), **KEYS}
        again = refold_does(
            "replay", "--files=in-place", log, "--", *command, folder=there, more=more
        )
        assert again.returncode == (1 if line else 0), (line, again.stderr)
        assert ("the tool Read" in again.stderr) == bool(line), (line, again.stderr)

    kept = read_record(log)  # as it asked: a start for each would take long
    for line, edited in (("\0", "\0"), *EDITS, *MORE_EDITS):
        matcher = Matcher(kept)
        for turn in kept.turns:
            matcher.take(_changed(turn.asked, line, edited), turn.scope)
        assert bool(matcher.misses) == (line != edited), line


def test_a_commit_that_claude_code_makes_and_looks_at_is_identical(tmp_path: Path) -> None:
    """Its id is another one each time, and so is what it is called for short."""
    commits = "git init -q -b main . && git add a.txt && git -c user.name=a -c user.email=a@b.c "
    commits += "commit -m 'Add a' && git log -1 && git rev-parse HEAD"
    rules = [
        Rule(name="titles", when={"user": "Write the title"}, then=TITLE),
        Rule(name="commits", when={"user": "SURVEY"},
             then=_calls("Bash", {"command": commits, "description": "commit"})),
        Rule(name="ends", when={"user": "SURVEY", "results": ["Add a"]},
             then=Reply(text="done")),
    ]  # fmt: skip
    command = ("claude", "-p", "SURVEY and commit", "--allowedTools", "Bash")
    log = str(tmp_path / "run.jsonl")
    _claude(rules, log, tmp_path, _folder(tmp_path / "one"), *command)

    there = _folder(tmp_path / "there" / "below")
    more = {"HOME": str(_home(tmp_path / "home2")), **KEYS}
    again = refold_does("replay", "--files=in-place", log, "--", *command, folder=there, more=more)

    assert again.returncode == 0, again.stderr
    assert "1 commit" in again.stderr


_BLOCK: Final = "\n{}\n```python\n<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n```\n"


def test_all_that_aider_does_in_a_folder_is_done_again(tmp_path: Path) -> None:
    """An edit, a new file, a rename and a removal by the command that tests, and its commits.

    It tells the model of each commit, and keeps a history with times.
    """
    if shutil.which("aider") is None:
        pytest.skip("aider is not installed")
    edits = _BLOCK.format("calc.py", "return a - b\n", "return a + b\n")
    edits += _BLOCK.format("added.py", "", "ADDED = 1\n")
    rules = [
        Rule(name="message", when={"system": "commit message"}, then=Reply(text="fix: add")),
        Rule(name="was told", when={"user": "TOLD"}, then=Reply(text="nothing to do")),
        Rule(name="edits", when={"user": "SURVEY"}, then=Reply(text=edits)),
    ]
    test = (
        "mv a.txt moved.txt; rm b.txt; date > when.txt; git log -1 --format=%s; echo TOLD; exit 1"
    )
    words = [word for word in _AIDER if word != "--no-git"]
    words = [*words[:-1], "--no-gitignore", "--edit-format", "diff", "--auto-test", "--test-cmd"]
    command = [*words, test, "--message", "SURVEY the sum", "calc.py"]
    folder, log = _folder(tmp_path / "one"), str(tmp_path / "run.jsonl")
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    for line in ("init -q -b main", "config user.email a@b.test", "config user.name Ann",
                 "add -A", "commit -qm first"):  # fmt: skip
        subprocess.run(["git", *line.split()], cwd=folder, check=True)
    with Upstream(rules) as upstream:
        more = {**upstream.environment(), "HOME": str(_empty(tmp_path / "home")), **KEYS}
        words = ["record", "--log", log, "--", *command]
        done = refold_does(*words, folder=folder, more=more)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} >= {"moved.txt", "added.py", "when.txt"}
    assert not {path.name for path in folder.iterdir()} & {"a.txt", "b.txt"}

    more = {"HOME": str(_empty(tmp_path / "home2")), **KEYS}
    ignored = ["--volatile", "file:when.txt"]  # the only thing that no rule names
    again = refold_does("replay", *ignored, log, "--", *command, folder=folder, more=more)
    assert again.returncode == 0, again.stderr
    assert "1 commit" in again.stderr

    strict = refold_does("replay", log, "--", *command, folder=folder, more=more)
    assert strict.returncode == 1, strict.stderr
    assert "when.txt" in strict.stderr
