"""Profiles of spawned agents: their prompts, tools and models.

    researcher:
      bootstrap_files: [SOUL.md, AGENTS.md]     # instead of AGENTS.md and ENVIRONMENT.md
      system_prompt_file: RESEARCHER.md         # appended second
      system_prompt: Focus on papers.           # appended last; the call's own replaces it
      tools: [search_text, read_file]           # all of the caller's if left out
      pool: smart                               # a name of `llm.pools`; the default one if empty
      parameters: {max_tokens: 8000}            # of the model

The existing parts are joined by a line of dashes. Without any part, the child has its caller's
prompt. Files are read through `run`, so a replay does not read them. `tools.configuration.config`
reads profiles from a configuration file; `tools.delegation.spawn` has the tools. Rules: CONTRACT.md
§10.17.
"""

import html
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import attrs

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.parameters import texts, tool_names
from refold.engine.encoding.strict import suggestion
from refold.engine.errors import ToolError, UsageError
from refold.engine.ports.ports import Children
from refold.engine.program.agent import REFUSED, caller
from refold.engine.program.run import Run
from refold.tools.contract.options import ChildOptions
from refold.tools.contract.policy import POLICIES

BOOTSTRAP_FILES: Final = ("AGENTS.md", "ENVIRONMENT.md")
"""Files that describe a child's surroundings, unless its profile lists others."""
SEPARATOR: Final = "\n\n---\n\n"
FALLBACK_PROMPT: Final = "You are a helpful personal AI assistant."
SPAWN_TOOLS: Final = ("spawn", *POLICIES["spawn"])
"""Never a spawned child's."""


def _path(path: str | os.PathLike[str]) -> str:
    return os.fspath(path)


@attrs.frozen(kw_only=True)
class SpawnProfile:
    """One kind of spawned agent."""

    system_prompt: str = ""
    """Appended last."""
    system_prompt_file: str = ""
    """Relative to the workspace; appended second."""
    bootstrap_files: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """Relative to the workspace; empty for `BOOTSTRAP_FILES`."""
    tools: tuple[str, ...] = attrs.field(default=(), converter=tool_names)
    """Empty for all of the caller's."""
    pool: str = ""
    """Empty for the default pool."""
    parameters: Mapping[str, Json] = {}
    """Parameters of the model, such as `max_tokens`."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names, which have to be there; the default ones need not."""
        own = (*self.bootstrap_files, self.system_prompt_file)
        return tuple(name for name in own if name and name not in BOOTSTRAP_FILES)


@attrs.frozen(kw_only=True)
class SpawnSettings:
    """The member `tools.spawn` of a configuration."""

    enabled: bool = False
    profiles: dict[str, SpawnProfile] = attrs.field(factory=dict)
    """By name."""


@attrs.frozen(kw_only=True)
class SubAgent:
    """A spawned agent before it has a task."""

    system: str
    tools: tuple[str, ...]
    """Names, sorted; of those that its caller has."""
    model: str
    """A name given to `record(models=…)`; empty for the run's default."""
    parameters: Mapping[str, Json]
    """Those of its profile."""


