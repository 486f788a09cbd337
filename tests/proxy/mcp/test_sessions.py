"""What a server is called, where its record goes, and how that ends (CONTRACT.md §16.11)."""

from pathlib import Path

import pytest

import refold
from refold.engine.errors import LogMissing, LogObserved
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.desks.keys import Secrets
from refold.proxy.http.turns import OnMiss, Pace
from refold.proxy.mcp.sessions import notes_on, server_of, serving_of
from tests.support.loops import for_each
from tests.support.mcp_clients import client, entries, recording, replaying
from tests.support.watched import record


@for_each(
    "command, name",
    [
        (["python", "server.py"], "server"),
        (["/usr/bin/python3.12", "-m", "weather.server"], "weather.server"),
        (["npx", "-y", "@modelcontextprotocol/server-filesystem", "/tmp"], "server-filesystem"),
        (["npx", "weather@latest"], "weather"),
        (["uvx", "mcp-server-git"], "mcp-server-git"),
        (["uv", "run", "server.py"], "server"),
        (["node", "dist/index.js"], "index"),
        (["./tools/mcp weather"], "mcp-weather"),
        (["python"], "python"),
    ],
)
def test_a_server_is_called_after_its_script_or_package(command: list[str], name: str) -> None:
    """Without versions, folders and suffixes; fit for a call key."""
    assert server_of(command) == name


def test_a_record_without_a_name_goes_to_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a command does; the log says what was watched, and how it ended."""
    monkeypatch.chdir(tmp_path)

    with client() as each:
        each.called("echo", text="a")

    (log,) = (tmp_path / "runs").glob("*-mcp-mcp-tiny-*.jsonl")
    assert each.passed is not None
    assert (each.passed.log, each.passed.entries) == (
        log.relative_to(tmp_path),
        len(entries(log)),
    )
    first, last = entries(log)[0].data, entries(log)[-1].data
    assert (first["program"], first["guarantee"]) == ("mcp_tiny", "matched")
    assert (last["status"], last["output"]) == ("completed", {"exit_code": 0})
    assert refold.verify(log).complete


def test_a_renamed_server_is_the_one_that_was_recorded(tmp_path: Path) -> None:
    """Of a record of one server, that is the one that is meant."""
    log = tmp_path / "log.jsonl"
    with recording(log) as each:
        each.called("echo", text="a")

    with replaying(log) as each:
        assert "result" in each.called("echo", text="a")


def test_a_record_that_is_not_there_is_said(tmp_path: Path) -> None:
    """And one of a program is refused."""
    log = tmp_path / "program.jsonl"

    async def program(run: refold.Run, given: None) -> None:
        del run, given

    refold.record(program, None, log=log)

    with replaying(tmp_path / "none.jsonl") as missing:
        assert missing.line() == b""
    with replaying(log) as other:
        assert other.line() == b""

    assert isinstance(missing.error, LogMissing)
    assert isinstance(other.error, LogObserved)


@pytest.mark.parametrize(
    ("on_miss", "pace", "told"),
    [
        ("fail", "full", []),
        ("live", "full", ["--on-miss live"]),
        ("fail", "recorded", ["--pace recorded"]),
        ("live", "recorded", ["--on-miss live", "--pace recorded"]),
    ],
)
def test_what_options_do_not_do_for_servers_is_told(
    on_miss: OnMiss, pace: Pace, told: list[str], tmp_path: Path
) -> None:
    """Where there are any in the record."""
    log, other = tmp_path / "log.jsonl", tmp_path / "other.jsonl"
    with recording(log) as each:
        each.called("echo", text="a")
    record(other, [])

    notes, none = (
        notes_on(serving_of(path, VolatileRules(), None, Secrets()), on_miss, pace)
        for path in (log, other)
    )

    assert [note.partition(" applies only to models")[0] for note in notes] == told
    assert none == []
