"""`refold record` as it is typed: what it says, and how it ends."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from refold.cli.group import refold
from tests.cli.conftest import Invoke
from tests.support.loops import for_each
from tests.support.model_server import Answer, ModelServer
from tests.support.proxied import data_of
from tests.support.upstream import Upstream

ASKS = """
import http.client, json, os, urllib.parse
base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(base.netloc, timeout=60)
body = {"model": "m", "messages": [
    {"role": "system", "content": "the weather desk"}, {"role": "user", "content": "Hello"}]}
connection.request(
    "POST", base.path + "/chat/completions", json.dumps(body), {"authorization": "Bearer k"})
response = connection.getresponse()
response.read()
print(response.status)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def test_it_says_where_it_recorded(invoke: Invoke, tmp_path: Path) -> None:
    """On standard error: standard output is the command's."""
    with Upstream() as upstream:
        done = invoke("record", "--upstream", upstream.openai_url, "--", sys.executable, "-c", ASKS)
    (log,) = (tmp_path / "runs").glob("*.jsonl")

    assert (done.exit_code, done.stdout) == (0, "200\n")
    assert f"recorded in runs/{log.name}" in done.stderr
    assert "no requests were recorded" not in done.stderr


def test_a_proxy_cannot_be_held_open_at_what_is_no_address(invoke: Invoke, tmp_path: Path) -> None:
    """Nor for a command; nothing is left behind."""
    for more in (["--listen", "127.0.0.1:x"], ["--listen", "192.0.2.1:1"], ["--listen", ":99999"]):
        done = invoke("record", "--log", "run.jsonl", *more)
        assert (done.exit_code, list(tmp_path.iterdir())) == (2, []), done.stderr
        assert f"--listen {more[1]}" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = invoke("record", "--log", "run.jsonl", "--listen", f":{port}")
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert f"--listen :{port}: Address already in use" in done.stderr
    assert "use another HOST:PORT, or omit the port for a free one" in done.stderr
    for more in (["--workspace", "."], ["--keep-content"]):
        done = invoke("record", "--log", "run.jsonl", "--listen", "127.0.0.1:x", *more)
        assert (done.exit_code, "--keep-content need -- COMMAND" in done.stderr) == (2, True)
    for words in ([], ["--listen", "--", "true"]):
        assert invoke("record", *words).exit_code == 2


def test_it_ends_as_the_command_does(invoke: Invoke) -> None:
    assert invoke("record", "--log", "run.jsonl", "--", "sh", "-c", "exit 9").exit_code == 9


def test_options_of_the_command_are_the_commands(invoke: Invoke) -> None:
    """With and without `--` before it."""
    for dashes in (["--"], []):
        done = invoke("record", "--log", f"run{len(dashes)}x.jsonl", *dashes, "echo", "--log", "-n")
        assert done.stdout == "--log -n\n"


def test_an_option_behind_the_command_is_the_commands_and_said_to_be(invoke: Invoke) -> None:
    """Unless it was given before it: then it is meant so, as are options that many have."""
    late = invoke("record", "echo", "--log", "x.jsonl", "--limit=max_requests=3", "--profile", "x")
    meant = invoke("record", "--log", "y.jsonl", "echo", "--log", "x.jsonl")

    assert "the command got --log, --limit=max_requests=3: put options" in late.stderr
    assert "the command got" not in meant.stderr


def test_a_server_that_does_not_answer_is_named(invoke: Invoke) -> None:
    """Once; clients often report the status alone."""
    words = ["--log", "run.jsonl", "--upstream", "http://127.0.0.1:9/v1"]

    done = invoke("record", *words, "--", sys.executable, "-c", _TWICE)

    assert done.stdout == "502\n502\n"
    assert done.stderr.count("a request failed: no answer from 127.0.0.1:9: ConnectError") == 1


