"""What else is not as it was recorded, by name (CONTRACT.md §12.5)."""

import copy
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.encoding import digest
from refold.engine.events.events import ModelAnswered, ModelAsked, RunStarted
from refold.engine.log.writer import LogWriter
from refold.engine.models.scripted import ScriptedModel
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.explain.divergence import Divergence
from refold.replay.explain.fingerprints import conversation
from refold.replay.index.asked_items import Item
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from refold.tools.files.file_tools import file_tools

PROMPT = "You review code.\nBe kind.\nSay why."


@attrs.frozen
class Asked:
    """What a program asks its model with."""

    system: str = PROMPT
    temperature: float = 0.2
    model: str = ""
    offered: int = 2
    last: str = "And then?"
    more: dict[str, Any] = attrs.field(factory=dict)


def program_with(asked: Asked) -> Any:
    async def asks(run: Run, _input: Any) -> Any:
        messages: list[Any] = [
            {"role": "system", "content": asked.system},
            {"role": "user", "content": "Look at this."},
        ]
        options: dict[str, Any] = {"temperature": asked.temperature, "model": asked.model}
        options |= asked.more
        offered = list(run.tools)[: asked.offered]
        reply = await run.model(messages, tools=offered, **options)
        messages += [reply.message, {"role": "user", "content": asked.last}]
        return (await run.model(messages, tools=offered, **options)).message["content"]

    return asks


def search_tool(description: str = "Find something.", limit: type = int) -> Any:
    def search(q: str, limit: Any = 3) -> str:
        return f"{q}{limit}"

    search.__doc__ = description
    search.__annotations__["limit"] = limit
    return tool(effect="reads")(search)


@tool(effect="reads")
def fetch(q: str) -> str:
    """Get something."""
    return q


def changed(tmp_path: Path, now: Asked, before: Asked | None = None, **options: Any) -> Divergence:
    """Record one program, re-execute another, and return what differs."""
    models = {"": ScriptedModel(["one", "two"]), "other": ScriptedModel(["three"], name="other-1")}
    tools = [search_tool(), fetch]
    log = record(
        program_with(before or Asked()), log=tmp_path / "a.jsonl", models=models, tools=tools
    ).log
    options.setdefault("tools", tools)
    (found,) = reexecute(log, program_with(now), **options).divergences
    return found


def test_a_parameter_is_named(tmp_path: Path) -> None:
    """With both values, by its JSON pointer."""
    found = changed(tmp_path, Asked(temperature=0.7))

    assert found.category == "args_changed"
    assert found.fingerprints == {"parameters /temperature": ("0.2", "0.7")}


def test_a_parameter_more_and_one_less_are_named(tmp_path: Path) -> None:
    """With nothing where there was none."""
    found = changed(tmp_path, Asked(more={"seed": 2}), before=Asked(more={"top_p": 1}))

    assert found.fingerprints == {"parameters /seed": ("", "2"), "parameters /top_p": ("1", "")}
    assert "none → 2" in str(found)


def test_another_model_is_named(tmp_path: Path) -> None:
    """By the names that the record knows them by."""
    found = changed(tmp_path, Asked(model="other"))

    assert found.category == "name_changed"
    assert found.fingerprints["model"][1] == "other-1"


def test_a_system_prompt_is_named_and_shown_line_by_line(tmp_path: Path) -> None:
    """So that a person can act on it without opening the log."""
    found = changed(tmp_path, Asked(system=PROMPT.replace("kind", "strict")))

    assert "prompt, message 0 (system)" in found.fingerprints
    (later,) = found.later
    assert "differs   the conversation before these messages" in str(later)
    assert "predecessor" not in str(later)
    (text,) = found.texts
    assert text.what == "message 0 (system)"
    assert text.lines == (" You review code.", "-Be kind.", "+Be strict.", " Say why.")
    assert "            -Be kind.\n            +Be strict." in str(found)


def test_a_later_message_is_shown_in_its_place_of_the_conversation(tmp_path: Path) -> None:
    """Though a log holds each message once, and the request names only what it adds."""
    found = changed(tmp_path, Asked(last="And what then?"))

    assert (found.call, [text.what for text in found.texts]) == ("0#2", ["message 3 (user)"])
    assert found.texts[0].lines == ("And {+what +}then?",)


def test_a_tool_less_is_named(tmp_path: Path) -> None:
    """What a model is offered is part of what it is asked."""
    found = changed(tmp_path, Asked(offered=1))

    assert found.fingerprints == {"tool search: offered": ("offered", "")}


