"""`subagent`: an agent hands one task to a fresh agent in a process of its own, and waits.

    python examples/subagent.py                    # scripted, no key, no network
    python examples/subagent.py openai:gpt-4o      # a real model (pip install '.[openai]')

The parent gets six keys back whatever happens: success, summary, artifacts, error, timed_out,
duration_ms.  It is recorded under runs/, shown, and re-executed without asking a model again.
"""

import sys
from pathlib import Path
from typing import Any

import refold
from refold.engine.models import ScriptedModel, model_from
from refold.replay import render_text
from refold.tools import file_tools

SCRIPT: dict[str, Any] = {
    "agent": [
        {"name": "subagent", "arguments": {"task": "Which examples are there?", "files": ["."]}},
        "There is one example for each way to delegate.",
    ],
    "subagent": [
        {"name": "list_files", "arguments": {}},
        "subagent, dispatch_subagent, dispatch_subagents, subagent_dispatch, spawn.",
    ],
}


def main() -> None:
    model = model_from(sys.argv[1]) if sys.argv[1:] else ScriptedModel(SCRIPT)
    limits = refold.Limits(timeout_seconds=60)
    tools = [file_tools(Path(__file__).parent), refold.subagents("subagent", limits=limits)]

    recording = refold.record(
        "agent",
        {"task": "What do the examples show? Have a subagent look."},
        tools=tools,
        model=model,
        runner="subprocess",
    )

    print(recording.output or recording.error)
    print(render_text(refold.delegation_tree(recording.log)))
    print(refold.reexecute(recording))


if __name__ == "__main__":
    main()
