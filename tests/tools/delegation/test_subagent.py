"""How a `subagent` tool is set up, shown to a model, and made again in another process."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import LimitRefused
from refold.engine.events.outcome import Artifact, Outcome, Truncated
from refold.engine.kernel.pending import Child
from refold.engine.models.scripted import ScriptedModel
from refold.engine.runners.recording import record
from refold.tools.delegation.subagent import answer_to, subagent_tool
from tests.support.loops import for_each

CHILDREN = Path(__file__).parents[3] / "fixtures" / "children" / "subagents.py"


@for_each(
    "option, value",
    [
        ("levels", -1),
        ("levels", True),
        ("timeout_seconds", 0),
        ("timeout_seconds", 1.5),
        ("max_iterations", "8"),
        ("timeout_seconds_cap", 0),
        ("max_iterations_cap", None),
    ],
)
def test_nonsense_as_a_cap_is_refused(option: str, value: Any) -> None:
    with pytest.raises(LimitRefused) as refused:
        subagent_tool(**{option: value})

    assert refused.value.limit == option


def test_the_least_that_a_cap_may_be_is_taken() -> None:
    least = {"timeout_seconds": 1, "max_iterations": 1}
    caps = {f"{name}_cap": value for name, value in least.items()}

    assert subagent_tool(levels=0, request_bytes=1, **least, **caps).name == "subagent"


def shown(log: Path, outcome: Outcome) -> Any:
    """Return the six keys that a run makes of an outcome."""

    async def program(run: Any, _input: Any) -> Any:
        return answer_to(run, Child("0#1", 1, "c1", outcome), {}).result

    return record(program, log=log).output


def test_a_result_has_what_the_outcome_has(tmp_path: Path) -> None:
    outcome = Outcome(
        status="completed",
        summary="made it",
        output={"not": "shown"},
        artifacts=(Artifact(kind="path", value="a.py", name="code"),),
        truncated=Truncated(kept_bytes=1, seen_bytes=2, sha256="ab"),
        duration_ms=7,
    )

    assert shown(tmp_path / "run.jsonl", outcome) == {
        "success": True,
        "summary": "made it\n[cut: the first 1 of 2 bytes. Ask for a shorter answer.]",
        "artifacts": [
            {"kind": "path", "value": "a.py"},
            {"kind": "note", "value": "truncated: kept_bytes=1 seen_bytes=2 sha256=ab"},
        ],
        "error": None,
        "timed_out": False,
        "duration_ms": 7,
    }


@pytest.mark.long
def test_children_nest_as_deep_as_the_tool_allows(tmp_path: Path) -> None:
    """Levels count from the caller, in subprocesses too: each child has the tool again."""
    deeper = {"name": "subagent", "arguments": {"task": "deeper"}}
    recording = record(
        "agent",
        {"task": "go"},
        log=tmp_path / "run.jsonl",
        tools=[subagent_tool(levels=2)],
        model=ScriptedModel([deeper, "done"]),
        runner="subprocess",
    )

    assert recording.output == "done"
    logs = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert logs == ["run.1.1.jsonl", "run.1.jsonl", "run.jsonl"]


def test_a_disabled_tool_says_so_before_it_looks_at_arguments(tmp_path: Path) -> None:
    """Mended arguments would not help."""

    async def program(run: Any, _: Any) -> Any:
        return await run.tool("subagent", task=" ", files={"a": 1})

    recording = record(program, log=tmp_path / "a.jsonl", tools=[subagent_tool(enabled=False)])

    assert recording.output["error"] == "disabled: subagent is not enabled in this phase"
