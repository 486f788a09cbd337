"""A search keeps the best candidates of each level; a child expands each of them."""

import refold

INPUT = 24
WIDTH = 2
DEPTH = 3


async def expand(_run: refold.Run, number: int) -> list[int]:
    return [number + 1, number * 2, number * 3]


async def program(run: refold.Run, goal: int) -> int:
    beam = [1]
    for _ in range(DEPTH):
        children = [
            await run.start(refold.Delegation(program=expand, input=each, brief=f"expand {each}"))
            for each in beam
        ]
        found = {each for outcome in await run.join(*children) for each in outcome.result()}
        beam = sorted(found, key=lambda each: (abs(goal - each), each))[:WIDTH]
    return beam[0]


if __name__ == "__main__":
    print(refold.record(program, INPUT).output)
