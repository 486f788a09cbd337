"""Clients and servers of the `mcp` package that know nothing of Refold, recorded and replayed.

The server is taken away before each replay (CONTRACT.md §16.11).
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

import refold
from refold.engine.log.reader import read_entries
from tests.support.foreign import DEADLINE_SECONDS, FOREIGN
from tests.support.upstream import Upstream

if find_spec("mcp") is None:  # to import it here would take each worker a second
    pytest.skip("needs mcp", allow_module_level=True)

REFOLD = (sys.executable, "-m", "refold")
AGENT = (sys.executable, str(FOREIGN / "mcp_agent.py"))
TOUR = """\
forecast measure survey choose archive wait collapse whisper
Oslo: rain for 1 days
failed: Error executing tool measure: there is no station 12
1 of 3: station 1
2 of 3: station 2
3 of 3: station 3
3 stations: all dry
0 1 2 3 4 5 6 7 8 9
Brief me on the weather of Bergen.
"""
CITIES = ("Oslo", "Bergen", "Oslo", "Tromsø", "Oslo")
PARALLEL = "".join(f"{city}: rain for 1 days\n" for city in CITIES)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Return a copy of the server, to be taken away."""
    return Path(shutil.copy(FOREIGN / "mcp_server.py", tmp_path / "weather.py"))


def ran(
    *command: str | Path,
    folder: Path,
    code: int = 0,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def twice(task: str, server: Path, folder: Path) -> tuple[str, str]:
    """Return what a client prints while its server is recorded, and without the server."""
    log = folder / "log.jsonl"
    proxy = (*REFOLD, "mcp-proxy")
    behind = ("--", sys.executable, server)
    before = ran(*AGENT, task, *proxy, "--log", log, *behind, folder=folder)
    server.unlink()
    now = ran(*AGENT, task, *proxy, "--replay", log, *behind, folder=folder)
    assert "identical" in now.stderr
    assert refold.verify(log).complete
    return before.stdout, now.stdout


@pytest.mark.long
def test_all_that_a_server_has(server: Path, tmp_path: Path) -> None:
    """Tools, one failing, progress, a resource, a prompt."""
    assert twice("tour", server, tmp_path) == (TOUR, TOUR)


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("parallel", PARALLEL),
        ("choose", "accept: station 4\n"),
        ("collapse", "Oslo: rain for 1 days\ngone: Connection closed\n"),
        ("impatient", "given up\nOslo: rain for 1 days\n"),
        ("large", "5017600\n"),
    ],
)
def test_what_is_harder(task: str, said: str, server: Path, tmp_path: Path) -> None:
    """Parallel calls, a server that asks, one that falls over, an impatient client, 5 MB."""
    assert twice(task, server, tmp_path) == (said, said)


@pytest.mark.long
def test_one_log_holds_models_and_servers(server: Path, tmp_path: Path) -> None:
    """`refold record` of a command that uses both; then a replay with neither.

    The client passes no variable on to its server, as clients of the `mcp` package do.
    """
    log = tmp_path / "log.jsonl"
    model = f"sh {FOREIGN / 'curl_agent.sh'}"
    proxy = " ".join((*REFOLD, "mcp-proxy", "--name", "weather", "--", sys.executable, str(server)))
    command = ("sh", "-c", f"{model} && {' '.join(AGENT)} parallel {proxy}")

    with Upstream() as upstream:
        before = ran(
            *REFOLD, "record", "--log", log, "--", *command,
            folder=tmp_path, variables=upstream.environment(),
        )  # fmt: skip
    server.unlink()
    now = ran(*REFOLD, "replay", log, "--", *command, folder=tmp_path)

    assert before.stdout == now.stdout
    assert now.stdout.endswith(PARALLEL)
    assert "identical: " in now.stderr  # how often the client lists the tools hangs on timing
    kinds = {(entry.call or "").partition("#")[0] for entry in read_entries(log)}
    assert {"0/1", "0/2", "0/mcp-weather"} <= kinds
    assert f" in {len(kinds - {''})} conversations" in now.stderr
    assert refold.verify(log).complete


@pytest.mark.long
def test_a_call_that_is_made_otherwise_fails_the_replay(server: Path, tmp_path: Path) -> None:
    """The client gets an error that names the nearest call, and the report a divergence."""
    log = tmp_path / "log.jsonl"
    proxy = (*REFOLD, "mcp-proxy", "--", sys.executable, str(server))
    command = (*AGENT, "collapse", *proxy)
    ran(*REFOLD, "record", "--log", log, "--", *command, folder=tmp_path)

    now = ran(*REFOLD, "replay", log, "--", *AGENT, "whisper", *proxy, folder=tmp_path, code=1)

    assert "MCPError: refold replay: sh" not in now.stderr
    assert "mcp weather > whisper" in now.stderr
    assert "name_changed" in now.stderr


@contextlib.contextmanager
def announced(*command: str | Path, folder: Path) -> Generator[str]:
    """Give the URL that a server prints first; it is interrupted when the block ends."""
    process = subprocess.Popen(
        [str(each) for each in command], cwd=folder, stdout=subprocess.PIPE, encoding="utf-8"
    )
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)


@pytest.mark.long
def test_a_server_on_http(server: Path, tmp_path: Path) -> None:
    """The same client, the same server, by streamable HTTP."""
    log = tmp_path / "log.jsonl"
    proxy = (*REFOLD, "mcp-proxy", "--url")

    with (
        announced(sys.executable, server, "--http", folder=tmp_path) as url,
        announced(*proxy, url, "--log", log, folder=tmp_path) as before,
    ):
        assert ran(*AGENT, "tour", before, folder=tmp_path).stdout == TOUR
    with announced(*proxy, url, "--replay", log, folder=tmp_path) as now:
        assert ran(*AGENT, "tour", now, folder=tmp_path).stdout == TOUR

    assert refold.verify(log).complete
