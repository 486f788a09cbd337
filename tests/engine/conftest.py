from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome
from refold.engine.ports.ports import ChildRequest, Identity, Parentage, Policy, Suspended
from tests.support.child_programs import add, named, ponder

Make = Callable[..., ChildRequest]


def ended(result: Outcome | Suspended) -> Outcome:
    """Return what a runner gave, which is an outcome."""
    assert isinstance(result, Outcome)
    return result


@pytest.fixture
def request_for(tmp_path: Path) -> Make:
    """Give what makes a request to run a program of `tests/support/child_programs.py`."""

    def make(program: Any, value: Any = None, **options: Any) -> ChildRequest:
        found = named(program) if isinstance(program, str) else program
        asked: dict[str, Any] = {
            "program": found,
            "program_name": "child",
            "input": value,
            "identity": Identity(
                run_id="child",
                root_id="root",
                path="0#1",
                depth=1,
                seed="00",
                parent=Parentage(run="root", call="0#1", hash="0" * 64),
            ),
            "limits": Limits(max_depth=3),
            "policy": Policy(),
            "log": tmp_path / "a.1.jsonl",
            "tools": (add, ponder),
        } | options
        return ChildRequest(**asked)

    return make
