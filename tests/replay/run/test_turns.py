"""The turns of an agent: its prompts, what changed between two, and the answers (§14.10)."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.engine.errors import UsageError
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import ModelRequest
from refold.replay.index.chains import Chains
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.turns import Turn
from tests.support.fixtures import LOGS

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
