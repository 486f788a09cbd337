"""A program holds a secret by its name, and a tool is given the value (CONTRACT.md §3.9)."""

import dataclasses
import enum
import os
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.encoding.secret import Secret, handles_in, put
from refold.engine.errors import UsageError
from refold.engine.log.reader import read_entries
from refold.engine.models import ScriptedModel
from tests.support.loops import for_each


@attrs.frozen
class Login:
    user: str
    password: Any


@refold.tool(effect="reads")
def length(token: str, extra: dict[str, Any] | None = None) -> list[int]:
    """Tell how long the tokens are that it was given."""
    return [len(token), *(len(str(value)) for value in (extra or {}).values())]


def test_a_tool_is_given_the_value_and_the_log_the_name(tmp_path: Path) -> None:
    """Wherever the handle stands in the arguments."""

    async def program(run: refold.Run, _input: object) -> Any:
        handle = run.secret("TOKEN")
        return await run.tool(length, token=handle, extra={"again": handle})

    recording = refold.record(
        program, log=tmp_path / "a.jsonl", secrets={"TOKEN": "twelve-chars"}, check=True
    )

    asked = list(read_entries(recording.log, resolve=True))[1]
    assert recording.output == [12, 12]
    assert asked.data["arguments"] == {
        "token": {"$secret": "TOKEN"},
        "extra": {"again": {"$secret": "TOKEN"}},
    }
    assert "twelve-chars" not in recording.log.read_text()


@dataclasses.dataclass
class Account:
    """A class of the standard library."""

    user: str
    password: Any
    length: int = dataclasses.field(default=0, init=False)


@refold.tool(effect="reads")
def enter(login: dict[str, Any]) -> str:
    """Tell the password backwards."""
    return str(login["password"])[::-1]


@pytest.mark.parametrize("kind", [Login, Account])
def test_a_handle_in_an_object_is_one(tmp_path: Path, kind: Any) -> None:
    """Whatever is written as an object: attrs classes and dataclasses."""

    async def program(run: refold.Run, _input: object) -> Any:
        return await run.tool(enter, login=kind("me", run.secret("TOKEN")))

    recording = refold.record(program, log=tmp_path / "a.jsonl", secrets={"TOKEN": "twelve-chars"})

    assert recording.output == "srahc-evlewt"
    asked = list(read_entries(recording.log, resolve=True))[1]
    assert asked.data["arguments"]["login"]["password"] == {"$secret": "TOKEN"}


def test_a_plain_program_has_secrets_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the environment, where `record` was given none of the name."""
    monkeypatch.setenv("FROM_OUTSIDE", "0123456789")

    def program(run: refold.PlainRun, _input: object) -> Any:
        return run.tool(length, token=run.secret("FROM_OUTSIDE"))

    assert refold.record(program, log=tmp_path / "a.jsonl", check=True).output == [10]


def test_what_looks_like_a_handle_reveals_nothing(tmp_path: Path) -> None:
    """A model that writes one as an argument gets its own object back."""

    async def program(run: refold.Run, _input: object) -> Any:
        run.secret("TOKEN")
        return await run.tool(length, token="x", extra={"forged": {"$secret": "TOKEN"}})

    recording = refold.record(program, log=tmp_path / "a.jsonl", secrets={"TOKEN": "twelve-chars"})

    assert recording.output == [1, len(str({"$secret": "TOKEN"}))]


def test_a_secret_that_is_nowhere_fails_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do, in place and on a worker alike; the tool does not run."""
    monkeypatch.delenv("NOWHERE", raising=False)

    @refold.tool(effect="reads", timeout_seconds=30)
    def never(token: str) -> str:
        raise AssertionError(token)

    async def program(run: refold.Run, tool: Any) -> Any:
        try:
            return await run.tool(never if tool else length, token=run.secret("NOWHERE"))
        except refold.ToolError as error:
            return [error.code, error.message]

    for in_place in (0, 1):
        log = tmp_path / f"{'ab'[in_place]}.jsonl"
        code, message = refold.record(program, in_place, log=log, check=True).output
        assert code == "secret"
        assert "NOWHERE" in message
        assert "record(secrets=" in message


