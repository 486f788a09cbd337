"""What must not reach a log is taken out before it is written and delivered (§3.9)."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import refold
from refold.cli.group import refold as cli
from refold.engine.errors import UsageError
from refold.engine.log.reader import read_entries
from refold.engine.models import FunctionModel, ScriptedModel
from refold.engine.secrets.redaction import marker_of, narrowed
from refold.engine.secrets.vault import Vault
from tests.support import secretive
from tests.support.loops import for_each, half

CANARIES: list[str] = [
    *(f"canary-{number:02}-{'xyz' * (number % 4)}A1b2" for number in range(14)),
    "sk-proj/with+slashes==and?more",
    'has "quotes" and \\ backslash',
    "two\nlines of it",
    "grüße-aus-berlin-77",
    "a b&c=d%e/f",
    "p4ss",
]

ENCODINGS: dict[str, Callable[[str], str]] = secretive.ENCODINGS


def is_sought(canary: str, encoding: str) -> bool:
    """Return whether a secret is long enough to be looked for in an encoding."""
    return len(canary) >= 8 or not (encoding.startswith("base64") or encoding == "hex")


@for_each("encoding", ENCODINGS)
def test_a_secret_is_found_in_each_encoding(encoding: str) -> None:
    """Exact values are looked for as they are, and as the usual encodings have them."""
    sought = [canary for canary in CANARIES if is_sought(canary, encoding)]
    for canary in sought:
        found = Vault(secrets={"CANARY": canary}).scrubbed(f"a {ENCODINGS[encoding](canary)} z")

        assert "[redacted:CANARY]" in found
        assert not secretive.said_in(found, canary)


@for_each("value", [None, 1, True, "x", []])
def test_a_secret_is_taken_out_of_keys_as_well(value: Any) -> None:
    """Whatever stands below it."""
    vault = Vault(secrets={"CANARY": "s3cret-of-a-key"})

    found = vault.scrubbed({"a": 1, "s3cret-of-a-key": value})

    assert found == {"a": 1, "[redacted:CANARY]": value}


@pytest.mark.parametrize("canary", half(CANARIES), ids=range(len(CANARIES)))
def test_no_sink_has_a_secret(canary: str, tmp_path: Path) -> None:
    """In no log, child log, blob, result, error text or warning, in whichever encoding."""
    replies = [encode(canary) for name, encode in ENCODINGS.items() if is_sought(canary, name)]

    @refold.tool(effect="reads")
    def leak(token: str) -> dict[str, Any]:
        assert token == canary
        return {"all": replies, "big": f"{canary} " * 4000, canary: 1}

    @refold.tool(effect="reads")
    def break_down(token: str) -> str:
        raise LookupError(f"no entry for {token}")

    async def child(_run: refold.Run, given: Any) -> Any:
        raise ValueError(f"child was given {given!r}")

    async def program(run: refold.Run, given: Any) -> Any:
        handle = run.secret("CANARY")
        leaked = await run.tool(leak, token=handle)
        with pytest.raises(refold.ToolError) as caught:
            await run.tool(break_down, token=handle)
        read = run.environment("CANARY_IN_ENVIRONMENT")
        reply = await run.model([{"role": "user", "content": str(leaked)}])
        outcome = await run.delegate(refold.Delegation(program=child, input=str(given)))
        run.annotate("seen", {"given": given, "read": read})
        failure = outcome.error.message if outcome.error else ""
        return [leaked, str(caught.value), reply.message, failure, given, repr(handle)]

    log = tmp_path / "a.jsonl"
    recording = refold.record(
        program,
        {"from the caller": f"Bearer {canary}"},
        log=log,
        secrets={"CANARY": canary},
        labels={"customer": f"of {canary}"},
        model=FunctionModel(lambda _request: " ".join(replies)),
        check=True,
    )

    assert recording.ok, recording
    bytes_of_all = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(bytes_of_all) >= 3
    sinks = [content.decode() for content in bytes_of_all] + [str(recording), repr(recording.error)]
    assert not [sink for sink in sinks if secretive.said_in(sink, canary)]
    assert any("[redacted:CANARY]" in sink for sink in sinks)


@pytest.mark.parametrize("count", [8, pytest.param(120, marks=pytest.mark.long)])
def test_no_log_has_any_of_many_keys_in_any_encoding(tmp_path: Path, count: int) -> None:
    """Of keys full of what encoders escape; each is said by a tool as arguments, result, error."""
    keys = {f"K{number}": key for number, key in enumerate(secretive.keys(count).values())}

    @refold.tool(effect="reads")
    def say(key: str, *, fails: bool) -> dict[str, str]:
        said = {name: encode(key) for name, encode in ENCODINGS.items()}
        if fails:
            raise LookupError(json.dumps(said))
        return {**said, json.dumps({key: said}): repr(said)}

    async def program(run: refold.Run, _input: object) -> Any:
        said: list[Any] = []
        for name in keys:
            said.append(await run.tool(say, key=run.secret(name), fails=False))
            with pytest.raises(refold.ToolError) as caught:
                await run.tool(say, key=run.secret(name), fails=True)
            said.append(str(caught.value))
        return said

    recording = refold.record(program, log=tmp_path / "a.jsonl", secrets=keys)

    said = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not secretive.leaked(
        "".join([*said, json.dumps(recording.output), str(recording)]), count
    )
    assert recording.output[0]["json-3"].count("[redacted:K0]") == 1
    assert json.loads(json.loads(json.loads(recording.output[0]["json-3"]))) == "[redacted:K0]"


def test_nothing_printed_has_a_secret(tmp_path: Path) -> None:
    """On the command line, of a subprocess child and of what it crashed with."""
    log = tmp_path / "a.jsonl"
    code = f"from tests.support import secretive; secretive.record({str(log)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"SECRETIVE": secretive.VALUE, "PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parents[3],
        timeout=120,
    )
    said = [done.stdout, done.stderr]
    for command in (
        ["show", str(log)],
        ["show", str(log), "--events"],
        ["show", str(log), "--at", "-1"],
    ):
        shown = CliRunner().invoke(cli, command)
        assert shown.exit_code == 0
        said += [shown.stdout, shown.stderr]

    logs = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(logs) == 2
    assert not [text for text in (*said, *logs) if secretive.said_in(text, secretive.VALUE)]
    assert all("[redacted:SECRETIVE]" in text for text in logs)


def test_the_program_sees_what_is_written(tmp_path: Path) -> None:
    """Or a branch on a secret would be taken otherwise in replay."""
    seen: list[Any] = []

    @refold.tool(effect="reads")
    def fetch() -> str:
        return "the key is sk-12345678"

    async def program(run: refold.Run, _input: object) -> Any:
        seen.append(await run.tool(fetch))
        return len(seen[-1])

    recording = refold.record(
        program,
        log=tmp_path / "a.jsonl",
        redaction=refold.Redaction(secrets=("sk-12345678",)),
        check=True,
    )

    assert set(seen) == {"the key is [redacted:secret-1]"}
    assert recording.output == len(seen[0])


def test_paths_and_tools_are_taken_out(tmp_path: Path) -> None:
    """By JSON pointer, `*` for any member, and whole."""

    @refold.tool(effect="reads")
    def fetch(key: str) -> dict[str, Any]:
        return {"items": [{"token": key, "id": 1}, {"token": "other", "id": 2}], "token": "kept"}

    @refold.tool(effect="reads")
    def login(user: str, password: str) -> str:
        return f"{user} is in with {password}"

    async def program(run: refold.Run, _input: object) -> Any:
        return [await run.tool(fetch, key="k"), await run.tool(login, user="u", password="hunter2")]

    rules = refold.Redaction(
        paths={"tool:fetch": ["/result/items/*/token", "/arguments/key"]}, tools=["login"]
    )
    recording = refold.record(
        program, log=tmp_path / "a.jsonl", tools=[fetch, login], redaction=rules, check=True
    )

    first, _, _, asked, returned, _ = read_entries(recording.log)
    items = [{"token": "[redacted]", "id": 1}, {"token": "[redacted]", "id": 2}]
    assert recording.output == [{"items": items, "token": "kept"}, "[redacted]"]
    assert asked.data["arguments"] == {"password": "[redacted]", "user": "[redacted]"}
    assert returned.data["result"] == "[redacted]"
    assert first.data["rules"]["redaction"] == {
        "paths": {"tool:fetch": ["/result/items/*/token", "/arguments/key"]},
        "tools": ["login"],
    }


def test_paths_of_models_and_of_the_run_are_taken_out(tmp_path: Path) -> None:
    """Whichever call it is: two at once, a failure, the end."""

    @refold.tool(effect="reads", timeout_seconds=60)
    def login(user: str) -> str:
        raise LookupError(f"{user} is unknown")

    async def program(run: refold.Run, _input: object) -> Any:
        asked = [run.model([{"role": "user", "content": each}]) for each in "ab"]
        calls: list[Any] = [*asked, run.tool(login, user="u")]
        replies: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        said = [one.message["content"] for one in replies if not isinstance(one, BaseException)]
        return {"said": said, "failed": str(replies[-1]), "kept": 1}

    rules = refold.Redaction(
        paths={"model:scripted": ["/message/content"], "run": ["/output/kept"]}, tools=["log*"]
    )
    recording = refold.record(
        program, log=tmp_path / "a.jsonl", tools=[login], redaction=rules,
        model=ScriptedModel(["secret", "secret"]), check=True,
    )  # fmt: skip

    (*_, finished) = read_entries(recording.log)
    assert finished.data["output"]["said"] == ["[redacted]"] * 2
    assert finished.data["output"]["failed"] == "login: LookupError: [redacted]"
    assert finished.data["output"]["kept"] == "[redacted]"
    assert b"unknown" not in recording.log.read_bytes()


def test_what_a_replay_could_not_compare_is_listed(tmp_path: Path) -> None:
    """§12.7: what the program passes itself is not known from the record."""

    @refold.tool(effect="reads")
    def login(password: str) -> int:
        return len(password)

    async def program(run: refold.Run, _input: object) -> Any:
        return await run.tool(login, password="hunter2")

    rules = refold.Redaction(secrets=["hunter2"])
    recording = refold.record(program, log=tmp_path / "a.jsonl", redaction=rules)

    report = refold.reexecute(recording, program)

    assert report.identical
    (ignored,) = report.ignored
    assert (ignored.pointer, ignored.recorded, ignored.rule) == (
        "/arguments/password",
        "[redacted:secret-1]",
        "redaction",
    )
    assert "hunter2" not in recording.log.read_text()


def test_the_rules_are_in_the_log_and_no_value_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of variables, paths and tools; of exact secrets only how many."""
    monkeypatch.setenv("SOME_TOKEN", "t0ken-value")
    rules = refold.Redaction(secrets=["exact-one", "exact-two"], environment=["SOME_TOKEN"])

    async def program(_run: refold.Run, given: object) -> object:
        return given

    recording = refold.record(
        program, "t0ken-value exact-two", log=tmp_path / "a.jsonl", redaction=rules,
        secrets={"NAMED": "by-name-1"},
    )  # fmt: skip

    first = next(iter(read_entries(recording.log)))
    assert first.data["rules"] == {
        "redaction": {"environment": ["SOME_TOKEN"], "secrets": 2, "names": ["NAMED"]}
    }
    assert recording.output == "[redacted:SOME_TOKEN] [redacted:secret-2]"
    assert "exact-one" not in repr(rules)


