"""A writer improves a text until a reviewer approves it, at most three times."""

from typing import Any

import refold
from refold.engine.models import ScriptedModel

INPUT = "Write a line about the sea."
TRIES = 3
MODEL = ScriptedModel(
    {"writer": ["The sea.", "The sea is wide."], "reviewer": ["Too short.", "ok"]}
)


async def work(run: refold.Run, given: dict[str, Any]) -> str:
    reply = await run.model(given["messages"], agent=given["agent"])
    return str(reply.message["content"])


async def program(run: refold.Run, task: str) -> str:
    messages: dict[str, list[dict[str, str]]] = {"writer": [], "reviewer": []}

    async def ask(agent: str, text: str) -> str:
        messages[agent].append({"role": "user", "content": text})
        given = {"agent": agent, "messages": messages[agent]}
        done = await run.delegate(refold.Delegation(program=work, input=given, brief=agent))
        messages[agent].append({"role": "assistant", "content": done.result()})
        return done.result()

    text = await ask("writer", task)
    for _ in range(TRIES):
        review = await ask("reviewer", text)
        if review == "ok":
            break
        text = await ask("writer", review)
    return text


if __name__ == "__main__":
    print(refold.record(program, INPUT, model=MODEL).output)