def test_asynchronous_tools_and_gathered_ones_are_given_values(tmp_path: Path) -> None:
    """On the host's loop."""
    import asyncio  # noqa: PLC0415 - of this test's program alone

    @refold.tool(effect="reads")
    async def later(token: str) -> int:
        await asyncio.sleep(0)
        return len(token)

    async def program(run: refold.Run, _input: object) -> Any:
        calls = [run.tool(later, token=run.secret("TOKEN")) for _ in range(3)]
        return await asyncio.gather(*calls)

    recording = refold.record(
        program, log=tmp_path / "a.jsonl", secrets={"TOKEN": "twelve-chars"}, check=True
    )

    assert recording.output == [12, 12, 12]


def test_handles_are_found_in_containers_and_classes() -> None:
    """With pointers into the JSON of the arguments."""
    handle = Secret("A")
    given = {"a/b": [1, handle], "login": Login("u", handle), "none": {"x": "y"}}

    found = dict(handles_in(given))

    assert found == {"/a~1b/1": "A", "/login/password": "A"}


@for_each("formatted", [str, "{}".format, "Bearer %s".__mod__, "{:>9}".format])
def test_a_handle_has_no_text(formatted: Any) -> None:
    """The text would be sent in the place of the value, and no error would say so."""
    with pytest.raises(UsageError, match=r"Pass it to a tool.*Bearer \{key\}"):
        formatted(Secret("A"))

    assert repr(Secret("A")) == "<run.secret('A'): pass the handle itself, not its text>"


def test_a_handle_is_refused_where_no_value_takes_its_place(tmp_path: Path) -> None:
    """In a set, which has no places, and in a request to a model; within an enum it is one."""
    keys = enum.Enum("keys", {"SHOP": Secret("TOKEN")})
    shop: Any = keys["SHOP"]

    async def program(run: refold.Run, _input: object) -> Any:
        handle, problems = run.secret("TOKEN"), []
        for call in (
            lambda: run.model([{"role": "user", "content": handle}]),
            lambda: run.tool(length, token="x", extra={"keys": {handle}}),
        ):
            with pytest.raises(UsageError) as caught:
                await call()
            problems.append(str(caught.value))
        return [*problems, await run.tool(length, token=shop)]

    recording = refold.record(
        program, log=tmp_path / "a.jsonl", model=ScriptedModel([]), check=True,
        secrets={"TOKEN": "twelve-chars"},
    )  # fmt: skip

    asked_model, asked_tool, result = recording.output
    assert "only tools receive the value" in asked_model
    assert "pass it in a list" in asked_tool
    assert result == [12]


@refold.tool(effect="reads")
def whoami() -> str:
    return f"key is {os.environ['SHOP_KEY']}"


def test_a_value_is_hidden_from_the_moment_of_its_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any tool was handed it; what was said earlier stays, and replays as it was."""
    monkeypatch.setenv("SHOP_KEY", "k3y-of-the-shop")

    def program(run: refold.PlainRun, is_early: bool) -> list[str]:  # noqa: FBT001 - the input
        early = [run.tool(whoami)] if is_early else []
        key = run.secret("SHOP_KEY")
        return [*early, run.tool(whoami), str(run.tool(length, token=key)), run.tool(whoami)]

    hidden = "key is [redacted:SHOP_KEY]"
    tools: list[Any] = [whoami, length]
    for is_early in (False, True):
        log = tmp_path / f"{is_early}.jsonl"
        recording = refold.record(program, is_early, log=log, tools=tools, check=True)
        assert recording.output == [hidden] * is_early + [hidden, "[15]", hidden]
        assert log.read_text().count("k3y-of-the-shop") == is_early
        assert refold.reexecute(log, program).identical
        assert refold.explore(log, program, tools=tools, orders=1).findings == ()


def test_a_resumed_run_knows_the_handles_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were handed out in the part that is not run again."""
    monkeypatch.setenv("SHOP_KEY", "k3y-of-the-shop")

    def program(run: refold.PlainRun, _input: object) -> Any:
        run.secret("SHOP_KEY")
        return [run.ask("go on?"), run.tool(whoami)]

    recording = refold.record(program, log=tmp_path / "a.jsonl", tools=[whoami])
    (question,) = recording.questions
    answers = {question.key: "yes"}
    resumed = refold.resume(recording.log, program, tools=[whoami], answers=answers)

    assert resumed.output == ["yes", "key is [redacted:SHOP_KEY]"]
    assert "k3y-of-the-shop" not in log_text(resumed)


