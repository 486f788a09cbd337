"""Agents that people run edit files, and are replayed identical in the folder where they worked.

Each is skipped where its program is not on PATH; docs/agents.md has the versions that were tried.
"""

import json
import shutil
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.proxy.test_sessions import refold_does
from tests.support.folders import git, repository
from tests.support.traffic import Call, Reply, Rule
from tests.support.upstream import Upstream

pytestmark = pytest.mark.long

MOVES: Final = "rm old.txt && mv b.txt c.txt && echo made > made.txt && ls"
COMMITS: Final = "git add -A && git commit -qm work && git log --oneline && git status --short"
KEYS: Final = {
    "OPENAI_API_KEY": "sk-" + "0" * 40,
    "ANTHROPIC_API_KEY": "sk-ant-api03-" + "0" * 80,
    "GEMINI_API_KEY": "AIza" + "0" * 35,
    "GIT_AUTHOR_NAME": "ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}
FILES: Final = {"calc.py": "def add(a, b): return a - b\n", "old.txt": "old\n", "b.txt": "b\n"}


@attrs.frozen
class Editor:
    """An agent as published, and the tools by which it reads, edits, writes and runs."""

    command: tuple[str, ...]
    tools: tuple[str, str, str, str]
    names: tuple[str, str, str, str, str]
    """What they call a path, the old text, the new one, the content, the command."""
    more: dict[str, Any] = attrs.field(factory=dict)
    """Of an edit."""


EDITORS: Final = {
    "claude-code": Editor(
        ("claude", "-p", "EDIT IT", "--allowedTools", "Read,Edit,Write,Bash"),
        ("Read", "Edit", "Write", "Bash"),
        ("file_path", "old_string", "new_string", "content", "command"),
    ),
    "opencode": Editor(
        ("opencode", "run", "-m", "anthropic/claude-sonnet-4-5", "EDIT IT"),
        ("read", "edit", "write", "bash"),
        ("filePath", "oldString", "newString", "content", "command"),
    ),
    "gemini-cli": Editor(
        ("gemini", "--skip-trust", "-y", "-p", "EDIT IT"),
        ("read_file", "replace", "write_file", "run_shell_command"),
        ("file_path", "old_string", "new_string", "content", "command"),
        {"instruction": "fix"},
    ),
}


def _rules(editor: Editor, project: Path) -> list[Rule]:
    read, edit, write, run = editor.tools
    path, old, new, content, command = editor.names
    told = {"description": "work"} if run in ("Bash", "bash") else {}
    file = str(project / "calc.py")
    steps = [
        (read, {path: file}),
        (edit, {path: file, old: "a - b", new: "a + b", **editor.more}),
        (write, {path: str(project / "new.py"), content: "print(1)\n"}),
        (run, {command: MOVES, **told}),
        (run, {command: COMMITS, **told}),
    ]
    replies = [
        Reply(calls=(Call(id=f"call_{at}", name=name, arguments=json.dumps(given)),))
        for at, (name, given) in enumerate(steps)
    ]
    chosen = '{"complexity_reasoning": "simple", "complexity_score": 1}'
    return [
        Rule(name="titles", when={"user": "Write the title"}, then=Reply(text='{"title": "T"}')),
        Rule(name="names", when={"system": "title generator"}, then=Reply(text="T")),
        Rule(name="chooses", when={"system": "Task Routing AI"}, then=Reply(text=chosen)),
        *[
            Rule(name=f"step {at}", when={"user": "EDIT IT", "results": [""] * at}, then=reply)
            for at, reply in enumerate([*replies, Reply(text="Done")])
        ],
    ]


@pytest.mark.parametrize("name", EDITORS)
def test_an_agent_that_edits_is_identical_in_its_folder(name: str, tmp_path: Path) -> None:
    """It edits, creates, removes, renames, and commits: twice, with no option."""
    editor = EDITORS[name]
    if shutil.which(editor.command[0]) is None:
        pytest.skip(f"{editor.command[0]} is not installed")
    project = repository(tmp_path / "home" / "project", FILES)
    settings = tmp_path / "home" / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    log, more = str(tmp_path / "run.jsonl"), {"HOME": str(tmp_path / "home"), **KEYS}
    with Upstream(_rules(editor, project)) as upstream:
        led = {**upstream.environment(), **more}
        words = ["record", "--log", log, "--", *editor.command]
        done = refold_does(*words, folder=project, more=led)
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in project.iterdir()) == [
        ".git", "c.txt", "calc.py", "made.txt", "new.py",
    ]  # fmt: skip
    commits = git(project, "log", "--format=%H")

    for _ in range(2):
        again = refold_does("replay", log, "--", *editor.command, folder=project, more=more)
        assert again.returncode == 0, again.stderr
    assert git(project, "log", "--format=%H") == commits
    assert git(project, "status", "--porcelain") == ""
