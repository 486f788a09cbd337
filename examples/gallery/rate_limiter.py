"""Calls of a tool begin at least 20 ms apart, and at most two are open at a time."""

import asyncio

import refold

INPUT = ["a", "b", "c"]
APART_SECONDS = 0.02


@refold.tool(effect="reads")
async def fetch(name: str) -> str:
    """Fetch a page."""
    return f"page {name}"


async def one(run: refold.Run, name: str) -> str:
    return await run.tool(fetch, name=name)


async def program(run: refold.Run, names: list[str]) -> list[str]:
    room, gate = asyncio.Semaphore(2), asyncio.Lock()

    async def limited(name: str) -> str:
        async with room:
            async with gate:
                await run.sleep(APART_SECONDS)
            return (
                await run.delegate(refold.Delegation(program=one, input=name, brief=name))
            ).result()

    return list(await asyncio.gather(*map(limited, names)))


if __name__ == "__main__":
    print(refold.record(program, INPUT).output)
