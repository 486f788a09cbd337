"""A watched command that broke off asks for what is missing, and for nothing else (§16.21)."""

import contextlib
import json
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs
import pytest

from refold.replay.audit.verify import verify
from refold.replay.observed.record import read_record
from tests.support.proxied import data_of, recorded, replayed, resumed, said

FAULTS: Final = ("429", "529", "cut", "cut in the head")
_LIMIT: Final = {"error": {"message": "usage limit reached, resets 9pm", "type": "rate_limit"}}


def _spoken(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"])


class Provider(ThreadingHTTPServer):
    """Answers a question by what it says; breaks what `breaks` names."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        self.breaks: Counter[tuple[str, str]] = Counter()
        """How often a question is answered by a fault."""
        self.asked: Counter[str] = Counter()
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def fault(self, text: str) -> str:
        """Count a question, and return how it breaks; empty if it does not."""
        with self.lock:
            self.asked[text] += 1
            for fault in FAULTS:
                if self.breaks[text, fault]:
                    self.breaks[text, fault] -= 1
                    return fault
            return ""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        fault = self.server.fault(_spoken(body))
        said = (
            f"answer {zlib.crc32(_spoken(body).encode())} to {body['messages'][-1]['content'][:99]}"
        )
        answer: dict[str, Any] = {
            "id": "x", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": said}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        }  # fmt: skip
        if fault == "cut in the head":
            self.close_connection = True
            return
        status = int(fault) if fault.isdigit() else 200
        content = json.dumps(answer if status == 200 else _LIMIT).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault == "cut" else content)
        self.close_connection = fault == "cut"


@contextlib.contextmanager
def providing() -> Iterator[Provider]:
    """Give a provider as long as the block lasts."""
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield provider
    finally:
        provider.shutdown()
        thread.join()
        provider.server_close()


@attrs.frozen
class Agent:
    """An agent of some steps, which starts others after some of them and waits for them."""

    prompt: str
    steps: int
    starts: dict[int, tuple["Agent", ...]] = attrs.field(factory=dict)
    is_tolerant: bool = False
    """Whether it goes on where one of those failed."""

    def run(self, base: str) -> str:
        """Do the work at a proxy; return the last answer, or raise what failed."""
        talk = [{"role": "system", "content": self.prompt}]
        told = ""
        for step in range(self.steps):
            talk.append({"role": "user", "content": f"step {step}{told}"})
            status, content = said(base, {"model": "m", "messages": talk})
            if status != 200:
                raise RuntimeError(f"failed: {status}")
            answer = json.loads(content)["choices"][0]["message"]["content"]
            talk.append({"role": "assistant", "content": answer})
            told = "".join(f" then {each}" for each in self._started(base, step))
        return f"{self.prompt}: {answer}{told}"

    def _started(self, base: str, step: int) -> list[str]:
        found: dict[int, str | Exception] = {}

        def work(at: int, agent: Agent) -> None:
            try:
                found[at] = agent.run(base)
            except (RuntimeError, HTTPException, OSError) as error:  # the parent decides
                found[at] = error

        threads = [
            threading.Thread(target=work, args=each)
            for each in enumerate(self.starts.get(step, ()))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = [each for each in found.values() if isinstance(each, Exception)]
        if failed and not self.is_tolerant:
            raise failed[0]
        return [
            str(found[at]) if isinstance(found[at], str) else "no answer" for at in sorted(found)
        ]


def tree(draw: Random, depth: int = 0) -> Agent:
    """Return a tree of parallel subagents, some of them of the very same prompt."""
    steps = draw.randint(1, 3 if depth else 4)
    starts = {}
    for step in range(steps if depth < 2 else 0):
        if draw.random() < (0.8 if depth == 0 else 0.25):
            grown = [tree(draw, depth + 1) for _ in range(draw.randint(1, 4 - depth))]
            starts[step] = tuple(grown + grown[:1] * draw.randint(0, 1))
    prompt = f"You are {'worker' if depth else 'the lead'} {draw.randint(0, 9)} at {depth}."
    return Agent(prompt, steps, starts, is_tolerant=draw.random() < 0.4)


def _ended(agent: Agent, base: str) -> str:
    try:
        return agent.run(base)
    except (RuntimeError, HTTPException, OSError) as error:
        return f"broken: {type(error).__name__}"


def _kept(log: Path) -> Counter[str]:
    """Return how often each question has an answer that ended well."""
    return Counter(
        json.dumps(list(turn.asked.messages))
        for turn in read_record(log).turns
        if turn.answer and turn.answer.status == "ok" and turn.parts[-1]["end"] == "whole"
    )


def test_what_is_missing_is_asked_and_the_end_is_that_of_an_unbroken_run(tmp_path: Path) -> None:
    """A small tree; those of twins of which one failed are among the long ones."""
    holds(tmp_path, range(2, 3))


@pytest.mark.long
def test_sixty_trees_are_resumed(tmp_path: Path) -> None:
    holds(tmp_path, range(60))


def holds(folder: Path, seeds: range) -> None:
    """Assert the law for random trees that break at random."""
    for seed in seeds:
        (folder / f"{seed}").mkdir()
        _one_holds(folder / f"{seed}", Random(seed))


def _one_holds(folder: Path, draw: Random) -> None:
    agent, log, again = tree(draw), folder / "run.jsonl", folder / "again.jsonl"
    with providing() as provider:
        with recorded(folder / "whole.jsonl", provider.url) as base:
            unbroken = _ended(agent, base)
        questions = Counter(provider.asked)
        for text in draw.sample(sorted(questions), min(len(questions), draw.randint(0, 3))):
            provider.breaks[text, draw.choice(FAULTS)] += 1
        with recorded(log, provider.url, exit_code=1) as base:
            _ended(agent, base)
        if draw.random() < 0.5 or not provider.breaks.total():  # the recorder is killed
            content = log.read_bytes()
            first = content.index(b"\n") + 1
            log.write_bytes(content[: draw.randint(first, len(content) - 1)])
        missing = questions - _kept(log)
        provider.breaks.clear()
        provider.asked.clear()
        with resumed(log, provider.url, again) as (base, desk):
            ended = _ended(agent, base)

    assert (ended, desk.different) == (unbroken, [])
    assert provider.asked == missing
    assert desk.live == missing.total()
    assert len(data_of(again, "x-refold.served")) == desk.served
    assert verify(again).intact
    with replayed(again) as (base, replay):
        assert _ended(agent, base) == unbroken
    assert (replay.matcher.misses, replay.matcher.left()) == ([], [])


def test_a_changed_first_question_is_a_difference_and_costs_nothing(tmp_path: Path) -> None:
    """Also of a command that broke off: else all of another task would be asked anew."""
    log, again = tmp_path / "run.jsonl", tmp_path / "again.jsonl"
    with providing() as provider:
        with recorded(log, provider.url, exit_code=1) as base:
            Agent("You are the lead.", 2).run(base)
        provider.asked.clear()
        with (
            resumed(log, provider.url, again) as (base, desk),
            pytest.raises(RuntimeError, match="failed: 400"),
        ):
            Agent("You are the leader.", 2).run(base)

    assert provider.asked.total() == 0
    assert [each.category for each in desk.different] == ["args_changed"]
