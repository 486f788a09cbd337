"""Prompts render sections with values; registries are values; tools of prompts keep nothing."""

import dataclasses
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest

from refold.engine.errors import PromptRefused, ToolError, ToolRefused, ToolValidationError
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import CallContext
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.tools.agents.prompts import (
    MarkdownSection,
    Prompt,
    PromptRegistry,
    PromptTool,
    ToolContext,
    ToolResult,
    context_of,
    use_prompt,
)
from refold.tools.contract.tool_types import is_tool, tool
from refold.tools.delegation.dispatch_subagents import SubagentResult


@dataclasses.dataclass
class Body:
    body: str


@attrs.frozen
class Tone:
    tone: str = "plain"


@tool(effect="pure")
def one() -> int:
    """Give one."""
    return 1


@tool(effect="pure", name="one")
def another_one() -> int:
    return 1


def section(key: str, template: str, **more: Any) -> MarkdownSection[Any]:
    return MarkdownSection[Any](title=key.title(), key=key, template=template, **more)


# --- rendering ----------------------------------------------------------------------------------


def test_sections_are_numbered_and_filled_in_from_their_own_parameters() -> None:
    prompt = Prompt[str](
        ns="weekly",
        key="update",
        sections=(
            MarkdownSection[Body](title="Update", key="update", template="${body}"),
            MarkdownSection[Tone](
                title="Tone", key="tone", template="Be ${tone}.", default_params=Tone("kind")
            ),
        ),
    )

    rendered = prompt.render(Body("Summarize blockers."))

    assert rendered.text == "## 1. Update\n\nSummarize blockers.\n\n## 2. Tone\n\nBe kind."
    assert (rendered.ns, rendered.key) == ("weekly", "update")
    assert prompt.render(Body("x"), Tone("curt")).text.endswith("Be curt.")


def test_values_fill_all_sections_and_win() -> None:
    sections = (section("a", "${name}", default_params=Tone()), section("b", "${tone} ${name}"))
    prompt = Prompt[str](ns="n", key="k", sections=sections)

    rendered = prompt.render(Tone("loud"), values={"name": "N", "tone": "soft"})

    assert rendered.text == "## 1. A\n\nN\n\n## 2. B\n\nsoft N"


def test_only_sections_that_accept_it_are_overridden() -> None:
    sections = (section("open", "was", accepts_overrides=True), section("shut", "stays"))
    prompt = Prompt[str](ns="n", key="k", sections=sections)

    assert "is now" in prompt.render(overrides={"open": "is now"}).text
    for key in ("shut", "absent"):
        with pytest.raises(PromptRefused, match=rf"n/k: no override for \['{key}'\]; open: open"):
            prompt.render(overrides={key: "x"})


@pytest.mark.parametrize(
    ("template", "message"),
    [("${absent}", r"no value for \$\{absent\}"), ("5 $", "write \\$\\$ for a dollar")],
)
def test_a_template_that_cannot_be_filled_in_is_refused(template: str, message: str) -> None:
    with pytest.raises(PromptRefused, match=message):
        Prompt[str](ns="n", key="k", sections=(section("s", template),)).render()


def test_tools_are_those_of_the_sections_by_name() -> None:
    sections = (section("a", "", section_tools=(one,)), section("b", "", section_tools=(one,)))

    rendered = Prompt[str](ns="n", key="k", sections=sections).render()

    assert rendered.tools == (one,)
    assert [(each.name, each.parameters) for each in rendered.definitions] == [
        ("one", one.parameters)
    ]


def test_two_tools_of_one_name_are_refused() -> None:
    sections = (section("a", "", section_tools=(one, another_one)),)

    with pytest.raises(PromptRefused, match="two tools are named 'one'"):
        Prompt[str](ns="n", key="k", sections=sections).render()


def test_the_output_type_is_a_class_of_fields_or_none() -> None:
    assert Prompt[Tone](ns="n", key="k").output_type is Tone
    assert Prompt[Body](ns="n", key="k").render().output_type is Body
    assert Prompt[str](ns="n", key="k").output_type is None
    assert Prompt(ns="n", key="k").output_type is None


