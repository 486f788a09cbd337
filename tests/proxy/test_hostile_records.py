"""Records that nobody recorded: forged, hashed anew, and intact as far as `verify` can tell.

Each row of the tables is one such record.  Whatever it holds, a replay gives the command no
variable that the record chose, sends nobody elsewhere, keeps the real key from all of them, and
reports what it did not serve (CONTRACT.md §16.6).
"""

import gzip
import http.client
import json
import os
import shutil
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import pytest

from refold.engine.errors import LogDamaged, UsageError
from refold.engine.wire.parts.kept_answers import KEPT_HEADERS
from refold.proxy.sessions import replay_command
from refold.replay.audit.verify import verify
from refold.replay.observed.effects import effects_of
from refold.replay.observed.record import read_record
from refold.replay.observed.report import report_of
from tests.support.forging import Change, forged, in_input, in_rules, in_wire
from tests.support.loops import for_each, half
from tests.support.proxied import RawServer, answering, question, recorded, replayed, said
from tests.support.upstream import Upstream

REAL_KEY: Final = "sk-real-0123456789abcdefghij"
OUTSIDE: Final = "OUTSIDE"
"""Stands in a row for the address of a server that nobody is to be led to."""
LONG: Final = 20_000


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a record of one request, as it was made."""
    log = tmp_path_factory.mktemp("record") / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        assert said(base, question("Hello"))[0] == 200
    return log


@pytest.fixture(scope="module")
def outside() -> Iterator[RawServer]:
    """Give a server that belongs to whoever forged the record."""
    with RawServer(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")) as server:
        yield server


def both(*changes: Change) -> Change:
    """Return what makes all these changes."""

    def change(kind: str, data: dict[str, Any]) -> None:
        for each in changes:
            each(kind, data)

    return change


def answered(**members: Any) -> Change:
    """Return what changes the entry that says what was answered."""

    def change(kind: str, data: dict[str, Any]) -> None:
        if kind == "model.answered":
            data.update(members)

    return change


def failed(status: int) -> Change:
    """Return what forges an answer of this status on both sides: its wire and its entry."""
    error = {"code": f"http_{status}", "message": "no"}
    return both(in_wire(status=status), answered(status="error", error=error))


def leading(to: str, status: int = 307, **more: str) -> Change:
    """Return what forges a redirection, on both sides."""
    return both(in_wire(headers={"location": to, **more}), failed(status))


def wire_headers(**headers: str) -> Change:
    """Return what gives an answer these headers, `_` being `-`, besides its content type."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return in_wire(headers={"content-type": "application/json", **named})


def body(content: bytes, **members: Any) -> Change:
    """Return what gives an answer this body."""
    whole = {"base64": b64encode(content).decode(), "sizes": [len(content)], "at_ms": [0]}
    wire = in_wire(**{**whole, **members})

    def change(kind: str, data: dict[str, Any]) -> None:
        if kind == "x-refold.wire":
            data.pop("text", None)
        wire(kind, data)

    return change


# --- what leads a client elsewhere ---------------------------------------------------------------