@pytest.mark.parametrize(
    ("now", "name", "pair"),
    [
        (
            search_tool("Look for it."),
            "tool search: description",
            ('"Find something."', '"Look for it."'),
        ),
        (
            search_tool(limit=str),
            "tool search: schema /properties/limit/type",
            ('"integer"', '"string"'),
        ),
    ],
    ids=["description", "schema"],
)
def test_a_part_of_a_tool_is_named(
    tmp_path: Path, now: Any, name: str, pair: tuple[str, str]
) -> None:
    """Its text, or the place in its schema, as it was and as it is."""
    found = changed(tmp_path, Asked(temperature=1), tools=[now, fetch])

    assert found.fingerprints[name] == pair
    assert name in str(found)


def test_a_fingerprint_alone_is_no_divergence(tmp_path: Path) -> None:
    """It explains, and never decides."""
    log = record(
        program_with(Asked()),
        log=tmp_path / "a.jsonl",
        model=ScriptedModel(["one", "two"]),
        tools=[search_tool(), fetch],
    ).log

    assert reexecute(log, program_with(Asked()), tools=[search_tool(), fetch]).identical


def program_that_reads(kind: type) -> Any:
    async def reads(run: Run, task: Any) -> Any:
        return (await run.tool(fetch, q=repr(task))) + str(run.now())

    reads.__annotations__["task"] = kind
    return reads


def test_a_field_that_the_input_gets_from_its_type_is_named(tmp_path: Path) -> None:
    """It is the cause, and not something outside run; a field that the recording has is not."""
    fields = {"topic": attrs.field(type=str), "depth": attrs.field(type=int, default=2)}
    old, same = (attrs.make_class("Task", fields) for _ in range(2))
    new = attrs.make_class("Task", fields | {"style": attrs.field(type=str, default="plain")})
    log = record(program_that_reads(old), old("x"), log=tmp_path / "a.jsonl").log

    (found,) = reexecute(log, program_that_reads(new)).divergences

    assert found.fingerprints["input /style"] == ("", '"plain"')
    assert "the program's input has /style, which the recorded input lacks" in found.cause
    assert reexecute(log, program_that_reads(same)).identical


def test_a_conversation_goes_on_from_a_request_that_failed(tmp_path: Path) -> None:
    """An answer without a message adds none."""
    hi, again = ({"role": "user", "content": text} for text in ("hi", "again"))
    started = RunStarted("p", None, 0, {}, "", [], {"format": 1}, {}, {}, "", "r", "r", nonce="0")
    at = digest.chained("", hi)
    with LogWriter.create(tmp_path / "a.jsonl", started, durability="fast") as log:
        log.append(ModelAsked("m", "", 0, [hi], {}), "0#1")
        log.append(ModelAnswered("error", error={"code": "x", "message": ""}), "0#1")
        log.append(ModelAsked("m", at, 1, [again], {}), "0#2")
    item = Item("model", "m", {"predecessor": at, "added": [again]}, "0#2", 3)

    assert conversation(tmp_path / "a.jsonl", item) == [hi, again]


@pytest.mark.parametrize(
    ("release", "says"),
    [
        ("0.0.9", "the log was recorded with Refold 0.0.9, and Refold"),
        (refold.__version__, "the definition of "),
    ],
)
def test_a_shipped_tool_of_another_release_is_named_as_that(
    release: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§12.5: the program did not change it."""
    now = [tool for tool in file_tools(tmp_path) if tool.name in ("list_files", "read_file")]
    before = [copy.copy(tool) for tool in now]
    vars(before[-1]).update(description="Older words.")
    with monkeypatch.context() as older:
        older.setattr(refold, "__version__", release)
        log = refold.record(
            "agent",
            {"task": "x"},
            log=tmp_path / "a.jsonl",
            tools=before,
            model=ScriptedModel(["a"]),
        ).log

    (found,) = refold.reexecute(log, tools=now).divergences

    is_ours = release != refold.__version__
    assert found.category == ("environment" if is_ours else "args_changed")
    assert found.cause.startswith(says)
    assert "read_file" in found.cause
    assert "list_files" not in found.cause

    @tool(effect="reads")
    def read_file(path: str) -> str:
        """Read it in another way."""
        return path

    own = read_file
    mixed = refold.reexecute(log, tools=[now[0], own]).divergences
    assert [one.category for one in mixed] == ["args_changed"]
