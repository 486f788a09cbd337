"""`refold_models`: what a test asks of models, by any client, is recorded and replayed (§16.12).

The suites are recorded against an upstream that plays the models; it is off when they are replayed,
and there is no key.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.replay.testing.recordings import stem_of
from tests.support.loops import some
from tests.support.suites import Suite, one_line
from tests.support.upstream import PLACEHOLDER_KEY, Upstream

pytest_plugins = ["pytester"]

_KEYS: Final = (
    "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_API_KEY",
)  # fmt: skip

DESK: Final = """
import openai

SYSTEM = "You are the weather desk. Answer briefly."

def asked(client, text, system=SYSTEM, **options):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="gpt-5-mini", messages=messages, **options)

def ask(text, system=SYSTEM, **options):
    with openai.OpenAI(**options) as client:
        return asked(client, text, system).choices[0].message.content
"""
TEST: Final = """
from desk import ask

def test_ask(refold_models):
    assert ask("Hello!") == "Hello! Which city do you ask about?"
"""
LOG: Final = "recordings/test_it/test_ask.models.jsonl"


class Watched(Suite):
    """A suite, with an upstream for as long as it is recorded, and none else."""

    def __init__(self, pytester: pytest.Pytester, patch: pytest.MonkeyPatch) -> None:
        super().__init__(pytester)
        self._patch = patch
        self.asked = 0
        """How many requests the upstream got at the last time that it was on."""
        self.write(desk=DESK, test_it=TEST)
        for name in _KEYS:
            patch.delenv(name, raising=False)

    def run(self, *options: str) -> pytest.RunResult:
        """Run it; where it never closes its connections, or is interrupted, in a process apart."""
        text = (self.folder / "test_it.py").read_text(encoding="utf-8")
        is_apart = "import Agent" in text or "KeyboardInterrupt" in text
        return self.run_apart(*options) if is_apart else super().run(*options)

    def live(self, *options: str) -> pytest.RunResult:
        """Run it with the upstream on."""
        with Upstream() as upstream, self._patch.context() as patch:
            for name, value in upstream.environment().items():
                patch.setenv(name, value)
            result = self.run(*options)
            self.asked = len(upstream.received)
        return result

    def record(self, mode: str = "once", *options: str) -> None:
        """Record it; all passes."""
        result = self.live(f"--refold-record={mode}", *options)
        assert result.ret == 0, result.stdout.str()

    def snapshots(self) -> str:
        """Return what is stored of delegation trees."""
        stored = sorted((self.folder / "__snapshots__").rglob("*.delegation.txt"))
        return "".join(path.read_text(encoding="utf-8") for path in stored)


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    watched = Watched(pytester, monkeypatch)
    yield watched
    for path in (watched.folder / "recordings").rglob("*.jsonl"):
        assert PLACEHOLDER_KEY not in path.read_text(encoding="utf-8")


# --- clients ---------------------------------------------------------------------------------

HTTPX: Final = """
import httpx2, os

def test_ask(refold_models):
    assert os.environ["OPENAI_BASE_URL"] == refold_models.openai_url
    assert os.environ["ANTHROPIC_BASE_URL"] == refold_models.anthropic_url
    body = {"model": "gpt-5-mini", "messages": [
        {"role": "system", "content": "You are the weather desk."},
        {"role": "user", "content": "Hello!"},
    ]}
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    answer = httpx2.post(refold_models.openai_url + "/chat/completions", json=body, headers=headers)
    assert "Which city" in answer.json()["choices"][0]["message"]["content"]
"""
STREAMED: Final = """
import openai
from desk import asked

def test_ask(refold_models):
    with openai.OpenAI() as client:
        chunks = asked(client, "Hello!", stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Hello! Which city do you ask about?"
"""
ANTHROPIC: Final = """
import anthropic
from desk import SYSTEM

def test_ask(refold_models):
    asked = {"model": "claude-sonnet-5-5", "max_tokens": 100, "system": SYSTEM}
    text = {"type": "text", "text": "Hello!", "cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": [text]}]
    with anthropic.Anthropic() as client:
        with client.messages.stream(**asked, messages=messages) as stream:
            assert "".join(stream.text_stream) == "Hello! Which city do you ask about?"
