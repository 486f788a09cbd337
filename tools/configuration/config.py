"""`refold.yaml`, or `[tool.refold]` in `pyproject.toml`: settings for a project's runs.

    tools:
      enabled: [read_file, subagent, spawn]     # nothing else; all of them if left out
      disabled: [run_command]                   # delegation tools answer that they are not enabled
      approval: [write_file]                    # a person is asked before each call
      spawn:
        enabled: true                           # false by default: without both tools
        profiles: {…}                           # see `tools.agents.profiles`
      run_command: {allow: [git, pytest]}       # and perhaps environment: [NAME]
    agents: agents                              # the folder of `subagent_dispatch`, from here
    llm:
      default_pool: fast
      pools:
        fast: openai:gpt-4o-mini                # as `--model` takes it
        smart: {model: "openai:llama3:70b", base_url: "http://localhost:8000/v1"}
    limits: {max_depth: 3, timeout_seconds: 600}
    record: {max_cost_usd: 5, each_requests: 40}  # caps of watched commands
    redaction:                                  # taken out of logs; never a value in this file
      environment: [SHOP_KEY]
      paths: {"tool:read_file": [/result/token]}
      tools: [login]
    volatile: [tool:read_file/arguments/ts]     # not compared by a re-execution

Reading is strict: values are not coerced, and an unknown name is refused with its line and the
nearest known name. This module reads and checks; `tools.configuration.prepared_run` makes the
tools.  Rules: CONTRACT.md §10.18.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from attrs.converters import optional

from refold.engine.encoding.parameters import texts
from refold.engine.encoding.strict import suggestion
from refold.engine.errors import ConfigRefused, LimitRefused
from refold.engine.events.limits import Limits
from refold.engine.secrets.redaction import Redaction
from refold.engine.secrets.vault import checked_volatile
from refold.tools.agents.profiles import SpawnProfile, SpawnSettings
from refold.tools.contract.policy import with_companions
from refold.tools.files.config_text import Setting, values_of

FILE_NAME: Final = "refold.yaml"
CAPS: Final = (
    "max_cost_usd", "max_requests", "max_tokens", "max_subagents", "timeout",
    "each_cost_usd", "each_requests", "each_tokens",
)  # fmt: skip
"""What `record` may have: the caps of a watched command (CONTRACT.md §16.19)."""


@attrs.frozen(kw_only=True)
class Pool:
    """A model that profiles name."""

    model: str
    """As `engine.models.model_from` takes it."""
    base_url: str | None = None


@attrs.frozen(kw_only=True)
class Config:
    """A project's configuration."""

    enabled: tuple[str, ...] | None = attrs.field(default=None, converter=optional(texts))
    """Names of tools; `None` for all."""
    disabled: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """Names of tools that answer that they are not enabled."""
    approval: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """Names of tools that a person is asked for before each call."""
    spawn: SpawnSettings | None = None
    """`None` if the file has no such section."""
    commands: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """What `run_command` may run."""
    environment: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """Variables that commands get beyond a few harmless ones."""
    agents: Path | None = None
    """A folder; relative ones are taken from the file's own."""
    default_pool: str = ""
    """The pool that an agent without a model of its own gets."""
    pools: dict[str, Pool] = attrs.field(factory=dict)
    """Models by the names that profiles use."""
    limits: Limits = Limits()
    """Caps of the run."""
    record: dict[str, float] = attrs.field(factory=dict)
    """Caps of watched commands by name, as `refold record` has them."""
    redaction: Redaction | None = None
    """The values to redact in logs."""
    volatile: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """Paths that a re-execution does not compare (CONTRACT.md §12.7)."""
    folder: Path = Path()
    """The folder of the configuration file: the workspace of profiles."""

    def allows(self, tool: str) -> bool:
        """Return whether a tool of that name may be used."""
        named = self.enabled is None or tool in with_companions(self.enabled)
        return named and tool not in with_companions(self.disabled)


def load_config(
    path: str | os.PathLike[str], *, known_tools: Iterable[str] | None = None
) -> Config:
    """Return the configuration in a YAML file, or in the `[tool.refold]` of a TOML file.

    Args:
        path: The file, or a folder with a `refold.yaml` or a `pyproject.toml`; a folder without
            either has an empty configuration.
        known_tools: The names that profiles and lists of tools may use; `None` accepts all.

    Raises:
        ConfigRefused: the file cannot be read or has an invalid value; has the line and near names.
    """
    file = _found(Path(path))
    if file is None:
        return Config(folder=Path(path))
    values, lines = values_of(file)
    known = None if known_tools is None else sorted(known_tools)
    return _Reading(known).config(Setting(file, "", values, lines))


def spawn_settings(values: Mapping[str, Any]) -> SpawnSettings:
    """Return the settings in a mapping such as `tools.spawn` of a file.

    Raises:
        ConfigRefused: a name or value is invalid.
    """
    return _Reading(None).spawn(Setting(Path("settings"), "tools.spawn", dict(values)))


