"""The same request goes to two children; the first answer counts, and the other is cancelled."""

import refold

INPUT = ["quick", "slow"]


async def mirror(run: refold.Run, name: str) -> str:
    if name == "slow":
        await run.sleep(60)
    return f"answer of {name}"


async def program(run: refold.Run, names: list[str]) -> str:
    children = [
        await run.start(refold.Delegation(program=mirror, input=name, brief=name)) for name in names
    ]
    winner = await run.join_first(*children)
    for child in children:
        if child is not winner:
            run.cancel(child)
    assert winner.outcome is not None
    return str(winner.outcome.result())


if __name__ == "__main__":
    print(refold.record(program, INPUT).output)
