"""`refold.yaml`, or `[tool.refold]` in `pyproject.toml`: what runs of a project have.

    tools:
      enabled: [read_file, subagent, spawn]     # nothing else; all of them where it is left out
      disabled: [run_command]                   # delegation tools answer that they are not enabled
      approval: [write_file]                    # a person is asked before each call
      spawn:
        enabled: true                           # false by default: then neither tool is there
        profiles: {…}                           # see `tools.agents.profiles`
      run_command: {allow: [git, pytest]}       # and perhaps environment: [NAME]
    agents: agents                              # the folder of `subagent_dispatch`, from here
    llm:
      default_pool: fast
      pools:
        fast: openai:gpt-4o-mini                # as `--model` takes it
        smart: {model: "openai:llama3:70b", base_url: "http://localhost:8000/v1"}
    limits: {max_depth: 3, timeout_seconds: 600}
    redaction:                                  # taken out of logs; never a value in this file
      environment: [SHOP_KEY]
      paths: {"tool:read_file": [/result/token]}
      tools: [login]
    volatile: [tool:read_file/arguments/ts]     # not compared by a re-execution

Strict: nothing is coerced, and what is unknown is refused with its line and the nearest known name.
This file reads and checks; who makes the tools is `tools.configuration.prepared_run`.  Rules:
CONTRACT.md §10.18.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.errors import ConfigRefused, LimitRefused, UsageError
from refold.engine.events.limits import Limits
from refold.engine.secrets.redaction import Redaction
from refold.engine.secrets.vault import checked_volatile
from refold.tools.agents.agent_files import nearest
from refold.tools.agents.profiles import SpawnProfile, SpawnSettings
from refold.tools.files.config_text import Lines, values_of

FILE_NAME: Final = "refold.yaml"


@attrs.frozen(kw_only=True)
class Pool:
    """A model that profiles name."""

    model: str
    """As `engine.models.model_from` takes it."""
    base_url: str | None = None


@attrs.frozen(kw_only=True)
class Config:
    """A project's configuration."""

    enabled: tuple[str, ...] | None = None
    """Names of tools; `None` for all."""
    disabled: tuple[str, ...] = ()
    """Names of tools that answer that they are not enabled."""
    approval: tuple[str, ...] = ()
    """Names of tools that a person is asked for before each call."""
    spawn: SpawnSettings | None = None
    """`None` where the file says nothing of it."""
    commands: tuple[str, ...] = ()
    """What `run_command` may run."""
    environment: tuple[str, ...] = ()
    """Variables that commands get beyond a few harmless ones."""
    agents: Path | None = None
    """A folder; relative ones are taken from the file's own."""
    default_pool: str = ""
    """The pool that an agent without a model of its own gets."""
    pools: dict[str, Pool] = attrs.field(factory=dict)
    """Models by the names that profiles use."""
    limits: Limits = Limits()
    """Caps of the run."""
    redaction: Redaction | None = None
    """What is taken out of the log."""
    volatile: tuple[str, ...] = ()
    """Paths that a re-execution does not compare (CONTRACT.md §12.7)."""
    folder: Path = Path()
    """Where the file lies: the workspace of profiles."""

    def allows(self, tool: str) -> bool:
        """Return whether a tool of that name may be used."""
        named = self.enabled is None or tool in self.enabled
        return named and tool not in self.disabled


def load_config(
    path: str | os.PathLike[str], *, known_tools: Iterable[str] | None = None
) -> Config:
    """Return the configuration in a YAML file, or in the `[tool.refold]` of a TOML file.

    Args:
        path: The file, or a folder with a `refold.yaml` or a `pyproject.toml`; a folder without
            either has an empty configuration.
        known_tools: The names that profiles and lists of tools may give; `None` to let all pass.

    Raises:
        ConfigRefused: it cannot be read, or says what it may not: which line, and what is near.
    """
    file = _found(Path(path))
    if file is None:
        return Config(folder=Path(path))
    values, lines = values_of(file)
    known = None if known_tools is None else sorted(known_tools)
    return _Reading(file, lines, known).config(values)


