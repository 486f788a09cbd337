"""Two agents argue in turns, each in a child, and a judge decides."""

from typing import Any

import refold
from refold.engine.models import ScriptedModel

INPUT = "Tea or coffee?"
ROUNDS = 2
MODEL = ScriptedModel(
    {"tea": ["Tea calms.", "And it is hot."], "coffee": ["Coffee wakes.", "So is coffee."],
     "judge": ["Tea."]}
)  # fmt: skip


async def speak(run: refold.Run, given: dict[str, Any]) -> str:
    reply = await run.model(given["messages"], agent=given["agent"])
    return str(reply.message["content"])


def seen_by(agent: str, said: list[tuple[str, str]]) -> list[dict[str, str]]:
    """Return what was said as the messages of one agent."""
    return [
        {"role": "assistant" if who == agent else "user", "content": text} for who, text in said
    ]


async def program(run: refold.Run, question: str) -> str:
    said = [("host", question)]
    for agent in ("tea", "coffee") * ROUNDS + ("judge",):
        given = {"agent": agent, "messages": seen_by(agent, said)}
        turn = await run.delegate(refold.Delegation(program=speak, input=given, brief=agent))
        said.append((agent, turn.result()))
    return said[-1][1]


if __name__ == "__main__":
    print(refold.record(program, INPUT, model=MODEL).output)