"""
LEAVES: Final = """
import openai
from desk import ask, asked

def test_ask(refold_models):
    with openai.OpenAI() as client, asked(client, "Hello!", stream=True) as chunks:
        assert next(iter(chunks)).choices
    assert "Which city" in ask("Hello!")
"""
ASYNC: Final = """
import openai, pytest
from desk import asked

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_ask(refold_models):
    async with openai.AsyncOpenAI() as client:
        answer = await asked(client, "Hello!")
    assert answer.choices[0].message.content == "Hello! Which city do you ask about?"
"""
PROCESS: Final = """
import subprocess, sys

def test_ask(refold_models):
    command = [sys.executable, "-c", "import desk; print(desk.ask('Hello!'))"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "Hello! Which city do you ask about?\\n"
"""
PYDANTIC: Final = """
from pydantic_ai import Agent

def test_ask(refold_models, delegation_snapshot):
    desk = Agent("openai-chat:gpt-5-mini", instructions="You are the weather desk.")
    looked_up = []

    @desk.tool_plain
    def get_weather(city: str) -> str:
        looked_up.append(city)
        return {"Oslo": "-4 °C, snow", "Lisbon": "19 °C, sunny"}[city]

    answer = desk.run_sync("How is the weather in Oslo and Lisbon?")
    assert "Take a coat north" in answer.output
    assert sorted(looked_up) == ["Lisbon", "Oslo"]
    assert refold_models == delegation_snapshot
"""
HANDOFF: Final = """
from agents import Agent, Runner, function_tool, set_tracing_disabled

@function_tool
def invoice_status(number: int) -> str:
    return f"invoice {number}: paid twice, 3 and 4 May"

def test_ask(refold_models, delegation_snapshot):
    set_tracing_disabled(True)
    billing = Agent(name="Billing specialist", instructions="You are the billing specialist.",
                    tools=[invoice_status], model="gpt-5-mini")
    triage = Agent(name="Triage", instructions="You do the triage.", handoffs=[billing],
                   model="gpt-5-mini")
    result = Runner.run_sync(triage, "I was charged twice for invoice 2041.")
    assert "come back within five days" in result.final_output
    assert refold_models == delegation_snapshot
"""


@pytest.mark.parametrize(
    ("test", "requests"),
    [
        *some(1, [(TEST, 1), (ANTHROPIC, 1), (LEAVES, 2), (STREAMED, 1), (HTTPX, 1), (ASYNC, 1)]),
        pytest.param(PROCESS, 1, marks=pytest.mark.long),
    ],
    ids=[
        "openai", "anthropic-streamed", "left-early", "openai-streamed", "httpx2", "asyncio",
        "process",
    ],
)  # fmt: skip
def test_any_client_is_recorded_once_and_replayed_with_the_model_off(
    test: str, requests: int, suite: Watched
) -> None:
    """No request, no key, no change of the code under test; the recording verifies."""
    suite.write(test_it=test)

    suite.record("once", "--snapshot-update")
    assert suite.asked == requests
    suite.passes()

    assert suite.logs() == ["test_ask.models.jsonl"]
    report = refold.verify(suite.folder / LOG)
    assert (report.intact, report.complete) == (True, True)
    assert list(read_entries(suite.folder / LOG))[-1].data["output"] == {"exit_code": 0}


@pytest.mark.parametrize(
    ("test", "package", "requests", "shown"),
    [
        pytest.param(
            HANDOFF, "agents", 3, ["handoff", "tools: invoice_status x1"], marks=pytest.mark.long
        ),
        pytest.param(PYDANTIC, "pydantic_ai", 2, ["tools: get_weather x2"], marks=pytest.mark.long),
    ],
    ids=["openai-agents", "pydantic-ai"],
)
def test_a_snapshot_shows_who_asked_whom(
    test: str, package: str, requests: int, shown: list[str], suite: Watched
) -> None:
    """The tree of a test that goes on has no end yet; recorded and replayed it reads the same."""
    if not importlib.util.find_spec(package):
        pytest.skip(f"not installed: {package}")  # found, not imported: that takes seconds
    suite.write(test_it=test)
    suite.record("once", "--snapshot-update")
    assert suite.asked == requests

    text = suite.snapshots()
    assert "test_ask (matched): watched\n" in text
    assert [each for each in shown if each not in text] == []

    suite.edit("test_it", "refold_models ==", "refold_models.tree() ==")
    suite.passes()


def test_the_log_of_a_test_is_a_snapshot_too(suite: Watched) -> None:
    """Without the wire: what was asked and answered."""
    suite.edit("test_it", "(refold_models):", "(refold_models, log_snapshot):")
    suite.write(
        test_it=(suite.folder / "test_it.py").read_text()
        + "    assert refold_models == log_snapshot\n"
    )
    suite.record("once", "--snapshot-update")

    suite.passes()
    suite.record("all")


# --- what fails ------------------------------------------------------------------------------


def test_a_changed_prompt_fails_with_the_difference_of_the_message(suite: Watched) -> None:
    """It gets the recorded answer; then the test fails, with what to type."""
    suite.record()
    suite.edit("desk", "Answer briefly.", "Answer at length.")

    ours = suite.fails()

    assert "site-packages" not in ours
    assert "[-briefly.-]{+at length.+}" in ours
    assert "the system prompt was changed" in ours
    assert f"(entry 2 of {LOG})" in ours
    assert "guarantee: matched" in ours
    assert "update its snapshots: pytest test_it.py::test_ask --refold-accept" in ours
    assert f"refold show {LOG}" in ours


def test_one_command_accepts_a_changed_request_and_its_snapshot(suite: Watched) -> None:
    """An update of the snapshot alone would leave the test failing."""
    taken = TEST.replace("refold_models)", "refold_models, delegation_snapshot)")
    suite.write(test_it=f"{taken}    assert refold_models == delegation_snapshot\n")
    suite.record("once", "--snapshot-update")
    suite.edit("desk", "Answer briefly.", "Answer at length.")

    said = suite.fails()

    assert "delegation: what changed" in said
    assert "pytest test_it.py::test_ask --refold-accept" in said
    assert "--snapshot-update" not in said


BOTH: Final = """
import pytest
from desk import ask

@pytest.mark.parametrize("number", range(2))
{marker}
def test_both(refold_models, number):
    assert ask("Hello!")
    assert ask("Hello!", system="A weather desk for sailors, which speaks at once.")
    assert {own}
"""


@pytest.mark.parametrize(
    "own",
    [
        "ask('Who?', system='A new agent.')",
        pytest.param("1", marks=pytest.mark.long),
        pytest.param("0", marks=pytest.mark.long),
    ],
)
def test_all_changed_prompts_are_listed_once_and_no_frame_of_a_client(
    own: str, suite: Watched
) -> None:
    """Beside the test's own failure, and a request that has no recorded counterpart."""
    suite.write(test_it=BOTH.format(own="1", marker=""))
    suite.record()
    suite.write(test_it=BOTH.format(own=own, marker="").replace("at once", "later"))
    suite.edit("desk", "Answer briefly.", "Answer at length.")

    said = suite.run().stdout.str()

    assert "refold: the same " in said
    assert said.count("[-briefly.-]{+at length.+}") == 1
    assert said.count("[-at once.-]{+later.+}") == 1
    assert "site-packages" not in said
    assert ("no recorded answer" in said) == ("ask" in own)


def test_a_marker_has_changed_requests_refused(suite: Watched) -> None:
    suite.write(test_it=BOTH.format(own="1", marker="@pytest.mark.refold(on_miss='fail')"))
    suite.record()
    suite.edit("desk", "Answer briefly.", "Answer at length.")

    assert "BadRequestError" in suite.fails()


def test_a_changed_prompt_that_stops_several_tests_is_explained_once(suite: Watched) -> None:
    """Where a test caught the client's error, too: then the failure is ours alone."""
    caught = "    try:\n        ask('Hello!')\n    except Exception:\n        pass\n"
    suite.write(test_it=f"{TEST}\ndef test_caught(refold_models):\n{caught}")
    suite.record()
    suite.edit("desk", "Answer briefly.", "Answer at length.")

    said = suite.run().stdout.str()

    failures, _, below = said.partition("= refold: one change breaks 2 tests =")
    assert failures.count('see "refold: one change breaks 2 tests" below') == 2
    assert "briefly.-]" not in failures
    assert below.count("[-briefly.-]{+at length.+}") == 1
    assert "  pytest test_it.py::test_ask test_it.py::test_caught --refold-accept\n" in below


@pytest.mark.long
def test_a_changed_prompt_is_accepted_of_tests_that_pass_with_it(suite: Watched) -> None:
    """What is asked for another text than comes is not taken."""
    suite.record()
    before = (suite.folder / LOG).read_bytes()
    suite.edit("desk", "Answer briefly.", "Answer at length.")
    suite.edit("test_it", "Which city", "What city")
    assert suite.live("--refold-accept").ret == 1
    assert (suite.folder / LOG).read_bytes() == before

    suite.edit("test_it", "What city", "Which city")
    assert suite.live("--refold-accept").ret == 0
    assert (suite.folder / LOG).read_bytes() != before
    suite.passes()


def test_a_request_that_the_test_swallows_the_refusal_of_fails_it_all_the_same(
    suite: Watched,
) -> None:
    """Whatever the program does about an error."""
    suite.record()
    suite.write(
        test_it="""
import openai
from desk import ask

def test_ask(refold_models):
    try:
        ask("Hello? Hello!")
    except openai.OpenAIError:
        pass
"""
    )

    said = suite.fails()

    assert "1 difference: 0 of 1 recorded request served" in said
    assert "{+Hello? +}" in said
    assert "model requests that changed" not in said


@pytest.mark.long
def test_a_recording_that_is_not_used_fails(suite: Watched) -> None:
    """All of it, or the end of it."""
    suite.edit("test_it", "    assert", "    ask('Hello, you!')\n    assert")
    suite.record()

    suite.edit("test_it", "    ask('Hello, you!')\n    assert", "    assert")
    assert "unconsumed: " in suite.fails()

    suite.write(test_it="def test_ask(refold_models):\n    pass\n")
    assert "unconsumed: " in suite.fails()


def test_what_is_asked_more_often_than_recorded_fails(suite: Watched) -> None:
    """Each answer is served once."""
    suite.record()
    suite.edit("test_it", "    assert", "    ask('Hello!')\n    assert")

    assert "extra_call" in suite.fails()


def test_a_failure_without_a_difference_says_nothing_of_models(suite: Watched) -> None:
    """But how to see it again."""
    suite.record()
    suite.edit("test_it", "assert ask", "assert not ask")

    said = suite.fails()

    assert "model requests that changed" not in said
    assert "not kept" not in said
    assert "pytest test_it.py::test_ask --refold-record=none" in said
    assert f"refold show {LOG}" in said


@pytest.mark.parametrize("swallows", [False, True])
def test_without_a_recording_the_first_request_is_refused(
    suite: Watched, *, swallows: bool
) -> None:
    """With the command that records; nothing is asked, though there are a model and a key."""
    if swallows:
        suite.edit(
            "test_it",
            "    assert",
            "    import contextlib\n    with contextlib.suppress(Exception): assert",
        )

    result = suite.live()

    said = one_line(result.stdout.str())
    assert result.ret == 1
    assert f"{LOG}: no recording of what this test asks of models." in said
    assert ("refold: model requests that changed" in said) != swallows
    assert "pytest test_it.py::test_ask --refold-record=once" in said
    assert (suite.asked, suite.logs()) == (0, [])


@pytest.mark.long
@pytest.mark.parametrize(("cut", "expected"), [(-1, "stops in the middle"), (1, "hash: expected")])
def test_a_recording_that_does_not_verify_fails(cut: int, expected: str, suite: Watched) -> None:
    """One without an end, and one that was edited."""
    suite.record()
    log = suite.folder / LOG
    lines = log.read_bytes().splitlines(keepends=True)
    if cut < 0:
        log.write_bytes(b"".join(lines[:-1]))
    else:
        lines[1] = lines[1].replace(b"0/1", b"0/2")
        log.write_bytes(b"".join(lines))

    said = suite.fails()

    assert expected in said.partition("refold: model requests")[2 if cut > 0 else 0]


NETWORK: Final = """
import contextlib, socket
from desk import ask

def test_ask(refold_models):
    with contextlib.suppress(Exception):
        socket.getaddrinfo("192.0.2.1", 443)
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", 1), timeout=5)
    assert ask("Hello!")
"""


def test_a_replay_that_uses_the_network_fails(suite: Watched) -> None:
    """Also where the test swallows it; the loopback may be used, and `network='any'` lets it."""
    suite.write(test_it=NETWORK)
    suite.record()

    said = suite.fails()
    assert "the test used the network during a replay" in said
    assert "network access to 192.0.2.1:443" in said
    assert "test_it.py:7" in said

    suite.edit("test_it", "\ndef", "import pytest\n\n@pytest.mark.refold(network='any')\ndef")
    suite.passes()


@pytest.mark.long
def test_a_client_with_a_base_url_of_its_own_is_told_apart(suite: Watched) -> None:
    """It leads past the proxy: refused, with what to do about it."""
    suite.record()
    suite.write(
        early="""
import openai
from desk import asked
client = openai.OpenAI(api_key="x", base_url="http://192.0.2.1/v1", max_retries=0)
def ask(text):
    return asked(client, text).choices[0].message.content
"""
    )
    suite.edit("test_it", "from desk", "from early")

    said = suite.fails()

    assert "A client that sets its own base_url bypasses the proxy" in said
    assert "set it to refold_models.openai_url" in said


# --- modes -----------------------------------------------------------------------------------


@pytest.mark.long
def test_modes_are_those_of_refold_run(suite: Watched) -> None:
    """A test that has a recording is replayed, or recorded in place of it."""
    suite.record("once")
    for mode, asked in (("none", 0), ("once", 0), ("new_episodes", 0), ("all", 1), ("rewrite", 1)):
        before = (suite.folder / LOG).read_bytes()

        suite.record(mode)

        assert suite.asked == asked, mode
        assert ((suite.folder / LOG).read_bytes() != before) == bool(asked), mode


@pytest.mark.parametrize(
    "mode",
    [
        "once",
        *(pytest.param(m, marks=pytest.mark.long) for m in ("new_episodes", "all", "rewrite")),
    ],
)
def test_a_test_without_a_recording_is_recorded(mode: str, suite: Watched) -> None:
    """And said so; from then on it is replayed."""
    result = suite.live(f"--refold-record={mode}")

    assert suite.asked == 1
    assert LOG in result.stdout.str()
    suite.passes()


@pytest.mark.parametrize(("mode", "kept"), some(1, [("rewrite", False), ("all", True)]))
def test_a_test_that_fails_leaves_no_recording(mode: str, suite: Watched, *, kept: bool) -> None:
    """What it asked lies beside, where no replay looks; `all` keeps it."""
    suite.record()
    before = (suite.folder / LOG).read_bytes()
    suite.edit("test_it", "assert ask", "assert not ask")

    result = suite.live(f"--refold-record={mode}")

    said = one_line(result.stdout.str())
    assert result.ret == 1
    assert ((suite.folder / LOG).read_bytes() != before) == kept
    failed = [] if kept else ["test_ask.models.failed.jsonl"]
    assert suite.logs() == sorted([*failed, "test_ask.models.jsonl"])
    assert refold.state(suite.recordings / (failed or suite.logs())[0]).status == "failed"
    assert f"refold show {LOG if kept else LOG.replace('models', 'models.failed')}" in said
    assert ("not used, because" in said) != kept
    *_, end = read_entries(suite.recordings / (failed or suite.logs())[0])
    assert end.data["output"] == {"exit_code": 1}

    suite.write(test_it=TEST)
    suite.record("rewrite")
    assert suite.logs() == ["test_ask.models.jsonl"]


def test_a_recording_that_cannot_be_ended_is_kept_beside(suite: Watched) -> None:
    """What went wrong fails the test; the log is let go of, and has its name, not a hidden one."""
    lines = "    with refold_models.log.open('ab') as log:\n        log.write(b'x')\n"
    suite.write(test_it=TEST + lines)

    result = suite.live("--refold-record=once")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*bytes where * were written*"])
    assert [path.name for path in (suite.folder / LOG).parent.glob("[.t]*.jsonl")] == [
        "test_ask.models.failed.jsonl"
    ]


@pytest.mark.parametrize(
    ("ends", "files"), [("fail()", ["failed.jsonl"]), ("skipTest('')", []), ("id()", ["jsonl"])]
)
def test_a_test_of_unittest_is_one_like_any_other(
    ends: str, files: list[str], suite: Watched
) -> None:
    """It raises nothing of its failures, and leaves no recording all the same."""
    suite.write(
        test_it=f"""
import pytest, unittest
from desk import ask

@pytest.mark.usefixtures("refold_models")
class TestDesk(unittest.TestCase):
    def test_ask(self):
        assert "Which city" in ask("Hello!")
        self.{ends}
"""
    )

    result = suite.live("--refold-record=once")

    assert (result.ret == 1) == ("failed.jsonl" in files)
    assert suite.logs() == [f"TestDesk.test_ask.models.{each}" for each in files]


@pytest.mark.parametrize(
    "ends",
    [
        "import pytest; pytest.skip()",
        pytest.param("raise KeyboardInterrupt", marks=pytest.mark.long),
    ],
)
def test_a_test_that_says_nothing_leaves_nothing(ends: str, suite: Watched) -> None:
    """Skipped, or interrupted."""
    suite.write(test_it=f"{TEST}    {ends}\n")

    suite.live("--refold-record=once")

    assert (suite.asked, suite.logs()) == (1, [])


def test_a_test_that_asks_nothing_needs_no_recording(suite: Watched) -> None:
    """So that a whole suite may have the fixture; `all` removes a recording that is not used."""
    suite.write(
        conftest="import pytest\n\n"
        "@pytest.fixture(autouse=True)\ndef models(refold_models):\n    pass\n",
        test_it=TEST.replace("(refold_models)", "()") + "\ndef test_other():\n    pass\n",
    )
    suite.record()
    suite.passes()
    assert suite.logs() == ["test_ask.models.jsonl"]

    suite.write(test_it="def test_ask():\n    pass\n")
    suite.record("all")
    assert suite.logs() == []


def test_a_test_whose_tear_down_fails_leaves_no_recording(suite: Watched) -> None:
    """It did not pass; what it asked is kept beside."""
    broken = "import pytest\n\n@pytest.fixture(autouse=True)\ndef broken():\n    yield\n    1 / 0\n"
    suite.write(conftest=broken)

    assert suite.live("--refold-record=once").ret == 1
    assert suite.logs() == ["test_ask.models.failed.jsonl"]


def test_each_case_of_each_class_has_its_recording(suite: Watched) -> None:
    """Named as those of `refold_run`, which may stand beside."""
    suite.write(
        test_it="""
import pytest
from desk import ask

async def nothing(run, given):
    return given

class TestDesk:
    @pytest.mark.parametrize("text", ["Hello!", "Hello, you!"])
    def test_ask(self, refold_models, refold_run, text):
        assert refold_run(nothing, text).output == text
        assert "Which city" in ask(text)
"""
    )

    suite.record()
    suite.passes()

    assert [name for name in suite.logs() if "models" in name] == [
        f"{stem_of('TestDesk.test_ask', text)}.models.jsonl" for text in ("Hello, you!", "Hello!")
    ]
    assert len(suite.logs()) == 4


@pytest.mark.long
def test_workers_record_and_replay_side_by_side(suite: Watched, pytester: pytest.Pytester) -> None:
    """Each test has a proxy of its own (xdist)."""
    suite.write(
        test_it="""
import pytest
from desk import ask

@pytest.mark.parametrize("number", range(4))
def test_ask(refold_models, number):
    assert "Which city" in ask(f"Hello, number {number}!")
"""
    )
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n", "2")
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        recorded = pytester.runpytest_subprocess(*options, "--refold-record=once", timeout=300)
    replayed = pytester.runpytest_subprocess(*options, timeout=300)

    recorded.assert_outcomes(passed=4)
    replayed.assert_outcomes(passed=4)
    assert suite.logs() == [f"test_ask[{number}].models.jsonl" for number in range(4)]


# --- what a test may say ---------------------------------------------------------------------


def test_a_client_of_another_provider_is_given_a_url(suite: Watched) -> None:
    """By the variable that it reads, which is set, with a key; known from then on by its name."""
    suite.write(
        test_it="""
import os
from desk import ask

def test_ask(refold_models):
    url = refold_models.url("GROQ_BASE_URL", os.environ.get("UPSTREAM", "http://192.0.2.1/v1"))
    assert os.environ["GROQ_BASE_URL"] == url == refold_models.url("GROQ_BASE_URL")
    key = os.environ.get("GROQ_API_KEY", "one of Groq")
    assert "Which city" in ask("Hello!", base_url=url, api_key=key)
"""
    )
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM", upstream.openai_url)
        suite.passes("--refold-record=once")
        assert len(upstream.received) == 1

    suite.passes()


def test_no_real_key_reaches_a_test_that_is_replayed(suite: Watched) -> None:
    """Of the routes that lead to the proxy: a client could send it to wherever an answer says."""
    keys = {"OPENAI_API_KEY": "sk-proj-0123456789", "ANTHROPIC_AUTH_TOKEN": "0123456789abcdef"}
    suite.write(
        test_it=f"""{TEST}
import os
import pytest

@pytest.fixture(autouse=True)
def given(refold_models):
    found = [os.environ.get(name, "") for name in {[*keys]!r}]
    if "UPSTREAM" not in os.environ:
        assert found[0].startswith("sk-proj-refold-replay-OPENAI_API_KEY")
        assert found[1] == "refold-replay-ANTHROPIC_AUTH_TOKEN"
    else:
        assert found == {[*keys.values()]!r}
"""
    )
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in {**keys, "UPSTREAM": "", "OPENAI_BASE_URL": upstream.openai_url}.items():
            patch.setenv(name, value)
        assert suite.run("--refold-record=once").ret == 0
        patch.delenv("UPSTREAM")
        suite.passes()


def test_a_marker_says_where_requests_go(suite: Watched) -> None:
    """As `--upstream` of `refold record` does."""
    with Upstream() as upstream:
        marker = f"@pytest.mark.refold(upstreams=['{upstream.openai_url}'])"
        suite.edit("test_it", "\ndef", f"import pytest\n\n{marker}\ndef")
        suite.edit("test_it", 'ask("Hello!")', 'ask("Hello!", api_key="any")')
        suite.passes("--refold-record=once")
        assert len(upstream.received) == 1

    suite.passes()


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("volatile('model:*/messages/0/content')", marks=pytest.mark.long),
        "volatile_text(r'4\\d')",
    ],
)
def test_what_is_volatile_is_not_compared(rule: str, suite: Watched) -> None:
    """A place, or a text, as it is said before the first request; by a fixture, for all tests."""
    conftest = f"""
import pytest

@pytest.fixture
def refold_models(refold_models):
    refold_models.{rule}
    return refold_models
"""
    suite.write(conftest=conftest, test_it=TEST.replace('"Hello!"', '"Hello!", "weather desk 41"'))
    suite.record()
    suite.edit("test_it", "weather desk 41", "weather desk 42")

    suite.passes()

    suite.write(conftest="")
    suite.passes()  # what was said when it was recorded holds
    suite.edit("test_it", "Hello!", "Hello, you!")
    assert "args_changed" in suite.fails()


