"""A command is recorded and replayed from its start to the report, as from a shell."""

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import refold
from refold.cli.group import refold as cli
from refold.engine.errors import LogExists, UsageError
from refold.engine.log.reader import read_entries
from refold.proxy.sessions import Listening, record_command, replay_command
from refold.replay.observed.report import ObservedReport
from tests.support.proxied import data_of, kinds
from tests.support.upstream import Upstream

DEADLINE_SECONDS = 120.0
CLIENT = """
    import http.client, json, os, sys, urllib.parse
    base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    def ask(text, **more):
        connection = http.client.HTTPConnection(base.netloc, timeout=60)
        body = {"model": "m", "messages": [
            {"role": "system", "content": "the weather desk"}, {"role": "user", "content": text}]}
        headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
        connection.request(
            "POST", base.path + "/chat/completions", json.dumps({**body, **more}), headers)
        return connection.getresponse()
    def text_of(response):
        return json.loads(response.read())["choices"][0]["message"]["content"]
"""
"""What the commands of these tests begin with: a client of the standard library."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start commands in an empty folder: the folder that they are started in is recorded."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


def program(folder: Path, code: str) -> list[str]:
    """Write a program that can `ask`, and return its command."""
    file = folder / "agent.py"
    file.write_text(textwrap.dedent(CLIENT) + textwrap.dedent(code))
    return [sys.executable, str(file)]


OURS: Final = ("PATH", "XDG_STATE_HOME")
"""The variables of this process that a command gets: programs, and what was recorded here."""


def refold_does(
    *arguments: str,
    folder: Path,
    upstream: Upstream | None = None,
    stdin: str = "",
    prepare: Callable[[], None] | None = None,
    more: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `refold` in a folder."""
    where = upstream.environment() if upstream else {}
    return subprocess.run(
        [sys.executable, "-m", "refold", *arguments],
        cwd=folder,
        env={
            **{each: os.environ[each] for each in OURS},
            **where,
            **(more or {}),
        },
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_SECONDS,
        preexec_fn=prepare,
        check=False,
    )


def test_a_command_is_recorded_and_replayed(tmp_path: Path) -> None:
    """What it prints and how it ends are part of the record; its exit code is refold's."""
    command = program(tmp_path, "print(text_of(ask('Hello'))); sys.exit(3)")
    with Upstream() as upstream:
        recorded = refold_does("record", "--", *command, folder=tmp_path, upstream=upstream)
    (log,) = (tmp_path / "runs").glob("*.jsonl")
    replayed = refold_does("replay", str(log), "--", *command, folder=tmp_path)

    assert (recorded.returncode, recorded.stdout) == (3, "Hello! Which city do you ask about?\n")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout)
    assert "identical" in replayed.stderr
    assert "matched" in replayed.stderr
    (end,) = data_of(log, "run.finished")
    assert (end["status"], end["output"]) == (
        "failed",
        {"exit_code": 3, "stdout": recorded.stdout, "stdout_bytes": 36},
    )


@pytest.mark.long
def test_the_name_of_the_folder_may_have_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    command = program(tmp_path, "print(text_of(ask('Hello')))")
    with Upstream() as upstream:
        options = ("record", "--log", "a.jsonl")
        recorded = refold_does(*options, "--", *command, folder=folder, upstream=upstream)
    replayed = refold_does("replay", "a.jsonl", "--", *command, folder=folder)

    assert (recorded.returncode, replayed.returncode) == (0, 0), recorded.stderr + replayed.stderr
    assert "identical" in replayed.stderr


@pytest.mark.long
def test_standard_input_passes_through(tmp_path: Path) -> None:
    command = program(tmp_path, "print(text_of(ask(sys.stdin.read())))")
    with Upstream() as upstream:
        arguments = ["record", "--log", "run.jsonl", "--", *command]
        recorded = refold_does(*arguments, folder=tmp_path, upstream=upstream, stdin="Hello")

    assert recorded.stdout == "Hello! Which city do you ask about?\n"


