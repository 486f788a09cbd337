"""The envelope: all that a subprocess child is told, in one line (CONTRACT.md §7.5)."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.children.envelope import pack, unpack
from refold.engine.errors import LogUnsupported, ProgramNotFound, ToolRefused, UsageError
from refold.engine.events.limits import Limits
from refold.engine.models.scripted import FunctionModel, ScriptedModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import ChildRequest, ModelReply, People, Policy
from refold.engine.secrets.redaction import Redaction
from refold.engine.secrets.vault import Vault
from refold.replay.resume.resume import CONTINUED
from refold.tools.contract.tool_types import tool
from tests.engine.conftest import Make

_ENTRY = "refold.engine.runners.child:run_envelope"


def test_what_is_packed_is_unpacked(request_for: Make) -> None:
    """The child has the same, but for what another process makes anew."""
    one = frozenset({"0#2"})
    request = request_for(
        "works",
        {"x": [1, "é"]},
        brief="Look",
        limits=Limits(max_depth=2, timeout_seconds=1.5),
        policy=Policy(summary_bytes=7, artifact_kinds=("note",)),
        durability="line",
        runner="subprocess",
        people=People(answers={"0#1": 3}, by="Ada", retry=one, fail=one, results={"0#4": [1]}),
        resume=CONTINUED,
        clock=FixedClock(),
    )

    line = pack(request, entry=_ENTRY)
    found = unpack(line)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    anew = {"cancel", "host", "runners", "tools"}
    for name in attrs.fields_dict(ChildRequest).keys() - anew:
        assert getattr(found, name) == getattr(request, name), name
    assert [one.name for one in found.tools] == ["add", "ponder"]


def test_models_secrets_and_what_asks_for_tokens_come_along(request_for: Make) -> None:
    """A model is made by its reference, a vault of its rules and values."""
    rules = Redaction(paths={"run": ["/output/key"]}, tools=["add"])
    vault = Vault(rules, secrets={"key": "a long secret"}, volatile=["run/output/at"])
    request = request_for("works", vault=vault, models={"": ScriptedModel(["said"], "mine")})
    reading, writing = os.pipe()

    found = unpack(pack(request, entry=_ENTRY, tokens_fd=reading))

    assert found.vault is not None
    assert found.vault.packed() == vault.packed()
    assert found.vault.scrubbed("a long secret") == vault.scrubbed("a long secret")
    assert {name: model.name for name, model in found.models.items()} == {"": "mine"}
    assert found.tokens is not None
    assert found.tokens(1, None, lambda: True) == 0
    os.close(reading)
    os.close(writing)


def test_a_child_works_where_its_parent_does(request_for: Make) -> None:
    """The same import path and working directory, absolute."""
    envelope = json.loads(pack(request_for("works", log=Path("here.1.jsonl")), entry=_ENTRY))

    assert envelope["cwd"] == os.getcwd()  # noqa: PTH109 - as the child gets it
    assert envelope["sys_path"] == [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - the same
    assert envelope["log"] == os.path.abspath("here.1.jsonl")  # noqa: PTH100 - the same


def test_paths_may_have_bytes_that_are_not_utf8(
    request_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them: of the program, of modules and of the log."""
    monkeypatch.setattr(sys, "path", [*sys.path, "/caf\udce9"])
    request = attrs.evolve(request_for("works"), log=Path("/caf\udce9/a.1.jsonl"))

    line = pack(request, entry=_ENTRY)

    assert json.loads(line)["sys_path"][-1] == "/caf\udce9"
    assert unpack(line).log == request.log


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
