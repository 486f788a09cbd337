"""Writes the recorded fixtures anew: `python -m tests.support.fixtures`.

That is `fixtures/logs/engine-<version>`, of the programs of `kept_programs` and the command of
`kept_watched`, and `fixtures/conformance`. Read what `git diff` shows of it.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import refold
from refold.engine.events.flags import ENGINE_VERSION
from tests.support import conformance, kept_watched
from tests.support.kept_programs import INPUTS, LIMITS, MODELS, OFFERED, PROGRAMS, TOOLS
from tests.support.watched import record

LOGS: Final = conformance.SET.parent / "logs" / f"engine-{ENGINE_VERSION}"


def write(folder: Path) -> None:
    """Record a log of each program, and one of the watched command."""
    for name, program in PROGRAMS.items():
        refold.record(
            program,
            INPUTS[name],
            log=folder / f"{name}.jsonl",
            tools=OFFERED.get(name, TOOLS),
            model=MODELS.get(name),
            models={"openai:gpt-4o": MODELS[name]} if name == "delegating" else {},
            limits=LIMITS.get(name),
        )
    record(folder / "watched.jsonl", kept_watched.EXCHANGES)


if __name__ == "__main__":
    os.uname = lambda: os.uname_result(("", "host", "", "", ""))  # logs name the machine
    for target, make in ((LOGS, write), (conformance.SET, conformance.write)):
        shutil.rmtree(target, ignore_errors=True)
        make(target)