def test_a_command_that_does_not_exist_leaves_no_log(tmp_path: Path) -> None:
    """And is a usage error."""
    with pytest.raises(UsageError, match="no-such-command: command not found"):
        record_command(["no-such-command"], log=tmp_path / "run.jsonl")

    assert list(tmp_path.iterdir()) == []


def test_words_of_a_command_say_how_its_output_is_compared(tmp_path: Path) -> None:
    """As its profile has it, in the log, and so in each replay."""
    (tmp_path / "p.py").write_text(
        "from refold.engine.observed.profile import Profile\n"
        "P = Profile(name='P', outputs={'--events': 'lines'})\n"
    )
    how: list[object] = []
    for at, word in enumerate(("--events", "--text")):
        log = tmp_path / f"{at}.jsonl"
        record_command([sys.executable, "-c", "", word], log=log, profile=f"{tmp_path}/p.py:P")
        (started,) = data_of(log, "run.started")
        how.append(started["rules"].get("output"))

    assert how == ["lines", None]


@pytest.mark.long
def test_a_profile_gives_variables_that_a_log_only_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is set stays; a log of before names none, and none gives one of its own."""
    names = ("MCP_CONNECTION_NONBLOCKING", "MCP_CONNECT_TIMEOUT_MS", "OTHER")
    code = f"ask('Hello'); print(*map(os.environ.get, {names}), flush=True)"
    command = program(tmp_path, code)
    monkeypatch.setenv("MCP_CONNECT_TIMEOUT_MS", "7")
    (tmp_path / "p.py").write_text(
        "from refold.engine.observed.profile import Profile\n"
        "OLD = Profile(name='Claude Code')\n"
        "OWN = Profile(name='Claude Code', variables={'OTHER': 'x'})\n"
        "BAD = Profile(name='Mine', variables={'OTHER': 'x'})\n"
    )
    printed, same = [], []
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        own = [f"{tmp_path}/p.py:{name}" for name in ("OLD", "OWN", "BAD")]
        for at, named in enumerate(["claude-code", *own]):
            record_command(command, log=tmp_path / f"{at}.jsonl", profile=named)
            (ended,) = data_of(tmp_path / f"{at}.jsonl", "run.finished")
            printed.append(ended["output"]["stdout"].strip())
            same.append(replay_command(tmp_path / f"{at}.jsonl", command).identical)

    assert printed == ["false 7 None", "None 7 None", "None 7 x", "None 7 x"]
    assert same == [True, True, False, False]


def test_a_profile_adds_to_a_variable_and_a_log_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user has in it stays; what is added is no part of the log, and no log adds it."""
    command = program(tmp_path, "print(os.environ.get('OPTIONS'), flush=True)")
    (tmp_path / "p.py").write_text(
        "from refold.engine.observed.profile import Profile\n"
        "OWN = Profile(name='Mine', appended={'OPTIONS': '--more'})\n"
    )
    printed = []
    for at, value in enumerate(["", "--of-mine"]):
        monkeypatch.setenv("OPTIONS", value)
        log = tmp_path / f"{at}.jsonl"
        record_command(command, log=log, profile=f"{tmp_path}/p.py:OWN")
        (ended,) = data_of(log, "run.finished")
        printed.append(ended["output"]["stdout"].strip())
        assert "--more" not in log.read_text().replace(ended["output"]["stdout"].strip(), "")

    assert printed == ["--more", "--of-mine --more"]


