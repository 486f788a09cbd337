"""Clients that are made before their test find it by the proxy of the session (§16.12)."""

import os
import threading
from typing import Final

import pytest

from tests.support.loops import some
from tests.support.suites import one_line
from tests.support.upstream import Upstream
from tests.test_pytest_models import LOG, Watched, suite

pytest_plugins = ["pytester"]
__all__ = ["suite"]

CLIENT: Final = """
import openai
client = openai.OpenAI()

def ask(text):
    messages = [{"role": "system", "content": "You are the weather desk."},
                {"role": "user", "content": text}]
    answer = client.chat.completions.create(model="gpt-5-mini", messages=messages)
    return answer.choices[0].message.content
"""
ASKS: Final = """
def test_ask(refold_models):
    assert "Which city" in ask("Hello!")
"""
PLACES: Final = {
    "the test file": {"test_it": CLIENT + ASKS},
    "a fixture of the session": {
        "conftest": "import pytest\n\n@pytest.fixture(scope='session')\ndef ask():\n"
        "    import agent\n    return agent.ask\n",
        "agent": CLIENT,
        "test_it": ASKS.replace("(refold", "(ask, refold"),
    },
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_a_client_made_before_its_test_is_recorded_and_replayed(place: str, suite: Watched) -> None:
    """Replayed without a key, with no change of the code under test."""
    suite.write(**PLACES[place])
    suite.record()
    assert (suite.asked, suite.logs()) == (1, ["test_ask.models.jsonl"])

    suite.passes()

    suite.edit("agent" if "agent" in PLACES[place] else "test_it", "weather desk", "tide desk")
    assert "[-weather-]{+tide+}" in suite.fails()


EARLIER: Final = {
    "another test file": {"test_first": "import agent\n\ndef test_first(): pass\n"},
    "the conftest file": {"conftest": "import agent\n"},
}


@pytest.mark.long
@pytest.mark.parametrize("place", some(1, [*EARLIER]))
def test_a_client_that_another_file_made_is_named_and_asks_nobody(
    place: str, suite: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when it would be recorded, nor when it would be replayed."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    suite.record()
    suite.write(agent=CLIENT, test_it="from agent import ask\n" + ASKS, **EARLIER[place])
    for said in (suite.live("--refold-record=all").stdout.str(), suite.fails()):
        assert "client in agent.py, for http" in said
        assert "make it in a fixture or in the test file" in one_line(said)
    assert suite.asked == 0


MOCKED: Final = """
import os, httpx2, openai
def answer(request):
    assert request.url.host == "api.openai.com"
    return httpx2.Response(200, json={"id": "c", "object": "chat.completion", "created": 1,
        "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "hi"}}]})

def test_mocked():
    assert not [name for name in os.environ if name.endswith("_BASE_URL")]
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = openai.OpenAI(api_key="any", http_client=http)
    message = {"role": "user", "content": "x"}
    assert client.chat.completions.create(model="m", messages=[message]).choices[0].message.content
"""


@pytest.mark.parametrize("name", some(1, ["test_a_mock", "test_z_mock"]))
def test_other_tests_see_the_environment_as_it_was(name: str, suite: Watched) -> None:
    """Before and after a test that names the fixture, and beside one that is skipped."""
    suite.record()
    skipped = "import pytest\n\n@pytest.mark.skip\ndef test_skipped(refold_models): pass\n"
    suite.write(**{name: MOCKED, "test_skipped": skipped})

    suite.run().assert_outcomes(passed=2, skipped=1)


@pytest.mark.parametrize("mode", some(1, ["once", "none"]))
def test_a_test_that_takes_the_fixture_and_asks_past_it_fails(mode: str, suite: Watched) -> None:
    """With what to do: a client with a base URL of its own leads past the proxy."""
    with Upstream() as upstream:
        more = f"OpenAI(base_url={upstream.openai_url!r}, api_key='any')"
        suite.write(test_it=CLIENT.replace("OpenAI()", more) + ASKS)

        said = suite.fails(f"--refold-record={mode}")

        assert len(upstream.received) == 1
    assert "the test takes refold_models, but did not send any model requests through it" in said
    assert "set it to refold_models.openai_url" in said
    assert "@pytest.mark.usefixtures('refold_models')" in said
    assert suite.logs() == []


def test_a_test_that_may_ask_nothing_says_so(suite: Watched) -> None:
    suite.write(test_it="import pytest\n\n@pytest.mark.usefixtures('refold_models')\ndef test(): 1")

    suite.passes()


def test_a_recording_of_a_test_that_asks_past_it_says_both(suite: Watched) -> None:
    suite.record()
    suite.write(test_it="def test_ask(refold_models):\n    pass\n")

    said = suite.fails()

    assert "unconsumed: " in said
    assert "did not send any model requests through it" in said


GATED: Final = """
import os, pytest
@pytest.mark.skipif("OPENAI_API_KEY" not in os.environ, reason="no key")
def test_live(): assert 0

def test_other(): assert "OPENAI_API_KEY" not in os.environ
"""


def test_a_test_that_is_skipped_without_a_key_is_skipped_all_the_same(suite: Watched) -> None:
    """A placeholder is there only for what names the fixture, and for conftest files."""
    suite.record()
    suite.write(test_gated=GATED)

    result = suite.run()

    result.assert_outcomes(passed=2, skipped=1)


def test_a_session_that_does_not_name_the_fixture_is_left_alone(suite: Watched) -> None:
    """No variable, no thread, and nothing of the extra is imported."""
    suite.write(
        test_it="import os\n\ndef test_it():\n    assert 'OPENAI_BASE_URL' not in os.environ"
    )

    suite.passes()


def test_after_a_session_all_is_as_it_was(suite: Watched) -> None:
    suite.record()
    before = dict(os.environ)

    suite.passes()

    assert {n: v for n, v in os.environ.items() if n != "PYTEST_CURRENT_TEST"} == {
        n: v for n, v in before.items() if n != "PYTEST_CURRENT_TEST"
    }
    assert not [each.name for each in threading.enumerate() if "refold-proxy" in each.name]


OUTSIDE: Final = f"{CLIENT}\ndef test_outside():\n    assert ask('Hello!')\n{ASKS}"


@pytest.mark.long
def test_what_is_asked_outside_of_such_a_test_goes_where_it_went(suite: Watched) -> None:
    """With a key; without one, nobody is asked, and the client says why."""
    suite.write(test_it=OUTSIDE)
    suite.record()
    assert suite.asked == 2
    assert suite.live("-k", "outside").ret == 0
    assert suite.asked == 1

    said = one_line(suite.run().stdout.str())

    assert "1 failed, 1 passed" in said
    assert "has the placeholder key of a replay, but no test with refold_models is" in said


def test_a_log_does_not_name_the_proxy(suite: Watched) -> None:
    suite.write(**PLACES["the test file"])
    suite.record()

    assert "127.0.0.1" not in (suite.folder / LOG).read_text(encoding="utf-8")
