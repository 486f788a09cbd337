"""Conversations of dispatched agents, read back from their logs by session id.

Only children of `subagent_dispatch` are addressable. Other tools' children are in the log and can
be shown, but have no session id. The logs are the only storage.  Rules: CONTRACT.md §10.16.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from refold.engine.errors import UsageError
from refold.engine.log.names import child_path, tree
from refold.engine.log.reader import read_entries
from refold.tools.delegation.subagent_dispatch import NAME, session_id_of


@attrs.frozen(kw_only=True)
class SavedSession:
    """The conversation of one dispatched agent."""

    session_id: str
    """The id that the dispatching agent got for it."""
    agent: str
    """Its id."""
    run_id: str
    """Of the agent's own run: 16 hex digits."""
    log: Path
    """Of the agent's own run."""
    status: str
    """As `Outcome.status`; empty where the log has no end."""
    system: str
    messages: tuple[dict[str, Any], ...]
    """As `ModelRequest.messages`, without the system prompt: the first is the user's."""


def load_session(log: str | os.PathLike[str], session_id: str) -> SavedSession:
    """Return the session with this id among the runs below the run of `log`.

    Raises:
        UsageError: no run has this id.
        LogError: a log cannot be read.
    """
    for parent in tree(Path(log)):
        for started in _addressable(parent):
            if session_id_of(started["run_id"]) == session_id:
                agent = started["delegation"].get("agent", "")
                return _saved(session_id, agent, child_path(parent, started["number"]))
    raise UsageError(
        f"{os.fspath(log)}: no descendant has the session {session_id!r}; only the sessions of "
        "subagent_dispatch's children can be read back"
    )


def _addressable(log: Path) -> Iterator[dict[str, Any]]:
    for entry in read_entries(log, resolve=True, torn_ok=True):
        if entry.kind == "child.started" and entry.data["delegation"].get("tool") == NAME:
            yield entry.data


def _saved(session_id: str, agent: str, log: Path) -> SavedSession:
    messages: list[dict[str, Any]] = []
    run_id = status = ""
    for entry in read_entries(log, resolve=True, torn_ok=True):
        match entry.kind:
            case "run.started":
                run_id = entry.data["run_id"]
            case "model.asked":
                messages = [*messages[: entry.data["base"]], *entry.data["added"]]
            case "model.answered" if entry.data["status"] == "ok":
                messages.append(entry.data["message"])
            case "run.finished":
                status = entry.data["status"]
    return SavedSession(
        session_id=session_id,
        agent=agent,
        run_id=run_id,
        log=log,
        status=status,
        system=next((one["content"] for one in messages if one["role"] == "system"), ""),
        messages=tuple(one for one in messages if one["role"] != "system"),
    )