def test_what_names_its_folder_is_the_same_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has a longer name: the bytes that were printed are counted as the record has them."""
    command = program(tmp_path, "print(text_of(ask('Hello')), 'in', os.getcwd(), flush=True)")
    reports: list[ObservedReport] = []
    for folder in ("here", "somewhere/else"):
        (tmp_path / folder).mkdir(parents=True)
        monkeypatch.chdir(tmp_path / folder)
        if not reports:
            with Upstream() as upstream:
                upstream.lead(monkeypatch)
                record_command(
                    command, log=tmp_path / "a.jsonl", profile="claude-code", workspace="none"
                )
        reports.append(replay_command(tmp_path / "a.jsonl", command))

    assert [report.identical for report in reports] == [True, True], str(reports[1])
    note, _ = reports[1].notes
    assert note == "1 bound: folder"


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    """The command is not even started."""
    (tmp_path / "run.jsonl").write_text("mine")
    with pytest.raises(LogExists):
        record_command(["touch", str(tmp_path / "started")], log=tmp_path / "run.jsonl")

    assert not (tmp_path / "started").exists()


def test_a_proxy_that_cannot_be_used_leaves_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was started that it could be of."""
    for name in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "nonsense://127.0.0.1:9")
    with pytest.raises(UsageError, match="proxy or certificates"):
        record_command(["true"], log=tmp_path / "run.jsonl")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_address_of_the_proxy_is_no_difference(tmp_path: Path) -> None:
    """In what a command prints and asks."""
    command = program(
        tmp_path, "url = os.environ['OPENAI_BASE_URL']; print(url, text_of(ask('Hello ' + url)))"
    )
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        record_command(command, log=log, write=lambda _: None)
    report = replay_command(log, command, write=lambda _: None)

    assert report.identical
    (end,) = data_of(log, "run.finished")
    assert end["output"]["stdout"].startswith("http://refold.proxy/openai Hello!")


def test_a_record_without_requests_says_what_that_may_mean(tmp_path: Path) -> None:
    """A client that has its base URL in its code went past the record, and does so again."""
    log = tmp_path / "run.jsonl"
    record_command(["true"], log=log, write=lambda _: None)

    report = replay_command(log, ["true"], write=lambda _: None)

    assert report.identical
    assert "bypass Refold" in report.notes[0]


@pytest.mark.long
def test_commands_may_be_recorded_inside_of_each_other(tmp_path: Path) -> None:
    """Both logs are whole; the inner proxy asks the outer one."""
    command = program(tmp_path, "print(text_of(ask('Hello')))")
    inner = [sys.executable, "-m", "refold", "record", "--log", "inner.jsonl", "--", *command]
    with Upstream() as upstream:
        arguments = ["record", "--log", "outer.jsonl", "--", *inner]
        done = refold_does(*arguments, folder=tmp_path, upstream=upstream)
        received = len(upstream.received)

    assert (done.returncode, received) == (0, 1)
    for name in ("inner.jsonl", "outer.jsonl"):
        assert refold.verify(tmp_path / name).complete
        assert kinds(tmp_path / name).count("model.answered") == 1


