"""Planted keys are in nothing that Refold writes or says, and the record is replayed without them.

The command of this test is given keys in every way that there is, and says them in every way.
"""

import base64
import json
import os
import random
import re
import socket
import string
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import secretive
from tests.support.proxied import RawServer, all_bytes, data_of, question, recorded, said

PLACES = (
    "bearer", "x_api_key", "api_key", "query", "cookie", "organization", "proxy_authorization",
    "goog", "argv_option", "argv_equals", "argv_header", "argv_drawn", "set_cookie", "redirect",
    "base_url", "basic", "key_file",
)  # fmt: skip
"""Where keys without any shape are planted, that the program has from a file."""
SERVERS = ("set_cookie", "redirect", "base_url")
"""Those that only the server says, or is said, and the program never knew."""
VARIABLES = ("APP_PASSWORD", "SERVICE_TOKEN", "DATABASE_URL")
"""Where those are that it has from its environment."""
SHAPED = {
    "shape_openai": "sk-proj-{}",
    "shape_github": "ghp_{}abcdefghij12345678",
    "shape_aws": "AKIAQ7RK2ZT9XW4LMB8V",
    "shape_slack": "xoxb-123456789012-{}",
    "shape_google": "AIzaSyA-{}abcdefghij",
    "shape_jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{}",
}
AGENT = """
    import base64, http.client, json, os, sys, urllib.parse
    keys = json.load(open("keys.json"))
    own = [os.environ["APP_PASSWORD"], os.environ["SERVICE_TOKEN"],
           urllib.parse.urlsplit(os.environ["DATABASE_URL"]).password]
    base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    def ask(content, headers={}, query="", tool=None, stream=False):
        connection = http.client.HTTPConnection(base.netloc, timeout=60)
        messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": content}]
        if tool:
            call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            messages += [{"role": "assistant", "tool_calls": [call]}]
            messages += [{"role": "tool", "tool_call_id": "c1", "content": tool}]
        body = json.dumps({"model": "m", "messages": messages, "stream": stream})
        path = base.path + "/chat/completions" + query
        bearer = {"authorization": "Bearer " + keys["bearer"]}
        connection.request("POST", path, body, {**bearer, **headers})
        response = connection.getresponse()
        return response.status, response.getheader("location"), response.read().decode()
    basic = base64.b64encode(("me:" + keys["basic"]).encode()).decode()
    ask("one", {
        "x-api-key": keys["x_api_key"], "api-key": keys["api_key"], "x-goog-api-key": keys["goog"],
        "cookie": "a=b; sid=" + keys["cookie"], "openai-organization": keys["organization"],
        "proxy-authorization": "Bearer " + keys["proxy_authorization"],
    }, "?key=" + keys["query"])
    ask("two", {"authorization": "Basic " + basic})
    said = " ".join([*keys.values(), *own, *sys.argv])
    ask("all: " + said, tool="result: " + said)
    packed = " ".join(keys.values())  # another key is packed otherwise: not those that may change
    ask("packed: " + base64.b64encode(packed.encode()).decode())
    for stream in (False, True):
        status, location, body = ask("echo " + said, stream=stream)
        print(status, location, body)
    print(said)
    for key in keys.values():
        print(base64.b64encode(("x" + key).encode()).decode(), urllib.parse.quote(key))
"""


def drawn(name: str) -> str:
    """Return a key that looks drawn, the same for the same name."""
    return "".join(random.Random(name).choices(string.ascii_letters + string.digits, k=28))


KEYS = {name: drawn(name) for name in (*PLACES, *VARIABLES)} | {
    name: form.format(drawn(name)) for name, form in SHAPED.items()
}


def echo(connection: socket.socket, head: bytes) -> None:
    """Answer with what came, in many small chunks; say keys of the server's own besides."""
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = head.partition(b"\r\n\r\n")[2]
    while len(body) < size:
        body += connection.recv(65536)
    asked = json.loads(body)
    text = json.dumps({"error": {"message": asked["messages"][-1]["content"] + KEYS["bearer"]}})
    status, kind = "401 No", "application/json"
    if asked["stream"]:
        delta = {"choices": [{"index": 0, "delta": {"content": asked["messages"][-1]["content"]}}]}
        text = f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n"
        status, kind = "200 OK", "text/event-stream"
    lines = [
        f"HTTP/1.1 {status}", f"content-type: {kind}", "transfer-encoding: chunked",
        f"location: https://elsewhere.example/?token={KEYS['redirect']}",
        f"set-cookie: sid={KEYS['set_cookie']}; path=/", f"x-echo: {KEYS['bearer']}",
    ]  # fmt: skip
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
    content = text.encode()
    for at in range(0, len(content), 7):
        part = content[at : at + 7]
        connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    connection.sendall(b"0\r\n\r\n")


def forms(key: str) -> list[bytes]:
    """Return a key as it could be found: as it is, and in base64 wherever it stands in that."""
    raw = key.encode()
    found = [raw, raw.hex().encode()]
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + raw)
        found.append(coded[4 if before else 0 : -4])
    return found


def leaked(content: bytes) -> list[str]:
    """Return the names of the keys that are in there."""
    return [name for name, key in KEYS.items() if any(each in content for each in forms(key))]


