"""A run that cancels one child once it has paid three times, and joins another."""

import threading
from pathlib import Path
from typing import Any

import refold


@refold.tool(effect="changes")
async def pay(amount: int) -> int:
    """Pay."""
    return amount


def given_up(folder: Path, factor: int, *, joined: int = 0) -> refold.Recording:
    """Record a run that cancels a child once it has paid, and joins one that pays `joined`."""
    asked, has_paid = [0], threading.Event()

    @refold.tool(effect="pure")
    def until_paid() -> bool:
        return has_paid.wait(60)

    @refold.tool(effect="pure")
    def paid() -> None:
        asked[0] += 1
        if asked[0] > 1:  # so that the first call has returned
            has_paid.set()

    async def pays(run: refold.Run, amounts: list[int] | None) -> None:
        for amount in amounts or [0, factor, 2 * factor]:
            await run.tool(pay, amount=amount)
        if amounts is None:
            await run.tool(paid)
            await run.tool(paid)
            await run.sleep(3600)

    async def gives_up(run: refold.Run, _: Any) -> str:
        child = await run.start(refold.Delegation(program=pays, brief="pay"))
        await run.tool(until_paid)
        run.cancel(child)
        await run.delegate(refold.Delegation(program=pays, input=[joined], brief="pay"))
        return "given up"

    log = folder / f"{factor}-{joined}.jsonl"
    return refold.record(gives_up, None, log=log, tools=[pay, until_paid, paid], seed=1)
