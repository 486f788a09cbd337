"""The last entry says what is so of all before it; the first, its versions (§2.2, §15.1)."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.encoding.canonical import encode
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import NoteAdded, RunFinished
from refold.engine.events.flags import NOW
from refold.engine.log.names import tree
from refold.engine.log.reader import read_entries
from refold.engine.models import FunctionModel, OpenAICompatibleModel, ScriptedModel
from refold.engine.recording.bookends import (
    declared_volatile,
    nonce,
    scripts_in,
    sealed,
    versions,
)
from refold.engine.state.digests import state_digest
from refold.engine.state.folding import Fold
from refold.tools import tool
from tests.support.loops import some


def test_the_last_entry_counts_itself_and_digests_what_stood_before() -> None:
    """Entries and data digest with it, the state digest without."""
    fold, digest = Fold(), DataDigest()
    note = NoteAdded("hello")
    fold.apply(note)
    digest.add("note.added", None, encode({"text": "hello"}))
    before = digest.hexdigest()

    last = sealed(RunFinished("completed", "done"), entries=1, digest=digest, fold=fold)

    assert last.entries == 2
    assert last.state_digest == state_digest(fold.state())
    assert last.data_digest == digest.hexdigest() != before


def test_it_says_which_models_were_asked_and_what_they_used(tmp_path: Path) -> None:
    """Where none was, nothing (§15.4)."""

    async def program(run: refold.Run, times: int) -> None:
        for _ in range(times):
            await run.model([{"role": "user", "content": "hi"}])

    reply: Any = {"text": "ok", "usage": {"output_tokens": 10}}
    none, some = (
        refold.record(
            program, times, log=tmp_path / f"{times}.jsonl", model=ScriptedModel([reply] * 2)
        )
        for times in (0, 2)
    )

    first, last = (list(read_entries(one.log))[-1].data for one in (none, some))
    assert not {"models", "usage"} & set(first)
    assert (last["models"], last["usage"]["output_tokens"]) == (["scripted"], 20)


def test_versions_name_what_a_log_is_made_under() -> None:
    """Integers, and Python without its patch level."""
    found = versions()

    assert (found["format"], found["engine"], found["state"]) == (1, 2, 1)
    assert found["python"].count(".") == 1
    assert found["flags"] == NOW.as_json()


def test_no_two_logs_share_a_nonce() -> None:
    """32 hex digits, drawn."""
    assert len({nonce() for _ in range(10)} | {"0" * 32}) == 11
    assert len(nonce()) == 32


def test_what_tools_declare_volatile_is_among_the_rules() -> None:
    """By the tool's name."""

    @tool(effect="reads", volatile=["/result/time"])
    def clock() -> dict[str, int]:
        return {"time": 1}

    assert declared_volatile([clock]) == ["tool:clock/result/time"]


async def asked_below(run: refold.Run, _: None) -> None:
    """Start a child."""
    await run.delegate(refold.Delegation(program=idle))


async def idle(_run: refold.Run, _: None) -> None:
    """Do nothing."""


@pytest.mark.parametrize("runner", some(1, ["in-process", "subprocess"]))
def test_the_first_entry_marks_models_that_are_scripts(tmp_path: Path, runner: str) -> None:
    """Also under a provider's name, in children and in the copy of a fork (§11.8)."""
    models: dict[str, Any] = {
        "judge": ScriptedModel(["yes"], "openai:gpt-5"),
        "": OpenAICompatibleModel("gpt-5"),
        "zed": FunctionModel(
            lambda _request: "no",
            "anthropic:claude",
            reference=ScriptedModel(["no"], "anthropic:claude").reference,
        ),
    }

    done = refold.record(asked_below, log=tmp_path / "a.jsonl", models=models, runner=runner)
    fork = refold.fork(done.log, 1, asked_below, into=tmp_path / "b.jsonl")

    assert done.ok
    for log in (*tree(done.log), fork.log):
        first = next(read_entries(log))
        assert scripts_in(first.data["models"], first.meta) == {"judge", "zed"}
        assert {name for name in first.meta if name.startswith("script")} == {
            "script_1",
            "script_2",
        }
