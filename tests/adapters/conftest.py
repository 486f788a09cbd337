"""A model's server for adapters of two libraries, and a recorder that checks its log."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from tests.support.model_server import OPENAI_PATH, Answer, ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Answers two requests of a chat completion: a call, then a text."""
    function = {"name": "count", "arguments": '{"path":"abc"}'}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    with ModelServer({OPENAI_PATH: [_answer(None, calls), _answer("three")]}) as running:
        yield running


def _answer(text: str | None, calls: list[Any] | None = None) -> Answer:
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "small-1"}
    return Answer(body={**body, "choices": [choice], "usage": usage})


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., refold.Recording]:
    """Record, and see that the log is true and a re-execution identical."""

    def done(program: Any, argument: Any = "hi", **options: Any) -> refold.Recording:
        recording = refold.record(program, argument, log=tmp_path / "run.jsonl", **options)
        assert refold.verify(recording.log).intact
        report = refold.reexecute(recording.log, program)
        assert report.identical, report
        return recording

    return done


def asked_once(program: Any, server: ModelServer, log: Path) -> refold.Recording:
    """Record a program that asks the server; with that off, its replay is whole."""
    recording = refold.record(program, "hi", log=log)
    server.close()
    report = refold.reexecute(recording, program)

    assert recording.output == "three", recording
    assert report.identical, report
    assert len(server.received) == 2
    assert (recording.usage.input_tokens, recording.usage.output_tokens) == (10, 4)
    assert "sk-not" not in recording.log.read_text()
    return recording