def test_a_variable_that_changes_leaves_both_values_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is renewed during the run is still the key of somebody; children know both."""
    monkeypatch.setenv("SHOP_KEY", "first-value")

    @refold.tool(effect="changes")
    def renew(key: str) -> str:
        monkeypatch.setenv("SHOP_KEY", "second-value")
        return f"{key} is no more"

    async def program(run: refold.Run, _input: object) -> list[str]:
        said = [await run.tool(renew, key=run.secret("SHOP_KEY")) for _ in range(2)]
        run.annotate("first-value second-value")
        return said

    recording = refold.record(program, log=tmp_path / "a.jsonl", check=True)

    assert recording.output == ["[redacted:SHOP_KEY] is no more"] * 2
    assert not {"first-value", "second-value"} & set(re.findall(r"\w+-value", log_text(recording)))


def log_text(recording: refold.Recording) -> str:
    return recording.log.read_text()


def test_a_value_too_short_to_be_hidden_reaches_no_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stand in the log with whatever the tool says."""
    monkeypatch.setenv("PIN", "123")

    async def program(run: refold.Run, _input: object) -> Any:
        with pytest.raises(refold.ToolError) as caught:
            await run.tool(length, token=run.secret("PIN"))
        return [caught.value.code, caught.value.message]

    code, message = refold.record(program, log=tmp_path / "a.jsonl", check=True).output

    assert (code, "shorter than 4 characters" in message) == ("secret", True)


def test_a_value_is_put_into_a_copy() -> None:
    """What was recorded stays as it was."""
    arguments = {"a/b": [1, {"c": 2}], "d": 3}

    changed = put(arguments, "/a~1b/1/c", "new")

    assert changed == {"a/b": [1, {"c": "new"}], "d": 3}
    assert arguments == {"a/b": [1, {"c": 2}], "d": 3}


async def _echoes(_run: refold.Run, given: object) -> Any:
    return str(given)


@pytest.mark.parametrize("shape", ["itself", "text", "key"])
@pytest.mark.parametrize("to", ["tool", "model", "parameter", "child"])
def test_neither_a_handle_nor_its_repr_goes_where_no_value_takes_its_place(
    to: str, shape: str, tmp_path: Path
) -> None:
    """The name would be sent in its place; a request that is refused is not in the log."""

    async def program(run: refold.Run, _input: object) -> Any:
        handle = run.secret("TOKEN")
        given = {"itself": [handle], "text": f"{[handle]}", "key": {f"{(handle,)}": 1}}[shape]
        calls: dict[str, Any] = {
            "tool": lambda: run.tool(length, token="x", extra={"a": given}),
            "model": lambda: run.model([{"role": "user", "content": [given]}]),
            "parameter": lambda: run.model([{"role": "user", "content": "x"}], metadata=given),
            "child": lambda: run.delegate(refold.Delegation(program=_echoes, input=given)),
        }
        if to == "tool" and shape == "itself":
            return "a tool is given the value"
        with pytest.raises(UsageError) as caught:
            await calls[to]()
        return str(caught.value)

    log = tmp_path / "a.jsonl"
    recording = refold.record(
        program, log=log, model=ScriptedModel([]), secrets={"TOKEN": "twelve-chars"}
    )

    assert "TOKEN" in recording.output or "given the value" in recording.output
    kinds = [entry.kind for entry in read_entries(log)]
    assert not {"tool.called", "model.asked", "child.started"} & {*kinds}


def test_looking_for_handles_is_linear_in_a_conversation(tmp_path: Path) -> None:
    """Each message is looked at once, though a program passes all of them with each request."""

    async def program(run: refold.Run, turns: int) -> None:
        run.secret("TOKEN")
        messages: list[Any] = [Counted(role="user", content="x")]
        for _ in range(turns):
            await run.model(messages)
            messages.append(Counted(role="user", content="y"))

    class Counted(dict[str, Any]):
        """Counts how often its members are looked at one by one."""

        looked = 0

        def items(self) -> Any:
            Counted.looked += 1
            return super().items()

    refold.record(
        program, 40, log=tmp_path / "a.jsonl", model=ScriptedModel(["z"] * 40),
        secrets={"TOKEN": "twelve-chars"},
    )  # fmt: skip

    assert 0 < Counted.looked < 40 * 5
