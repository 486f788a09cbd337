"""Clients of Gemini, Vertex and Bedrock, as published: what they count is what the log says.

Each runs two agents, of which one asks the other by a tool, whole and streamed, behind
`refold record`; then again behind `refold replay`, with nobody to ask.
"""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import refold
from refold.engine.wire.parts.framing import FRAMES, frame_of
from refold.replay.observed.record import read_record
from refold.replay.run.opened_run import delegation_tree
from tests.support.proxied import all_bytes, data_of

TOKEN: Final = "drawn-4f1d9c2b7e"
DEADLINE_SECONDS: Final = 120.0
PLACE: Final = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
"""Of Vertex: google-genai leaves it out of paths, where its base URL looks like no Google's."""
BRIEF: Final = "Find breakfast in Bergen."
GUIDE: Final = "Breakfast is at the fish hall."
FINAL: Final = "First the fish hall, then up Fløyen."

GEMINI: Final = """
import json, os, sys
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

is_vertex, is_stream = sys.argv[1] == "vertex", sys.argv[2] == "stream"
token = os.environ["TOKEN"]
client = (
    genai.Client(vertexai=True, credentials=Credentials(token)) if is_vertex
    else genai.Client(api_key=token)
)
counts = []

def ask(system, contents):
    declared = {"name": "ask_guide", "description": "Ask.", "parameters": {
        "type": "OBJECT", "properties": {"brief": {"type": "STRING"}}}}
    config = types.GenerateContentConfig(
        system_instruction=system, tools=[types.Tool(function_declarations=[declared])])
    given = {"model": "gemini-2.5-flash", "contents": contents, "config": config}
    if is_stream:
        answers = list(client.models.generate_content_stream(**given))
    else:
        answers = [client.models.generate_content(**given)]
    used = answers[-1].usage_metadata
    counts.append([used.prompt_token_count, used.candidates_token_count,
                   used.cached_content_token_count or 0])
    return [part for each in answers for part in each.candidates[0].content.parts]

said = [types.Content(role="user", parts=[types.Part(text="Plan a day in Bergen.")])]
parts = ask("the trip desk", said)
call = next(part.function_call for part in parts if part.function_call)
found = ask("the guide", [types.Content(role="user", parts=[types.Part(text=call.args["brief"])])])
result = {"result": "".join(part.text for part in found)}
said.append(types.Content(role="model", parts=parts))
said.append(types.Content(role="user", parts=[
    types.Part.from_function_response(name="ask_guide", response=result)]))
text = "".join(part.text for part in ask("the trip desk", said))
print(json.dumps({"text": text, "counts": counts}))
"""
ANTHROPIC: Final = """
import json, os, sys
import anthropic

is_vertex, is_stream = sys.argv[1] == "vertex", sys.argv[2] == "stream"
if is_vertex:
    model = "claude-sonnet-4-5@20250929"
    client = anthropic.AnthropicVertex(
        region="europe-west4", project_id="p", access_token=os.environ["TOKEN"])
else:
    model = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
    client = anthropic.AnthropicBedrock(aws_region="eu-west-1")
counts = []

def ask(system, messages):
    schema = {"type": "object", "properties": {"brief": {"type": "string"}}}
    tools = [{"name": "ask_guide", "description": "Ask.", "input_schema": schema}]
    given = {"model": model, "max_tokens": 100, "system": system, "tools": tools}
    if is_stream:
        with client.messages.stream(**given, messages=messages) as stream:
            answer = stream.get_final_message()
    else:
        answer = client.messages.create(**given, messages=messages)
    used = answer.usage
    cached = used.cache_read_input_tokens or 0
    written = used.cache_creation_input_tokens or 0
    counts.append([used.input_tokens + cached + written, used.output_tokens, cached])
    return answer.content

said = [{"role": "user", "content": "Plan a day in Bergen."}]
blocks = ask("the trip desk", said)
call = next(block for block in blocks if block.type == "tool_use")
found = ask("the guide", [{"role": "user", "content": call.input["brief"]}])
said.append({"role": "assistant", "content": blocks})
said.append({"role": "user", "content": [
    {"type": "tool_result", "tool_use_id": call.id, "content": found[0].text}]})
text = "".join(block.text for block in ask("the trip desk", said))
print(json.dumps({"text": text, "counts": counts}))
"""


@attrs.frozen
class Client:
    """One published client, and how it finds its server."""

    code: str
    kind: str
    needs: str
    """A package of it, or one that it needs there."""
    variable: str
    api: str
    model: str
    path: str
    """How the paths of its requests begin."""


PUBLISHERS: Final = "/projects/p/locations/europe-west4/publishers"
CLIENTS: Final = {
    "gemini": Client(
        GEMINI, "gemini", "google.genai", "GOOGLE_GEMINI_BASE_URL",
        "generate", "gemini-2.5-flash", "/v1/models/",
    ),
    "gemini-vertex": Client(
        GEMINI, "vertex", "google.genai", "GOOGLE_VERTEX_BASE_URL",
        "generate", "gemini-2.5-flash", f"/v1beta1{PUBLISHERS}/google/models/",
    ),
    "claude-vertex": Client(
        ANTHROPIC, "vertex", "google.auth", "ANTHROPIC_VERTEX_BASE_URL",
        "messages", "claude-sonnet-4-5@20250929", f"{PUBLISHERS}/anthropic/models/",
    ),
    "claude-bedrock": Client(
        ANTHROPIC, "bedrock", "botocore", "ANTHROPIC_BEDROCK_BASE_URL",
        "messages", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "/model/",
    ),
}  # fmt: skip


