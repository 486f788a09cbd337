"""`spawn` and `spawn_await`: start agents, go on, collect their results later.

    python examples/spawn.py                    # scripted, no key, no network
    python examples/spawn.py openai:gpt-4o      # a real model

Profiles say which prompt, tools and model a spawned agent has; here they are given in code, in a
project they stand in refold.yaml.  Job ids follow from the run, so that a replay gives the same.
"""

import sys
from pathlib import Path
from typing import Any

import refold
from refold.engine.models import ScriptedModel, model_from
from refold.replay import render_text
from refold.tools import SpawnProfile, file_tools, with_profiles

PROFILES = {
    "researcher": SpawnProfile(system_prompt="Find facts in files.", tools=("search_text",)),
    "poet": SpawnProfile(system_prompt="Write one line of verse."),
}
SCRIPT: dict[str, Any] = {
    "lead": [
        {"tool_calls": [
            {"name": "spawn", "arguments": {"task": "What does spawn do?",
                                            "profile": "researcher"}},
            {"name": "spawn", "arguments": {"task": "Sing of subagents.", "profile": "poet"}},
        ]},
        {"name": "spawn_await", "arguments": {"job_ids": "*"}},
        "Both have answered.",
    ],
    "researcher": [
        {"name": "search_text", "arguments": {"pattern": "spawn_await"}},
        "It starts an agent and returns a job id at once.",
    ],
    "poet": ["One asked, two worked, and all of it was written."],
}  # fmt: skip


def main() -> None:
    model = model_from(sys.argv[1]) if sys.argv[1:] else ScriptedModel(SCRIPT)
    system = with_profiles("You coordinate. Spawn agents, then collect their results.", PROFILES)

    recording = refold.record(
        "agent",
        {"agent": {"name": "lead", "system": system}, "task": "Explain spawn, and sing of it."},
        tools=[
            file_tools(Path(__file__).parent),
            refold.subagents("spawn", profiles=PROFILES),
        ],
        model=model,
    )

    print(recording.output or recording.error)
    print(render_text(refold.delegation_tree(recording.log)))
    print(refold.reexecute(recording))


if __name__ == "__main__":
    main()