LEADING: Final[dict[str, Change]] = {
    **{
        f"{status} to a server": leading(f"{OUTSIDE}/v1", status) for status in (301, 302, 303, 307)
    },
    "308 to a server": leading(f"{OUTSIDE}/v1", 308),
    "300 to a server": leading(f"{OUTSIDE}/v1", 300),
    "an entry that says ok": in_wire(status=307, headers={"location": f"{OUTSIDE}/v1"}),
    "an entry that says another error": both(
        in_wire(status=307, headers={"location": f"{OUTSIDE}/v1"}),
        answered(status="error", error={"code": "http_500", "message": "no"}),
    ),
    "an entry that was cut": both(
        in_wire(status=307, headers={"location": f"{OUTSIDE}/v1"}, end="cut"),
        answered(status="error", error={"code": "cut", "message": "no"}),
    ),
    "created elsewhere": in_wire(status=201, headers={"location": f"{OUTSIDE}/v1"}),
    "to be polled elsewhere": in_wire(status=202, headers={"location": f"{OUTSIDE}/v1"}),
    "without a scheme": leading("//OUTSIDE_PLACE/v1"),
    "with backslashes": leading("/\\OUTSIDE_PLACE/v1"),
    "with two backslashes": leading("\\\\OUTSIDE_PLACE/v1"),
    "behind a tab": leading("/\t/OUTSIDE_PLACE/v1"),
    "behind a space": leading(" //OUTSIDE_PLACE/v1"),
    "as user of our name": leading("http://host.refold.proxy@OUTSIDE_PLACE/v1"),
    "as our name and more": leading("http://refold.proxy@OUTSIDE_PLACE/v1"),
    "as a file": leading("file:///etc/passwd"),
    "as data": leading("data:application/json,{}"),
    "as a script": leading("javascript:alert(1)"),
    "as a path that is not whole": leading("v1/messages"),
    "as nothing": leading(""),
    "as a query": leading("?key=1"),
    **{
        f"by {name}": wire_headers(**{name: f"{place}/v1"})
        for name in ("x_goog_upload_url", "x_goog_upload_control_url", "operation_location")
        for place in (OUTSIDE, "http://refold.proxy@OUTSIDE_PLACE", "//OUTSIDE_PLACE")
    },
    "in capitals": leading("HTTP://OUTSIDE_PLACE/v1"),
}
"""Redirections, each of which is refused."""

BROKEN: Final[dict[str, Change]] = {
    **{f"status {status}": failed(status) for status in (100, 101, 102, 103, 150, 199)},
    "status 204 with a body": both(in_wire(status=204), answered(status="ok")),
    "status 304 with a body": failed(304),
    "success of an entry that failed": answered(
        status="error", error={"code": "http_307", "message": "no"}
    ),
    "failure of an entry that is ok": in_wire(status=500),
    "a bomb": both(
        body(gzip.compress(b"a" * 1_000_000)),
        wire_headers(content_encoding="gzip"),
    ),
    "a bomb in a bomb": wire_headers(content_encoding="gzip, gzip"),
    "a bomb in capitals": wire_headers(content_encoding="GZIP"),
    **{f"packed with {name}": wire_headers(content_encoding=name)
       for name in ("br", "zstd", "deflate", "x-gzip", "identity, br")},
}  # fmt: skip
"""What no recorder writes, and no client is given."""

HEADERS: Final[dict[str, Change]] = {
    name: wire_headers(**{name: value})
    for name, value in {
        "refresh": f"0; url={OUTSIDE}",
        "link": f"<{OUTSIDE}>; rel=preload",
        "alt-svc": 'h2="evil.example:443"',
        "content-location": OUTSIDE,
        "azure-asyncoperation": OUTSIDE,
        "set-cookie": "session=1; domain=localhost",
        "www-authenticate": f'Bearer resource_metadata="{OUTSIDE}"',
        "proxy-authenticate": "Basic",
        "authentication-info": "nextnonce=1",
        "strict-transport-security": "max-age=99999999",
        "connection": "upgrade",
        "upgrade": "websocket",
        "keep-alive": "timeout=99999",
        "transfer-encoding": "chunked, identity",
        "content-length": "5",
        "trailer": "location",
        "clear-site-data": '"*"',
        "access-control-allow-origin": "*",
        "sourcemap": OUTSIDE,
        "retry-after": "999999999",
        "retry-after-ms": "3600001",
        "Location": OUTSIDE,
        "x-stainless-evil": "1",
    }.items()
} | {
    "a date to wait for": wire_headers(retry_after="Fri, 31 Dec 9999 23:59:59 GMT"),
    "a negative wait": wire_headers(retry_after="-1"),
    "a wait in powers": wire_headers(retry_after="1e300"),
    "an end of a line": wire_headers(x_request_id="a\r\nlocation: http://evil.example"),
    "an end of a line alone": wire_headers(request_id="a\nset-cookie: a=b"),
    "a zero": wire_headers(openai_version="a\0b"),
    "a letter of no header": wire_headers(x_request_id="a\u2028b"),
    "a header without end": wire_headers(x_request_id="a" * 70_000),
    "a name with an end of a line": wire_headers(**{"x-a\r\nlocation": OUTSIDE}),
    "a name that is empty": wire_headers(**{"": OUTSIDE}),
}
"""Headers, none of which reaches a client; the answer does."""


