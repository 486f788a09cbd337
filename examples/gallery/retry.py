"""A child that fails is started again, each time after twice the wait."""

import refold

INPUT = 3
BUSY = 2


async def flaky(_run: refold.Run, attempt: int) -> str:
    if attempt < BUSY:
        raise RuntimeError("busy")
    return f"done at attempt {attempt}"


async def program(run: refold.Run, tries: int) -> str:
    for attempt in range(tries):
        work = refold.Delegation(program=flaky, input=attempt, brief=f"attempt {attempt}")
        outcome = await run.delegate(work)
        if outcome.ok:
            return outcome.result()
        await run.sleep(0.01 * 2**attempt)
    return "gave up"


if __name__ == "__main__":
    print(refold.record(program, INPUT).output)
