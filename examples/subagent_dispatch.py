"""`subagent_dispatch`: agents defined in files give tasks to each other.

    python examples/subagent_dispatch.py                    # scripted, no key, no network
    python examples/subagent_dispatch.py openai:gpt-4o      # a real model

Each agent in examples/agents/ is offered all the others.  The result names a session, and the
child's conversation is read back by that id, from the log.
"""

import json
import sys
from pathlib import Path
from typing import Any

import refold
from refold.engine.models import ScriptedModel, model_from
from refold.replay import render_text
from refold.tools import file_tools, load_session

HERE = Path(__file__).parent
SCRIPT: dict[str, Any] = {
    "scribe": [
        {"name": "subagent_dispatch", "arguments": {
            "agent_id": "reviewer", "task": "Review spawn.py.", "context": "It is an example."}},
        "Written.",
    ],
    "reviewer": [
        {"name": "read_file", "arguments": {"path": "spawn.py"}},
        "It could wait for one job at a time.",
    ],
}  # fmt: skip


async def lead(run: refold.Run, task: str) -> str:
    """Dispatch to the scribe, who may dispatch in turn."""
    answer: str = await run.tool("subagent_dispatch", agent_id="scribe", task=task)
    return answer


def main() -> None:
    model = model_from(sys.argv[1]) if sys.argv[1:] else ScriptedModel(SCRIPT)
    agents = refold.subagents("subagent_dispatch", agents=HERE / "agents", caller="lead")
    tools = [file_tools(HERE), agents]

    recording = refold.record(lead, "Report on spawn.py.", tools=tools, model=model)

    print(recording.output or recording.error)
    session = load_session(recording.log, json.loads(recording.output)["session_id"])
    for message in session.messages:
        print(f"  {message['role']}: {message['content'] or '(calls a tool)'}")
    print(render_text(refold.delegation_tree(recording.log)))
    print(refold.reexecute(recording, lead, tools=tools))


if __name__ == "__main__":
    main()
