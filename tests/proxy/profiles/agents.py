"""The agents that the matrix tries, as published, and what their models say.

Each does one job: it reads two files, by two parallel subagents where it has these, and commits.
"""

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

from tests.proxy.profiles.frameworks import SCRIPTS
from tests.support.traffic import Call, Reply, Rule

COMMIT: Final = (
    "echo seven >> a.txt && git add -A && git commit -q -m notes && git log -1 && "
    "git rev-parse HEAD && git status"
)
RULES: Final = "Be brief and kind.\n"
"""What an agent's own file says, unless it is a script or settings."""

# --- what models say ---------------------------------------------------------------------------

Tool = Callable[[str], Call]
"""Makes a call of one argument: a file to be read, a command, a subagent's task."""


def function(name: str, argument: str = "", /, **more: Any) -> Tool:
    """Return what makes a call that has one argument of that name, and `more`."""
    return lambda value: Call(id="", name=name, arguments=json.dumps({argument: value, **more}))


def script(code: str) -> Tool:
    """Return what makes a call of Codex's tool, which takes a program."""
    return lambda value: Call(
        id="", name="exec", arguments=code.format(json.dumps(value)), is_custom=True
    )


def listed(name: str, argument: str) -> Tool:
    """Return what makes a call that has one argument, a list."""
    return lambda value: Call(id="", name=name, arguments=json.dumps({argument: [value]}))


def cat(runs: Tool) -> Tool:
    """Return what reads a file by a command."""
    return lambda name: runs(f"cat {name}")


def tasked(name: str, said: str = "prompt", /, **more: Any) -> Tool:
    """Return what makes a call that hands a subagent's task over, with a description of it."""
    return function(name, said, description="count", **more)


def calls(*given: Call) -> Reply:
    return Reply(calls=given)


def _rule(name: str, then: Reply, *results: str, **when: str) -> Rule:
    return Rule(name=name, when={**when, "results": [*results]}, then=then)


BESIDE: Final = [
    _rule("titles", Reply(text='{"title": "Survey"}'), user="Write the title"),
    _rule("names", Reply(text="Survey"), system="title generator"),
    _rule("chooses", Reply(text='{"reasoning": "simple", "model_choice": "flash"}'),
          system="Task Routing AI"),
]  # fmt: skip
"""What is asked beside the work."""
SAID: Final = "six and four"
NAMES: Final = ("a.txt", "b.txt")
TASKS: Final = ("FIRST: count the words", "SECOND: count the words")


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
    base: str = ""
    """The variable that it reads the base URL of OpenAI from, if it is one of its own."""
    reads: Tool | None = None
    hands: Tool | None = None
    runs: Tool | None = None
    ends: Tool | None = None
    """What a subagent ends with, if not with a text."""
    says: Tool | None = None
    """Likewise, the agent."""
    own: tuple[Rule, ...] = ()
    """What its models say, if that is something else."""
    hides_home: bool = False
    """Whether its commands do not see the user's settings of git."""
    rules: str = "AGENTS.md"
    """The file in its folder that instructs it."""
    script: str = RULES
    """What that file says."""
    before_two: str = ""
    """A command that runs before two at once."""
    apart: str = ""
    """The second one's folder if two at once would write into each other's lines: outputs, too."""

    @property
    def program(self) -> str:
        """What has to be there."""
        return self.version[0]

    def told(self, task: str) -> list[Rule]:
        """Return what its models say, in ids of their own; they commit if the task says so."""
        given = [*BESIDE, *(self.own or self._job())]
        return [*anew(each for each in given if each.name != "commits" or "COMMIT" in task)]

    def _job(self) -> Iterator[Rule]:
        assert self.reads is not None
        assert self.runs is not None
        end = calls(self.says(SAID)) if self.says else Reply(text=SAID)
        commits = calls(self.runs(COMMIT))
        first = [*map(self.hands, TASKS)] if self.hands else [*map(self.reads, NAMES)]
        yield _rule("commits", commits, "", "", user="SURVEY")
        yield _rule("looked", end, "", "", "notes", user="SURVEY")
        yield _rule("asks", calls(*first), user="SURVEY")
        yield _rule("ends", end, "", "", user="SURVEY")
        for task, name in zip(TASKS, NAMES, strict=True):
            said = f"{name} was read"
            over = calls(self.ends(said)) if self.ends else Reply(text=said)
            yield _rule(f"reads {name}", calls(self.reads(name)), user=task)
            yield _rule(f"read {name}", over, "one", user=task)


