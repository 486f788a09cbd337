"""A child prepares a payment, a person approves it, and only then the tool pays.

The run is suspended until somebody answers: `refold resume LOG --answer …`.
"""

import refold

INPUT = 40
ANSWERS = {"0#2": True}


@refold.tool(effect="changes")
def pay(euros: int) -> str:
    """Pay an amount."""
    return f"paid {euros}"


async def prepare(_run: refold.Run, euros: int) -> str:
    return f"Pay {euros} euros?"


async def program(run: refold.Run, euros: int) -> str:
    prepared = refold.Delegation(program=prepare, input=euros, brief="prepare")
    question = (await run.delegate(prepared)).result()
    if not await run.ask(question, {"type": "boolean"}):
        return "not paid"
    return await run.tool(pay, euros=euros)


if __name__ == "__main__":
    recording = refold.record(program, INPUT)
    print(refold.resume(recording.log, program, answers=ANSWERS).output)