def test_an_input_that_is_piped_is_said_to_be_in_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is that of a file; nothing is said of /dev/null."""

    def recorded(log: str, given: int | Path) -> str:
        with open(given) as stdin:  # noqa: PTH123 - may be a descriptor
            monkeypatch.setattr(sys, "stdin", stdin)
            with pytest.raises(SystemExit, match="0"):
                refold.main(["record", "--log", log, "--", "true"])
        return capsys.readouterr().err

    (tmp_path / "a.txt").write_text("x")
    pipe, end = os.pipe()
    os.close(end)

    said = "standard input is not recorded: pass it to a replay, too"
    assert said in recorded("a.jsonl", pipe)
    assert said in recorded("b.jsonl", tmp_path / "a.txt")
    assert said not in recorded("c.jsonl", Path(os.devnull))


@pytest.mark.long
def test_what_a_shell_writes_into_the_folder_is_told_apart(invoke: Invoke) -> None:
    """`refold record -- COMMAND > out.txt`: no replay has the shell's file."""
    writes = "print('hello'); open('out.txt', 'w').write('hello\\n')"
    invoke("record", "--log", "run.jsonl", "--", sys.executable, "-c", writes)

    done = invoke("replay", "run.jsonl", "--", sys.executable, "-c", "print('hello')")
    other = invoke("replay", "run.jsonl", "--", sys.executable, "-c", "print('hullo')")

    said = "if a shell redirected the output there, ignore it: --volatile file:out.txt"
    assert (done.exit_code, other.exit_code) == (1, 1)
    assert said in " ".join(done.stderr.split())


@pytest.mark.long
def test_earlier_runs_in_the_folder_are_not_recorded(invoke: Invoke, tmp_path: Path) -> None:
    """Each would hold all the others' contents; what only looks like a log is recorded."""
    (tmp_path / "data.jsonl").write_text("{}\n")
    (tmp_path / "more.files").mkdir()
    (tmp_path / "more.files" / "a").write_text("a")
    words = ["--", sys.executable, "-c", ASKS]
    with Upstream() as upstream:
        for name in ("one", "two", "three"):
            invoke("record", "--log", f"{name}.jsonl", "--upstream", upstream.openai_url, *words)

    listed = invoke("files", "three.jsonl").stdout

    assert "one" not in listed
    assert "data.jsonl" in listed
    assert "more.files/a" in listed
    assert invoke("replay", "two.jsonl", *words).exit_code == 0


def test_a_command_that_asks_nobody_is_told_how_it_would(invoke: Invoke) -> None:
    """A client that reads another variable, or has a URL in its code, is the likely reason."""
    done = invoke("record", "--log", "run.jsonl", "--", "true")

    assert done.exit_code == 0
    assert "without setting its own base URL" in done.stderr
    assert "no requests were recorded" in done.stderr
    assert "nothing connected" in done.stderr
    assert "--upstream VARIABLE=URL" in done.stderr
    assert "exit code" not in done.stderr


def test_a_command_that_failed_before_it_asked_is_told_so(invoke: Invoke) -> None:
    """A missing key, say: then the proxy is not what to look at first, and what it said is."""
    done = invoke("record", "--log", "run.jsonl", "--", "sh", "-c", "echo; echo no auth; exit 3")
    mute = invoke("record", "--log", "mute.jsonl", "--", "sh", "-c", "exit 3")

    assert "no requests were recorded, only the start and end of the command" in done.stderr
    assert "the command itself failed (exit code 3); its last line: no auth\n" in done.stderr
    assert "the command itself failed (exit code 3); see its standard error\n" in mute.stderr
    assert "nothing connected" not in done.stderr + mute.stderr