def test_without_rules_nothing_is_said_and_nothing_searched(tmp_path: Path) -> None:
    """The log of a run that has none says so."""

    async def program(_run: refold.Run, given: object) -> object:
        return given

    recording = asyncio.run(refold.record_async(program, "[redacted]", log=tmp_path / "a.jsonl"))

    assert next(iter(read_entries(recording.log))).data["rules"] == {}
    assert recording.output == "[redacted]"


@for_each(
    "rules",
    [
        {"secrets": "one text"},
        {"secrets": {"TOKEN": "hunter2222"}},  # its names would be looked for, and no value
        {"secrets": b"hunter2222"},
        {"secrets": [b"hunter2222"]},
        {"secrets": None},
        {"environment": 1},
        {"tools": [None]},
        {"paths": ["tool:fetch/result"]},
        {"paths": {"tool:fetch": None}},
        {"paths": {"fetch": ["/result"]}},
        {"paths": {"tool:fetch": ["result"]}},
        {"paths": {"tool:fetch": "/result"}},
    ],
)
def test_rules_that_would_find_nothing_are_refused(rules: dict[str, Any]) -> None:
    """Nobody finds out later that a rule was none."""
    with pytest.raises(UsageError) as refused:
        refold.Redaction(**rules)

    assert "hunter" not in str(refused.value)


