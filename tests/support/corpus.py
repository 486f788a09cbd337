"""Recorded model answers of other systems, read for tests; none of their text is kept here.

`REFOLD_CORPUS` names a folder of VCR cassettes (`vcr_*`, `logfire`, `openinference`); where it is
not set, tests that need it skip.  Knows only how a cassette holds a body, nothing of the adapters.
"""

import base64
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
import yaml

_FOLDERS = ("vcr_*", "logfire", "openinference")
_GZIP = b"\x1f\x8b"


@attrs.frozen(kw_only=True)
class Recorded:
    """One answer that was not streamed."""

    source: str
    """The cassette's name and the interaction's place in it."""
    provider: Literal["openai", "anthropic"]
    status: int
    content: bytes
    """The body, decompressed: JSON."""

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)


@attrs.frozen(kw_only=True)
class RecordedExchange:
    """One request to a model's interface, and its answer, streamed or not."""

    source: str
    """The cassette's name and the interaction's place in it."""
    method: str
    uri: str
    asked: bytes
    status: int
    content_type: str
    """Empty where the cassette names none."""
    answered: bytes


def corpus() -> Path:
    """Return the corpus' folder, or skip the test."""
    folder = os.environ.get("REFOLD_CORPUS")
    if not folder:
        pytest.skip("REFOLD_CORPUS is not set: no recorded answers to read")
    return Path(folder)


def recorded_answers(folder: Path, provider: str) -> Iterator[Recorded]:
    """Yield a provider's answers, cassette by cassette in the order of names."""
    paths = sorted(path for pattern in _FOLDERS for path in folder.glob(f"{pattern}/*.y*ml"))
    for path in paths:
        for answer in _answers_in(path):
            if answer.provider == provider:
                yield answer


def recorded_exchanges(folder: Path) -> Iterator[RecordedExchange]:
    """Yield all traffic of cassettes, whatever it was with, in the order of names."""
    for path in sorted(path for pattern in _FOLDERS for path in folder.glob(f"{pattern}/*.y*ml")):
        cassette = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
        if not isinstance(cassette, dict):
            continue
        for place, interaction in enumerate(cassette.get("interactions", ())):
            request, response = interaction["request"], interaction["response"]
            yield RecordedExchange(
                source=f"{path.parent.name}/{path.name}[{place}]",
                method=request["method"],
                uri=request["uri"],
                asked=_asked(request),
                status=_status(response),
                content_type=_header(response, "content-type"),
                answered=_content(response),
            )


def _asked(request: dict[str, Any]) -> bytes:
    """Return a request's body: given parsed, as text, or as bytes."""
    if "parsed_body" in request:
        return json.dumps(request["parsed_body"]).encode()
    body = request.get("body") or b""
    return body if isinstance(body, bytes) else str(body).encode()


def _header(response: dict[str, Any], wanted: str) -> str:
    headers = response.get("headers") or {}
    found = [value for name, value in headers.items() if name.lower() == wanted]
    value = found[0] if found else ""
    return str(value[0] if isinstance(value, list) and value else value)


def _answers_in(path: Path) -> Iterator[Recorded]:
    cassette = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    for place, interaction in enumerate(cassette.get("interactions", ())):
        provider = _provider(interaction["request"]["uri"])
        response = interaction["response"]
        if provider is None or "event-stream" in _content_type(response):
            continue
        yield Recorded(
            source=f"{path.parent.name}/{path.name}[{place}]",
            provider=provider,
            status=_status(response),
            content=_content(response),
        )


def _provider(uri: str) -> Literal["openai", "anthropic"] | None:
    path = uri.partition("?")[0]
    if path.endswith("/chat/completions"):
        return "openai"
    return "anthropic" if path.endswith("/v1/messages") else None


def _status(response: dict[str, Any]) -> int:
    if "status_code" in response:
        return int(response["status_code"])
    return int(response["status"]["code"])


def _content_type(response: dict[str, Any]) -> str:
    headers = response.get("headers") or {}
    return str([value for name, value in headers.items() if name.lower() == "content-type"])


def _content(response: dict[str, Any]) -> bytes:
    """Return the body's bytes: given parsed, as text, as base64, or as (gzipped) binary."""
    if "parsed_body" in response:
        return json.dumps(response["parsed_body"]).encode()
    body = response["body"]
    if "base64_string" in body:
        content = base64.b64decode(body["base64_string"])
    else:
        text = body["string"]
        content = text if isinstance(text, bytes) else text.encode()
    return gzip.decompress(content) if content.startswith(_GZIP) else content
