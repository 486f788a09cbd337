"""One program that uses all five delegation tools, by itself and through an agent's model."""

from pathlib import Path
from typing import Any

import refold
from refold.engine.models import ScriptedModel
from refold.engine.ports.ports import Reference
from refold.engine.session import Session
from refold.tools import MarkdownSection, Prompt, PromptRegistry, file_tools

_AGENTS = Path(__file__).parents[2] / "examples" / "agents"
_SCRIPT: dict[str, Any] = {
    "scribe": [
        {"name": "subagent_dispatch", "arguments": {"agent_id": "reviewer", "task": "Review."}},
        "Written.",
    ],
    "lead": [
        {"tool_calls": [
            {"name": "spawn", "arguments": {"task": "one"}},
            {"name": "spawn", "arguments": {"task": "two"}},
        ]},
        {"name": "subagent", "arguments": {"task": "dig"}},
        {"name": "spawn_await", "arguments": {"job_ids": "*"}},
        "All have answered.",
    ],
    "*": ["done"],
}  # fmt: skip


def _review(**_: Any) -> Prompt[str]:
    section = MarkdownSection[Any](title="Review", key="review", template="You review.")
    return Prompt[str](ns="demo", key="review", sections=(section,))


def prompts() -> PromptRegistry:
    """Return the prompts of `dispatch_subagent`; another process makes them again."""
    registry = PromptRegistry(reference=Reference(__name__, "prompts", {}))
    registry.register("demo", "review", _review)
    return registry


def session() -> Session:
    """Return an empty session; another process makes it again."""
    return Session(factory=Reference(__name__, "session", {}))


async def lead(run: refold.Run, _input: Any) -> dict[str, Any]:
    """Use each tool, hand on what they gave, and return all of it, ids and durations included."""
    jobs = [await run.tool("spawn", task="x"), await run.tool("spawn", task="y")]
    steps = [{"objective": name, "steps": ["s"]} for name in ("o", "p")]
    found = {
        "jobs": jobs,
        "subagent": await run.tool("subagent", task="dig"),
        "dispatch": await run.tool("subagent_dispatch", agent_id="scribe", task="t"),
        "awaited": await run.tool("spawn_await", job_ids=",".join(jobs)),
        "forked": await run.tool(
            "dispatch_subagent",
            mode="ad_hoc",
            prompt_ns="demo",
            prompt_key="review",
            instructions="go",
        ),
        "all": await run.tool("dispatch_subagents", tasks=steps),
    }
    asked = {"agent": {"name": "lead"}, "task": f"Wait for {jobs[0]}."}
    agent = refold.Delegation(program="agent", agent="lead", input=asked, brief=jobs[0])
    return found | {"agent": (await run.delegate(agent)).output}


def recorded(log: Path, runner: str, **options: Any) -> refold.Recording:
    """Record `lead`, its children on `runner`."""
    tools = [
        file_tools(_AGENTS),
        ["spawn", "subagent", "dispatch_subagents"],
        refold.subagents("subagent_dispatch", agents=_AGENTS, caller="lead"),
        refold.subagents("dispatch_subagent", prompts=prompts()),
    ]
    model = ScriptedModel(_SCRIPT)
    return refold.record(
        lead, log=log, tools=tools, model=model, runner=runner, session=session(), **options
    )
