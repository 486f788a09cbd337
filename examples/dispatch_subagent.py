"""`dispatch_subagent`: a subagent on a registered prompt, with a copy of its caller's session.

    python examples/dispatch_subagent.py                    # scripted, no key, no network
    python examples/dispatch_subagent.py openai:gpt-4o      # a real model

The subagent knows what the session holds, and changes a copy of it; its caller's stays as it was.
Only its summary and its artifacts come back.
"""

import sys
from typing import Any

import attrs

import refold
from refold.engine.models import ScriptedModel, model_from
from refold.engine.session import Session
from refold.replay import render_text
from refold.tools import MarkdownSection, Prompt, PromptRegistry


@attrs.frozen
class Finding:
    """What somebody found; a slice of the session."""

    text: str


def session() -> Session:
    made = Session()
    made.register(Finding, Finding)
    return made


def review(**_: Any) -> Prompt[str]:
    section = MarkdownSection[Any](
        title="Review", key="review", template="You review. Say in one sentence what you think."
    )
    return Prompt[str](ns="demo", key="review", sections=(section,))


def prompts() -> PromptRegistry:
    registry = PromptRegistry()
    registry.register("demo", "review", review)
    return registry


async def lead(run: refold.Run, task: str) -> dict[str, Any]:
    """Note a finding, then have a subagent review what is known."""
    run.session.dispatch(Finding("The examples run from any folder."))
    answer: dict[str, Any] = await run.tool(
        "dispatch_subagent",
        mode="ad_hoc",
        prompt_ns="demo",
        prompt_key="review",
        instructions=task,
    )
    return answer


def main() -> None:
    script = {"demo/review": ["They do, and nothing else is needed."]}
    model = model_from(sys.argv[1]) if sys.argv[1:] else ScriptedModel(script)
    tools = refold.subagents("dispatch_subagent", prompts=prompts())

    recording = refold.record(
        lead, "Review the finding.", tools=tools, model=model, session=session()
    )

    print(recording.output["message"] if recording.ok else recording.error)
    print(render_text(refold.delegation_tree(recording.log)))
    print(refold.reexecute(recording, lead, session=session()))


if __name__ == "__main__":
    main()
