"""Every text that a model gives to a shipped tool has a cap in `CAPS` (CONTRACT.md §10.15).

A new parameter that is a text fails here until it has one.  A pattern needs a cap of its own: what
a pattern costs is more than its length.  Text that is only passed on is held to `REQUEST`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import refold
from refold.engine.encoding.patterns import GLOB_MAX, PATTERN_MAX
from refold.engine.errors import ToolError
from refold.engine.runners.recording import record
from refold.engine.session.session import Session
from refold.tools.agents.agent_files import AgentDef
from refold.tools.agents.plans import TEXT_MAX
from refold.tools.contract.options import ChildOptions
from refold.tools.delegation.dispatch_subagent import INSTRUCTIONS_MAX, LABEL_MAX
from refold.tools.delegation.shipped import shipped_tools
from refold.tools.delegation.spawn import JOB_IDS_MAX
from refold.tools.files.commands import FILE_BYTES_MAX, run_command_tool, write_file_tool
from refold.tools.files.file_tools import file_tools
from refold.tools.files.rooted import PATH_MAX
from tests.support.loops import for_each

REQUEST: Final = ChildOptions().request_bytes
ARGUMENT: Final = 128 * 1024
"""Linux refuses one argument of a program that has more."""

CAPS: Final[Mapping[str, int | None]] = {
    "list_files /path": PATH_MAX,
    "list_files /pattern": GLOB_MAX,
    "read_file /path": PATH_MAX,
    "search_text /pattern": PATTERN_MAX,
    "search_text /path": PATH_MAX,
    "search_text /glob": GLOB_MAX,
    "write_file /path": PATH_MAX,
    "write_file /content": FILE_BYTES_MAX,
    "run_command /command/-": ARGUMENT,
    "subagent /task": REQUEST,
    "subagent /context": REQUEST,
    "subagent /files/-": REQUEST,
    "subagent_dispatch /agent_id": REQUEST,
    "subagent_dispatch /task": REQUEST,
    "subagent_dispatch /context": REQUEST,
    "dispatch_subagent /instructions": INSTRUCTIONS_MAX,
    "dispatch_subagent /expected_artifacts/-": LABEL_MAX,
    "dispatch_subagent /plan_step_id": REQUEST,
    "dispatch_subagents /tasks/-/objective": REQUEST,
    "dispatch_subagents /tasks/-/steps/-": TEXT_MAX,
    "planning_setup_plan /objective": TEXT_MAX,
    "planning_setup_plan /initial_steps/-": TEXT_MAX,
    "planning_add_step /steps/-": TEXT_MAX,
    "planning_update_step /title": TEXT_MAX,
    "spawn /task": REQUEST,
    "spawn /profile": REQUEST,
    "spawn /context": REQUEST,
    "spawn /system_prompt": REQUEST,
    "spawn /tools": REQUEST,
    "spawn_await /job_ids": JOB_IDS_MAX,  # ids, not characters
}
HELPER: Final = AgentDef(id="b", name="b", description="Helps.")
NEEDED: Final[Mapping[str, dict[str, Any]]] = {
    "search_text": {"pattern": "x"},
    "write_file": {"path": "a", "content": ""},
    "run_command": {"command": ["echo"]},
    "subagent": {"task": "x"},
    "subagent_dispatch": {"agent_id": "b", "task": "x"},
    "spawn": {"task": "x"},
    "dispatch_subagent": {
        "mode": "ad_hoc",
        "prompt_ns": "agents",
        "prompt_key": "b",
        "instructions": "c",
    },
    "planning_setup_plan": {"objective": "x"},
    "planning_update_step": {"step_id": 1},
}


def tools(root: Path) -> list[Any]:
    written = write_file_tool(root)
    own = [
        *refold.subagents("subagent_dispatch", agents=[HELPER]),
        *refold.subagents("dispatch_subagent", agents=[HELPER]),
    ]
    shipped = [each for each in shipped_tools() if each.name not in [tool.name for tool in own]]
    command = run_command_tool(root, allow=["echo"])
    return [*file_tools(root), written, command, *shipped, *own]


def texts(schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield where a value that fits the schema may have a text of any length."""
    if "string" in (schema.get("type"), *schema.get("type", ())) and not schema.get("enum"):
        yield at
    for name, member in schema.get("properties", {}).items():
        yield from texts(member, f"{at}/{name}")
    for each in schema.get("anyOf", ()):
        yield from texts(each, at)
    for name, inner in (("-", schema.get("items")), ("*", schema.get("additionalProperties"))):
        if isinstance(inner, Mapping):
            yield from texts(inner, f"{at}/{name}")


def test_every_text_of_a_shipped_tool_has_a_cap(tmp_path: Path) -> None:
    """Also those within lists, objects and unions; and no cap is for a text that is gone."""
    found = {f"{each.name} {at}" for each in tools(tmp_path) for at in texts(each.parameters)}

    assert found - {"subagent_dispatch /agent_id"} == CAPS.keys() - {"subagent_dispatch /agent_id"}


@for_each("name", CAPS)
def test_more_than_a_cap_of_its_own_is_an_error_for_the_model(name: str, tmp_path: Path) -> None:
    """It names the size that is allowed, or, for a program's argument, what the system says."""
    tool, _, pointer = name.partition(" ")
    member, *inner = pointer.strip("/").split("/")
    cap = CAPS[name] or 0
    text = {"job_ids": "a,", "path": "[/"}.get(member, "[") * (cap + 1)
    given: Any = [*NEEDED.get(tool, {}).get(member, ()), text] if inner else text
    if member == "tasks":
        given = [{"objective": "x", inner[1]: [text] if inner[2:] else text}]

    async def program(run: Any, _given: Any) -> Any:
        if "step" in member or member == "title":
            await run.tool("planning_setup_plan", objective="x", initial_steps=["y"])
        try:
            return await run.tool(tool, **{**NEEDED.get(tool, {}), member: given})
        except ToolError as error:
            return {"error": error.message}

    found = record(
        program, None, log=tmp_path / "a.jsonl", tools=tools(tmp_path), session=Session()
    ).output

    assert found.get("error"), str(found)[:300]
    told = "too long" if tool == "run_command" else str(cap)
    assert told in found["error"].replace(",", "")
