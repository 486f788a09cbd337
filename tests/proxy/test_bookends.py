"""A watched command's log says what was run and how it ended, and a replay goes by it (§16.2)."""

import os
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.profile import NO_PROFILE
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.apis import known_routes
from refold.proxy.bookends import (
    PLACEHOLDER,
    first_rules,
    folders_here,
    input_of,
    new_log,
    others_in,
    output_of,
    placeholders,
    program_of,
    redaction_in,
    seal,
    terminal_in,
    typed_at_in,
)
from refold.proxy.command import CommandEnd
from refold.proxy.desks.keys import Secrets
from refold.proxy.http.routes import keys_of, routes_of
from refold.replay.observed.record import read_record
from tests.support.loops import for_each

DRAWN = "a8f3k2m9x7q1z5w4"


@for_each(
    "command, program",
    [
        (["python3", "agent.py", "--fast"], "agent.py"),
        (["/usr/bin/node", "src/agent.mjs"], "agent.mjs"),
        (["python", "-m", "agent"], "python"),
        (["./agent.sh", "x.txt"], "agent.sh"),
        (["uv", "run", "tools/agent.py"], "agent.py"),
        (["python3.13", "-c", "print(1.5)"], "python3.13"),
        (["sh", "-c", "./agent.sh --fast"], "sh"),
        (["ship", "--to", "fleet.toml"], "ship"),
    ],
)
def test_a_command_is_called_after_its_script(command: list[str], program: str) -> None:
    """Else as itself."""
    assert program_of(command) == program


@pytest.mark.parametrize("terminal", [None, (80, 24)])
def test_a_replay_is_told_what_the_command_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: tuple[int, int] | None
) -> None:
    """The variables that lead to the proxy, its terminal, and keys in the place of those it had."""
    monkeypatch.setenv("GROQ_API_KEY", DRAWN)
    secrets, routes = Secrets(), routes_of(["GROQ_BASE_URL=http://127.0.0.1:9"])
    secrets.learn_environment({"GROQ_API_KEY": DRAWN})
    given = input_of(["agent"], terminal, routes)
    with new_log(tmp_path / "a.jsonl", given, secrets, {}) as log:
        seal(log, CommandEnd(exit_code=0, printed=b"", printed_bytes=0), secrets)
    monkeypatch.delenv("GROQ_API_KEY")

    record = read_record(tmp_path / "a.jsonl")

    assert others_in(record) == ["GROQ_BASE_URL"]
    assert terminal_in(record) == terminal
    assert (
        placeholders(record.started.rules, routes)["GROQ_API_KEY"] == f"{PLACEHOLDER}-GROQ_API_KEY"
    )
    assert redaction_in(record).paths == {}


