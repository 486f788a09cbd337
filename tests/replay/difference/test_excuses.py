"""What is volatile, or was taken out, is passed over and listed (CONTRACT.md §12.7)."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import UsageError
from refold.engine.models import FunctionModel
from refold.replay.difference.excuses import IGNORED_MAX, Excuses, subject_of, without_volatile

COUNTER = itertools.count(1)


@refold.tool(effect="reads", volatile=["/arguments/ts"])
def stamped(url: str, ts: int) -> str:
    """Fetch."""
    return f"{url} at {ts}"


@refold.tool(effect="reads")
def fetch(url: str, ts: int) -> str:
    """Fetch."""
    return f"{url} at {ts}"


async def program(run: refold.Run, url: str) -> Any:
    return await run.tool(fetch, url=url, ts=next(COUNTER))


def recorded(tmp_path: Path, **options: Any) -> refold.Recording:
    return refold.record(program, "u", log=tmp_path / "a.jsonl", check=False, **options)


def test_a_volatile_field_is_caught_unless_declared(tmp_path: Path) -> None:
    """Case 27: a time in the arguments differs, and passes when it was declared."""
    recording = recorded(tmp_path)

    report = refold.reexecute(recording, program)
    assert [each.category for each in report.divergences] == ["args_changed"]

    allowed = refold.reexecute(recording, program, volatile=["tool:fetch/arguments/ts"])
    assert allowed.identical


def test_what_policy_allows_still_fails_elsewhere(tmp_path: Path) -> None:
    """Case 26: an unstable payload passes under its own path, and under no other by default."""
    recording = recorded(tmp_path, volatile=["tool:fetch/arguments/url", "tool:other/arguments/ts"])

    assert not refold.reexecute(recording, program).identical
    assert not refold.reexecute(recording, program, volatile=["model:*/arguments/ts"]).identical
    assert refold.reexecute(recording, program, volatile=["tool:*/arguments/ts"]).identical


def test_a_path_that_matches_nothing_is_noted_with_the_nearest_subject(tmp_path: Path) -> None:
    """In reports of both kinds, as a misspelt path looks like a divergence or an all-clear."""
    recording = recorded(tmp_path)
    given = ["tool:fetch/arguments/ts", "tool:fetsh/arguments/ts", "run/output/at", "tool:*/zzz"]

    good = refold.reexecute(recording, program, volatile=given)
    bad = refold.reexecute(recording, program, volatile=given[1:])

    said = "the volatile path 'tool:fetsh/arguments/ts' matches nothing in this run"
    assert good.identical
    assert not bad.identical
    assert good.unmatched == bad.unmatched
    assert good.unmatched[0] == f"{said}, did you mean 'tool:fetch'?"
    assert [each.split("'")[1] for each in good.unmatched] == given[1:]
    assert said in str(good)
    assert said in str(bad)
    assert refold.reexecute(recording, program, volatile=["tool:fetch/arguments"]).unmatched == ()


def test_a_replay_notes_a_path_of_the_recording_that_matches_nothing(tmp_path: Path) -> None:
    """But not one of a tool that was offered, as for `diff`."""
    paths = ["tool:fetch/arguments/at", "tool:fetsh/arguments/ts", "tool:stamped/arguments/at"]

    report = refold.reexecute(recorded(tmp_path, volatile=paths, tools=[stamped]), program)

    assert [each.split("'")[1] for each in report.unmatched] == paths[:2]


def test_a_diff_notes_a_path_that_matches_nothing_in_either_run(tmp_path: Path) -> None:
    """But not one of a tool that was offered: tools declare places that a call may lack."""
    paths = ["tool:fetsh/arguments/ts", "tool:fetch/arguments/ts"]
    one = recorded(tmp_path, volatile=paths, tools=[stamped])
    other = refold.record(program, "u", log=tmp_path / "b.jsonl", volatile=paths, tools=[stamped])

    notes = [each for each in refold.diff(one, other).notes if "matches nothing" in each]

    assert [each.split("'")[1] for each in notes] == paths[:1]


def test_the_rule_is_in_the_log(tmp_path: Path) -> None:
    """Whoever replays need not know it; and what is ignored is always seen."""
    recording = recorded(tmp_path, volatile=["tool:fetch/arguments/ts"])

    report = refold.reexecute(recording, program)

    (ignored,) = report.ignored
    assert report.identical
    assert (ignored.what, ignored.call, ignored.seq) == ("tool:fetch", "0#1", 1)
    assert (ignored.pointer, ignored.rule) == ("/arguments/ts", "tool:fetch/arguments/ts")
    assert ignored.recorded != ignored.now
    assert f"ignored: 1 value that changed\n  {ignored}" in str(report)
    assert report.as_json()["ignored_count"] == 1


def test_a_tool_says_what_is_volatile_of_it(tmp_path: Path) -> None:
    """Where it is among those that the run was given."""

    async def asks(run: refold.Run, _input: object) -> Any:
        return await run.tool("stamped", url="u", ts=next(COUNTER))

    recording = refold.record(asks, log=tmp_path / "a.jsonl", tools=[stamped], check=False)

    assert refold.reexecute(recording, asks).ignored_count == 1


def test_a_line_is_excused_whole_or_not_at_all(tmp_path: Path) -> None:
    """Another difference beside the volatile one counts, and nothing is listed as ignored."""
    urls = itertools.count()

    async def asks(run: refold.Run, _input: object) -> Any:
        return await run.tool(fetch, url=str(next(urls)), ts=next(COUNTER))

    log = tmp_path / "a.jsonl"
    recording = refold.record(asks, log=log, volatile=["tool:fetch/arguments/ts"], check=False)

    report = refold.reexecute(recording, asks)

    assert not report.identical
    assert report.ignored == ()


def test_another_call_is_none_that_may_differ(tmp_path: Path) -> None:
    """What is volatile is a part of a call, not which task makes it."""

    async def moves(run: refold.Run, _input: object) -> Any:
        call = run.tool(fetch, url="u", ts=next(COUNTER))
        return await (call if len(moved) % 2 else asyncio.create_task(call))

    moved = [1]
    log = tmp_path / "a.jsonl"
    rules = ["tool:fetch/arguments/ts", "run/output"]
    recording = refold.record(moves, log=log, volatile=rules, check=False)
    assert refold.reexecute(recording, moves).identical

    moved.append(2)

    assert not refold.reexecute(recording, moves).identical


def test_the_output_may_be_volatile(tmp_path: Path) -> None:
    """Of the run."""

    async def ends(_run: refold.Run, _input: object) -> Any:
        return {"at": next(COUNTER), "said": "same"}

    log = tmp_path / "a.jsonl"
    recording = refold.record(ends, log=log, volatile=["run/output/at"], check=False)

    assert refold.reexecute(recording, ends).ignored_count == 1


def test_a_conversation_goes_on_after_a_volatile_message(tmp_path: Path) -> None:
    """The digest of what came before differs from then on, and that alone is excused, too."""

    async def talks(run: refold.Run, _input: object) -> Any:
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"now {next(COUNTER)}"}]
        for _ in range(2):
            reply = await run.model(messages)
            messages += [reply.message, {"role": "user", "content": "go on"}]
        return len(messages)

    log = tmp_path / "a.jsonl"
    model = FunctionModel(lambda _request: "yes")
    recording = refold.record(
        talks, log=log, model=model, volatile=["model:*/added/0/content"], check=False
    )

    report = refold.reexecute(recording, talks)

    assert report.identical, report
    assert [one.pointer for one in report.ignored] == ["/added/0/content", "/predecessor"]


def test_children_have_the_rules_of_their_parent(tmp_path: Path) -> None:
    """Each log lists them."""

    async def parent(run: refold.Run, url: str) -> Any:
        return (await run.delegate(refold.Delegation(program=program, input=url))).output

    rules = ["tool:fetch/arguments/ts"]
    recording = refold.record(parent, "u", log=tmp_path / "a.jsonl", volatile=rules, check=False)

    report = refold.reexecute(recording, parent)

    assert report.identical, report
    assert [one.log for one in report.ignored] == [str(tmp_path / "a.1.jsonl")]


def test_a_path_that_is_none_is_refused(tmp_path: Path) -> None:
    """Nobody believes that something is ignored which is not."""
    with pytest.raises(UsageError, match="tool:NAME"):
        refold.reexecute(recorded(tmp_path), program, volatile=["fetch/ts"])


def test_so_many_are_kept_and_all_are_counted() -> None:
    """A report that goes on for ever helps nobody."""
    excuses = Excuses("a.jsonl", {"volatile": ["tool:a/arguments/*"]})
    old = {"tool": "a", "arguments": {str(at): 0 for at in range(IGNORED_MAX + 5)}}
    new = {"tool": "a", "arguments": {str(at): 1 for at in range(IGNORED_MAX + 5)}}

    assert excuses.excused("tool.called", "0#1", 1, (old, new))

    assert (len(excuses.ignored), excuses.count) == (IGNORED_MAX, IGNORED_MAX + 5)


def test_a_marker_stands_for_what_was_taken_out() -> None:
    """And for nothing else: what stands around it has to be the same."""
    rules = {"redaction": {"secrets": 1}}
    old = {"tool": "a", "arguments": {"x": "key=[redacted:secret-1]; end"}}

    def excused(now: str) -> bool:
        present = {"tool": "a", "arguments": {"x": now}}
        return Excuses("a.jsonl", rules).excused("tool.called", "0#1", 1, (old, present))

    assert excused("key=anything; end")
    assert not excused("key=anything; other end")
    assert not Excuses("a.jsonl", {}).is_any


def test_entries_are_named_as_rules_name_them() -> None:
    """Tool, model, child by agent or program, and the run."""
    assert subject_of("tool.called", {"tool": "fetch"}) == "tool:fetch"
    assert subject_of("child.started", {"delegation": {"program": "dig"}}) == "child:dig"
    assert subject_of("run.finished", {}) == "run"
    assert subject_of("note.added", {}) == ""


def test_volatile_places_are_made_alike_for_a_comparison() -> None:
    """What a diff of two logs compares."""
    data = {"tool": "a", "arguments": {"ts": 5, "url": "u"}}

    assert without_volatile("tool:a", data, ["tool:*/arguments/ts"]) == {
        "tool": "a",
        "arguments": {"ts": None, "url": "u"},
    }
    assert without_volatile("tool:b", data, ["tool:a/arguments/ts"]) is data


def test_a_diff_leaves_out_what_either_log_declares(tmp_path: Path) -> None:
    """And says so; the rest is compared."""
    rules = ["tool:fetch/arguments/ts", "tool:fetch/result"]
    logs = []
    for name, url in (("a", "u"), ("b", "u"), ("c", "other")):
        log = tmp_path / f"{name}.jsonl"
        ended = ["run/output"]
        refold.record(program, url, log=log, volatile=[*rules, *ended], check=False)
        logs.append(log)

    same, other = refold.diff(logs[0], logs[1]), refold.diff(logs[0], logs[2])

    assert same.identical, same
    assert same.notes == (
        "not compared (volatile): run/output, tool:fetch/arguments/ts, tool:fetch/result",
    )
    assert {one.category for one in other.differences} == {"input", "arguments"}


def test_many_markers_side_by_side_are_no_burden() -> None:
    """Nor is a text that does not fit: each is looked for once."""
    marked = "[redacted:a] " * 60 + "end"
    excuses = Excuses("", {"redaction": {}})

    fits = {"added": ["x " * 60 + "end"]}
    fits_not = {"added": ["x " * 2000 + "ends"]}

    assert excuses.passes("model:m", "", 0, ({"added": [marked]}, fits))
    assert not excuses.passes("model:m", "", 0, ({"added": [marked]}, fits_not))