def does(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run `refold`, with all diagnostics."""
    return subprocess.run(
        [sys.executable, "-m", "refold", "--log-level", "debug", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **more},
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the program, its keys, and its record below `kept`."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "kept").mkdir()
    (folder / "agent.py").write_text(textwrap.dedent(AGENT))
    given = {name: key for name, key in KEYS.items() if name not in (*VARIABLES, *SERVERS)}
    (folder / "keys.json").write_text(json.dumps(given))
    (folder / ".env").write_text(f"MORE_KEY={KEYS['key_file']}\n")
    with RawServer(echo) as server:
        environment = {
            "OPENAI_BASE_URL": server.url.replace("//", f"//me:{KEYS['base_url']}@") + "/v1",
            "APP_PASSWORD": KEYS["APP_PASSWORD"],
            "SERVICE_TOKEN": KEYS["SERVICE_TOKEN"],
            "DATABASE_URL": f"postgres://me:{KEYS['DATABASE_URL']}@localhost/db",
        }
        log = ["--log", "kept/run.jsonl"]
        done = does(folder, "record", *log, "--", *command(), **environment)
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_bytes(done.stdout)
    (folder / "stderr").write_bytes(done.stderr)
    return folder


def command() -> list[str]:
    """Return a command line with keys on it."""
    return [
        sys.executable, "agent.py", "--api-key", KEYS["argv_option"],
        f"--token={KEYS['argv_equals']}", "-H", f"X-Auth-Token: {KEYS['argv_header']}",
        KEYS["argv_drawn"],
    ]  # fmt: skip


def test_every_key_was_there(folder: Path) -> None:
    """The program said them all, and the server got them: else this file would test nothing."""
    assert len(KEYS) >= 20
    printed = leaked((folder / "stdout").read_bytes())
    assert sorted({*printed, "set_cookie", "base_url"}) == sorted(KEYS)


def test_no_key_is_in_the_record(folder: Path) -> None:
    """Neither in the log nor in its blobs; nor in what `refold record` says itself."""
    assert leaked(all_bytes(folder / "kept")) == []
    assert leaked((folder / "stderr").read_bytes()) == []
    assert b"[redacted:" in all_bytes(folder / "kept")


READERS = ("show --json", "show --events", "verify --json", "show --at=-1 --json")
READS = """
import sys
from refold.cli import main
for words in sys.argv[1:]:
    try:
        main(["--log-level", "debug", *words.split(), "kept/run.jsonl"])
    except SystemExit as ended:
        print("ended with", ended.code, flush=True)
"""


@pytest.fixture(scope="module")
def read(folder: Path) -> dict[str, bytes]:
    """Return what each of `READERS` says, with all diagnostics; in one process, for it is slow."""
    done = subprocess.run(
        [sys.executable, "-u", "-c", READS, *READERS],
        cwd=folder, env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, timeout=120,
    )  # fmt: skip
    pieces = re.findall(rb".*?^ended with \w+\n", done.stdout, re.DOTALL | re.MULTILINE)
    return dict(zip(READERS, pieces, strict=True))


@pytest.mark.parametrize("words", READERS)
def test_no_key_is_in_what_is_said_of_it(words: str, read: dict[str, bytes]) -> None:
    assert read[words].endswith(b"\nended with 0\n")
    assert leaked(read[words]) == []


@pytest.mark.long
def test_it_is_replayed_without_the_keys_of_the_environment(folder: Path) -> None:
    """Placeholders stand for them, or others; what is recorded of the replay has none either."""
    into = ["--into", "kept/again.jsonl"]
    other = {"DATABASE_URL": "postgres://me:another-password@localhost/db"}
    done = does(folder, "replay", *into, "kept/run.jsonl", "--", *command(), **other)

    assert done.returncode == 0, done.stderr.decode()
    assert leaked(done.stderr) == []
    assert leaked(all_bytes(folder / "kept")) == []


@pytest.mark.parametrize("count", [8, pytest.param(120, marks=pytest.mark.long)])
def test_keys_that_encoders_escape_are_in_no_record(tmp_path: Path, count: int) -> None:
    """Each in each encoding, in what is asked, in what is answered, and as the name of a member."""
    answers: list[bytes] = []

    def answer(connection: socket.socket, _head: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n"
        connection.sendall(head + b"content-length: %d\r\n\r\n%b" % (len(answers[-1]), answers[-1]))

    log = tmp_path / "run.jsonl"
    with RawServer(answer) as server, recorded(log, server.url) as base:
        for key in secretive.keys(count).values():
            said_so = {name: encode(key) for name, encode in secretive.ENCODINGS.items()}
            message = {"role": "assistant", "content": json.dumps(said_so), key: said_so}
            answers.append(json.dumps({"choices": [{"message": message}], "model": key}).encode())
            body = question(json.dumps(said_so), user=said_so, **{key: key})
            assert said(base, body, headers={"x-api-key": key}) == (200, answers[-1])

    assert not secretive.leaked(all_bytes(tmp_path).decode(errors="replace"), count)
    assert len(data_of(log, "model.answered")) == count