@refold.tool(effect="reads")
def login(user: str) -> str:
    """Say who is in."""
    return f"{user} is in"


async def logs_in(run: refold.Run, _input: object) -> Any:
    """Log in with a tool that is passed, and need not be offered."""
    return await run.tool(login, user="canary")


@for_each(
    "rules",
    [
        {"tools": ["logn"]},
        {"paths": {"tool:logn": ["/result"]}},
        {"paths": {"model:scriptde": ["/message"]}},
    ],
)
def test_a_rule_for_what_is_not_offered_is_refused(tmp_path: Path, rules: dict[str, Any]) -> None:
    """It would take out nothing, and nobody would see it; the nearest name is said."""
    model = ScriptedModel(["yes"])
    with pytest.raises(UsageError, match=r"did you mean '(login|scripted)'\?"):
        refold.record(
            logs_in, log=tmp_path / "a.jsonl", tools=[login], model=model,
            redaction=refold.Redaction(**rules),
        )  # fmt: skip
    assert not (tmp_path / "a.jsonl").exists()


@for_each(
    "rules",
    [
        {"tools": ["log*"]},
        {"tools": ["*"]},
        {"paths": {"tool:*in": ["/result", "/arguments/user"]}},
        {"paths": {"tool:*": ["/result", "/arguments/user"]}},
    ],
)
def test_a_pattern_need_not_be_offered(tmp_path: Path, rules: dict[str, Any]) -> None:
    """For a tool that is passed in the program, or that only children have."""
    recording = refold.record(
        logs_in, log=tmp_path / "a.jsonl", redaction=refold.Redaction(**rules)
    )
    assert refold.reexecute(recording.log, logs_in).identical

    assert recording.output == "[redacted]"
    assert "canary" not in recording.log.read_text()


