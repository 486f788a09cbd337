"""A call with an unknown parameter is refused with the nearest one (CONTRACT.md §9.6)."""

import asyncio
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import tools
from refold.engine.encoding.parameters import names_nearest
from refold.tools import Policy
from tests.support.loops import for_each

api: Any = refold
"""Seen by no type checker, so that calls can be wrong."""


async def child(_run: refold.Run, number: int) -> int:
    return number


@for_each(
    "call, name, near",
    [
        (lambda: api.Limits(timeout=10), "timeout", "timeout_seconds"),
        (lambda: api.Delegation(program=child, inputs=1), "inputs", "input"),
        (lambda: Policy(summary=1), "summary", "summary_bytes"),  # type: ignore[call-arg]
        (lambda: api.Redaction(secret=[]), "secret", "secrets"),
        (lambda: api.Sources(child=1), "child", "children"),
        (lambda: api.record(child, 1, label={}), "label", "labels"),
        (lambda: api.record_async(child, 1, label={}), "label", "labels"),
        (lambda: api.resume("a.jsonl", tool=[]), "tool", "tools"),
        (lambda: api.fork("a.jsonl", into="b.jsonl", edit={}), "edit", "edits"),
        (lambda: api.reexecute("a.jsonl", volatil=[]), "volatil", "volatile"),
        (lambda: api.tool(effects="reads"), "effects", "effect"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_nearest(
    call: Callable[[], Any], name: str, near: str
) -> None:
    with pytest.raises(TypeError) as refused:
        call()

    said = f"got an unexpected keyword argument {name!r}. Did you mean {near!r}?"
    assert str(refused.value).endswith(said)
    assert str(refused.value).count("Did you mean") == 1


TEXTS: list[Callable[[Any], object]] = [
    lambda given: tools.AgentDef(id="a", name="a", description="d", tools=given),
    lambda given: tools.AgentDef(id="a", name="a", description="d", disallowed_tools=given),
    lambda given: tools.AgentLoader("agents", known_tools=given),
    lambda given: tools.load_agent("agents", known_tools=given),
    lambda given: tools.SpawnProfile(tools=given),
    lambda given: tools.SpawnProfile(bootstrap_files=given),
    lambda given: tools.SubAgentFactory(default_bootstrap_files=given),
    lambda given: tools.SubagentTask("a", given),
    lambda given: tools.subagent_tool(tools=given),
    lambda given: tools.run_command_tool(".", allow=given),
    lambda given: tools.run_command_tool(".", allow=["ls"], environment=given),
    lambda given: tools.Config(disabled=given),
    lambda given: Policy(artifact_kinds=given),
]


@pytest.mark.parametrize("make", TEXTS)
@pytest.mark.parametrize("given", ["look", ["look", 3], {"look": 1}, 3])
def test_texts_are_a_list_of_texts(make: Callable[[Any], object], given: Any) -> None:
    """One text would be read as its letters."""
    with pytest.raises(refold.UsageError, match="expected a list of strings, "):
        make(given)


def test_other_type_errors_stay_as_they_are(tmp_path: Path) -> None:
    """Of a missing argument, of a name that is near to none, and from inside of the call."""
    with pytest.raises(TypeError, match=r"missing 1 required keyword-only argument: 'into'"):
        api.fork(tmp_path / "a.jsonl", 3)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'$"):
        api.Limits(zzz=1)
    with pytest.raises(TypeError, match=r"^from inside$"):
        failing(names=1)


@names_nearest
def failing(*, _name: int = 0, **_more: int) -> None:
    raise TypeError("from inside")


def test_signatures_are_unchanged() -> None:
    assert next(iter(inspect.signature(refold.Limits).parameters)) == "max_depth"
    assert list(inspect.signature(refold.record).parameters)[:2] == ["program", "input"]


def test_a_warning_names_the_line_that_called(tmp_path: Path) -> None:
    async def blocking() -> None:
        refold.record(child, 1, log=tmp_path / "a.jsonl")

    with pytest.warns(RuntimeWarning, match="blocked the running event loop") as caught:
        asyncio.run(blocking())

    assert [each.filename for each in caught] == [__file__]


@pytest.mark.long
def test_a_finding_names_the_line_that_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFOLD_CHECK", "1")
    monkeypatch.setenv("READ_DIRECTLY", "1")

    with pytest.warns(RuntimeWarning, match=r"run\.environment") as caught:
        refold.record(reads_a_variable, log=tmp_path / "a.jsonl")

    assert {each.filename for each in caught} == {__file__}


def reads_a_variable(_run: refold.PlainRun, _input: object) -> str:
    return os.environ["READ_DIRECTLY"]


def _untyped(number) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return int(number)


@for_each(
    "call",
    [
        lambda: refold.record(child, b"1"),
        lambda: refold.record(child, "1"),
        lambda: refold.tool(effect="reads")(_untyped),
        lambda: refold.tool(_untyped),
        lambda: refold.diff(__file__, __file__),
        lambda: refold.state(__file__, -1),
        lambda: refold.why(__file__, -1),
    ],
)
def test_the_traceback_of_a_wrong_call_has_no_line_from_inside(call: Callable[[], Any]) -> None:
    """The wrong line is the last but one."""
    with pytest.raises(refold.RefoldError) as refused:
        call()

    files = [Path(str(each.path)).name for each in refused.traceback]
    assert files[-2:] == ["test_parameters.py", "parameters.py"]


@pytest.mark.parametrize("given", ["look", 7, [7], None])
@pytest.mark.parametrize(
    "setting",
    [
        lambda given: tools.SpawnProfile(tools=given),
        lambda given: tools.SpawnProfile(bootstrap_files=given),
        lambda given: tools.SubAgentFactory(default_bootstrap_files=given),
        lambda given: tools.SubagentTask("do it", given),
        lambda given: tools.subagent_tool(tools=given or "look"),
    ],
)
def test_texts_are_not_a_text(setting: Callable[[Any], Any], given: Any) -> None:
    """Its letters would be taken for names."""
    with pytest.raises(refold.UsageError, match="expected a list of strings"):
        setting(given)
