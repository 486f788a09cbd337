"""Caps of watched commands hold, are named in the log, and replay (CONTRACT.md §16.19)."""

import json
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.conversation import ConversationPrefix
from refold.engine.errors import LimitRefused
from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.observed.observer import RequestUnderway
from refold.engine.observed.profile import Whose
from refold.engine.observed.threads import Thread
from refold.engine.wire.parts.exchange import Asked
from refold.proxy.desks.caps import CapReached, Caps, Spending
from refold.replay.audit.verify import verify
from refold.tools.configuration.config import CAPS
from tests.support.loops import for_each
from tests.support.proxied import data_of, question, recorded, replayed, said
from tests.support.upstream import Upstream

_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/openai/chat/completions", question("Hello")),
    "responses": (
        "/openai/responses",
        {"model": "small", "input": "Hello", "instructions": "the weather desk"},
    ),
    "messages": (
        "/openai/messages",
        {
            "model": "small",
            "system": "the weather desk",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hello"}],
        },
    ),
    "generate": (
        "/openai/v1beta/models/gemini-2.5-flash:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
}


@pytest.mark.parametrize("api", _BODIES)
def test_the_request_after_the_last_is_refused_in_its_form_and_replays(
    tmp_path: Path, api: str
) -> None:
    log, (path, body) = tmp_path / "run.jsonl", _BODIES[api]
    with (
        Upstream() as upstream,
        recorded(log, upstream.openai_url, caps=Caps(max_requests=2)) as base,
    ):
        answers = [said(base, body, path=path) for _ in range(4)]
    with replayed(log) as (base, desk):
        again = [said(base, body, path=path) for _ in range(4)]

    assert [status for status, _ in answers[2:]] == [400, 400]
    assert [status for status, _ in answers[:2]] == [404 if api == "generate" else 200] * 2
    assert "--limit max_requests=2 is reached: 2 spent" in answers[2][1].decode()
    assert json.loads(answers[2][1])["error"]
    assert [each["cap"] for each in data_of(log, "x-refold.cap")] == ["max_requests"] * 2
    assert again == answers
    assert desk.served == 4
    assert verify(log).intact


