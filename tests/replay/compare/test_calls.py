import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import LogDamaged, LogMissing
from refold.engine.events.limits import Limits
from refold.replay.compare.calls import NO_OUTCOME, Call, RunCalls
from tests.support.delegating import child, recorded
from tests.support.loops import for_each


def calls_of(tmp_path: Path, *plan: Any, name: str = "a", **options: Any) -> RunCalls:
    return RunCalls(recorded(tmp_path / f"{name}.jsonl", plan, **options).log)


def only(run: RunCalls) -> Call:
    (call,) = run.calls
    return call


def test_calls_stand_in_their_scopes(tmp_path: Path) -> None:
    run = calls_of(
        tmp_path, ("search", "x"), ("both", [("search", "y")], [("read", "z")]), ("search", "w")
    )

    labels = {
        scope: [run.calls[at].label() for at in calls] for scope, calls in run.scopes().items()
    }

    assert labels == {"0": ["search#1", "search#2"], "0/1": ["search#1"], "0/2": ["read#1"]}


@for_each(
    "step, kind, label, request_, ending",
    [
        (
            ("search", "x"),
            "tool",
            "search#1",
            {"tool": "search", "arguments": {"query": "x"}, "effect": "reads"},
            {"status": "ok", "result": "found x"},
        ),
        (("note", "n"), "note", "note#1", {"text": "n"}, {}),
        (("sleep", 0.01), "timer", "timer 0@1", {}, {}),
    ],
)
def test_a_call_can_be_read_again(
    tmp_path: Path, step: Any, kind: str, label: str, request_: Any, ending: Any
) -> None:
    run = calls_of(tmp_path, step)
    call = only(run)

    assert (call.kind, call.label()) == (kind, label)
    assert run.request(call) == request_
    assert run.ending(call) == ending


def test_a_child_is_asked_and_ends_without_what_is_volatile(tmp_path: Path) -> None:
    run = calls_of(tmp_path, child("dig", [], brief="b"))
    call = only(run)

    assert (call.label(), call.number, call.has_log) == ("dig[1]", 1, True)
    assert run.request(call).keys() == {"delegation"}
    assert not run.ending(call).keys() & {"duration_ms", "child"}


def test_a_rejected_start_is_a_child_that_nobody_can_name(tmp_path: Path) -> None:
    run = calls_of(tmp_path, child("dig", []), limits=Limits(max_depth=0))
    call = only(run)

    assert (call.kind, call.name, call.is_rejected) == ("child", "", True)
    assert run.ending(call)["status"] == "rejected"


def test_a_value_is_asked_for_by_its_source_and_ends_as_itself(tmp_path: Path) -> None:
    """Two runs that draw another one ask for the same."""

    async def draws(run: refold.Run, _: Any) -> str:
        return run.uuid()

    runs = [
        RunCalls(refold.record(draws, None, log=tmp_path / f"{seed}.jsonl", seed=seed).log)
        for seed in (1, 2)
    ]
    one, other = map(only, runs)

    assert one.label() == "value uuid#1"
    assert one.identity == other.identity
    assert runs[0].request(one) == {"source": "uuid", "name": ""}
    assert list(runs[0].ending(one)) == ["value"]
    assert one.ended != other.ended


def test_what_a_program_gave_up_on_and_the_limit_that_ended_it_are_told(tmp_path: Path) -> None:
    """What ends a run as a whole is a call without a key."""

    async def gives_up(run: refold.Run, _: Any) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await run.ask("?")
        await run.sleep(3600)

    limits = Limits(timeout_seconds=0.1)
    run = RunCalls(refold.record(gives_up, None, log=tmp_path / "a.jsonl", limits=limits).log)
    asked, *_, whole = run.calls

    assert run.ending(asked) == {"status": "cancelled"}
    assert (whole.key, whole.kind, whole.name) == ("", "limit", "timeout_seconds")


def test_the_same_calls_have_the_same_digests_in_another_log(tmp_path: Path) -> None:
    plan = [("search", "x" * 40_000), ("ask", "?"), child("dig", [])]
    one, other = calls_of(tmp_path, *plan), calls_of(tmp_path, *plan, name="b", seed=2)

    assert [(call.identity, call.ended) for call in one.calls] == [
        (call.identity, call.ended) for call in other.calls
    ]


def test_large_strings_are_read_from_their_blobs(tmp_path: Path) -> None:
    run = calls_of(tmp_path, ("search", "x" * 40_000))

    assert run.ending(only(run))["result"] == "found " + "x" * 40_000


def test_a_blob_that_is_gone_is_told_by_its_digest(tmp_path: Path) -> None:
    """What cannot be shown can still be compared."""
    run = calls_of(tmp_path, ("search", "x" * 40_000))
    texts = [path for path in (tmp_path / "a.blobs").rglob("*") if path.is_file()]
    for path in texts:
        path.unlink()

    assert run.ending(only(run))["result"].startswith("(blob missing: ")


def test_a_request_does_not_repeat_the_conversation(tmp_path: Path) -> None:
    run = calls_of(tmp_path, ("ask", "?"))

    assert run.request(only(run)) == {
        "model": "scripted",
        "added": [{"role": "user", "content": "?"}],
        "parameters": {},
        "new_conversation": True,
    }


@for_each("step", [("search", "x"), ("ask", "?"), child("dig", [])])
def test_an_open_call_has_no_outcome(tmp_path: Path, step: Any) -> None:
    log = recorded(tmp_path / "a.jsonl", [step]).log
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    run = RunCalls(log)

    assert run.ending(only(run)) == NO_OUTCOME
    assert run.finished is None


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", [("search", "x")]).log
    log.write_bytes(log.read_bytes().replace(b'"x"', b'"y"'))

    with pytest.raises(LogDamaged):
        RunCalls(log)
    with pytest.raises(LogMissing):
        RunCalls(tmp_path / "b.jsonl")
