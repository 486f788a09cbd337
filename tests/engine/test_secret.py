"""A program holds a secret by its name, and a tool is given the value (CONTRACT.md §3.9)."""

import dataclasses
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.log import read_entries
from refold.engine.secret import Secret, handles_in, put


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
    assert str(handle) == "[secret A]"


def test_a_value_is_put_into_a_copy() -> None:
    """What was recorded stays as it was."""
    arguments = {"a/b": [1, {"c": 2}], "d": 3}

    changed = put(arguments, "/a~1b/1/c", "new")

    assert changed == {"a/b": [1, {"c": "new"}], "d": 3}
    assert arguments == {"a/b": [1, {"c": 2}], "d": 3}