def parts_for(said: str) -> tuple[list[dict[str, Any]], list[int]]:
    """Return what the model says to a request, by its text, and the tokens of it."""
    if GUIDE in said:
        return [{"text": FINAL}], [80, 9, 40]
    if "the guide" in said:
        return [{"text": GUIDE}], [20, 7, 0]
    return [{"call": {"brief": BRIEF}}], [30, 5, 10]


def as_gemini(parts: list[dict[str, Any]], tokens: list[int]) -> list[dict[str, Any]]:
    """Return the events of a stream; the last is the whole of an answer that is none."""
    made = [
        {"functionCall": {"name": "ask_guide", "args": part["call"]}} if "call" in part else part
        for part in parts
    ]
    counts = dict(
        zip(
            ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
            tokens,
            strict=True,
        )
    )
    content = {"role": "model", "parts": made}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return [{"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-2.5"}]


def as_claude(parts: list[dict[str, Any]], tokens: list[int]) -> dict[str, Any]:
    """Return a whole answer."""
    given, said, cached = tokens
    use = {"type": "tool_use", "id": "toolu_1", "name": "ask_guide"}
    content = [
        {**use, "input": part["call"]} if "call" in part else {"type": "text", **part}
        for part in parts
    ]
    fresh = given - cached
    usage = {"input_tokens": fresh, "cache_read_input_tokens": cached, "output_tokens": said}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
        "content": content, "stop_reason": "tool_use" if "call" in parts[0] else "end_turn",
        "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def claude_events(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an answer as the events of a stream."""
    (block,) = whole["content"]
    begun = {**whole, "content": [], "usage": {**whole["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    at = {"index": 0}
    if block["type"] == "text":
        start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", **at, "content_block": start}
    yield {"type": "content_block_delta", **at, "delta": delta}
    yield {"type": "content_block_stop", **at}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


class Handler(BaseHTTPRequestHandler):
    """Answers all four by what they ask."""

    protocol_version = "HTTP/1.1"
    paths: Final[list[str]] = []
    keys: Final[list[str]] = []

    def do_POST(self) -> None:
        """Answer one request."""
        said = self.rfile.read(int(self.headers["content-length"])).decode()
        self.paths.append(self.path)
        self.keys.append(str(self.headers))
        parts, tokens = parts_for(said)
        is_stream = "stream" in self.path.lower() or '"stream":true' in said.replace(" ", "")
        if "enerateContent" in self.path:
            events = as_gemini(parts, tokens)
            whole = events[-1]
        else:
            whole = as_claude(parts, tokens)
            events = list(claude_events(whole))
        if is_stream and self.path.startswith("/model/"):
            kind, content = FRAMES, b"".join(map(frame_of, events))
        elif is_stream:
            names = (f"event: {each['type']}\n" if "type" in each else "" for each in events)
            datas = (f"data: {json.dumps(each)}\n\n" for each in events)
            lines = map(str.__add__, names, datas)
            kind, content = "text/event-stream", "".join(lines).encode()
        else:
            kind, content = "application/json", json.dumps(whole).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def upstream() -> Iterator[str]:
    """Give the URL of a server that plays all models."""
    Handler.paths.clear()
    Handler.keys.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def refold_does(*arguments: str, folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run `refold` as a stranger would, with no more environment than that."""
    return subprocess.run(
        [sys.executable, "-m", "refold", *arguments],
        cwd=folder,
        env={
            **{each: os.environ[each] for each in ("PATH", "XDG_STATE_HOME")},
            "TOKEN": TOKEN,
            **PLACE,
            **more,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("name", CLIENTS)
def test_the_log_says_what_a_client_counts(
    name: str, how: str, upstream: str, tmp_path: Path
) -> None:
    """Model, messages, tool calls, tokens, conversations and the delegation."""
    client = CLIENTS[name]
    pytest.importorskip(client.needs)
    (tmp_path / "agent.py").write_text(client.code)
    log = tmp_path / "run.jsonl"
    command = ["--", sys.executable, "agent.py", client.kind, how]

    recorded = refold_does(
        "record", "--log", str(log), *command, folder=tmp_path,
        AWS_BEARER_TOKEN_BEDROCK=TOKEN, **{client.variable: upstream},
    )  # fmt: skip
    replayed = refold_does("replay", str(log), *command, folder=tmp_path)

    assert recorded.returncode == 0, recorded.stderr
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    told = json.loads(recorded.stdout)
    assert told["text"] == FINAL
    assert len(Handler.paths) == 3
    assert all(path.startswith(client.path) for path in Handler.paths)
    assert all(TOKEN in key for key in Handler.keys)

    asked = [turn.asked for turn in read_record(log).turns]
    assert {(each.model, each.api) for each in asked} == {(client.model, client.api)}
    used = [each["usage"] for each in data_of(log, "model.answered")]
    counted = [
        [each["input_tokens"], each["output_tokens"], each["cache_read_tokens"] or 0]
        for each in used
    ]
    assert counted == told["counts"]
    assert all(each["cost_usd_micros"] for each in used)
    (call,) = data_of(log, "tool.called")
    (result,) = data_of(log, "tool.returned")
    assert (call["tool"], call["arguments"]) == ("ask_guide", {"brief": BRIEF})
    assert GUIDE in json.dumps(result["result"])

    tree = delegation_tree(log)
    (desk,) = tree.children
    (guide,) = desk.children
    assert (desk.requests, guide.requests) == (2, 1)
    assert (guide.brief, guide.tool, guide.how) == (BRIEF, "ask_guide", "prompt")
    assert tree.usage.input_tokens == sum(each[0] for each in told["counts"])
    assert guide.usage.output_tokens == told["counts"][1][1]
    assert refold.verify(log).complete
    written = all_bytes(log, log.with_name("run.blobs"))
    assert TOKEN.encode() not in written
    assert base64.b64encode(TOKEN.encode()) not in written