@pytest.mark.long
@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            "url('mistral')",
            "refold_models.url('mistral'): expected 'openai', 'anthropic',",
        ),
        ("volatile_text('(')", "volatile text '(': not a regular expression"),
        ("log", "there is no log before the first model request"),
        ("tree()", "there is no log before the first model request"),
    ],
)
def test_what_a_test_says_wrong_is_an_error(call: str, problem: str, suite: Watched) -> None:
    """With what was expected."""
    suite.write(test_it=f"def test_ask(refold_models):\n    refold_models.{call}\n")

    assert problem in suite.fails()


@pytest.mark.long
@pytest.mark.parametrize(
    "call", ["volatile_text('x')", "volatile('model:*/x')", "url('A_URL', 'http://a.test')"]
)
def test_what_comes_too_late_is_an_error(call: str, suite: Watched) -> None:
    """Requests were compared, or written, without."""
    suite.write(test_it=f"{TEST}    refold_models.{call}\n")

    result = suite.live("--refold-record=once")

    assert "call it before the first request" in result.stdout.str()


def test_a_report_can_be_asked_for(suite: Watched) -> None:
    """Of a replay, while the test goes on; there is none where it is live."""
    text = f"{TEST}    global report\n    report = refold_models.report\n"
    live = text + "    assert report is None\n"
    suite.write(test_it=live)
    suite.record()

    suite.write(test_it=text + "    assert report.identical and report.served == 1\n")

    suite.passes()


