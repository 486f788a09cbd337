"""A folder of agent files: `load` one by its id, or `discover_agents`.

    agents/reviewer/AGENT.md      the agent `reviewer`
    agents/scribe.md              the agent `scribe`: the convention of Claude Code's agents folder

`tools.agents.agent_files` parses the files. `load` refuses a file that does not define an agent.
`discover_agents` skips it and keeps the reason, and a dispatch tool writes that to the run's log.
This module lists folders and reads files.  Rules: CONTRACT.md §10.6.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from refold.engine.encoding.parameters import texts
from refold.engine.errors import DefNotFoundError, InvalidDefError
from refold.tools.agents.agent_files import FILE_NAME, NAMEABLE_TOOLS, AgentDef, load_agent

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