@pytest.mark.long
def test_what_a_command_left_behind_is_given_up(tmp_path: Path) -> None:
    """It exits while a request is on its way: that has no answer, in the log and afterwards."""
    command = program(
        tmp_path,
        """
        import threading
        threading.Thread(target=ask, args=("Hello",), daemon=True).start()
        sys.stdin.readline()
        os._exit(0)
        """,
    )
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream:
        upstream.use("weather", hold=True)
        recording = subprocess.Popen(
            [sys.executable, "-m", "refold", "record", "--log", str(log), "--", *command],
            env={
                **{each: os.environ[each] for each in OURS},
                **upstream.environment(),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with recording:
            upstream.wait_for_open(1)
            assert recording.stdin is not None
            recording.stdin.close()
            upstream.wait_for_hung_up()

    assert recording.returncode == 0
    assert kinds(log)[1:-1] == ["x-refold.conversation", "model.asked", "effect.cancelled"]
    assert refold.verify(log).complete


@pytest.mark.long
def test_a_log_that_cannot_grow_is_told_to_both(tmp_path: Path) -> None:
    """The program gets a 500 that says why; refold ends with code 5."""
    command = program(
        tmp_path,
        """
        for number in range(100):
            response = ask("Hello", user="x" * 20_000)
            if response.status == 500:
                print(json.loads(response.read())["error"]["message"])
                break
            response.read()
        """,
    )

    def small_files() -> None:
        import signal  # noqa: PLC0415  # runs in the child

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with Upstream() as upstream:
        done = refold_does(
            "record", "--log", "run.jsonl", "--", *command,
            folder=tmp_path, upstream=upstream, prepare=small_files,
        )  # fmt: skip

    assert done.returncode == 5
    assert done.stdout.startswith("refold: ")
    assert "run.jsonl" in done.stdout
    assert "Traceback" not in done.stderr
    assert "run.jsonl" in done.stderr
    assert refold.verify(tmp_path / "run.jsonl").intact


def test_keys_that_clients_want_are_given_in_a_replay(tmp_path: Path) -> None:
    """Those that there were, and are not any more; a program that sends one asks the same."""
    command = program(
        tmp_path, "print(os.environ['MY_TOKEN'], text_of(ask('Hello ' + os.environ['MY_TOKEN'])))"
    )
    log = tmp_path / "run.jsonl"
    recorded, replayed = list[bytes](), list[bytes]()
    token = {"MY_TOKEN": "a-token-of-mine-123"}
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in {**upstream.environment(), **token}.items():
            patch.setenv(name, value)
        record_command(command, log=log, write=recorded.append)
    report = replay_command(log, command, write=replayed.append)

    assert report.identical
    assert b"".join(recorded).split()[0] == b"a-token-of-mine-123"
    assert b"".join(replayed).split()[0] == b"refold-replay-MY_TOKEN"
    known = data_of(log, "run.started")[0]["rules"]["redaction"]["environment"]
    assert {"ANTHROPIC_API_KEY", "MY_TOKEN", "OPENAI_API_KEY"} <= {*known}


@pytest.mark.long
def test_a_variable_that_was_added_leads_to_the_record_again(tmp_path: Path) -> None:
    """Whatever it says here: a replay asks nobody."""
    [python, file] = program(tmp_path, "print(text_of(ask('Hello')))")
    Path(file).write_text(Path(file).read_text().replace("OPENAI_BASE_URL", "GROQ_BASE_URL"))
    with Upstream() as upstream:
        added = f"GROQ_BASE_URL={upstream.openai_url}"
        recorded = refold_does(
            "record", "--log", "run.jsonl", "--upstream", added, "--", python, file,
            folder=tmp_path, upstream=upstream,
        )  # fmt: skip
        elsewhere = {"GROQ_BASE_URL": upstream.openai_url}
        again = ["replay", "run.jsonl", "--", python, file]
        replayed = refold_does(*again, folder=tmp_path, more=elsewhere)
        asked = len(upstream.received)
    live = refold_does("replay", "run.jsonl", "--on-miss", "live", *again[2:], folder=tmp_path)

    assert (recorded.returncode, replayed.returncode, asked) == (0, 0, 1), replayed.stderr
    assert replayed.stdout == recorded.stdout
    assert (live.returncode, live.stdout) == (2, "")
    assert "pass the model's address with --upstream GROQ_BASE_URL=URL" in live.stderr


@pytest.mark.long
def test_a_terminal_is_a_terminal_again_in_the_replay(tmp_path: Path) -> None:
    """Of the same size, wherever the replay prints to."""
    command = [sys.executable, "-c", "import os; print(os.isatty(1), *os.get_terminal_size(1))"]
    log = tmp_path / "run.jsonl"
    ours, its = os.openpty()
    subprocess.run(
        [sys.executable, "-m", "refold", "record", "--log", str(log), "--", *command],
        cwd=tmp_path, stdin=its, stdout=its, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    os.close(its)
    shown = os.read(ours, 4096)
    os.close(ours)
    printed: list[bytes] = []

    report = replay_command(log, command, write=printed.append)

    assert report.identical
    assert b"".join(printed) == shown.replace(b"\r\n", b"\n") == b"True 80 24\n"
    first = next(iter(read_entries(log)))
    assert first.data["input"]["terminal"] == [80, 24]


@pytest.mark.long
@pytest.mark.parametrize(
    ("paints", "compared"), [(r"\x1b[2K\x1b[1G", 0), (r"\x1b[31m", 1)], ids=["moves", "colours"]
)
def test_a_screen_that_was_painted_is_not_compared(
    paints: str, compared: int, tmp_path: Path
) -> None:
    """In a recording made at a terminal, and the report says so; else what is printed is."""
    command = [sys.executable, "-c", f"import time; print('{paints}', time.time_ns())"]
    log = tmp_path / "run.jsonl"
    ours, its = os.openpty()
    subprocess.run(
        [sys.executable, "-m", "refold", "record", "--log", str(log), "--", *command],
        stdin=its, stdout=its, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    os.close(its)
    os.close(ours)
    report = replay_command(log, command, write=lambda _: None)
    exact = replay_command(log, command, write=lambda _: None, output="exact")

    assert [each.category for each in report.divergences] == ["output_changed"] * compared
    assert [each.category for each in exact.divergences] == ["output_changed"]
    screens = [note for note in report.notes if "terminal output" in note]
    assert len(screens) == 1 - compared
    assert not any("screen" in note for note in exact.notes)


def test_a_replay_of_a_command_that_does_not_exist_leaves_no_log(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    record_command(["true"], log=log)
    with pytest.raises(UsageError, match="no-such-command"):
        replay_command(log, ["no-such-command"], into=tmp_path / "again.jsonl")

    assert not (tmp_path / "again.jsonl").exists()


@pytest.mark.long
def test_what_prints_much_is_compared_as_far_as_it_is_kept(tmp_path: Path) -> None:
    """The first MiB, and how many bytes there were."""
    log = tmp_path / "run.jsonl"
    command = [sys.executable, "-c", "print('é' * 1_000_000)"]
    record_command(command, log=log, write=lambda _: None)
    report = replay_command(log, command, write=lambda _: None)

    assert report.identical
    output = data_of(log, "run.finished")[0]["output"]
    assert output["stdout_bytes"] == 2_000_001


@pytest.mark.long
@pytest.mark.parametrize("missing", ["uvicorn", "httpx2"])
def test_without_the_extra_it_is_said_what_to_install(missing: str, tmp_path: Path) -> None:
    """And the rest of Refold works."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from refold.cli import main\nsys.argv[0] = 'refold'\nmain()"
    )
    done, helped = (
        subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True, encoding="utf-8", cwd=tmp_path, check=False,
        )
        for arguments in (["record", "--", "true"], ["--help"])
    )  # fmt: skip

    assert done.returncode == 2
    assert "pip install 'refold[proxy]'" in done.stderr
    assert helped.returncode == 0


@pytest.mark.long
def test_the_report_names_the_guarantee_as_a_document(tmp_path: Path) -> None:
    """What the command prints goes to standard error then."""
    record_command(["echo", "a"], log=tmp_path / "run.jsonl", write=lambda _: None)
    arguments = ["replay", "--json", "run.jsonl", "--", "echo", "b"]
    done = refold_does(*arguments, folder=tmp_path)

    report = json.loads(done.stdout)
    assert (done.returncode, report["guarantee"]) == (1, "matched")
    assert report["divergences"][0]["category"] == "output_changed"
    assert done.stderr.startswith("b\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("", {"localhost": 200, "host.docker.internal": 403}),
        pytest.param(
            "127.0.0.2",
            {"127.0.0.2": 200, "host.docker.internal": 200, "evil.example": 403},
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_proxy_is_held_open_for_an_agent_elsewhere(
    address: str, hosts: Mapping[str, int], tmp_path: Path
) -> None:
    """Until a signal; who comes by a name of its own, as from a page, is refused."""
    command = [sys.executable, "-m", "refold", "record", "--log", "run.jsonl"]
    command += ["--listen", *([address] if address else [])]
    served = [*hosts.values()].count(200)
    asks = (
        "import http.client, json, os, urllib.parse\n"
        "base = urllib.parse.urlsplit(os.environ['OPENAI_BASE_URL'])\n"
        "said = [{'role': 'system', 'content': 'the weather desk ' + base.geturl()},\n"
        "        {'role': 'user', 'content': 'Hello'}]\n"
        "body = json.dumps({'model': 'm', 'messages': said})\n"
        f"for host in {[*hosts]!r} if 'HELD' in os.environ else {served} * [base.hostname]:\n"
        "    connection = http.client.HTTPConnection(base.netloc, timeout=60)\n"
        "    headers = {'authorization': 'Bearer sk-placeholder-4f1d'}\n"
        "    headers['host'] = f'{host}:{base.port}'\n"
        "    connection.request('POST', base.path + '/chat/completions', body, headers)\n"
        "    print(connection.getresponse().status)\n"
    )
    with Upstream() as upstream:
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**{each: os.environ[each] for each in OURS},
                                        **upstream.environment()},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert "until Ctrl-C" in process.stderr.readline()
            told = os.read(process.stdout.fileno(), 65536).decode()  # written before that
            variables = dict(line.split("=", 1) for line in told.splitlines())
            done = subprocess.run(
                [sys.executable, "-c", asks], env={**variables, "HELD": "1"},
                capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False,
            )  # fmt: skip
            process.send_signal(signal.SIGINT)
            code = process.wait(DEADLINE_SECONDS)

    log = tmp_path / "run.jsonl"
    assert (code, done.stderr) == (0, "")
    assert done.stdout.split() == [str(status) for status in hosts.values()]
    assert refold.verify(log).complete
    assert kinds(log).count("model.asked") == served
    word = variables["OPENAI_BASE_URL"].split("/")[3]
    assert word not in log.read_text()
    again = refold_does("replay", "run.jsonl", "--", sys.executable, "-c", asks, folder=tmp_path)
    assert (again.returncode, again.stdout) == (0, "200\n" * served), again.stderr
    shown = CliRunner().invoke(cli, ["show", str(log)]).stdout
    assert "completed listen" in shown
    assert "│  command" not in shown, "it started none"


def test_a_replay_in_another_folder_goes_on_live_and_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints of its folder is as recorded; what was not asked is asked, where that is."""
    command = program(tmp_path, "print(os.getcwd())\nprint(text_of(ask(sys.argv[1])))")
    printed: list[bytes] = []
    monkeypatch.setenv("OPENAI_API_KEY", "sk-placeholder-4f1d")
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with Upstream() as upstream:
        to = [f"OPENAI_BASE_URL={upstream.openai_url}"]
        monkeypatch.chdir(folders[0])
        words = [*command, "Hello", "--api-key", "argument-1a2b3c"]
        more: dict[str, Any] = {"profile": "langgraph", "write": printed.append}
        record_command(words, log="a.jsonl", upstreams=to, workspace="none", **more)
        monkeypatch.chdir(folders[1])
        log = folders[0] / "a.jsonl"
        same = replay_command(log, words, write=printed.append)
        plain = replay_command(log, words, profile="none", write=printed.append)
        live: dict[str, Any] = {"on_miss": "live", "upstreams": to, "into": "b.jsonl"}
        other = replay_command(log, [*command, "Hello there"], write=printed.append, **live)

    assert [str(one) for one in same.divergences] == []
    assert (same.identical, same.live, same.served, same.profile) == (True, 0, 1, "LangGraph")
    assert plain.profile == ""
    assert (other.identical, other.live) == (False, 1)
    assert refold.verify(folders[1] / "b.jsonl").complete
    assert f"{folders[1]}\n".encode() in b"".join(printed)
    assert b"argument-1a2b3c" not in log.read_bytes()


def test_the_last_port_is_one() -> None:
    assert Listening(print, "127.0.0.1:65535").address == "127.0.0.1:65535"
    with pytest.raises(UsageError, match="65535"):
        Listening(print, ":65536")


def test_a_replay_that_a_signal_interrupted_says_so(tmp_path: Path) -> None:
    """Else the command's early end would pass for what it does."""
    log = tmp_path / "run.jsonl"
    record_command(["true"], log=log, workspace="none", write=lambda _content: None)

    stopped = replay_command(log, ["sh", "-c", "kill $PPID; sleep 60"], write=lambda _content: None)

    assert not stopped.identical
    assert any("a signal" in note for note in stopped.notes)