# --- the registry -------------------------------------------------------------------------------


def test_a_registry_finds_what_is_registered_and_enabled() -> None:
    registry = PromptRegistry()
    registry.register("n", "k", lambda session: Prompt(ns="n", key=session.id))
    registry.register("n", "off", lambda session: Prompt(ns="n", key=session.id), enabled=False)

    factory = registry.resolve("n", "k")
    assert factory is not None
    assert factory(session=Session(id="mine")).key == "mine"
    assert registry.resolve("n", "off") is None
    assert registry.resolve("n", "absent") is None

    registry.enable("n", "off")
    registry.enable("n", "k", enabled=False)
    assert registry.resolve("n", "off") is not None
    assert registry.resolve("n", "k") is None


def test_a_name_is_registered_once() -> None:
    registry = PromptRegistry()
    registry.register("n", "k", Prompt)

    with pytest.raises(ValueError, match="Prompt already registered for namespace='n' key='k'"):
        registry.register("n", "k", Prompt)


# --- results, contexts, tools -------------------------------------------------------------------


def test_a_result_renders_as_its_value_does() -> None:
    assert ToolResult("said", None).render() == "said"
    result = ToolResult("said", SubagentResult("out", success=True))
    assert result.render() == "Subagent succeeded:\n\nout"
    assert result.as_json() == {
        "message": "said",
        "value": {"output": "out", "success": True, "error": None},
        "success": True,
    }


def said(params: Tone, *, context: ToolContext) -> ToolResult[str]:
    rendered = context.rendered_prompt
    assert rendered is not None
    return ToolResult(params.tone, f"{rendered.ns}/{rendered.key} {context.session is not None}")


SAY = PromptTool(name="say", description="Say it.", params=Tone, handler=said)


def test_a_prompts_tool_is_a_tool_with_the_schema_of_its_class() -> None:
    assert is_tool(SAY)
    jsonschema.validate({"tone": "x"}, SAY.parameters)
    jsonschema.validate({}, SAY.parameters)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tone": 1}, SAY.parameters)
    with pytest.raises(ToolRefused, match="runs on the kernel"):
        SAY.call({}, CallContext(call="", run_id="", depth=0, origin=""))


def test_arguments_are_read_strictly() -> None:
    assert SAY.params_of({"tone": "x"}) == Tone("x")
    with pytest.raises(ToolValidationError, match="arguments: at /tone: expected a string, found"):
        SAY.params_of({"tone": 3})
    with pytest.raises(ToolValidationError, match="did you mean 'tone'"):
        SAY.params_of({"tune": "x"})


def test_a_call_stands_on_the_prompt_and_the_session_of_its_run(tmp_path: Path) -> None:
    rendered = Prompt[str](ns="weekly", key="team", sections=(section("a", "Text."),)).render()

    async def program(run: Run, _input: Any) -> list[Any]:
        before = await run.tool(SAY, tone="a")
        use_prompt(run, rendered)
        return [before["value"], (await run.tool(SAY))["value"]]

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, session=Session())

    assert recording.output == ["refold/run True", "weekly/team True"]
    (note,) = [entry.data for entry in read_entries(log) if entry.kind == "note.added"]
    assert note["data"] == {
        "ns": "weekly",
        "key": "team",
        "text": "## 1. A\n\nText.",
        "tools": [],
    }


def test_so_it_does_in_a_plain_program(tmp_path: Path) -> None:
    rendered = Prompt[str](ns="weekly", key="team").render()

    def program(run: PlainRun, _input: Any) -> list[Any]:
        use_prompt(run, rendered)
        direct = said(Tone(), context=context_of(run))
        return [run.tool(SAY)["value"], direct.value]

    recording = record(program, log=tmp_path / "run.jsonl")

    assert recording.output == ["weekly/team False"] * 2


def test_a_refusal_is_a_failed_call(tmp_path: Path) -> None:
    async def program(run: Run, _input: Any) -> str:
        with pytest.raises(ToolError) as failed:
            await run.tool(SAY, tone=1)
        return failed.value.error_type

    assert record(program, log=tmp_path / "run.jsonl").output == "ToolValidationError"