def test_tokens_count_as_the_provider_counts_them(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    with (
        Upstream() as upstream,
        recorded(log, upstream.openai_url, caps=Caps(max_tokens=1)) as base,
    ):
        answers = [said(base, question("Hello")) for _ in range(3)]

    spent = sum(
        each["usage"]["input_tokens"] + each["usage"]["output_tokens"]
        for each in data_of(log, "model.answered")
        if each["status"] == "ok"
    )
    assert [status for status, _ in answers] == [200, 400, 400]
    assert {each["spent"] for each in data_of(log, "x-refold.cap")} == {spent}


def test_a_model_without_a_price_is_refused_under_a_cap_on_cost(tmp_path: Path) -> None:
    pytest.importorskip("genai_prices")
    log = tmp_path / "run.jsonl"
    with (
        Upstream() as upstream,
        recorded(log, upstream.openai_url, caps=Caps(max_cost_usd=1)) as base,
    ):
        status, answer = said(base, question("Hello"))

    assert status == 400
    assert b"the price of openai:small is unknown" in answer


def test_what_is_in_flight_is_all_that_a_cap_is_exceeded_by(tmp_path: Path) -> None:
    """Eight at once: each is counted before it passes."""
    log = tmp_path / "run.jsonl"
    answers: list[int] = []
    with (
        Upstream() as upstream,
        recorded(log, upstream.openai_url, caps=Caps(max_requests=3)) as base,
    ):
        threads = [
            threading.Thread(target=lambda: answers.append(said(base, question("Hello"))[0]))
            for _ in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    assert sorted(answers) == [200] * 3 + [400] * 5


# --- the accounts ------------------------------------------------------------------------


def _turn(scope: str = "0/1", *, above: str = "", own: str = "", **parameters: Any) -> Any:
    thread = Thread(scope, "identity", whose=Whose(own, above), agent=own)
    said = ({"role": "user", "content": "x" * 400},)
    asked = Asked(api="chat", model="gpt-4o-mini", messages=said, parameters=parameters)
    return RequestUnderway(f"{scope}#1", 1, thread, asked, ConversationPrefix(0, "", ()))


def _ok(tokens: int, micros: int | None = None) -> ModelAnswered:
    usage = Usage(input_tokens=tokens, requests=1, cost_usd_micros=micros)
    return ModelAnswered("ok", {"role": "assistant", "content": "x"}, usage)


def _asks(spending: Spending, turn: Any, answer: ModelAnswered | None, size: int = 0) -> str:
    """Return the cap that refuses a request; empty if it passed and was answered."""
    hit = spending.refusal(turn)
    if not hit:
        spending.answered(turn, answer, size)
    return hit.cap if isinstance(hit, CapReached) else hit


def test_each_subagent_has_its_own_caps_and_the_main_agent_none() -> None:
    spending = Spending(Caps(each_requests=2))
    main, one, other = (
        _turn(), _turn("0/1/1", own="a", above="m"), _turn("0/1/2", own="b", above="m"),
    )  # fmt: skip

    assert [_asks(spending, one, _ok(1)) for _ in range(3)] == ["", "", "each_requests"]
    assert [_asks(spending, other, _ok(1)) for _ in range(2)] == ["", ""]
    assert [_asks(spending, main, _ok(1)) for _ in range(5)] == [""] * 5
    (hit,) = spending.reached
    assert hit.why == "--limit each_requests=2 is reached: 2 spent by a"


def test_a_subagent_that_goes_on_as_another_conversation_is_the_same() -> None:
    """As after a summary of what was said: its requests name it."""
    spending = Spending(Caps(each_tokens=10))
    before, after = (_turn(scope, own="a", above="m") for scope in ("0/1/1", "0/1/2"))

    assert _asks(spending, before, _ok(10)) == ""
    assert _asks(spending, after, _ok(1)) == "each_tokens"


def test_further_subagents_are_refused_and_those_before_go_on() -> None:
    spending = Spending(Caps(max_subagents=2))
    agents = [_turn(f"0/1/{n}", own=f"{n}", above="m") for n in range(4)]

    first = [_asks(spending, each, _ok(1)) for each in agents]
    again = [_asks(spending, each, _ok(1)) for each in agents]

    assert first == again == ["", "", "max_subagents", "max_subagents"]
    assert _asks(spending, _turn(), _ok(1)) == ""


def test_a_link_that_nothing_confirms_is_not_counted_and_said() -> None:
    """It counts as soon as the caller shows the call's result."""
    spending = Spending(Caps(max_subagents=1, each_requests=1))
    turns = [_turn(f"0/1/{n}") for n in range(3)]
    for turn in turns:
        turn.thread.is_opened = True

    first = [_asks(spending, turn, _ok(1)) for turn in turns]
    uncounted = spending.uncounted
    for turn in turns:
        turn.thread.is_counted = True
    then = [_asks(spending, turn, _ok(1)) for turn in turns]

    assert (first, uncounted) == (["", "", ""], 3)
    assert (then, spending.uncounted) == (["", "max_subagents", "max_subagents"], 0)


@for_each(
    "parameters, tokens",
    [
        ({"max_tokens": 7}, 107),
        ({"max_completion_tokens": 8}, 108),
        ({"generationConfig": {"maxOutputTokens": 9}}, 109),
        ({}, 100 + 50),
    ],
)
def test_an_answer_without_usage_counts_as_what_was_allowed(
    parameters: dict[str, Any], tokens: int
) -> None:
    """Cut streams, and providers that say none: 400 characters in, 200 bytes out."""
    below, at = (Spending(Caps(max_tokens=cap)) for cap in (tokens + 8, tokens - 8))
    for spending in (below, at):
        assert _asks(spending, _turn(**parameters), _ok(0), size=200) == ""

    assert _asks(below, _turn(), _ok(0)) == ""
    assert _asks(at, _turn(), _ok(0)) == "max_tokens"


def test_an_error_of_the_provider_costs_nothing() -> None:
    spending = Spending(Caps(max_tokens=1))
    failed = ModelAnswered("error", error={"code": "http_529", "message": "overloaded"})

    assert [_asks(spending, _turn(), failed, size=80) for _ in range(3)] == [""] * 3


def test_after_its_time_nothing_passes() -> None:
    now = [0.0]
    spending = Spending(Caps(timeout=5), clock=lambda: now[0])

    assert _asks(spending, _turn(), _ok(1)) == ""
    now[0] = 5.0
    assert _asks(spending, _turn(), _ok(1)) == "timeout"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=60),
    st.integers(1, 200),
    st.integers(1, 200),
)
def test_no_cap_is_exceeded_by_more_than_one_answer(
    asked: list[tuple[int, int]], most: int, each: int
) -> None:
    """Of requests one after the other: what passed before the last was below every cap."""
    spending = Spending(Caps(max_tokens=most, each_tokens=each))
    whole, agents = 0, dict.fromkeys(range(4), 0)
    for agent, tokens in asked:
        own = {"own": f"{agent}", "above": "m"} if agent else {}
        is_below = whole < most and (not agent or agents[agent] < each)

        assert (_asks(spending, _turn(f"0/{agent}", **own), _ok(tokens)) == "") is is_below
        if is_below:
            whole, agents[agent] = whole + tokens, agents[agent] + tokens


@for_each("name", CAPS)
def test_a_cap_is_above_nothing(name: str) -> None:
    with pytest.raises(LimitRefused, match=name):
        Caps(**{name: 0})


def test_the_configuration_has_the_same_caps() -> None:
    assert tuple(attrs.fields_dict(Caps)) == CAPS