def test_the_environment_is_as_it_was_after_a_test(suite: Watched) -> None:
    """Whatever stood there while its file was imported."""
    suite.write(
        test_it=f"""{TEST}
import os, threading

def test_after():
    assert not [name for name in {_KEYS!r} if name in os.environ]
    proxies = [each for each in threading.enumerate() if each.name.startswith("refold-proxy")]
    assert len(proxies) == 1  # that of the session
"""
    )
    with pytest.MonkeyPatch.context() as patch, Upstream() as upstream:
        patch.setenv("OPENAI_BASE_URL", upstream.openai_url)
        patch.setenv("OPENAI_API_KEY", "any")
        assert suite.run("--refold-record=once", "-k", "ask").ret == 0

    suite.passes()


@pytest.mark.usefixtures("suite")
def test_without_the_extra_it_says_what_to_install(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the plugin needs none of it."""
    ours = [name for name in sys.modules if name.startswith(("refold.proxy", "refold.testing"))]
    for name in ours:
        monkeypatch.delitem(sys.modules, name)
    without: Any = None
    monkeypatch.setitem(sys.modules, "uvicorn", without)

    said = one_line(pytester.runpytest_inprocess("-pno:hypothesispytest").stdout.str())

    assert "uvicorn is not installed: pip install 'refold[proxy]'" in said


def test_recordings_name_paths_of_the_machine_in_one_place(suite: Watched, tmp_path: Path) -> None:
    """They are kept with the tests; those of a replay are taken for the folders named there."""
    suite.record()

    first, *others = read_entries(suite.folder / LOG)
    assert first.data["input"] == {"test": "test_it.py::test_ask"}
    assert first.data["rules"].pop("folders").keys() >= {"folder", "home"}
    text = "".join(str(each.data) for each in (first, *others))
    assert str(tmp_path.parent) not in text
    assert "127.0.0.1" not in text


CODER: Final = """
import os
from desk import asked
import openai, pytest

@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

def test_ask(refold_models, tmp_path, home):
    system = f"You are the weather desk of {tmp_path}, with notes in {tmp_path}/home/notes."
    with openai.OpenAI(default_headers={"user-agent": "claude-cli/2.1.197"}) as client:
        asked(client, f"Hello from {tmp_path}!", system)
"""


@pytest.mark.long
def test_a_folder_that_is_new_each_time_is_taken_for_the_recorded_one(suite: Watched) -> None:
    """Of the test, and HOME where it has one of its own; what else differs is seen."""
    suite.write(test_it=CODER)
    suite.record()
    suite.passes()

    suite.edit("test_it", "home/notes", "home/texts")
    assert "home/[-note-]{+text+}s" in suite.fails()


def test_what_requests_say_chooses_the_profile(suite: Watched) -> None:
    """Its rules are in the log, hold in a replay, and are said in the report."""
    suite.write(test_it=CODER)
    suite.record()
    (first, *_) = read_entries(suite.folder / LOG)
    assert first.data["rules"]["profile"]["name"] == "Claude Code"

    suite.write(test_it=CODER.replace("/notes", "/texts"))
    assert "profile: Claude Code" in suite.fails()


def test_a_replay_gives_keys_of_the_recorded_shape(suite: Watched) -> None:
    """Claude Code asks another model with a key of another shape."""
    begins = "assert os.environ['ANTHROPIC_API_KEY'].startswith('sk-ant-api03-')"
    suite.write(test_it=f"import os\n{TEST}    {begins}\n")
    with pytest.MonkeyPatch.context() as patch, Upstream() as upstream:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-api03-" + "0" * 80)
        suite.passes("--refold-record=once")

    suite.passes()


def test_what_is_recorded_anew_has_its_page_beside_the_recording(suite: Watched) -> None:
    suite.record()
    suite.edit("test_it", "Which city", "Which town")

    said = suite.live("--refold-record=rewrite", "--refold-html=pages")

    (page,) = (suite.folder / "pages").iterdir()
    assert said.ret == 1
    assert page.name in said.stdout.str()
    assert "↔" in page.read_text(encoding="utf-8").partition("</title>")[0]
