"""Which profile a command has, and how it is led to the proxy (CONTRACT.md §16.13)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from refold.engine.errors import UsageError
from refold.engine.observed.profile import Profile
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.profiles import profile_asking, profile_of, redirected, shipped
from tests.support.loops import for_each
from tests.support.upstream import Upstream

URL = 'openai_base_url="http://h/w/openai"'


@for_each(
    "command, name",
    [
        ("claude -p hello", "Claude Code"),
        ("/opt/bin/claude.exe -p hello", "Claude Code"),
        ("npx -y @anthropic-ai/claude-code@2.1.197 -p hello", "Claude Code"),
        ("node node_modules/.bin/codex exec hello", "Codex"),
        ("uv run --with x aider --message hello", "aider"),
        ("timeout 60 env A=b opencode run hello", "opencode"),
        ("npx @google/gemini-cli -p hello", "Gemini CLI"),
        ("uv run adk run agent", "Google ADK"),
        ("npx @qwen-code/qwen-code -p hello", "Qwen Code"),
        ("copilot --allow-all-tools -p hello", "GitHub Copilot CLI"),
        ("npx @mariozechner/pi-coding-agent -p hello", "pi"),
        ("python agent.py codex", ""),
        ("grep claude notes.txt", ""),
        ("echo claude", ""),
    ],
)
def test_a_command_is_known_by_its_program(command: str, name: str) -> None:
    """Behind what starts it; not by a word among its arguments."""
    assert profile_of(command.split()).name == name


@for_each(
    "user_agent, system, name",
    [
        ("claude-cli/2.1.197 (external, sdk-cli)", "", "Claude Code"),
        ("Bun/1.4.0", "", "Claude Code"),  # looks whether the server is there
        ("codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown (codex_exec; 0.169.0)", "", "Codex"),
        ("opencode/1.18.33 (linux; x64) ai-sdk/provider-utils/4.0.40 runtime/bun/1.3.14", "",
         "opencode"),
        ("OpenAI/Python 2.20.0", "Act as an expert software developer.\nAlways", "aider"),
        ("GeminiCLI/0.61.0/gemini-2.5-pro (linux; x64; terminal)", "", "Gemini CLI"),
        ("google-genai-sdk/2.34.0 gl-python/3.11.7 google-adk/2.13.0", "", "Google ADK"),
        ("OpenAI/Python 2.20.0", "You are like claude-cli/2.1.197", ""),
        ("QwenCode/0.15.10 (linux; x64)", "You are Qwen Code", "Qwen Code"),
        ("OpenAI/JS 5.20.1", "You are the GitHub Copilot CLI, a terminal", "GitHub Copilot CLI"),
        ("OpenAI/JS 6.26.0", "You are an expert coding assistant operating inside pi, a", "pi"),
    ],
)  # fmt: skip
def test_a_program_is_known_by_what_it_asks(user_agent: str, system: str, name: str) -> None:
    """By the beginning of its user agent, or of its system prompt; as seen of real programs."""
    assert profile_asking(user_agent, system).name == name


@for_each(
    "line, name",
    [
        ("cd x && codex exec hi", "Codex"),
        ("A=b nice claude -p hi", "Claude Code"),
        ("cat codex", ""),
    ],
)
def test_a_line_of_a_shell_is_looked_into(line: str, name: str) -> None:
    assert profile_of(["bash", "-lc", line]).name == name


def test_a_script_is_known_by_the_library_that_starts_the_program(tmp_path: Path) -> None:
    """Claude's SDK brings its own program."""
    for name, text in (
        ("Claude Code", "from claude_agent_sdk import query\n"),
        ("Google ADK", "from google.adk.agents import Agent\n"),
        ("smolagents", "from smolagents import ToolCallingAgent\n"),
        ("LangGraph", 'for part in agent.stream(task, stream_mode="messages"): ...\n'),
        ("", "from langchain.agents import create_agent\nagent.invoke(task)\n"),
    ):
        script = tmp_path / "agent.py"
        script.write_text(text)
        assert profile_of(["python", str(script)]).name == name
        twice = f"python '{script}' one & python \"{script}\" two & wait"
        assert profile_of(["bash", "-c", twice]).name == name


@for_each(
    "command, expected",
    [
        (["codex", "exec", "hi"], ["codex", "-c", URL, "exec", "hi"]),
        (["npx", "@openai/codex", "exec"], ["npx", "@openai/codex", "-c", URL, "exec"]),
        (["sh", "-c", "cd x; codex exec"], ["sh", "-c", f"cd x; codex -c '{URL}' exec"]),
        (
            ["sh", "-c", "codex a; cat codex && codex b"],
            ["sh", "-c", f"codex -c '{URL}' a; cat codex && codex -c '{URL}' b"],
        ),
    ],
)
def test_arguments_lead_a_command_that_reads_no_variable(
    command: list[str], expected: list[str]
) -> None:
    """Behind the program's name."""
    assert redirected(command, profile_of(command), "http://h/w") == expected


def test_instructions_of_a_folder_are_no_task_of_codex() -> None:
    """It puts them before the task, in a message of the user."""
    (profile,) = (each for each in shipped() if each.name == "Codex")
    kept = Profile.in_rules({"profile": profile.as_json()})
    said = "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nBe brief.\n\n</INSTRUCTIONS>"

    assert kept.plain(f"{said}<environment_context>\n<cwd>/x</cwd></environment_context>") == ""


_FETCHES = """
const urls = ["https://api.openai.com/v1/responses", "https://api.anthropic.com/v1/messages"];
await fetch(urls[0], {method: "POST", body: "1"});
await fetch(new URL(urls[1]), {method: "POST", body: "2"});
await fetch(new Request(urls[1], {method: "POST", body: "3"}));
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_requests_of_pi_to_a_provider_go_to_where_the_variables_lead() -> None:
    """It names the providers' addresses itself: by a text, a URL or a request."""
    (profile,) = (each for each in shipped() if each.name == "pi")
    with Upstream([]) as upstream:
        given = {**os.environ, **profile.appended, **upstream.environment()}
        words = ["node", "--input-type=module", "-e", _FETCHES]
        subprocess.run(words, env=given, check=True)

    assert [(one.path, one.raw) for one in upstream.received] == [
        ("/v1/responses", b"1"), ("/v1/messages", b"2"), ("/v1/messages", b"3"),
    ]  # fmt: skip


def test_a_profile_can_be_named_and_turned_off(tmp_path: Path) -> None:
    """By its name, `none`, or a file of one's own."""
    own = tmp_path / "own.py"
    own.write_text(
        "from refold.engine.observed.profile import Profile\nMINE = Profile(name='mine')\n"
    )

    assert profile_of(["claude"], "none").name == ""
    assert profile_of(["x"], "claude-code").name == "Claude Code"
    assert profile_of(["x"], f"{own}:MINE").name == "mine"
    for wrong in ("nobody", f"{own}:OTHER", f"{tmp_path / 'no.py'}:X"):
        with pytest.raises(UsageError, match="--profile"):
            profile_of(["x"], wrong)


@pytest.mark.parametrize("profile", shipped(), ids=lambda each: each.name)
def test_what_is_shipped_is_as_a_log_needs_it(profile: Profile) -> None:
    """Its rules are taken, and come back from the first entry."""
    VolatileRules(profile.volatile, profile.volatile_texts)
    again = Profile.in_rules({"profile": profile.as_json()})

    assert again.as_json() == profile.as_json()
    assert profile.commands or profile.libraries