def placed(change: Change, outside: RawServer) -> Change:
    """Return a change with the address of the server outside in it."""

    def put(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("OUTSIDE_PLACE", urlsplit(outside.url).netloc).replace(
                OUTSIDE, outside.url
            )
        if isinstance(value, dict):
            return {put(name): put(item) for name, item in value.items()}
        return [put(item) for item in value] if isinstance(value, list) else value

    def placing(kind: str, data: dict[str, Any]) -> None:
        change(kind, data)
        data.update(put(data))

    return placing


def eager(base: str) -> tuple[int, dict[str, str], bytes]:
    """Ask as the most trusting client does: whatever leads elsewhere is followed, with its key."""
    url, headers = f"{base}/openai/chat/completions", {"authorization": f"Bearer {REAL_KEY}"}
    for _ in range(3):
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.netloc, timeout=60)
        connection.request("POST", place.path, json.dumps(question("Hello")), headers)
        with connection.getresponse() as response:
            found = {name.lower(): value for name, value in response.getheaders()}
            status, content = response.status, response.read()
        connection.close()
        if "location" not in found:
            break
        url = urljoin(url, found["location"])
    return status, found, content


@pytest.mark.parametrize("row", [*half(LEADING), *half(BROKEN)])
def test_what_leads_away_or_nobody_recorded_is_refused(
    row: str, record: Path, outside: RawServer, tmp_path: Path
) -> None:
    """As a request without an answer, with a reason; the report has it, and nothing is sent."""
    change = placed((LEADING | BROKEN)[row], outside)
    log = forged(record, tmp_path / "run.jsonl", change)

    with replayed(log) as (base, desk):
        status, _, content = eager(base)
    report = report_of(read_record(log), desk.matcher, live=desk.live, output=None)

    assert status == 400
    assert b"this answer is not served" in content
    assert [each.category for each in report.divergences] == ["not_served"]
    assert (report.served, report.live, outside.heads) == (0, 0, [])


@pytest.mark.parametrize("row", half(HEADERS))
def test_headers_that_no_recorder_keeps_are_not_served(
    row: str, record: Path, outside: RawServer, tmp_path: Path
) -> None:
    """The answer is, and says what it said."""
    with replayed(record) as (base, _):
        plain = eager(base)
    log = forged(record, tmp_path / "run.jsonl", placed(HEADERS[row], outside))

    with replayed(log) as (base, desk):
        found = eager(base)

    assert (found[0], found[2]) == (plain[0], plain[2])
    assert {*found[1]} <= {*plain[1]} <= {*KEPT_HEADERS, "content-length", "transfer-encoding"}
    assert found[1].get("transfer-encoding") == plain[1].get("transfer-encoding")
    assert (desk.served, outside.heads) == (1, [])


def test_a_redirection_that_stays_here_is_served(record: Path, tmp_path: Path) -> None:
    """It leads to the proxy, which has no answer to what comes then."""
    log = forged(record, tmp_path / "run.jsonl", leading("/openai/chat/completions?again=1"))

    with replayed(log) as (base, desk):
        status, _, content = eager(base)

    assert (status, desk.served) == (400, 1)
    assert b"no recorded answer" in content


# --- what a record says of its command -----------------------------------------------------------

BEGINS: Final = {
    "a command in it": "$(touch marker)",
    "a command behind a beginning": "sk-ant-api03-$(touch marker)",
    "a line in it": "sk-\nBASH_ENV=marker",
    "without end": "sk-" * 100_000,
    "a path": "/etc/passwd",
    "a zero": "sk-\0",
}

NAMES: Final = (
    "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "PYTHONSTARTUP", "PYTHONPATH",
    "NODE_OPTIONS", "GIT_SSH_COMMAND", "GIT_ASKPASS", "EDITOR", "HTTP_PROXY", "HTTPS_PROXY",
    "PIP_INDEX_URL", "SSL_CERT_FILE", "SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "KEY=1", "A\nTOKEN",
    "TOKEN\0", "", "=", "BASH_FUNC_key%%", "a" * LONG + "_KEY",
)  # fmt: skip


