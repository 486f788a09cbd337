"""Trees of runs that spend: each step is made as often as a tool says.

A step is `{"times": how often, "tokens": of a request}`, `{"times": …, "child": steps, "cap": its
own budget or null, "joins": at once}`, or `{"times": …, "sleeps": seconds}`.
"""

from typing import Any, Final

from refold import Delegation, Limits, Run, tool
from refold.engine.events.outcome import Usage
from refold.engine.models import FunctionModel
from refold.engine.ports.ports import ModelReply, ModelRequest, Reference

Step = dict[str, Any]
MICROS: Final = 1000
"""What a token costs, in millionths of a dollar."""
more: dict[str, int] = {"times": 0}
"""How often each step is made beyond what its program says: a test turns it, as a service may."""


@tool(effect="reads")
def how_often(times: int) -> int:
    """Say how often a step is made."""
    return times + more["times"]


class Priced(FunctionModel):
    """A model that says what it costs."""

    is_priced = True


def told(request: ModelRequest) -> ModelReply:
    """Answer a number of tokens with as many."""
    tokens = int(request.messages[-1]["content"])
    usage = Usage(requests=1, input_tokens=tokens, cost_usd_micros=tokens * MICROS)
    return ModelReply(message={"role": "assistant", "content": "ok"}, usage=usage)


MODEL: Final = Priced(told, "priced", reference=Reference(__name__, "priced", {}))


def priced() -> FunctionModel:
    """Return the model, for a process."""
    return MODEL


async def spend(run: Run, given: dict[str, Any]) -> str:
    """Take the steps under `budget`; what was only started is joined at the end.

    The answer has a letter for each request.
    """
    running, answered = [], 0
    for step in given["steps"]:
        for _ in range(await run.tool("how_often", times=step["times"])):
            if "sleeps" in step:
                await run.sleep(step["sleeps"])
            elif "tokens" in step:
                await _ask(run, step["tokens"])
                answered += 1
            else:
                running.append(await run.start(_delegation(step, given["budget"])))
                if step["joins"]:
                    await run.join(running[-1])
    await run.join(*running)
    await _ask(run, 1)
    return "x" * (answered + 1)


async def _ask(run: Run, tokens: int) -> None:
    await run.model([{"role": "user", "content": str(tokens)}])


def _delegation(step: Step, budget: str) -> Delegation:
    limits = limits_of(budget, step["cap"]) if step["cap"] else None
    return Delegation(
        program=spend, input={"steps": step["child"], "budget": budget}, limits=limits
    )


def limits_of(limit: str, cap: float) -> Limits:
    """Return one limit; of money, in prices of tokens."""
    return Limits.from_json({limit: cap * MICROS / 1e6 if limit == "cost_usd" else cap})
