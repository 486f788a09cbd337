"""A program with a child in a process of its own, both of which are told a secret and repeat it."""

import os
import sys
from typing import Any

import refold

VALUE = "s3cret/of the+day"


@refold.tool(effect="reads")
def tell(token: str) -> str:
    """Say the secret."""
    return f"it is {token}"


async def crash(run: refold.Run, _input: object) -> Any:
    """Say the secret in a log, on both streams, and in what it dies of."""
    said = await run.tool(tell, token=run.secret("SECRETIVE"))
    raise ValueError(f"{said}, and {os.environ.get('SECRETIVE', 'not in the environment')}")


async def program(run: refold.Run, _input: object) -> Any:
    """Ask for it here, and in a child."""
    said = await run.tool(tell, token=run.secret("SECRETIVE"))
    outcome = await run.delegate(refold.Delegation(program=crash, runner="subprocess"))
    return [said, outcome.error.message if outcome.error else ""]


def record(log: str) -> None:
    """Record it, and print what came of it."""
    rules = refold.Redaction(environment=["SECRETIVE"])
    recording = refold.record(program, log=log, tools=[tell], redaction=rules)
    sys.stdout.write(f"{recording}\n")
    sys.stderr.write(f"{recording.output} {recording.error}\n")