def environment_in(log: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return what a command is given as its environment in a replay that runs in a folder."""
    monkeypatch.chdir(folder)
    replay_command(log, ["bash", "-c", "env -0 > seen"], write=lambda _: None)
    pairs = (each.partition("=") for each in (folder / "seen").read_text().split("\0"))
    return {name: value for name, is_one, value in pairs if is_one}


@pytest.mark.parametrize("name", half(NAMES))
def test_a_record_sets_no_variable(
    name: str, record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it says held a key, and however that began."""
    change = in_rules(keys={name: "$(touch marker)"}, redaction={"environment": [name]})
    log = forged(record, tmp_path / "run.jsonl", change)

    found = environment_in(log, tmp_path, monkeypatch)

    assert found.get(name) == os.environ.get(name)
    assert "$(touch" not in "".join(found.values())
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("begin", BEGINS.values(), ids=[*BEGINS])
def test_a_record_says_no_text_of_a_key(
    begin: str, record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys begin as we know that keys begin, or with our word."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    log = forged(record, tmp_path / "run.jsonl", in_rules(keys={"OPENAI_API_KEY": begin}))

    found = environment_in(log, tmp_path, monkeypatch)

    assert found["OPENAI_API_KEY"] == "refold-replay-OPENAI_API_KEY"


SENT: Final = {
    "OPENAI_API_KEY": "sk-proj-",
    "ANTHROPIC_API_KEY": "sk-ant-api03-",
    "ANTHROPIC_AUTH_TOKEN": "",
    "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-",
    "GEMINI_API_KEY": "AIza",
    "GOOGLE_API_KEY": "AIza",
    "AWS_BEARER_TOKEN_BEDROCK": "",
    "GROQ_API_KEY": "gsk_",
    "HOUSE_API_KEY": "",
}
"""Variables whose keys the routes of a record would send, and how those of the user begin."""


@pytest.mark.parametrize("name", SENT)
def test_no_real_key_reaches_a_command(
    name: str, record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the same shape does, whatever the record says; what the routes do not send stays."""
    real = SENT[name] + "0123456789abcdefghijklmnop"
    monkeypatch.setenv(name, real)
    monkeypatch.setenv("GITHUB_TOKEN", "a-token-of-the-users-tools")
    variables = ["GROQ_BASE_URL", "HOUSE_BASE_URL"]
    log = forged(record, tmp_path / "run.jsonl", in_input(variables=variables))

    found = environment_in(log, tmp_path, monkeypatch)

    assert found[name].startswith(f"{SENT[name]}refold-replay-{name}")
    assert real not in "\0".join(found.values())
    assert found["GITHUB_TOKEN"] == "a-token-of-the-users-tools"


def test_what_may_go_on_live_needs_the_real_key(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--on-miss live`: a missing one is given all the same."""
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    command = ["bash", "-c", "echo $OPENAI_API_KEY $ANTHROPIC_API_KEY > seen"]

    replay_command(record, command, on_miss="live", write=lambda _: None)

    assert (tmp_path / "seen").read_text().split() == [REAL_KEY, "refold-replay-ANTHROPIC_API_KEY"]


@pytest.mark.parametrize(
    "name",
    ["BASH_ENV", "HTTP_PROXY", "PATH", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NODE_OPTIONS",
     "npm_config_registry", "DOCKER_HOST", "DATABASE_URL", "GIT_SSH_COMMAND", "NO_PROXY"],
)  # fmt: skip
def test_a_record_leads_no_other_program_here(name: str, record: Path, tmp_path: Path) -> None:
    """It would serve what it likes to what reads such a variable; the user may say that it is one.

    Left out, the command would go past the record: so nothing is run.
    """
    log = forged(record, tmp_path / "run.jsonl", in_input(variables=[name]))
    command = [shutil.which("touch") or "", str(tmp_path / "started")]

    with pytest.raises(UsageError, match=f"--upstream {name}=URL"):
        replay_command(log, command)
    assert not (tmp_path / "started").exists()

    if name == name.upper():
        replay_command(log, command, upstreams=[f"{name}=http://127.0.0.1:9"])
        assert (tmp_path / "started").exists()


def test_a_profile_of_a_record_sets_no_variable(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one of ours with more of them, nor one of theirs; nor does it add arguments."""
    variables = {"BASH_ENV": "$(touch marker)", "LD_PRELOAD": "./evil.so"}
    for at, name in enumerate(("Claude Code", "Of Theirs")):
        told = {"name": name, "variables": variables, "arguments": ["-c", "touch marker"]}
        log = forged(record, tmp_path / f"{at}.jsonl", in_rules(profile=told))
        found = environment_in(log, tmp_path, monkeypatch)
        assert not {*variables} & {*found}
    assert not (tmp_path / "marker").exists()


SHAPES: Final[dict[str, Change]] = {
    "keys as a list": in_rules(keys=["OPENAI_API_KEY"]),
    "keys that are no texts": in_rules(keys={"OPENAI_API_KEY": 1}),
    "redaction as a list": in_rules(redaction=["environment"]),
    "names as a text": in_rules(redaction={"environment": "OPENAI_API_KEY"}),
    "names that are no texts": in_rules(redaction={"environment": [5]}),
    "tools as a text": in_rules(redaction={"tools": "search"}),
    "paths as a list": in_rules(redaction={"paths": ["/a"]}),
    "paths that are texts": in_rules(redaction={"paths": {"tool:a": "/a"}}),
    "folders as a list": in_rules(folders=["/"]),
    "folders that are no texts": in_rules(folders={"folder": 5, "home": None}),
    "a profile as a list": in_rules(profile=["Claude Code"]),
    "a profile without a name": in_rules(profile={"name": 5}),
    "variables of a profile as a list": in_rules(profile={"name": "a", "variables": ["A"]}),
    "tools of a profile as a text": in_rules(profile={"name": "a", "hands_over": {"a": "b"}}),
    "beginnings that are no texts": in_rules(profile={"name": "a", "asides": [5]}),
    "what is left out as a text": in_rules(profile={"name": "a", "left_out": "a"}),
    "volatile places as a text": in_rules(volatile="model:*/parameters"),
    "volatile texts as an object": in_rules(volatile_texts={"a": "b"}),
    "lists that are no texts": in_rules(unordered_lines=[None]),
    "an order that takes for ever": in_rules(unordered=["(a+)+$"]),
    "places of many brackets": in_rules(volatile=["model:" + "[" * LONG + "/parameters"]),
    "tools of many brackets": in_rules(redaction={"tools": ["[" * LONG]}),
    "paths of many brackets": in_rules(redaction={"paths": {"tool:" + "[" * LONG: ["/a"]}}),
    "places without end": in_rules(volatile=["model:*/a"] * LONG),
    "variables as a text": in_input(variables="OPENAI_BASE_URL"),
    "variables that are no texts": in_input(variables=[["OPENAI_BASE_URL"]]),
    "a terminal too large": in_input(terminal=[10**9, 24]),
    "a terminal below nothing": in_input(terminal=[-1, 24]),
    "a terminal of texts": in_input(terminal=["80", "24"]),
    "chunks that are no whole numbers": in_wire(sizes=[0.5], at_ms=[0]),
    "chunks below nothing": in_wire(sizes=[-1], at_ms=[0]),
    "chunks beyond the body": in_wire(sizes=[10**12], at_ms=[0]),
    "chunks that are truth": in_wire(text="a", sizes=[True], at_ms=[0]),
    "times without chunks": in_wire(at_ms=[0] * 1000),
    "times that are texts": in_wire(at_ms=["0"]),
    "bytes that are none": in_wire(text=None, base64="?"),
    "a status that is a text": in_wire(status="200"),
    "a status beyond all": in_wire(status=10**6),
    "a status below nothing": in_wire(status=-200),
    "headers that are no object": in_wire(headers=["location"]),
    "headers that are no texts": in_wire(headers={"location": 5}),
}
"""What no recorder writes: a replay would stop in the middle of it."""


@for_each("row", SHAPES)
def test_what_no_recorder_writes_is_damage_before_a_command_starts(
    row: str, record: Path, tmp_path: Path
) -> None:
    """With the entry; `verify` looks at the chain, and finds none."""
    log = forged(record, tmp_path / "run.jsonl", SHAPES[row])

    with pytest.raises(LogDamaged, match=r"run\.started|x-refold\.wire"):
        replay_command(log, ["touch", str(tmp_path / "started")])
    assert not (tmp_path / "started").exists()


EVIL: Final = "(a+)+$"
PATTERNS: Final[dict[str, Change]] = {
    "volatile text": in_rules(volatile_texts=[EVIL]),
    "volatile text of a profile": in_rules(profile={"name": "a", "volatile_texts": [EVIL]}),
    "what is left out of names": in_rules(profile={"name": "a", "left_out": [EVIL, "("]}),
    "what is no agent": in_rules(profile={"name": "a", "asides": [EVIL, "[z-a]"]}),
    "loops in loops": in_rules(profile={"name": "a", "left_out": ["a*a*a*a*a*b"]}),
}


@for_each("row", PATTERNS)
def test_a_pattern_that_takes_for_ever_is_left_out(row: str, record: Path, tmp_path: Path) -> None:
    """More is compared then, never less; what is asked with many letters is read in no time."""
    letters = "a" * 5000 + "!"
    log = forged(record, tmp_path / "run.jsonl", PATTERNS[row])

    with replayed(log) as (base, desk):
        first = said(base, question("Hello"))
        said(base, question(letters, system=letters))

    assert (first[0], desk.served, len(desk.matcher.misses)) == (200, 1, 1)


# --- tool calls ----------------------------------------------------------------------------------

CALL: Final = {
    "id": "c1", "type": "function", "function": {"name": "Bash", "arguments": '{"cmd":"rm -r /"}'}
}  # fmt: skip


def chat(**message: Any) -> bytes:
    """Return the body of an answer of chat completions."""
    said: dict[str, Any] = {"role": "assistant", "content": None, **message}
    return json.dumps(
        {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    ).encode()


CALLS: Final[dict[str, tuple[Change, list[str], int]]] = {
    "a call of no entry": (body(chat(tool_calls=[CALL])), ["Bash"], 0),
    "many": (body(chat(tool_calls=[CALL] * 30)), ["Bash"] * 30, 0),
    "the old form": (
        body(chat(function_call={"name": "Bash", "arguments": "{}"})), ["Bash"], 0,
    ),
    "arguments that are none": (
        body(chat(tool_calls=[{**CALL, "function": {"name": "Bash", "arguments": "{"}}])),
        ["Bash"], 0,
    ),
    "letters in disguise": (
        body(chat(tool_calls=[CALL]).replace(b"tool_calls", b"t\\u006fol_calls")), ["Bash"], 0,
    ),
    "no call, whatever entries say": (
        both(body(chat(content="Hi")), answered(message={
            "role": "assistant", "content": "",
            "tool_calls": [{"id": "c1", "name": "Read", "arguments": {}}],
        })), [], 0,
    ),
    "in what is no answer": (body(b"[" + chat(tool_calls=[CALL]) + b"]"), [], 1),
    "in what is not served": (
        both(body(chat(tool_calls=[CALL])), leading("http://evil.example/")), [], 0,
    ),
}  # fmt: skip
"""What an answer asks for: by the bytes that a client gets."""


@for_each("row", CALLS)
def test_the_calls_that_are_announced_are_those_that_are_served(
    row: str, record: Path, tmp_path: Path
) -> None:
    """And what cannot be read is said to be so."""
    change, tools, unread = CALLS[row]
    log = forged(record, tmp_path / "run.jsonl", change)

    found = effects_of(read_record(log))

    assert [each.tool for each in found.calls] == tools
    assert found.unread == unread


def test_the_tables_are_of_intact_records(record: Path, tmp_path: Path) -> None:
    """So `verify` is no help; there are more than 60 of them."""
    tables = (LEADING, BROKEN, HEADERS, NAMES, BEGINS, SHAPES, PATTERNS, CALLS)
    log = forged(record, tmp_path / "run.jsonl", leading("http://evil.example/"))

    assert (verify(log).intact, verify(log).complete) == (True, True)
    assert sum(map(len, tables)) > 60
