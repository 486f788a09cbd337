"""What every command prints with `--json` is one document, exactly as its schema says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from refold.cli.schema.documents import DOCUMENTS, schema
from refold.engine.children.reply import REPLY
from refold.engine.errors import RunEnded
from refold.engine.log.pack import pack
from refold.engine.runners.recording import record
from tests.support.fixtures import LOGS
from tests.support.loops import for_each
from tests.support.schemas import validate
from tests.support.stores import folder_store

Invoke = Callable[..., Result]


def _check(name: str, said: Result) -> Any:
    document = json.loads(said.stdout)
    validate(document, name)
    return document


@for_each("name", DOCUMENTS)
def test_each_schema_is_printed(name: str, invoke: Invoke) -> None:
    assert json.loads(invoke("schema", name).stdout) == schema(name)


def test_the_reply_of_a_child_has_all_that_is_read_of_it() -> None:
    """Another runner is written from this schema."""
    reply = schema("delegation")["properties"]["reply"]

    assert {*reply["properties"]} == {*REPLY.needed, *REPLY.more}
    assert {*reply["required"]} == {*REPLY.needed}


def test_each_schema_is_one() -> None:
    """Several have the same parts, each of which is checked once."""
    parts: dict[str, Any] = {}
    for name in DOCUMENTS:
        whole = schema(name)
        for part in (*whole.pop("$defs", {}).values(), whole):
            parts[json.dumps(part)] = part

    jsonschema.Draft202012Validator.check_schema({"anyOf": [*parts.values()]})


def test_all_schemas_are_listed(invoke: Invoke) -> None:
    listed = invoke("schema").stdout

    assert [name for name in DOCUMENTS if name not in listed] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("verify", ["verify", "LOG"]),
        ("replay", ["replay", "LOG"]),
        ("replays", ["replay", "FOLDER"]),
        ("show", ["show", "LOG"]),
        ("events", ["show", "LOG", "--events"]),
        ("events", ["show", "LOG", "--events", "-n", "2"]),
        ("event", ["show", "LOG", "--entry", "1"]),
        ("turn", ["show", "ASKED", "--turn", "1"]),
        ("event", ["show", "LOG", "--entry", "-1"]),
        ("diff", ["diff", "LOG", "LOG"]),
        ("state", ["show", "LOG", "--at", "-1"]),
        ("state", ["show", "LOG", "--at", "3"]),
        ("state-diff", ["show", "LOG", "--at", "3", "--to", "-1"]),
        ("why", ["why", "LOG", "-1"]),
        ("why", ["why", "LOG", "3", "--all"]),
        ("ls-diff", ["ls", "LOG", "--diff", "LOG"]),
        ("ls", ["ls", "FOLDER"]),
        ("export", ["export", "LOG", "--to", "html", "-o", "TARGET"]),
    ],
)
def test_the_document_of_each_command_is_as_its_schema_says(
    name: str, words: list[str], survey_log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    places = {
        "LOG": str(survey_log),
        "ASKED": str(LOGS / "watched.jsonl"),
        "FOLDER": str(survey_log.parent),
        "TARGET": str(tmp_path / "a"),
    }

    said = invoke(*(places.get(word, word) for word in words), "--json")

    assert said.exit_code == 0
    _check(name, said)


def test_what_fails_is_as_the_schemas_say_too(tmp_path: Path, invoke: Invoke) -> None:
    """A divergence, a difference, an unsealed log with damage, a failed run."""
    (tmp_path / "now.py").write_text("async def first(run, x):\n    run.annotate('b', [1])\n")
    log = record(first, 1, log=tmp_path / "a.jsonl").log
    other = record(second, 2, log=tmp_path / "b.jsonl").log

    replayed = invoke("replay", log, "--program", f"{tmp_path / 'now.py'}:first", "--json")
    compared = invoke("diff", log, other, "--json")
    log.write_bytes(log.read_bytes()[:-4])
    verified = invoke("verify", log, "--json")

    assert (replayed.exit_code, compared.exit_code, verified.exit_code) == (1, 1, 3)
    assert not _check("replay", replayed)["identical"]
    assert _check("diff", compared)["count"] > 0
    assert _check("verify", verified)["logs"][0]["damage"]
    assert _check("show", invoke("show", other, "--json"))["error"]["code"] == "stopped"


async def first(run: Any, _: Any) -> None:
    """Annotate."""
    run.annotate("a", [1])


async def second(_: Any, __: Any) -> None:
    """Fail."""
    raise RunEnded("stopped", "on purpose")


def test_packing_is_as_its_schema_says(survey_log: Path, tmp_path: Path, invoke: Invoke) -> None:
    out = tmp_path / "x.refold"

    document = _check("export", invoke("export", survey_log, "--to", "refold", "-o", out, "--json"))

    assert document["exported"] == str(out)
    assert _check("show", invoke("show", out, "--json"))["log"] == f"{out}:survey.jsonl"


def test_moving_runs_is_as_its_schema_says(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """There, back, and listed; what was refused stands in it, too."""
    url = folder_store(tmp_path / "store")

    moved = _check("store", invoke("push", survey_log, url, "--json"))
    listed = _check("store", invoke("ls", url, "--json"))
    refused = _check("store", invoke("pull", url, "none", "--to", tmp_path / "got", "--json"))

    assert moved["runs"][0]["head"] == listed["runs"][0]["head"]
    assert refused["runs"][0]["status"] == "refused"


def test_a_large_text_stands_in_an_event_as_a_reference(tmp_path: Path, invoke: Invoke) -> None:
    log = record(first, "x" * 40_000, log=tmp_path / "a.jsonl").log

    whole = _check("event", invoke("show", log, "--entry", "0"))
    listed = _check("events", invoke("show", log, "--events", "--json"))

    assert whole["data"]["input"] == "x" * 40_000
    assert listed["entries"][0]["data"]["input"]["bytes"] == 40_000
    assert pack(log, tmp_path / "a.refold").exists()


@pytest.mark.parametrize(
    ("name", "words", "places"),
    [
        ("state", ["show", "LOG", "--at", "-1"], ["digest", "recorded_digest", "state/status"]),
        (
            "state-diff",
            ["show", "LOG", "--at", "1", "--to", "2"],
            ["before_digest", "after_digest"],
        ),
    ],
)
def test_what_is_no_head_is_not_as_the_schema_says(
    name: str, words: list[str], places: list[str], survey_log: Path, invoke: Invoke
) -> None:
    """A digest is 64 hex digits, and a state says at least how it stands."""
    said = invoke(*(survey_log if word == "LOG" else word for word in words), "--json")

    for place in places:
        document = _check(name, said)
        if place == "state/status":
            del document["state"]["status"]
        else:
            document[place] = "x"
        with pytest.raises(jsonschema.ValidationError):
            validate(document, name)
