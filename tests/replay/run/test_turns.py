"""The turns of an agent: its prompts, what changed between two, and the answers (§14.10)."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.engine.errors import UsageError
from refold.engine.events.events import scope_of
from refold.engine.models.scripted import FunctionModel
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer, RequestUnderway
from refold.engine.observed.profile import NAMED
from refold.engine.ports.ports import ModelRequest
from refold.engine.secrets.vault import Vault
from refold.proxy.profiles.claude_code import PROFILE
from refold.replay.index.chains import Chains
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.turns import Turn
from tests.support.fixtures import LOGS
from tests.support.watched import Exchange, result, says, system, talk, user

_MESSAGES: Any = st.lists(st.builds(lambda word: {"content": word}, st.sampled_from("abc")))
_WATCHED: Final = LOGS / "watched.jsonl"


@given(_MESSAGES, _MESSAGES, st.none() | st.just({"content": "a"}))
def test_what_changed_leads_from_one_prompt_to_the_other(
    before: list[Any], after: list[Any], answer: Any
) -> None:
    """Without what is dropped it is the one, and without what is added the other."""
    chains = Chains()
    first = Turn(n=1, interval=(0, 0), chains=chains, end=chains.after("", before), answer=answer)
    told = Turn(n=2, interval=(0, 0), chains=chains, end=chains.after("", after)).since(first)
    marked = list(told.marked())

    assert [each for sign, each in marked if sign != "-"] == after
    said = [*before, answer] if answer else before
    assert [each for sign, each in marked if sign != "+"] == said
    assert told.kept + told.kept_at_end + len(told.added) == len(after)


def test_a_prompt_is_what_the_model_was_given(tmp_path: Path) -> None:
    asked: list[Any] = []

    def answered(request: ModelRequest) -> str:
        asked.append(list(request.messages))
        return f"answer {len(asked)}"

    def program(run: refold.PlainRun, _input: Any) -> None:
        talk: list[Any] = [{"role": "system", "content": "s" * 20_000}]
        for word in ("one", "two"):
            talk.append({"role": "user", "content": word})
            talk.append(run.model(talk).message)
        run.model([talk[0], {"role": "user", "content": "summary"}, *talk[-2:]])

    log = refold.record(program, None, log=tmp_path / "a.jsonl", model=FunctionModel(answered)).log
    found = OpenedRun(log).main.turns

    assert [list(each.messages) for each in found] == asked
    assert [each.status for each in found] == ["ok"] * 3
    assert [each.says for each in found] == ["answer 1", "answer 2", "answer 3"]
    assert found[1].added == ({"role": "user", "content": "two"},)
    last = found[2]
    assert (last.kept, last.kept_at_end, len(last.dropped), len(last.added)) == (1, 2, 2, 1)


def test_turns_of_a_watched_command_are_those_of_one_conversation() -> None:
    run = OpenedRun(_WATCHED)

    lead, cook = run.main.turns, run.agent("cook", "--agent").turns

    assert len(lead) == 2
    assert [each.status for each in run.agent("hiker", "--agent").turns] == ["error", "ok"]
    (asked,) = cook
    assert asked.messages[-1]["content"] == "Find a place to eat near the harbour"
    assert asked.answer is not None
    with pytest.raises(UsageError, match="--agent nobody: no agent has this name: 0/1 "):
        run.agent("nobody", "--agent")


_PROMPT: Final = {"subagent_type": "review", "prompt": "Review cart.py"}
_TALKS: Final[dict[str, list[Exchange]]] = {
    "main": talk(
        system("You are Claude Code."),
        user("Tidy the shop."),
        says("One reviews.", ("a1", "Agent", _PROMPT)),
        result("a1", "It runs in the background."),
        says("I read meanwhile.", ("a2", "Read", {"path": "x"})),
        result("a2", "text"),
        says("All done."),
    ),
    "review": talk(
        system("You review."),
        user("Review cart.py"),
        says("I look.", ("b1", "Grep", {"pattern": "y"})),
        result("b1", "none"),
        says("cart is fine"),
    ),
}


@settings(max_examples=15)
@given(st.permutations([*["main"] * 4, *["review"] * 4]))
def test_a_call_is_a_step_of_the_conversation_that_made_it(
    tmp_path_factory: pytest.TempPathFactory, order: list[str]
) -> None:
    """However the requests and answers of two conversations, one below the other, interleave."""
    path = tmp_path_factory.mktemp("logs") / "a.jsonl"
    left = {name: iter(exchanges) for name, exchanges in _TALKS.items()}
    underway: dict[str, tuple[RequestUnderway, Exchange]] = {}
    rules = {NAMED: PROFILE.as_json()}
    with ObservedLog(path, program="p", input=None, vault=Vault(), rules=rules) as log:
        observer = Observer(log, PROFILE)
        for name in ["main", "main", *order]:  # asked, then answered
            if name in underway:
                asked, exchange = underway.pop(name)
                observer.answered(asked, exchange.answered())
            else:
                exchange = next(left[name])
                underway[name] = observer.asked(exchange.asked), exchange
        log.seal("completed", "done")

    steps = [
        (agent.key, step)
        for agent in OpenedRun(path).agents
        for turn in agent.turns
        for step in turn.steps
    ]
    assert len(steps) == 3
    assert all(scope_of(step.call) == key for key, step in steps)