def spawn_settings(values: Mapping[str, Any]) -> SpawnSettings:
    """Return the settings in a mapping such as `tools.spawn` of a file.

    Raises:
        ConfigRefused: it says what it may not.
    """
    return _Reading(Path("settings"), {}, None).spawn("tools.spawn", dict(values), None)


def _found(path: Path) -> Path | None:
    if not path.is_dir():
        return path
    for name in (FILE_NAME, "pyproject.toml"):
        if (path / name).is_file():
            return path / name
    return None


# --- from values to a configuration --------------------------------------------------------------

_MEMBERS: Final = ("tools", "agents", "llm", "limits", "redaction", "volatile")
_REDACTION: Final = ("environment", "paths", "tools")
_TOOLS: Final = ("enabled", "disabled", "approval", "spawn", "run_command")
_COMMAND: Final = ("allow", "environment")
_LLM: Final = ("default_pool", "pools")
_POOL: Final = tuple(field.name for field in attrs.fields(Pool))
_SPAWN: Final = tuple(field.name for field in attrs.fields(SpawnSettings))
_PROFILE: Final = tuple(field.name for field in attrs.fields(SpawnProfile))
_KINDS: Final = {str: "text", bool: "true or false", dict: "an object", list: "a list of texts"}


@attrs.frozen
class _Reading:
    """One file being read: what its errors say of it."""

    file: Path
    lines: Lines
    known_tools: list[str] | None

    def config(self, values: Any) -> Config:
        """Return the configuration that a document holds."""
        top = self.members("", values, _MEMBERS)
        tools = self.members("tools", top.get("tools", {}), _TOOLS)
        llm = self.members("llm", top.get("llm", {}), _LLM)
        pools = self.pools(llm.get("pools", {}))
        default = self.typed("llm.default_pool", llm.get("default_pool", ""), str)
        self.known("llm.default_pool", default, pools, "is no name of llm.pools")
        enabled = tools.get("enabled")
        agents = self.typed("agents", top.get("agents", ""), str)
        command = self.members("tools.run_command", tools.get("run_command"), _COMMAND)
        spawn = self.spawn("tools.spawn", tools.get("spawn"), pools if "llm" in top else None)
        return Config(
            enabled=None if enabled is None else self.tools("tools.enabled", enabled),
            disabled=self.tools("tools.disabled", tools.get("disabled", [])),
            approval=self.tools("tools.approval", tools.get("approval", [])),
            spawn=spawn if "spawn" in tools else None,
            commands=self.texts("tools.run_command.allow", command.get("allow", [])),
            environment=self.texts("tools.run_command.environment", command.get("environment", [])),
            agents=self.file.parent / agents if agents else None,
            default_pool=default,
            pools=pools,
            limits=self.limits(top.get("limits", {})),
            redaction=self.redaction(top.get("redaction")),
            volatile=self.volatile(top.get("volatile", [])),
            folder=self.file.parent,
        )

    def spawn(self, pointer: str, values: Any, pools: Mapping[str, Pool] | None) -> SpawnSettings:
        """Return the settings of `spawn`; pools that are no names of `pools` are refused.

        Where the file has no `llm`, they name models that are passed to `record`.
        """
        members = self.members(pointer, values, _SPAWN)
        enabled = self.typed(f"{pointer}.enabled", members.get("enabled", False), bool)
        profiles = self.members(f"{pointer}.profiles", members.get("profiles", {}))
        read = {
            name: self.profile(f"{pointer}.profiles.{name}", one) for name, one in profiles.items()
        }
        for name, profile in read.items():
            if pools is not None and profile.pool and profile.pool not in pools:
                place = f"{pointer}.profiles.{name}.pool"
                why = f"'{profile.pool}' not found in llm.pools{nearest(profile.pool, pools)}"
                raise ConfigRefused(str(self.file), self.line(place), "", f"{place} {why}")
        return SpawnSettings(enabled=enabled, profiles=read)

    def profile(self, pointer: str, values: Any) -> SpawnProfile:
        members = self.members(pointer, values, _PROFILE)
        found: dict[str, Any] = {}
        for name, value in members.items():
            place = f"{pointer}.{name}"
            match name:
                case "tools":
                    found[name] = self.tools(place, value)
                case "bootstrap_files":
                    found[name] = tuple(self.inside(place, one) for one in self.texts(place, value))
                case "system_prompt_file":
                    found[name] = self.inside(place, self.typed(place, value, str))
                case _:
                    found[name] = self.typed(place, value, str)
        return SpawnProfile(**found)

    def pools(self, values: Any) -> dict[str, Pool]:
        found = {}
        for name, value in self.members("llm.pools", values).items():
            pointer = f"llm.pools.{name}"
            one = {"model": value} if isinstance(value, str) else value
            members = self.members(pointer, one, _POOL)
            if "model" not in members:
                raise self.refused(pointer, "expected a model, openai:NAME or the like")
            found[name] = Pool(
                **{key: self.typed(f"{pointer}.{key}", each, str) for key, each in members.items()}
            )
        return found

    def limits(self, values: Any) -> Limits:
        names = [field.name for field in attrs.fields(Limits)]
        members = self.members("limits", values, names)
        for name, value in members.items():
            try:
                Limits.from_json({name: value})
            except LimitRefused as error:
                raise self.refused(f"limits.{name}", str(error)) from None
        return Limits.from_json(members)

    def redaction(self, values: Any) -> Redaction | None:
        members = self.members("redaction", values, _REDACTION)
        paths = self.members("redaction.paths", members.get("paths", {}))
        names = self.texts("redaction.tools", members.get("tools", []))
        try:
            found = Redaction(
                environment=self.texts("redaction.environment", members.get("environment", [])),
                paths={key: self.texts(f"redaction.paths.{key}", paths[key]) for key in paths},
                tools=names,
            )
        except ConfigRefused:
            raise
        except UsageError as error:
            raise self.refused("redaction.paths", str(error)) from None
        self.tools("redaction.tools", [name for name in names if "*" not in name])
        for key in paths:
            kind, _, name = key.partition(":")
            if kind == "tool" and "*" not in name:
                self.tools(f"redaction.paths.{key}", [name])
        return found if members else None

    def volatile(self, values: Any) -> tuple[str, ...]:
        try:
            return checked_volatile(self.texts("volatile", values))
        except ConfigRefused:
            raise
        except UsageError as error:
            raise self.refused("volatile", str(error)) from None

    # -- pieces ---------------------------------------------------------------------------

    def members(
        self, pointer: str, values: Any, known: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return an object's members, all of them known; nothing at all is an empty object."""
        if values is None:
            return {}
        found: dict[str, Any] = self.typed(pointer, values, dict)
        for name in found:
            member = f"{pointer}.{name}" if pointer else str(name)
            if not isinstance(name, str):
                raise self.refused(member, f"expected a name that is text, found {name!r}")
            if known is not None:
                self.known(member, name, known, "is unknown")
        return found

    def known(self, pointer: str, name: str, names: Iterable[str], why: str) -> None:
        if name and name not in names:
            said = ", ".join(sorted(names)) or "none"
            near = nearest(name, names)
            raise self.refused(pointer, f"{name!r} {why}{near}; there are: {said}")

    def typed(self, pointer: str, value: Any, kind: type) -> Any:
        if type(value) is not kind:
            raise self.refused(pointer, f"expected {_KINDS[kind]}, found {value!r:.60}")
        return value

    def texts(self, pointer: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.refused(pointer, f"expected {_KINDS[list]}, found {value!r:.60}")
        return tuple(value)

    def tools(self, pointer: str, value: Any) -> tuple[str, ...]:
        names = self.texts(pointer, value)
        for name in names if self.known_tools is not None else ():
            self.known(pointer, name, self.known_tools or (), "is no tool that is registered")
        return names

    def inside(self, pointer: str, name: str) -> str:
        if name.startswith("/") or ".." in name.split("/"):
            raise self.refused(pointer, f"{name!r}: give a path below the workspace, without ..")
        return name

    def refused(self, pointer: str, why: str) -> ConfigRefused:
        return ConfigRefused(str(self.file), self.line(pointer), pointer, why)

    def line(self, pointer: str) -> int:
        """Return the line of a member, or of what it stands in."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition(".")[0]
        return self.lines.get(pointer, 0)
