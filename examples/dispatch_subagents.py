"""`dispatch_subagents`: several tasks at once, each a plan in the session of its own subagent.

    python examples/dispatch_subagents.py                    # scripted, no key, no network
    python examples/dispatch_subagents.py openai:gpt-4o      # a real model

Subagents work in parallel, each in a process of its own; results come in the order of the tasks.
"""

import sys
from pathlib import Path
from typing import Any

import refold
from refold.engine.models import ScriptedModel, model_from
from refold.replay import render_text
from refold.tools import file_tools

TASKS = [
    {"objective": "Say what spawn.py shows.", "steps": ["read it", "say it"]},
    {"objective": "Say what subagent.py shows.", "steps": ["read it", "say it"]},
]
SCRIPT: dict[str, Any] = {
    "agent": [
        {"name": "dispatch_subagents", "arguments": {"tasks": TASKS}},
        "One shows jobs, the other a single task.",
    ],
    "run-delegation": [
        {"tool_calls": [
            {"name": "planning_update_step", "arguments": {"step_id": 1, "status": "done"}},
            {"name": "planning_update_step", "arguments": {"step_id": 2, "status": "done"}},
        ]},
        "It shows how to delegate.",
    ],
}  # fmt: skip


def main() -> None:
    model = model_from(sys.argv[1]) if sys.argv[1:] else ScriptedModel(SCRIPT)
    tools = [file_tools(Path(__file__).parent), "dispatch_subagents"]

    recording = refold.record(
        "agent",
        {"task": "What do spawn.py and subagent.py show? Ask two subagents at once."},
        tools=tools,
        model=model,
        runner="subprocess",
    )

    print(recording.output or recording.error)
    print(render_text(refold.delegation_tree(recording.log)))
    print(refold.reexecute(recording))


if __name__ == "__main__":
    main()
