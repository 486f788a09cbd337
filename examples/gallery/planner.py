"""A planner writes tasks, a worker does each of them at the same time, and an editor sums up."""

import refold
from refold.engine.models import ScriptedModel

INPUT = "When is high tide in Dover and in Calais?"
MODEL = ScriptedModel(
    {"planner": ["Dover\nCalais"], "worker": ["It is noon."], "editor": ["It is noon in both."]}
)


async def ask(run: refold.Run, agent: str, text: str) -> str:
    reply = await run.model([{"role": "user", "content": text}], agent=agent)
    return str(reply.message["content"])


async def worker(run: refold.Run, task: str) -> str:
    return f"{task}: {await ask(run, 'worker', task)}"


async def program(run: refold.Run, question: str) -> str:
    tasks = (await ask(run, "planner", f"Plan: {question}")).splitlines()
    children = [
        await run.start(refold.Delegation(program=worker, input=task, brief=task)) for task in tasks
    ]
    found = [outcome.result() for outcome in await run.join(*children)]
    return await ask(run, "editor", "\n".join([question, *found]))


if __name__ == "__main__":
    print(refold.record(program, INPUT, model=MODEL).output)