@for_each(
    "name, value, told",
    [
        (
            "GROQ_BASE_URL",
            "https://api.groq.com/openai/v1",
            "to record them, pass --upstream GROQ_BASE_URL=$GROQ_BASE_URL",
        ),
        ("MISTRAL_API_KEY", "k-0123456789", "--upstream MISTRAL_BASE_URL=URL"),
    ],
)
def test_a_provider_past_the_proxy_is_named(
    name: str,
    value: str,
    told: str,
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its variable or its key, with the option that would have recorded what goes there."""
    with monkeypatch.context() as patched:
        patched.setenv(name, value)
        done = invoke("record", "--log", tmp_path / "run.jsonl", "--", "true")

    assert told in done.stderr
    assert "nothing connected" not in done.stderr


_AZURE = """
from openai import AzureOpenAI
client = AzureOpenAI(api_version="2024-10-21")
asked = [{"role": "user", "content": "Hello"}]
print(client.chat.completions.create(model="d", messages=asked).choices[0].message.content)
"""
_AZURE_PATH = "/openai/deployments/d/chat/completions?api-version=2024-10-21"


@pytest.mark.long
def test_the_client_of_azure_is_recorded_and_replayed(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page about programs has it: its variable leads to the proxy; its key is not kept."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-of-azure-0123")
    answer = {"choices": [{"message": {"content": "Fog."}, "finish_reason": "stop"}]}
    words = ("--", sys.executable, "-c", _AZURE)
    with ModelServer({_AZURE_PATH: [Answer(body=answer)]}) as server:
        upstream = f"AZURE_OPENAI_ENDPOINT={server.url}"
        done = invoke("record", "--log", "run.jsonl", "--upstream", upstream, *words)
    again = invoke("replay", "run.jsonl", "--yes", *words)

    assert (done.exit_code, done.stdout) == (0, "Fog.\n"), done.stderr
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "Fog."), again.stderr
    assert server.received[0].headers["api-key"] == "key-of-azure-0123"
    assert "key-of-azure-0123" not in (tmp_path / "run.jsonl").read_text()


UPGRADES = """
import http.client, os, urllib.parse
base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(base.netloc, timeout=60)
connection.request("GET", base.path + "/responses", headers={"upgrade": "websocket"})
print(connection.getresponse().status)
"""


def test_a_websocket_that_was_refused_is_told_where_nothing_else_came(invoke: Invoke) -> None:
    done = invoke("record", "--log", "run.jsonl", "--", sys.executable, "-c", UPGRADES)

    assert done.stdout == "426\n"
    assert "a WebSocket was refused at /responses" in done.stderr
    assert "nothing connected" not in done.stderr


def test_a_request_that_could_not_be_read_is_told(invoke: Invoke) -> None:
    """Its client got 400 from this side, and not from its server."""
    code = """
import os, socket, urllib.parse
base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = socket.create_connection((base.hostname, base.port))
connection.sendall(f"GET {base.path}/caf\\u00e9 HTTP/1.1\\r\\nhost: here\\r\\n\\r\\n".encode())
print(connection.recv(12))
"""
    done = invoke("record", "--log", "run.jsonl", "--", sys.executable, "-c", code)

    assert done.stdout == "b'HTTP/1.1 400'\n"
    assert "a request was refused that is not HTTP as expected" in done.stderr
    assert "nothing connected" not in done.stderr


@pytest.mark.long
def test_a_websocket_that_was_refused_is_told_unless_http_is_used_there(invoke: Invoke) -> None:
    """As Codex does it; a replay tells it, too."""
    body = json.dumps({"model": "small", "messages": [{"role": "user", "content": "Hello"}]})
    code = f"""
{UPGRADES}
for method, given in (("GET", {{"upgrade": "websocket"}}), ("POST", {{}})):
    connection.close()
    connection.request(method, base.path + "/chat/completions", {body!r}, given)
    connection.getresponse().read()
"""
    words = ("--", sys.executable, "-c", code)
    with Upstream() as upstream:
        to = ("--upstream", upstream.openai_url)
        done = invoke("record", "--log", "run.jsonl", *to, *words)
    again = invoke("replay", "run.jsonl", *words)

    assert (done.exit_code, again.exit_code) == (0, 0), done.stderr + again.stderr
    for told in (done.stderr, again.stderr):
        assert told.count("a WebSocket was refused at") == 1
        assert "a WebSocket was refused at /responses" in told


def test_a_record_of_nothing_is_nothing_to_replay(invoke: Invoke) -> None:
    """Though the command ends as it did: nothing was compared."""
    invoke("record", "--log", "run.jsonl", "--", "true")
    done = invoke("replay", "run.jsonl", "--", "true")
    told = json.loads(invoke("replay", "run.jsonl", "--json", "--", "true").stdout)

    assert done.exit_code == 2
    assert "nothing to replay" in done.stderr
    assert told["identical"] is False


def test_a_command_that_asks_nothing_any_more_is_nothing_to_replay(invoke: Invoke) -> None:
    """One that asks something else is a difference."""
    with Upstream() as upstream:
        to = ["--upstream", upstream.openai_url]
        invoke("record", "--log", "run.jsonl", *to, "--", sys.executable, "-c", ASKS)
    other = ASKS.replace("Hello", "Goodbye")

    done = invoke("replay", "run.jsonl", "--", "true")
    assert done.exit_code == 2
    assert done.stderr.startswith("the command sent no request: 0 of 1 recorded request served")
    assert invoke("replay", "run.jsonl", "--", sys.executable, "-c", other).exit_code == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "prints", "code"),
    [
        pytest.param("exact", "one two", 0, marks=pytest.mark.long),
        ("exact", "two one", 1),
        ("lines", "two one", 0),
        ("lines", "two three", 1),
        ("words", "two one", 0),
        pytest.param("words", "two three", 1, marks=pytest.mark.long),
        ("ignore", "two three", 0),
    ],
)
def test_how_what_is_printed_is_compared(how: str, prints: str, code: int, invoke: Invoke) -> None:
    """As it is, its lines in any order, or not at all; said with the record or the replay."""
    with Upstream() as upstream:
        to = ["--upstream", upstream.openai_url]
        for number, given in enumerate([["--volatile", f"output:{how}"], []]):
            log = f"run{number}.jsonl"
            python = [
                "--",
                sys.executable,
                "-c",
                f"{ASKS}\nimport sys\nprint(*sys.argv[1:], sep='\\n')",
            ]
            invoke("record", "--log", log, *given, *to, *python, "one", "two")
            again = [] if given else ["--volatile", f"output:{how}"]
            done = invoke("replay", log, *again, *python, *prints.split())

            assert done.exit_code == code
            assert (f"not compared (output): {how}" in done.stderr) == (how != "exact")
            assert ("output differs from the recorded one" in done.stderr) == (
                how != "exact" and prints != "one two"
            )


@pytest.mark.long
def test_an_option_for_what_is_printed_is_suggested(invoke: Invoke) -> None:
    """As for requests."""
    asks = f"{ASKS}\nimport sys\nprint(*sys.argv[1:], sep='\\n')"
    with Upstream() as upstream:
        to = ["--upstream", upstream.openai_url]
        python = ["--", sys.executable, "-c", asks]
        invoke("record", "--log", "run.jsonl", *to, *python, "on 2026-11-21", "x")
    moved = invoke("replay", "run.jsonl", *python, "x", "on 2026-11-21")
    dated = invoke("replay", "run.jsonl", *python, "on 2026-11-22", "x")

    assert "--volatile output:lines" in moved.stderr
    assert "--volatile 'text:" in dated.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--"], "COMMAND"),
        (["--upstream", "foo", "--", "true"], "expected http://… or https://…"),
        (["--volatile", "foo", "--", "true"], "volatile path 'foo'"),
        (["--volatile", "text:(", "--", "true"], "not a regular expression"),
        (["--volatile", "order:(", "--", "true"], "volatile order '('"),
        (["--log", "a.1.jsonl", "--", "true"], "must not end in a number"),
        (["--", "no-such-command"], "no-such-command: command not found"),
        (["--", "agent.py:main"], "to run a script, use -- python agent.py"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], says: str, invoke: Invoke) -> None:
    """And nothing is recorded."""
    done = invoke("record", *arguments)

    assert done.exit_code == 2
    assert says in done.stderr
    assert not list(Path().rglob("*.jsonl"))


def test_volatile_rules_are_kept_with_the_record(invoke: Invoke, tmp_path: Path) -> None:
    """They hold in every replay."""
    rules = ["--volatile", "model:*/parameters/user", "--volatile", "text:[0-9]{4}"]
    rules += ["--volatile", "order:Report of"]
    invoke("record", "--log", "run.jsonl", *rules, "--", "true")

    (started,) = data_of(tmp_path / "run.jsonl", "run.started")
    told = json.dumps(started["rules"])
    assert "model:*/parameters/user" in told
    assert "[0-9]{4}" in told
    assert started["rules"]["unordered"] == ["Report of"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_what_standard_output_did_not_take_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is the command's."""
    words = ["record", "--log", "run.jsonl", "--", "sh", "-c", "echo a; exit 9"]
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit, match="9"):
            refold.main(words)

    assert "No space left on device: part of the output was lost" in capsys.readouterr().err