# --- agents of the command line ----------------------------------------------------------------

_CONTINUE: Final = (
    'printf "name: a\\nversion: 1.0.0\\nschema: v1\\nmodels:\\n  - {name: m, provider: openai, '
    'model: gpt-5-mini, apiKey: %s, apiBase: %s}\\n" "$OPENAI_API_KEY" "$OPENAI_BASE_URL" '
    '> "$HOME/cn.yaml"; exec cn -p "$0" --auto --config "$HOME/cn.yaml"'
)
_CLINE: Final = (
    'cline auth -p openai -k "$OPENAI_API_KEY" -m gpt-5-mini -b "$OPENAI_BASE_URL" >/dev/null && '
    'exec cline -P openai -m gpt-5-mini "$0"'
)
_EDIT: Final = (
    "calc.py\n```python\n<<<<<<< SEARCH\nreturn a - b\n=======\nreturn a + b\n>>>>>>> REPLACE\n```"
)
_AIDER: Final = (
    _rule("message", Reply(text="fix: add"), system="commit message"),
    _rule("was told", Reply(text=SAID), user="TOLD"),
    _rule("commits", Reply(text=_EDIT), user="COMMIT"),
    _rule("says", Reply(text=SAID), user="SURVEY"),
)
"""After its edit it commits by itself, runs a test that says TOLD, and tells the model of both."""


def _aider(task: str) -> list[str]:
    words = ["aider", "--model", "openai/gpt-5-mini", "--yes-always", "--no-check-update"]
    words += ["--no-analytics", "--no-show-model-warnings", "--no-show-release-notes"]
    words += ["--no-gitignore", "--edit-format", "diff", "--read", "CONVENTIONS.md"]
    words += ["--message", task]
    test = ["--auto-test", "--test-cmd", "echo TOLD; exit 1"]
    return [*words, *test, "calc.py"] if "COMMIT" in task else [*words, "--no-git"]


