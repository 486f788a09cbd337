"""The log of a program has no calls that a replay would execute.

Those of a recorded command are in `test_foreign_runs`.
"""

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_a_program_executes_nothing(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", survey_log, "--effects")

    assert said.exit_code == 0
    assert "does not execute tool calls" in said.stdout
