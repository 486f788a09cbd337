"""Many logs to audit, made quickly."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import refold


def logs_of(folder: Path, program: Any, inputs: Sequence[Any]) -> list[Path]:
    """Return a log for each input, in a new folder `logs`; those of equal inputs are copies."""
    (folder / "logs").mkdir()
    known: dict[Any, Path] = {}
    logs = []
    for number, given in enumerate(inputs):
        log = folder / "logs" / f"{number:05}-log.jsonl"
        if given in known:
            shutil.copy(known[given], log)
        else:
            known[given] = refold.record(program, given, log=log).log
        logs.append(log)
    return logs
