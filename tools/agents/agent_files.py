"""Agents as files: `AGENT.md`, YAML front matter and a system prompt below it.

    ---
    name: reviewer
    description: Reads a change and says what is wrong with it.   # required
    provider: openai          # with model: openai:gpt-4o, its model wherever it runs
    model: gpt-4o             # alone: a name, as in `--model NAME=openai:…`
    tools: [read_file, search_text]     # all shipped ones if left out
    disallowed_tools: [subagent]
    max_turns: 12
    limits: {timeout_seconds: 300, model_tokens: 200000}
    allow_skills: false
    ---
    You review changes. …

Agent files of Claude Code are accepted unchanged: `tools` as comma-separated text, the names
`disallowedTools` and `maxTurns`, and its names for tools that Refold also has (`_TRANSLATED`). An
unsupported member is an error, because a run must not have fewer limits than its file sets.

A folder has agents as `reviewer/AGENT.md`, or as `scribe.md`, the convention of Claude Code's
agents folder. `load` refuses a file that does not define an agent; `discover_agents` skips it and
keeps the reason, and a dispatch tool writes that to the run's log. For `dispatch_subagent`, each
agent is the prompt (`agents`, its id).

Nothing is looked up at run time: a definition becomes an input (`agent_input`) and tools, and the
run's log contains both. The agent loop is `engine.program.agent`.  Rules: CONTRACT.md §10.6.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import yaml
from attrs.converters import optional

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.parameters import texts, tool_names
from refold.engine.encoding.plain import to_json, without_empty
from refold.engine.encoding.shapes import reader_of
from refold.engine.encoding.strict import suggestion
from refold.engine.errors import ConfigRefused, DefNotFoundError, InvalidDefError, LimitRefused
from refold.engine.events.limits import Limits
from refold.engine.plain_files import plain_file
from refold.engine.ports.ports import Reference
from refold.tools.agents.prompts import MarkdownSection, Prompt, PromptFactory, PromptRegistry
from refold.tools.contract.policy import POLICIES, with_companions
from refold.tools.contract.tool_types import NAME as TOOL_NAME
from refold.tools.files.config_text import Setting, yaml_of
from refold.tools.files.file_tools import NAMES

SHIPPED_TOOLS: Final = (*NAMES, "subagent")
"""The tools of an agent whose file names none."""
PLANNING_TOOLS: Final = tuple(
    f"planning_{what}" for what in ("setup_plan", "add_step", "update_step", "read_plan")
)
DELEGATION_TOOLS: Final = with_companions(POLICIES)
NAMEABLE_TOOLS: Final = (
    *(*NAMES, *DELEGATION_TOOLS, *PLANNING_TOOLS),
    *("write_file", "run_command"),
)
"""Tool names that a definition may use without registering the tool."""
FILE_NAME: Final = "AGENT.md"


@attrs.frozen(kw_only=True)
class AgentDef:
    """An agent, as its file defines it."""

    id: str
    """The folder's name, or the file's where it is not called `AGENT.md`."""
    name: str
    """The name from the file, shown in logs and output."""
    description: str
    """The agent's purpose and when to use it; other agents choose by this text."""
    system_prompt: str = ""
    """The text below the front matter, without blank space around it."""
    provider: str = ""
    """`openai`, `anthropic`; empty where the file names none."""
    model: str = ""
    """The model's name, for `--model NAME=…`; empty where the file names none."""
    parameters: Mapping[str, Json] = {}
    """Parameters of the model, such as `max_tokens`."""
    allow_skills: bool = False
    """Read and kept; nothing here uses it."""
    tools: tuple[str, ...] | None = attrs.field(default=None, converter=optional(tool_names))
    """As the file has them; `None` for all that there are."""
    disallowed_tools: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """Names that are taken off `tools`."""
    max_turns: int | None = None
    """Model requests; as `limits.max_iterations`, and the lower one counts."""
    limits: Limits | None = None
    """Caps of the agent's own runs."""

    @property
    def model_spec(self) -> str:
        """The name of the agent's model in a run, such as `openai:gpt-4o`; empty if none is named.

        Without a provider, it is a name such as `sonnet`, and the caller maps it to a model.
        """
        return f"{self.provider}:{self.model}" if self.provider and self.model else self.model

    @property
    def caps(self) -> Limits:
        """`limits` and `max_turns` in one."""
        limits = self.limits or Limits()
        turns = [cap for cap in (limits.max_iterations, self.max_turns) if cap is not None]
        return attrs.evolve(limits, max_iterations=min(turns, default=None))

    def as_json(self) -> dict[str, Any]:
        """Return the definition as logged, without members that have their default value."""
        return attrs.asdict(self, filter=lambda field, value: value != field.default)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "AgentDef":
        """Return the definition that `as_json` gave."""
        kind: Any = cls
        return reader_of(kind)(to_json({**plain}))  # type: ignore[no-any-return]  # of this class

    def tools_among(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the names of `known` that the agent may use, sorted.

        Who may use a tool may use those that come with it.
        """
        allowed = set(known if self.tools is None else with_companions(self.tools))
        return tuple(sorted((allowed & set(known)) - {*with_companions(self.disallowed_tools)}))


def load_agent(
    path: str | os.PathLike[str], *, known_tools: Iterable[str] | None = NAMEABLE_TOOLS
) -> AgentDef:
    """Return the agent that a file, or the `AGENT.md` of a folder, defines.

    Args:
        path: The file or its folder.
        known_tools: The tool names that it may use: the shipped ones and the caller's own; `None`
            for all that a run may have.

    Raises:
        InvalidDefError: the file cannot be read, has no description, has an unknown member or one
            of the wrong type, or names an unknown tool.
    """
    file = Path(path)
    file = file / FILE_NAME if file.is_dir() else file
    absolute = file.absolute()
    agent_id = absolute.parent.name if file.name == FILE_NAME else absolute.stem
    known = None if known_tools is None else texts(known_tools, "known_tools")
    reading = _Reading(
        agent_id, file, NAMEABLE_TOOLS if known is None else known, any_tool=known is None
    )
    front, body = reading.parts()
    values = reading.members(front)
    if not values.get("description"):
        raise reading.refused(
            "description is required: describe the agent's purpose and when to use it"
        )
    if values.get("provider") and not values.get("model"):
        raise reading.refused("provider needs a `model`: add one, or remove the provider")
    return AgentDef(**{"id": reading.id, "name": reading.id, "system_prompt": body} | values)


def agent_input(
    agent: AgentDef,
    task: str,
    *,
    context: str = "",
    files: Sequence[str] = (),
    known_tools: Iterable[str] = SHIPPED_TOOLS,
) -> dict[str, Json]:
    """Return the input of the program `agent` that has this agent do `task`.

    The model is not named in it: who records the run passes one, and its children get the same.
    `known_tools` are those among which an agent that names none may choose.
    """
    tools = agent.tools_among(texts(known_tools, "known_tools"))
    own: dict[str, Json] = {
        "name": agent.name, **without_empty({"system": agent.system_prompt}), "tools": [*tools],
        **without_empty({"parameters": {**agent.parameters}}),
    }  # fmt: skip
    more = {"context": context, "files": [*texts(files, "files")]}
    return {"agent": own, "task": task, **without_empty(more)}


# --- reading -----------------------------------------------------------------------------------

_TEXTS: Final = ("name", "description", "provider", "model")
_SPELLINGS: Final = {"disallowedTools": "disallowed_tools", "maxTurns": "max_turns"}
_IGNORED: Final = ("color",)
"""Members that change nothing about a run."""
_TRANSLATED: Final = {
    "Read": "read_file",
    "Grep": "search_text",
    "Glob": "list_files",
    "LS": "list_files",
    "Task": "subagent",
    "Agent": "subagent",
}
_NOT_SHIPPED: Final = (
    *("Bash", "BashOutput", "Edit", "KillShell", "MultiEdit", "NotebookEdit", "NotebookRead"),
    *("Skill", "TodoWrite", "WebFetch", "WebSearch", "Write"),
)
"""Claude Code's tools that have no counterpart here."""


@attrs.frozen
class _Reading:
    """One agent file being read; creates its errors."""

    id: str
    file: Path
    known_tools: tuple[str, ...]
    any_tool: bool
    """Whether other tools may be named too, except those of Claude Code that nobody has."""

    def refused(self, reason: str) -> InvalidDefError:
        return InvalidDefError(self.id, reason, str(self.file))

    def parts(self) -> tuple[dict[str, Any], str]:
        """Return the front matter and the body."""
        try:
            text = plain_file(self.file).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise self.refused("no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise self.refused(f"cannot be read: {error}") from None
        lines = text.splitlines(keepends=True)
        fences = [at for at, line in enumerate(lines) if line.rstrip() == "---"]
        if len(fences) < 2 or fences[0] != 0:  # noqa: PLR2004 - one above, one below
            raise self.refused(
                "expected front matter between two lines of ---, starting in the first line"
            )
        try:
            front, _ = yaml_of(self.file, "".join(lines[: fences[1]]))
        except ConfigRefused as error:
            raise self.refused(f"{error.pointer} on line {error.line} {error.why}") from None
        except (yaml.YAMLError, RecursionError) as error:
            raise self.refused(f"front matter: {' '.join(str(error).split())}") from None
        if not isinstance(front, dict):
            raise self.refused("front matter: expected `name: value` lines")
        return front, "".join(lines[fences[1] + 1 :]).strip()

    def members(self, front: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the members under our names, read; those that are left empty are left out."""
        read: dict[str, Callable[[Setting], Any]] = {
            **dict.fromkeys(_TEXTS, lambda member: member.text().strip()),
            "allow_skills": Setting.flag,
            "tools": self._tools,
            "disallowed_tools": self._tools,
            "max_turns": _turns,
            "parameters": Setting.plain,
            "limits": self._limits,
        }
        found: dict[str, Any] = {}
        for key, value in front.items():
            name = _SPELLINGS.get(key, key)
            if name in _IGNORED:
                continue
            if name not in read:
                raise self.refused(f"unknown member {key!r}{suggestion(key, read)}")
            if name in found:
                raise self.refused(f"{key} and {name} are the same: remove one of them")
            is_empty = value is None or (name, value) == ("model", "inherit")
            try:
                found[name] = "" if is_empty else read[name](Setting(self.file, name, value))
            except ConfigRefused as error:
                raise self.refused(f"{error.pointer}: {error.why}") from None
        return {name: value for name, value in found.items() if value != ""}

    def _limits(self, member: Setting) -> Limits:
        caps = {str(name): cap.value for name, cap in member.members().items()}
        try:
            return Limits.from_json(caps)
        except LimitRefused as error:
            raise self.refused(str(error)) from None

    def _tools(self, member: Setting) -> tuple[str, ...]:
        if isinstance(member.value, str):
            member = attrs.evolve(member, value=member.value.split(","))
        stripped = [name.strip() for name in member.texts("a list of names")]
        found = [self._tool(member.pointer, name) for name in stripped if name]
        return tuple(dict.fromkeys(name for name in found if name))

    def _tool(self, key: str, name: str) -> str:
        """Return our name of a tool; empty for a forbidden one that nobody has anyway."""
        if name in self.known_tools:
            return name
        if _TRANSLATED.get(name) in self.known_tools:
            return _TRANSLATED[name]
        base = name.partition("(")[0]
        is_not_shipped = base in _NOT_SHIPPED or base.startswith("mcp__")
        if key == "disallowed_tools" and is_not_shipped:
            return ""
        if base != name and base in (*self.known_tools, *_TRANSLATED):
            why = f"a tool cannot be restricted to some of its arguments: write {base!r}"
            raise self.refused(f"{key}: {name!r}: {why}")
        if self.any_tool and TOOL_NAME.fullmatch(name) and not is_not_shipped:
            return name
        raise self.refused(
            f"{key}: no tool is named {name!r}{suggestion(name, self.known_tools)}. Tools of your "
            "own are named by AgentLoader(…, known_tools=…), or by --tools"
        )


def _turns(member: Setting) -> int:
    turns = member.value
    if type(turns) is not int or turns < 1:
        raise member.expected("a positive integer")
    return turns


_NO_AGENTS: Final = ("readme.md", "agents.md", "agent.md", "claude.md")
"""Files that lie in such folders and define none."""

_AGENTS: Final = "agents"
"""The name of a folder of agents that no configuration names."""


def folder_for(agent: Path) -> Path:
    """Return the folder of the other agents for an agent's file, or for the folder of its file.

    That is the folder `agents` that holds this agent or lies beside its file, else the folder of
    its file. No other folder is taken: agents of other projects may lie there.
    """
    file = agent.absolute()
    file = file / FILE_NAME if file.is_dir() else file
    own = file.parent if file.name == FILE_NAME else file
    if own.parent.name == _AGENTS:
        return own.parent
    beside = file.parent / _AGENTS
    return beside if beside.is_dir() else file.parent


class AgentLoader:
    """The agents of one folder; read anew at each call."""

    def __init__(
        self, folder: str | os.PathLike[str], *, known_tools: Iterable[str] | None = NAMEABLE_TOOLS
    ) -> None:
        """Take the folder, and the names of tools that its agents may ask for; `None` for all."""
        self.folder = Path(folder)
        self.skipped: tuple[InvalidDefError, ...] = ()
        """The files that the last `discover_agents` skipped, with the reasons."""
        self._known_tools = None if known_tools is None else texts(known_tools, "known_tools")

    def load(self, agent_id: str) -> AgentDef:
        """Return the agent with this id.

        Raises:
            DefNotFoundError: no file has this id.
            InvalidDefError: its file does not define an agent.
        """
        files = self._files().get(agent_id)
        if files is None:
            raise DefNotFoundError(agent_id)
        return self._loaded(agent_id, files)

    def discover_agents(self) -> tuple[AgentDef, ...]:
        """Return the agents whose files define one, sorted by id; see `skipped` for the others."""
        found, skipped = [], []
        for agent_id, files in self._files().items():
            try:
                found.append(self._loaded(agent_id, files))
            except InvalidDefError as error:
                skipped.append(error)
                _warn(error)
        self.skipped = tuple(skipped)
        return tuple(found)

    def _loaded(self, agent_id: str, files: list[Path]) -> AgentDef:
        if len(files) > 1:
            names = " and ".join(file.relative_to(self.folder).as_posix() for file in files)
            raise InvalidDefError(
                agent_id, f"{names} both define it: remove one of them", str(self.folder)
            )
        return load_agent(files[0], known_tools=self._known_tools)

    def _files(self) -> dict[str, list[Path]]:
        """Return the files that may define agents, by id, sorted."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self._listed()):
            file = path / FILE_NAME if path.is_dir() else path
            if path.name.startswith(".") or path.name.lower() in _NO_AGENTS:
                continue
            if file.suffix == ".md" and file.is_file():
                found.setdefault(path.name if path.is_dir() else path.stem, []).append(file)
        return dict(sorted(found.items()))

    def _listed(self) -> list[Path]:
        try:
            return list(self.folder.iterdir())
        except OSError as error:
            why = error.strerror or str(error)
            raise InvalidDefError(self.folder.name, why, str(self.folder)) from None


def _warn(error: InvalidDefError) -> None:
    """Also log a warning, if the application has configured structlog."""
    structlog = sys.modules.get("structlog")
    if structlog is not None and structlog.is_configured():
        structlog.get_logger("refold.agents").warning(
            "agent skipped", agent=error.agent, reason=error.reason, path=error.path
        )


NAMESPACE: Final = "agents"


def agent_prompts(agents: Iterable[AgentDef]) -> PromptRegistry:
    """Return a registry with a prompt for each agent; a subprocess makes the same one."""
    return remade({agent.id: agent.as_json() for agent in agents})


def remade(agents: Mapping[str, Mapping[str, Any]]) -> PromptRegistry:
    """Return the registry that a reference describes."""
    plain = {agent_id: dict(agents[agent_id]) for agent_id in sorted(agents)}
    registry = PromptRegistry(reference=Reference(__name__, remade.__name__, {"agents": plain}))
    for agent_id, definition in plain.items():
        registry.register(NAMESPACE, agent_id, _factory(AgentDef.from_json(definition)))
    return registry


def _factory(agent: AgentDef) -> PromptFactory:
    text = agent.system_prompt.replace("$", "$$")
    section = MarkdownSection[Any](title=agent.name, key=agent.id, template=text)
    return lambda **_: Prompt[str](ns=NAMESPACE, key=agent.id, sections=(section,))