def test_a_pattern_names_no_other_tool(tmp_path: Path) -> None:
    """`*` is any text, and the rest is itself."""
    rules = refold.Redaction(tools=["*og", "l*x", "lo.*", "log*gin", "*i*g*n", "l*o*g*i*n*n"])

    recording = refold.record(logs_in, log=tmp_path / "a.jsonl", redaction=rules)

    assert recording.output == "canary is in"


def test_only_the_root_is_asked_what_is_offered(tmp_path: Path) -> None:
    """A child has the rules of its parent, and may have fewer tools."""

    async def child(_run: refold.Run, _input: object) -> str:
        return "done"

    async def root(run: refold.Run, _input: object) -> Any:
        return (await run.delegate(refold.Delegation(program=child, tools=()))).output

    rules = refold.Redaction(tools=["login"])
    recording = refold.record(root, log=tmp_path / "a.jsonl", tools=[login], redaction=rules)

    assert recording.output == "done"


def test_a_run_has_those_of_shared_rules_that_it_can_use() -> None:
    """Of a configuration, which is for more agents than one; patterns stay."""
    rules = refold.Redaction(
        secrets=["0123456"], tools=["login", "pay", "x*"],
        paths={"tool:pay": ["/result"], "model:m": ["/message"], "run": ["/input"]},
    )  # fmt: skip

    found = narrowed(rules, ["login"], [])

    assert found == refold.Redaction(
        secrets=["0123456"], tools=["login", "x*"], paths={"run": ["/input"]}
    )


def test_a_secret_that_is_too_short_is_refused(tmp_path: Path) -> None:
    """It would be found in any text."""

    async def program(_run: refold.Run, _input: object) -> None: ...

    with pytest.raises(UsageError, match="shorter than 4 characters"):
        refold.record(program, log=tmp_path / "a.jsonl", secrets={"PIN": "123"})

    assert list(tmp_path.iterdir()) == []


def test_a_name_is_plain_in_a_marker() -> None:
    """So that a marker is always one."""
    assert marker_of("a]b c") == "[redacted:a_b_c]"