def _submits(said: str) -> Call:
    return function("bash", "command")(f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {said}")


_CLAUDE: Final[dict[str, Any]] = {
    "key": "ANTHROPIC_API_KEY",
    "reads": function("Read", "file_path"),
    "hands": tasked("Agent", subagent_type="general-purpose", run_in_background=False),
    "runs": function("Bash", "command", description="commit"),
}
_OPENCODE: Final[dict[str, Any]] = {
    "version": ("opencode", "--version"),
    "reads": function("read", "filePath"),
    "hands": tasked("task", subagent_type="general"),
    "runs": function("bash", "command", description="commit"),
    "before_two": "opencode session list > /dev/null 2>&1",  # else both make its database
}
_BASH: Final = function("bash", "command")
_SHELL: Final = function("run_shell_command", "command", is_background=False)
_CODEX: Final = script("text(await tools.exec_command({{cmd: {}}}));")
_CN: Final = function("Bash", "command")
_MINI: Final = ["env", "MSWEA_CONFIGURED=true", "MSWEA_COST_TRACKING=ignore_errors", "mini", "-y"]

AGENTS: Final[dict[str, Agent]] = {
    "claude-code": Agent(
        title="Claude Code", version=("claude", "--version"), rules="CLAUDE.md",
        words=lambda task: ["claude", "-p", task, "--allowedTools", "Read,Agent,Bash"],
        **_CLAUDE,
    ),
    "codex": Agent(
        title="Codex", version=("codex", "--version"), key="CODEX_API_KEY",
        words=lambda task: ["codex", "exec", "--skip-git-repo-check", "-s", "danger-full-access",
                            task],
        reads=cat(_CODEX), runs=_CODEX,
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
        words=lambda task: ["gemini", "--skip-trust", "-y", "-p", task], rules="GEMINI.md",
        hides_home=True, apart=".",
        reads=function("read_file", "file_path"), runs=function("run_shell_command", "command"),
        hands=function("invoke_agent", "prompt", agent_name="generalist"),
        ends=lambda said: Call(
            id="", name="complete_task", arguments=json.dumps({"result": {"response": said}})
        ),
    ),
    "qwen-code": Agent(
        title="Qwen Code", version=("qwen", "--version"), rules="QWEN.md",
        words=lambda task: ["qwen", "--auth-type", "openai", "-m", "gpt-5-mini", "-y", "-p", task],
        reads=cat(_SHELL), runs=_SHELL,
    ),
    "copilot": Agent(
        title="GitHub Copilot CLI", version=("copilot", "--version"),
        words=lambda task: ["copilot", "--model", "gpt-5-mini", "--allow-all-tools", "-p", task],
        key="COPILOT_PROVIDER_API_KEY", base="COPILOT_PROVIDER_BASE_URL",
        reads=function("view", "path"), runs=function("bash", "command", description="commit"),
        hands=tasked("task", agent_type="general-purpose", name="counter", mode="sync"),
    ),
    "pi": Agent(
        title="pi", version=("pi", "--version"), reads=function("read", "path"), runs=_BASH,
        words=lambda task: ["pi", "--provider", "openai", "--model", "gpt-5-mini", "-p", task],
    ),
    "aider": Agent(
        title="aider", version=("aider", "--version"), words=_aider, rules="CONVENTIONS.md",
        own=_AIDER, apart="~/below",
    ),
    "continue": Agent(
        title="Continue", version=("cn", "--version"),
        words=lambda task: ["bash", "-c", _CONTINUE, task], reads=cat(_CN), runs=_CN,
    ),
    "cline": Agent(
        title="Cline", version=("cline", "--version"), apart=".",
        words=lambda task: ["bash", "-c", _CLINE, task],
        reads=cat(listed("run_commands", "commands")), runs=listed("run_commands", "commands"),
    ),
    "mini-swe-agent": Agent(
        title="mini-swe-agent", version=("mini", "--help"), rules="agent.yaml",
        script="agent: {system_template: Be brief and kind.}\n",
        words=lambda task: [*_MINI, "--exit-immediately", "-m", "openai/gpt-5-mini", "-c",
                            "mini.yaml", "-c", "agent.yaml", "-t", task],
        reads=cat(_BASH), runs=_BASH, says=_submits,
    ),
}  # fmt: skip

# --- scripts of frameworks ---------------------------------------------------------------------

_RUN: Final = function("run", "command")
_ASK: Final = function("ask", "task")
_ANSWER: Final = function("final_answer", "answer")
_SMOL: Final = (
    _rule("looked", calls(_ANSWER(SAID)), user="Author: "),
    _rule("commits", calls(_RUN(COMMIT)), user="b.txt was read"),
    _rule("ends", calls(_ANSWER(SAID)), user="b.txt was read"),
    _rule("asks", calls(function("first", "task")(TASKS[0]), function("second", "task")(TASKS[1])),
          user="SURVEY"),
    _rule("read a", calls(_ANSWER("a.txt was read")), user="one two three four five"),
    _rule("read b", calls(_ANSWER("b.txt was read")), user="one two three four"),
    _rule("reads a", calls(cat(_RUN)("a.txt")), user=TASKS[0]),
    _rule("reads b", calls(cat(_RUN)("b.txt")), user=TASKS[1]),
)  # fmt: skip
"""It tells the results of its tools as the user."""
_DSPY: Final = f"[[ ## answer ## ]]\n{SAID}\n\n[[ ## completed ## ]]"


def _framework(package: str, title: str, **more: Any) -> Agent:
    """Return a script that uses a package: AGENTS_PYTHON is its Python, `{}` the package there."""
    python = os.environ.get("AGENTS_PYTHON", sys.executable).format(package)
    version = f"from importlib.metadata import version; print(version({package!r}))"
    made: dict[str, Any] = {"reads": cat(_RUN), "hands": _ASK, "runs": _RUN, **more}
    return Agent(
        title=title, version=(python, "-c", version), rules="agent.py", script=SCRIPTS[package],
        words=lambda task: [python, "agent.py", task], **made,
    )  # fmt: skip


AGENTS.update({
    package: _framework(package, title, **more)
    for package, title, more in (
        ("claude-agent-sdk", "Claude agent SDK", _CLAUDE),
        ("openai-agents", "OpenAI Agents", {"hands": function("ask", "input")}),
        ("pydantic-ai-slim", "Pydantic AI", {}),
        ("langchain", "LangChain", {}),
        ("deepagents", "deepagents",
         {"hands": function("task", "description", subagent_type="general-purpose")}),
        ("autogen-agentchat", "AutoGen", {}),
        ("strands-agents", "Strands", {}),
        ("smolagents", "smolagents", {"own": _SMOL}),
        ("agno", "agno (a team)",
         {"hands": function("delegate_task_to_member", "task", member_id="counter")}),
        ("llama-index-core", "LlamaIndex", {}),
        ("dspy", "DSPy",
         {"own": (_rule("says", Reply(text=_DSPY), user="SURVEY"),), "hands": None}),
    )
})  # fmt: skip
