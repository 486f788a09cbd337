"""One call of each delegation tool, for each way in which it can end, by an agent's model.

`recorded` records one; `told` reads from its log what the calling model was told.
"""

import time
from pathlib import Path
from typing import Any, Final

import refold
from refold.engine.errors import ModelError
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import Reply
from refold.engine.ports.ports import ModelReply, ModelRequest, Reference, Tool
from refold.engine.session import Session
from refold.tools.agents.agent_files import AgentDef
from refold.tools.contract.tool_types import tool

TOOLS: Final = ("subagent", "subagent_dispatch", "dispatch_subagent", "dispatch_subagents", "spawn")
LIMITS: Final[dict[str, dict[str, Any]]] = {
    "done": {},
    "empty": {},
    "artifacts": {},
    "cut": {},
    "length": {},
    "speechless": {},
    "refused": {},
    "turns": {"max_iterations": 3},
    "time": {"join_seconds": 0.5},
    "tokens": {"model_tokens": 200},
    "failed": {},
    "depth": {"max_depth": 0},
    "arguments": {},
}
"""The caller's limits, by end."""
ENDS: Final = (*LIMITS,)


@tool(effect="reads")
def look(page: int) -> str:
    """Look at a page."""
    return f"page {page}"


def session() -> Session:
    """Return an empty session; another process makes it again."""
    return Session(factory=Reference(__name__, "session", {}))


class EndsModel:
    """Says what leads to the end that the task names; keeps nothing."""

    name = "ends"
    reference = Reference(__name__, "EndsModel", {})

    def complete(self, request: ModelRequest, /) -> ModelReply:
        """Return the reply of the caller or of a child."""
        from refold.engine.models import FunctionModel  # noqa: PLC0415 - a process of a child

        return FunctionModel(_said).complete(request)


def _said(request: ModelRequest) -> Reply:
    place = sum(message["role"] == "assistant" for message in request.messages)
    usage = {"input_tokens": 8, "output_tokens": 2}
    if request.parameters["agent"] == "lead":
        calls = [*request.messages[0]["content"].split("\n")]
        said = _called(calls[place]) if place < len(calls) else {"text": "All done."}
        return {**said, "usage": usage}
    words = " ".join(str(message.get("content")) for message in request.messages)
    end = words.rpartition("end=")[2].split()[0] if "end=" in words else "done"
    end = end.rstrip('".,')
    match end:
        case "failed":
            return ModelError("ends", "the server is overloaded", "http_503")
        case "turns" | "tokens":
            call = {"name": "look", "arguments": {"page": place}}
            text = f"So far I have read {place} pages."
            return {
                "text": text,
                "tool_calls": [call],
                "usage": {"input_tokens": 30, "output_tokens": 10},
            }
        case "time" if place:
            time.sleep(6)
            return "Too late."
        case "time":
            call = {"name": "look", "arguments": {"page": 1}}
            return {"text": "I begin with page 1.", "tool_calls": [call], "usage": usage}
        case "cut":
            return "long " * 20_000
        case "length":
            return {"text": "The tides foll", "stop_reason": "length", "usage": usage}
        case "speechless":
            return {"text": "", "stop_reason": "length", "usage": usage}
        case "refused":
            return {"text": "", "stop_reason": "refusal", "usage": usage}
        case "artifacts":
            return '{"summary": "Two.", "artifacts": [{"kind": "note", "value": "the moon"}]}'
        case "empty":
            return ""
    return {"text": "The tides follow the moon.", "usage": usage}


def _called(call: str) -> dict[str, Any]:
    name, end = call.split(" ")
    task = " " if end == "arguments" else f"Find out about tides. end={end}"
    asked: dict[str, dict[str, Any]] = {
        "subagent": {"task": task},
        "subagent_dispatch": {"agent_id": "helper", "task": task},
        "dispatch_subagent": {
            "mode": "ad_hoc",
            "prompt_ns": "agents",
            "prompt_key": "helper",
            "instructions": task,
        },
        "dispatch_subagents": {"tasks": [{"objective": task, "steps": ["look"]}]},
        "spawn": {"task": task},
        "spawn_await": {"job_ids": "*"},
    }
    arguments = asked[name]
    extra: dict[str, Any] = {"timeout": 5} if end == "arguments" else {}
    return {"tool_calls": [{"id": f"call_{name}", "name": name, "arguments": arguments | extra}]}


HELPER: Final = AgentDef(
    id="helper", name="helper", description="Helps.", system_prompt="You help."
)
OWN: Final[dict[str, dict[str, Any]]] = {
    "dispatch_subagent": {"agents": [HELPER]},
    "subagent_dispatch": {"agents": [HELPER]},
}
"""Options that a kind cannot do without."""


def made(kind: str, **options: Any) -> list[Tool]:
    """Return the tools of a kind."""
    given: Any = kind
    return refold.subagents(given, **OWN.get(kind, {}), **options)


def tools(**options: Any) -> list[Tool]:
    """Return the tools of all kinds and one leaf tool."""
    return [look, *(tool for kind in TOOLS for tool in made(kind, **options))]


def recorded(
    name: str,
    end: str,
    log: Path,
    runner: str = "in-process",
    parameters: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
) -> refold.Recording:
    """Record an agent whose model calls the tool `name` so that it ends as `end` says.

    `more` are limits in place of the end's.
    """
    calls = [f"{name} {end}"]
    if name == "spawn" and end not in ("depth", "arguments"):
        calls.append("spawn_await *")
    return refold.record(
        "agent",
        {"agent": {"name": "lead", "parameters": parameters or {}}, "task": "\n".join(calls)},
        log=log,
        tools=tools(parameters=own),
        model=EndsModel(),
        runner=runner,
        limits=refold.Limits(**{**LIMITS[end], **(more or {})}),
        session=session(),
        seed=1,
    )


def told(log: Path) -> tuple[str, bool]:
    """Return the last text that the calling model was told of a tool, and if it is an error."""
    found = [
        (message["content"], message["is_error"])
        for entry in read_entries(log, resolve=True)
        if entry.kind == "model.asked"
        for message in entry.data["added"]
        if message["role"] == "tool"
    ]
    return found[-1]


LEAST: dict[str, dict[str, Any]] = {
    "subagent": {"task": "look"},
    "subagent_dispatch": {"agent_id": "helper", "task": "look"},
    "dispatch_subagent": {
        "mode": "ad_hoc",
        "prompt_ns": "agents",
        "prompt_key": "helper",
        "instructions": "look",
    },
    "dispatch_subagents": {"tasks": [{"objective": "look"}]},
    "spawn": {"task": "look"},
}
"""By delegation tool: arguments with what it cannot do without."""
