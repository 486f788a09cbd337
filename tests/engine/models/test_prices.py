"""What an answer cost, when it is recorded and never again (CONTRACT.md §11.9, §8.5)."""

from pathlib import Path
from typing import Any

import pytest

from refold import Delegation, Limits, PlainRun, record
from refold.engine.errors import LimitReached, LimitRefused
from refold.engine.events.outcome import Usage
from refold.engine.log.reader import read_entries
from refold.engine.models import ScriptedModel
from refold.engine.models.prices import priced
from refold.engine.wire.messages.answer import COUNTS as MESSAGES
from refold.replay.run.opened_run import delegation_tree

CACHED = MESSAGES.usage(
    {
        "input_tokens": 5,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 40,
        "output_tokens": 0,
    }
)


def reply(cost: int) -> dict[str, Any]:
    return {
        "text": "said",
        "usage": {"input_tokens": 9, "output_tokens": 1, "cost_usd_micros": cost},
    }


def asks(run: PlainRun, given: Any) -> list[str]:
    """Ask as often as it is told."""
    told = []
    for at in range(given):
        try:
            said = run.model([{"role": "user", "content": str(at)}])
        except LimitReached as error:
            told.append(error.limit)
        else:
            told.append(said.message["content"])
    return told


def delegates(run: PlainRun, given: Any) -> list[str]:
    """Hand the asking over, one after the other."""
    outcomes = [run.delegate(Delegation(program=asks, input=count)) for count in given]
    return [outcome.error.code if outcome.error else outcome.status for outcome in outcomes]


def test_the_unknown_of_one_is_unknown_of_the_sum() -> None:
    """A cost that leaves a request out would read as the whole; nothing used changes nothing."""
    known, unknown = Usage(requests=1, cost_usd_micros=7), Usage(requests=1)
    assert known.plus(known).cost_usd_micros == 14
    assert known.plus(unknown).cost_usd_micros is None
    assert Usage().plus(known) == known == known.plus(Usage())


def test_a_cached_turn_is_not_priced_as_a_fresh_one() -> None:
    """5 fresh, 900 read and 40 written: 435 millionths, not the 2,835 of 945 fresh ones."""
    pytest.importorskip("genai_prices")
    found = priced(CACHED, "anthropic:claude-sonnet-4-5")
    assert found.cost_usd_micros == 435
    assert found.prices is not None
    assert found.prices.startswith("genai-prices ")
    assert priced(found, "openai:gpt-4o") == found, "it is priced once"
    assert priced(CACHED, "pydantic:anthropic:claude-sonnet-4-5") == found, "whoever asks it"
    for name in ("anthropic:nobody", "nobody:x", "scripted", "openai:", "") * 2:
        assert priced(CACHED, name) == CACHED


def test_an_unpriced_model_is_refused_where_money_is_limited(tmp_path: Path) -> None:
    """At the start: nothing is recorded."""
    pytest.importorskip("genai_prices")
    log = tmp_path / "a.jsonl"
    with pytest.raises(LimitRefused, match="'scripted', without one"):
        record(asks, 1, log=log, model=ScriptedModel(["a"]), limits=Limits(cost_usd=1))
    assert not log.exists()


def test_money_stops_a_run_as_tokens_do(tmp_path: Path) -> None:
    """Judged before a request, in what is left of it for children too; all of it is in the log."""
    log, model = tmp_path / "a.jsonl", ScriptedModel([reply(700_000)])
    found = record(asks, 3, log=log, model=model, limits=Limits(cost_usd=1.2))
    assert found.output == ["said", "said", "cost_usd"]
    assert found.usage.cost_usd_micros == 1_400_000
    (hit,) = [entry.data for entry in read_entries(log) if entry.kind == "limit.hit"]
    assert (hit["allowed"], hit["observed"]) == (1.2, 1.4)


def test_children_share_what_is_left(tmp_path: Path) -> None:
    """Each is granted a half of it; one for which nothing is left is rejected by its name."""
    log = tmp_path / "a.jsonl"
    model = ScriptedModel([reply(1_000_000)])
    found = record(delegates, [1, 1, 1], log=log, model=model, limits=Limits(cost_usd=2))
    assert found.output == ["completed", "completed", "cost_usd"]
    tree = delegation_tree(log)
    assert [child.limits["cost_usd"] for child in tree.children] == [1.0, 0.5, 0.000001]
    assert tree.usage.cost_usd_micros == 2_000_000
    assert tree.own_usage == Usage()
    assert tree.children[0].own_usage.cost_usd_micros == 1_000_000


def test_children_at_once_share_what_none_of_them_has_reserved(tmp_path: Path) -> None:
    """§8.5: half of it, or what it asks for; what it did not use is free once it is joined."""

    def program(run: PlainRun, _input: Any) -> Any:
        own = Limits(cost_usd=0.25)
        some = [
            run.start(Delegation(program=asks, input=1, limits=each)) for each in (None, None, own)
        ]
        run.join(*some)
        run.delegate(Delegation(program=asks, input=0))
        all_of_it = run.start(Delegation(program=asks, input=1, limits=Limits(cost_usd=2)))
        return [asks(run, 1), run.join(all_of_it)[0].status, asks(run, 1)]

    log, model = tmp_path / "a.jsonl", ScriptedModel([reply(100_000)])
    found = record(program, log=log, model=model, limits=Limits(cost_usd=2))

    assert found.output == [["cost_usd"], "completed", ["said"]]
    tree = delegation_tree(log)
    assert [child.limits["cost_usd"] for child in tree.children] == [1.0, 0.5, 0.25, 0.85, 1.7]
    (hit,) = [entry.data for entry in read_entries(log) if entry.kind == "limit.hit"]
    assert (hit["allowed"], hit["observed"]) == (2, 2.0)
