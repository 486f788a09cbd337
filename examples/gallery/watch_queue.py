"""A watcher puts events into a queue, and two workers hand each of them to a child."""

import asyncio

import refold

INPUT = 4


async def handle(_run: refold.Run, event: int) -> int:
    return event * event


async def program(run: refold.Run, events: int) -> list[int]:
    queue: asyncio.Queue[int | None] = asyncio.Queue(maxsize=2)
    done: list[int] = []

    async def watch() -> None:
        for event in range(events):
            await run.sleep(0.01)
            await queue.put(event)
        for _ in range(2):
            await queue.put(None)

    async def worker() -> None:
        while (event := await queue.get()) is not None:
            child = refold.Delegation(program=handle, input=event, brief=f"event {event}")
            done.append((await run.delegate(child)).result())

    await asyncio.gather(watch(), worker(), worker())
    return sorted(done)


if __name__ == "__main__":
    print(refold.record(program, INPUT).output)
