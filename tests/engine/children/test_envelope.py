"""The envelope: all that a subprocess child is told, in one line (CONTRACT.md §7.5)."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from refold.engine.children.envelope import pack, unpack
from refold.engine.errors import LogUnsupported, ProgramNotFound, ToolRefused, UsageError
from refold.engine.events.limits import Limits
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import ModelReply, Policy
from refold.tools.contract.tool_types import tool
from tests.engine.conftest import Make

_ENTRY = "refold.engine.runners.child:run_envelope"


def test_what_is_packed_is_unpacked(request_for: Make) -> None:
    """Program, input, identity, limits, policy, tools, clock: the child has the same."""
    policy = Policy(summary_bytes=7, artifact_kinds=("note",))
    limits = Limits(max_depth=2, timeout_seconds=1.5)
    request = request_for(
        "works", {"x": [1, "é"]}, limits=limits, policy=policy, clock=FixedClock()
    )

    line = pack(request, entry=_ENTRY)
    found = unpack(line)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    for name in ("program", "input", "identity", "limits", "policy", "log", "durability", "clock"):
        assert getattr(found, name) == getattr(request, name), name
    assert [one.name for one in found.tools] == ["add", "ponder"]


def test_a_child_works_where_its_parent_does(request_for: Make) -> None:
    """The same import path and working directory, absolute."""
    envelope = json.loads(pack(request_for("works", log=Path("here.1.jsonl")), entry=_ENTRY))

    assert envelope["cwd"] == os.getcwd()  # noqa: PTH109 - as the child gets it
    assert envelope["sys_path"] == [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - the same
    assert envelope["log"] == os.path.abspath("here.1.jsonl")  # noqa: PTH100 - the same


def test_another_version_is_refused(request_for: Make) -> None:
    """Parent and child may be different installations."""
    envelope = json.loads(pack(request_for("works"), entry=_ENTRY))
    envelope["version"] = 999

    with pytest.raises(LogUnsupported, match="999"):
        unpack(json.dumps(envelope).encode())


def test_what_another_process_cannot_import_is_refused(request_for: Make) -> None:
    """A nested program, a nested tool, a model without a reference: each by its name."""

    async def nested(_run: Any, _input: Any) -> None:
        """Be unreachable."""

    @tool(effect="pure")
    def local() -> int:
        return 1

    model = FunctionModel(lambda _request: ModelReply(message={}))

    with pytest.raises(ProgramNotFound, match="module level"):
        pack(request_for(nested), entry=_ENTRY)
    with pytest.raises(ToolRefused, match="local"):
        pack(request_for("works", tools=(local,)), entry=_ENTRY)
    with pytest.raises(UsageError, match="reference"):
        pack(request_for("works", models={"": model}), entry=_ENTRY)