def test_a_profile_and_a_request_that_did_not_pass_are_told(invoke: Invoke) -> None:
    """And how to do without the one; the other is recorded, as refused."""
    signed = ASKS.replace("Bearer k", "AWS4-HMAC-SHA256 k")
    words = ["--log", "run.jsonl", "--profile", "langgraph"]

    done = invoke("record", *words, "--", sys.executable, "-c", signed)
    plain = invoke("record", "--log", "b.jsonl", "--", "true")

    assert (done.exit_code, done.stdout) == (0, "400\n")
    assert (
        "profile LangGraph: a replay ignores values that change on every run, and lists them"
        in done.stderr
    )
    assert "to compare them, use --profile none" in done.stderr
    assert "a request failed: " in done.stderr
    assert "AWS_BEARER_TOKEN_BEDROCK" in done.stderr
    assert "no requests were recorded" not in done.stderr
    assert "known as" not in plain.stderr


_TWICE = f"for _ in range(2):{ASKS.strip().replace(chr(10), chr(10) + '    ')}".replace(
    "for _ in range(2):import http.client, json, os, urllib.parse",
    "import http.client, json, os, urllib.parse\nfor _ in range(2):",
)


def test_a_cap_refuses_and_is_named_at_the_end(invoke: Invoke) -> None:
    """§16.19: the second request is over the cap; the replay ends as the record did."""
    with Upstream() as upstream:
        done = invoke(
            *(
                "record",
                "--log",
                "run.jsonl",
                "--limit",
                "max_requests=1",
                "--limit",
                "each_tokens=9",
            ),
            *("--upstream", upstream.openai_url, "--", sys.executable, "-c", _TWICE),
        )
    again = invoke("replay", "run.jsonl", "--yes", "--", sys.executable, "-c", _TWICE)

    assert (done.exit_code, done.stdout) == (0, "200\n400\n")
    assert "1 request refused: --limit max_requests=1 is reached: 1 spent" in done.stderr
    assert again.exit_code == 0, again.output


def test_caps_of_a_project_hold_unless_an_option_says_more(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "refold.yaml").write_text("record: {max_requests: 1}\n")
    with Upstream() as upstream:
        command = ["--upstream", upstream.openai_url, "--", sys.executable, "-c", _TWICE]
        own = invoke("record", "--log", "a.jsonl", *command)
        more = invoke("record", "--log", "b.jsonl", "--limit", "max_requests=2", *command)
    (tmp_path / "refold.yaml").write_text("record: {max_requests: none}\n")
    refused = invoke("record", "--log", "c.jsonl", "--", "true")

    assert (own.stdout, more.stdout) == ("200\n400\n", "200\n200\n")
    assert refused.exit_code == 2
    assert "max_requests" in refused.stderr
    assert not (tmp_path / "c.jsonl").exists()


def test_a_command_ends_at_its_timeout(invoke: Invoke) -> None:
    done = invoke("record", "--log", "run.jsonl", "--limit", "timeout=0.2", "--", "sleep", "600")

    assert done.exit_code == 128 + 15
    assert "stopped by --limit timeout=0.2" in done.stderr
    assert data_of(Path("run.jsonl"), "x-refold.cap") == [
        {"cap": "timeout", "allowed": 0.2, "spent": 0.2}
    ]
