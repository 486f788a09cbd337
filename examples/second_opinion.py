"""`second_opinion`: a delegation tool of one's own, in a file of one's own.

    python examples/second_opinion.py                    # scripted, no key, no network
    python examples/second_opinion.py openai:gpt-4o      # a real model
    refold run AGENT.md --task "…" --tools examples/second_opinion.py:TOOL

Two fresh agents answer one question, and neither sees what the other says.  The handler is program
code: it is recorded call by call, and executed again in a replay, which is given the tool, too.
"""

import sys
from typing import Any

import refold
from refold.engine.models import ScriptedModel, model_from
from refold.replay import render_text
from refold.tools import (
    DelegationTool,
    Reference,
    answer_of,
    call_begins,
    call_ends,
    delegate_all,
    error_of,
    settings_of,
)

NAME = "second_opinion"
SCHEMA = {
    "type": "object",
    "properties": {"question": {"type": "string", "description": "Complete in itself."}},
    "required": ["question"],
    "additionalProperties": False,
}


def second_opinion(*, views: list[str]) -> DelegationTool:
    """Return the tool; each of `views` is how one of the agents looks at a question."""

    async def handler(run: refold.Run, arguments: dict[str, Any], /) -> list[str]:
        # How the tool is set up is recorded at its first use: a replay takes it from the log.
        chosen = settings_of(run, NAME, lambda: {"views": list(views)})["views"]
        question = arguments.get("question")
        if not isinstance(question, str):
            raise refold.ToolError(NAME, "question: expected text", "arguments")
        ticket = call_begins(run, NAME, question)
        outcomes = await delegate_all(
            run,
            [
                refold.Delegation(
                    program="agent",
                    input={"agent": {"name": view, "system": f"You are {view}."}, "task": question},
                    brief=question,
                    agent=view,
                    tool=NAME,
                    tools=(),  # they only think; `None` would give them the caller's tools
                    levels=1,
                    limits=refold.Limits(timeout_seconds=60),
                )
                for view in chosen
            ],
        )
        failed = [error for each in outcomes if (error := error_of(each, run=run)) is not None]
        call_ends(
            run,
            ticket,
            success=not failed,
            timed_out=any(each.status == "timed_out" for each in outcomes),
            error="; ".join(failed) or None,
            duration_ms=max(each.duration_ms for each in outcomes),
        )
        return [
            answer_of(each) if each.ok else f"no answer: {error_of(each, run=run)}"
            for each in outcomes
        ]

    return DelegationTool(
        name=NAME,
        description="Ask two agents who do not know of each other the same question.",
        parameters=SCHEMA,
        handler=handler,
        # How a subprocess child makes the same tool: this file, a name in it, and its arguments.
        reference=Reference(__name__, NAME, {"views": list(views)}),
    )


TOOL = second_opinion(views=["an optimist", "a sceptic"])
SCRIPT: dict[str, Any] = {
    "agent": [
        {"name": NAME, "arguments": {"question": "Will it rain?"}},
        "They do not agree: take an umbrella.",
    ],
    "an optimist": ["No."],
    "a sceptic": ["Yes."],
}


def main() -> None:
    model = model_from(sys.argv[1]) if sys.argv[1:] else ScriptedModel(SCRIPT)

    recording = refold.record(
        "agent", {"task": "Will it rain? Ask twice."}, tools=[TOOL], model=model
    )

    print(recording.output or recording.error)
    print(render_text(refold.delegation_tree(recording.log)))
    print(refold.reexecute(recording, tools=[TOOL]))


if __name__ == "__main__":
    main()
