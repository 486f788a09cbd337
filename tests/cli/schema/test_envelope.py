"""What is sent to a subprocess child, and what it hands back, is as `refold schema delegation`."""

import functools
import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result
from jsonschema import Draft202012Validator

from refold.cli.schema.documents import schema
from refold.engine.children.envelope import VERSION, pack
from refold.engine.children.reply import frame_of
from refold.engine.events.events import RunFinished
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Fault, Usage
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import ChildRequest, Identity, Parentage, Policy, Reference
from refold.tools.configuration.prepared_run import planned
from refold.tools.delegation.subagent import subagent_tool

_ENTRY = "refold.engine.runners.child:run_envelope"

Invoke = Callable[..., Result]


@functools.cache
def part(name: str) -> Draft202012Validator:
    found = schema("delegation")["properties"][name]
    Draft202012Validator.check_schema(found)  # once: `jsonschema.validate` does so each time
    return Draft202012Validator(found)


@pytest.mark.parametrize("whole", [True, False])
def test_the_request_is_as_the_schema_says(tmp_path: Path, *, whole: bool) -> None:
    parent = Parentage(run="r", call="0#1", hash="0" * 64) if whole else None
    request = ChildRequest(
        program=Reference("refold.engine.program.agent", "agent"),
        program_name="agent",
        brief="dig",
        input={"task": "dig"},
        identity=Identity(run_id="c", root_id="r", path="0#1", depth=1, seed="ab", parent=parent),
        limits=Limits(max_depth=1, timeout_seconds=1.5) if whole else Limits(),
        policy=Policy(artifact_kinds=("note",)),
        log=tmp_path / "run.1.jsonl" if whole else None,
        tools=(subagent_tool(),) if whole else (),
        models={"": ScriptedModel(["a"])} if whole else {},
        clock=FixedClock() if whole else None,
        session=planned() if whole else None,
    )

    envelope = json.loads(pack(request, entry=_ENTRY))

    part("request").validate(envelope)
    assert envelope["version"] == VERSION
    for name in envelope:
        with pytest.raises(jsonschema.ValidationError):
            part("request").validate({k: v for k, v in envelope.items() if k != name})
    with pytest.raises(jsonschema.ValidationError):
        part("request").validate({**envelope, "more": 1})


@pytest.mark.parametrize(
    "finished",
    [
        RunFinished("completed", "done", {"a": 1}, summary="s", artifacts=[]),
        RunFinished("failed", "error", error=Fault(code="raised", message="no")),
    ],
)
def test_the_reply_is_as_the_schema_says(finished: RunFinished) -> None:
    reply = json.loads(frame_of(finished, tools_used=("look",), usage=Usage(requests=1)))

    part("reply").validate(reply)
    with pytest.raises(jsonschema.ValidationError):
        part("reply").validate({**reply, "status": "fine"})


def test_it_is_printed_and_says_its_version(invoke: Invoke) -> None:
    printed = json.loads(invoke("schema", "delegation").stdout)

    assert f"Version {VERSION}" in printed["description"]
    assert list(printed["properties"]) == ["request", "reply"]