@pytest.mark.parametrize(
    "begins",
    ["sk-ant-api03-", "sk-ant-oat01-", "sk-proj-", "sk-or-v1-", "sk-", "gsk_", "xai-", "AIza", ""],
)
def test_a_placeholder_has_the_shape_of_the_recorded_key(
    begins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How it begins, and about as long: clients look at it, and the log has nothing else of it."""
    key = f"{begins}{DRAWN}"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    secrets = Secrets()
    secrets.learn_environment()
    given, rules = input_of(["agent"], None, ()), first_rules(VolatileRules(), NO_PROFILE)
    with new_log(tmp_path / "a.jsonl", given, secrets, rules) as log:
        seal(log, CommandEnd(exit_code=0, printed=b"", printed_bytes=0), secrets)
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    found = placeholders(read_record(tmp_path / "a.jsonl").started.rules, ())["ANTHROPIC_API_KEY"]

    assert found.startswith(f"{begins}{PLACEHOLDER}-ANTHROPIC_API_KEY")
    assert len(found) >= len(key)
    assert DRAWN not in (tmp_path / "a.jsonl").read_text()


@pytest.mark.parametrize("name", sorted(set(keys_of(known_routes()))))
def test_every_key_of_our_routes_that_was_there_is_given(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is called: a client of Bedrock finds none of its other keys in a replay."""
    monkeypatch.setenv(name, DRAWN)
    secrets = Secrets()
    secrets.learn_environment()
    given, rules = input_of(["agent"], None, ()), first_rules(VolatileRules(), NO_PROFILE)
    with new_log(tmp_path / "a.jsonl", given, secrets, rules) as log:
        seal(log, CommandEnd(exit_code=0, printed=b"", printed_bytes=0), secrets)
    monkeypatch.delenv(name)

    found = placeholders(read_record(tmp_path / "a.jsonl").started.rules, ())

    assert found[name] == f"{PLACEHOLDER}-{name}"


@for_each("code, status", [(0, "completed"), (3, "failed"), (130, "failed")])
def test_the_last_entry_says_how_it_ended(tmp_path: Path, code: int, status: str) -> None:
    """With what it printed, without secrets."""
    secrets = Secrets()
    secrets.learn_environment({"API_KEY": DRAWN})
    printed = f"my key: {DRAWN}\n".encode()
    ended = CommandEnd(exit_code=code, printed=printed, printed_bytes=len(printed) + 100)
    with new_log(tmp_path / "a.jsonl", input_of(["a"], None, ()), secrets, {}) as log:
        seal(log, ended, secrets)

    *_, last = read_entries(tmp_path / "a.jsonl")
    said = "my key: [redacted:API_KEY]\n"
    output = {"exit_code": code, "stdout": said, "stdout_bytes": len(said) + 100}
    assert last.data["status"] == status
    assert last.data["output"] == output == output_of(ended, secrets)
    assert refold.verify(tmp_path / "a.jsonl").complete


def test_folders_are_told_as_given_and_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that is not the same; PWD may be of another process."""
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("TMPDIR", "/tmp/mine")
    plain = {"folder": str(here), "home": str(here), "tmp": "/tmp/mine"}
    assert folders_here() == plain

    for name in ("PWD", "HOME"):
        monkeypatch.setenv(name, f"{tmp_path}/link")

    assert folders_here() == {
        "folder": str(here),
        "other_folder": f"{tmp_path}/link",
        "home": f"{tmp_path}/link",
        "other_home": str(here),
        "tmp": "/tmp/mine",
    }


def test_a_folder_whose_name_is_not_utf8_is_told_as_clients_tell_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / os.fsdecode(b"caf\xe9")
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PWD", str(here))

    assert folders_here()["folder"] == f"{tmp_path}/caf\ufffd"
    assert folders_here(folder=f"{here}/copy")["folder"] == f"{tmp_path}/caf\ufffd/copy"


def test_a_log_that_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    """Neither a log nor its large texts nor the folders made for it; what is another's stays."""
    given = {**input_of(["a"], None, ()), "command": ["x" * 50_000]}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.files").mkdir()
    (tmp_path / "mine" / "a.files" / "notes").touch()
    for folder in ("mine", "runs/new"):
        with new_log(tmp_path / folder / "a.jsonl", given, Secrets(), {}) as log:
            log.discard()

    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == ["mine", "mine/a.files", "mine/a.files/notes"]


@for_each(
    "given, terminal, is_typed",
    [
        ({"terminal": [80, 24], "typed_at": True, "variables": ["A"]}, (80, 24), True),
        ({"command": ["x"]}, None, False),
        ([], None, False),
    ],
)
def test_what_a_record_says_of_its_terminal_is_read(
    given: Any,
    terminal: tuple[int, int] | None,
    is_typed: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    with ObservedLog(tmp_path / "a.jsonl", program="x", input=given, vault=Secrets()) as log:
        log.seal("completed", "done")

    record = read_record(tmp_path / "a.jsonl")

    assert (terminal_in(record), typed_at_in(record)) == (terminal, is_typed)
    assert others_in(record) == (["A"] if is_typed else [])