def _found(path: Path) -> Path | None:
    """Return the file of a folder; two would contradict each other unseen."""
    if not path.is_dir():
        return path
    own, project = path / FILE_NAME, path / "pyproject.toml"
    if not project.is_file():
        return own if own.is_file() else None
    if not own.is_file():
        return project
    values, lines = values_of(project)
    if values:
        why = f"found both [tool.refold] and {FILE_NAME}: remove one of them"
        raise ConfigRefused(str(project), min(lines.values(), default=0), "", why)
    return own


# --- from values to a configuration --------------------------------------------------------------


@attrs.frozen
class _Reading:
    """What each member of a file is read as."""

    known_tools: list[str] | None

    def config(self, document: Setting) -> Config:
        """Return the configuration that a document holds."""
        found = document.fields(
            tools=self.tools,
            agents=lambda member: member.file.parent / text if (text := member.text()) else None,
            llm=_models,
            limits=_limits,
            record=_caps,
            redaction=self.redaction,
            volatile=lambda paths: paths.accepted(lambda: checked_volatile(paths.texts())),
        )
        tools, models = found.pop("tools", {}), found.pop("llm", None)
        if models is not None:  # else pools name models that are passed to `record`
            _check_pools(document, tools.get("spawn", SpawnSettings()), models["pools"])
        command = tools.pop("run_command", {})
        return Config(
            **found,
            **tools,
            **(models or {}),
            commands=command.get("allow", ()),
            environment=command.get("environment", ()),
            folder=document.file.parent,
        )

    def tools(self, member: Setting) -> dict[str, Any]:
        return member.fields(
            enabled=lambda names: None if names.value is None else self.names(names),
            disabled=self.names,
            approval=self.names,
            spawn=self.spawn,
            run_command=lambda each: each.fields(allow=Setting.texts, environment=Setting.texts),
        )

    def spawn(self, member: Setting) -> SpawnSettings:
        return SpawnSettings(**member.fields(enabled=Setting.flag, profiles=self.profiles))

    def profiles(self, member: Setting) -> dict[str, SpawnProfile]:
        return {
            name: SpawnProfile(
                **each.fields(
                    system_prompt=Setting.text,
                    system_prompt_file=lambda file: _inside(file, file.text()),
                    bootstrap_files=lambda files: [_inside(files, one) for one in files.texts()],
                    tools=self.names,
                    pool=Setting.text,
                    parameters=Setting.plain,
                )
            )
            for name, each in member.members().items()
        }

    def redaction(self, member: Setting) -> Redaction | None:
        found = member.fields(
            environment=Setting.texts,
            paths=lambda paths: {key: each.texts() for key, each in paths.members().items()},
            tools=Setting.texts,
        )
        paths = member.at("paths")
        made = paths.accepted(lambda: Redaction(**found))
        self.check_tools(member.at("tools"), _exact(found.get("tools", ())))
        for key in found.get("paths", ()):
            kind, _, name = key.partition(":")
            if kind == "tool":
                self.check_tools(paths.at(key), _exact([name]))
        return made if found else None

    def names(self, member: Setting) -> tuple[str, ...]:
        """Return names of tools, all of them known."""
        return self.check_tools(member, member.texts())

    def check_tools(self, member: Setting, names: tuple[str, ...]) -> tuple[str, ...]:
        if self.known_tools is not None:
            for name in names:
                member.check_known(name, self.known_tools, "is not a registered tool")
        return names


def _exact(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without wildcards: only these must exist."""
    return tuple(name for name in names if "*" not in name)


def _limits(member: Setting) -> Limits:
    names = [field.name for field in attrs.fields(Limits)]
    caps = member.fields(**dict.fromkeys(names, lambda cap: cap.value))
    try:
        return Limits(**caps)
    except LimitRefused as error:
        raise member.at(error.limit).refused(str(error)) from None


def _caps(member: Setting) -> dict[str, float]:
    caps = member.fields(**dict.fromkeys(CAPS, lambda cap: cap.value))
    for name, value in caps.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise member.at(name).refused(f"expected a number above 0, found {value!r}")
    return caps


def _models(member: Setting) -> dict[str, Any]:
    found: dict[str, Any] = {"default_pool": "", "pools": {}}
    found |= member.fields(default_pool=Setting.text, pools=_pools)
    default = member.at("default_pool")
    default.check_known(found["default_pool"], found["pools"], "is not defined in llm.pools")
    return found


def _pools(member: Setting) -> dict[str, Pool]:
    return {name: _pool(each) for name, each in member.members().items()}


def _pool(member: Setting) -> Pool:
    if isinstance(member.value, str):
        return Pool(model=member.value)
    found = member.fields(model=Setting.text, base_url=Setting.text)
    if "model" not in found:
        raise member.refused("expected a model, such as openai:NAME")
    return Pool(**found)


def _check_pools(document: Setting, spawn: SpawnSettings, pools: Mapping[str, Pool]) -> None:
    """Refuse a profile whose pool is not in `pools`."""
    for name, profile in spawn.profiles.items():
        if profile.pool and profile.pool not in pools:
            place = document.at(f"tools.spawn.profiles.{name}.pool")
            why = f"'{profile.pool}' not found in llm.pools{suggestion(profile.pool, pools)}"
            raise ConfigRefused(str(place.file), place.line, "", f"{place.pointer} {why}")


def _inside(member: Setting, name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise member.refused(f"{name!r}: give a path below the workspace, without ..")
    return name
