"""The first event of a log that no program wrote."""

from typing import Final

from refold.engine.events.events import RunStarted

STARTED: Final = RunStarted(
    program="p",
    input=None,
    depth=0,
    limits={},
    seed="00",
    tools=[],
    versions={"format": 1},
    fingerprint={},
    rules={},
    path="",
    run_id="run",
    root_id="run",
)