@attrs.frozen(kw_only=True)
class SubAgentFactory(ChildOptions):
    """What spawned agents are built from: plain data, as the log of a run holds it.

    An agent whose profile names no tools, pool or parameters has `tools`, `model`, `parameters`.
    """

    profiles: Mapping[str, SpawnProfile] = attrs.field(factory=dict)
    workspace: str = attrs.field(default="", converter=_path)
    """The folder of the prompt files; empty for the working directory."""
    default_bootstrap_files: tuple[str, ...] = attrs.field(default=BOOTSTRAP_FILES, converter=texts)
    default_pool: str = ""
    """The model of a profile that names none; empty for the caller's."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        given: Any = self.profiles
        if not (
            isinstance(given, Mapping)
            and all(isinstance(each, SpawnProfile) for each in given.values())
        ):
            expected = "SpawnProfiles by name, {'poet': SpawnProfile(system_prompt=…)}"
            raise UsageError(f"profiles: expected {expected}; found {shown(given)}")

    def build(
        self,
        run: Run,
        system_prompt_override: str = "",
        tools_filter: Iterable[str] = (),
        profile_name: str = "",
    ) -> SubAgent:
        """Return an agent of a profile, or of none; without `spawn` and `spawn_await`, always.

        Raises:
            KeyError: no profile has that name.
            ToolError: a file of the profile is not there any more.
        """
        profile = self.profiles[profile_name] if profile_name else SpawnProfile()
        return SubAgent(
            system=self._system(run, profile, system_prompt_override),
            tools=_tools(run, tuple(tools_filter) or profile.tools or self.tools or ()),
            model=profile.pool or self.default_pool or self.model or caller().model,
            parameters=profile.parameters,
        )

    def unknown(self, run: Run, tools_filter: Iterable[str] = (), profile_name: str = "") -> str:
        """Return which name of a tool or of a pool leads nowhere, in words; empty for none.

        A child would else begin without the tools that it was to have, or fail for want of a model.
        """
        profile = self.profiles[profile_name] if profile_name else SpawnProfile()
        asked = tuple(tools_filter)
        names = {name.strip() for name in asked or profile.tools} - {"", *SPAWN_TOOLS}
        has, of = _had(run), "" if asked else f"profile '{profile_name}': "
        for name in sorted(names - has):
            return f"{of}unknown tool '{name[:60]}'{suggestion(name, has - {*SPAWN_TOOLS})}"
        pool, models = profile.pool or self.default_pool, {*run.models} - {""}
        if not pool or pool in models:
            return ""
        of = f"profile '{profile_name}': " if profile.pool else "default "
        return f"{of}unknown pool '{pool}'{suggestion(pool, models)}"

    @property
    def children(self) -> Children:
        """What children need, whichever profile they have."""
        usual, profiles = super().children, self.profiles.values()
        pools = {self.default_pool, *usual.models, *(each.pool for each in profiles)}
        named = {name.strip() for each in profiles for name in each.tools}
        files = {name for each in profiles for name in each.files}
        return attrs.evolve(
            usual,
            models=tuple(sorted(pools - {""})),
            named_tools=tuple(sorted(named - {"", *SPAWN_TOOLS})),
            files=tuple(_path_in(self.workspace, name) for name in sorted(files)),
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as a log holds it."""
        return super().as_json() | {
            "profiles": {name: attrs.asdict(self.profiles[name]) for name in sorted(self.profiles)}
        }

    def with_json(self, plain: Mapping[str, Any]) -> Self:
        """Return the factory that `as_json` gave."""
        profiles = {name: SpawnProfile(**one) for name, one in plain["profiles"].items()}
        return super().with_json({**plain, "profiles": profiles})

    def _system(self, run: Run, profile: SpawnProfile, override: str) -> str:
        names = [*(profile.bootstrap_files or self.default_bootstrap_files)]
        names += [profile.system_prompt_file] if profile.system_prompt_file else []
        texts = {name: run.read_text(_path_in(self.workspace, name)) for name in names}
        lost = [name for name in profile.files if texts[name] is None]
        if lost:
            why = f"the profile's files cannot be read: {', '.join(lost)}"
            raise ToolError(SPAWN_TOOLS[0], why, REFUSED)
        texts_said = [texts[name] or "" for name in names]
        parts = [text.strip() for text in [*texts_said, override or profile.system_prompt]]
        inherited = caller().system.removesuffix(profiles_block(self.profiles)).strip()
        return SEPARATOR.join(filter(None, parts)) or inherited or FALLBACK_PROMPT


def profiles_block(profiles: Mapping[str, SpawnProfile]) -> str:
    """Return the part of a spawning agent's system prompt that lists the profiles, or empty."""
    if not profiles:
        return ""
    lines = (
        f'  <profile name="{html.escape(name)}">{html.escape(_described(profiles[name]))}</profile>'
        for name in sorted(profiles)
    )
    return "\n".join(["<available_spawn_profiles>", *lines, "</available_spawn_profiles>"])


def with_profiles(system: str, profiles: Mapping[str, SpawnProfile]) -> str:
    """Return a system prompt with that block at its end."""
    return "\n\n".join(filter(None, [system, profiles_block(profiles)]))


def _described(profile: SpawnProfile) -> str:
    tools = ", ".join(profile.tools) or "all"
    return f"{profile.system_prompt} Tools: {tools}.".strip()


def _path_in(workspace: str, name: str) -> str:
    return f"{workspace.rstrip('/')}/{name}" if workspace else name


def _tools(run: Run, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wanted tools that the caller has, or all of the caller's if none are named."""
    names = {name.strip() for name in wanted} - {""}
    has = _had(run)
    return tuple(sorted((has & names if names else has) - set(SPAWN_TOOLS)))


def _had(run: Run) -> set[str]:
    """Return the names of the tools that the caller has."""
    own = caller().tools
    return {tool.name for tool in run.tools} if own is None else set(own)
