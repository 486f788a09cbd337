"""Spans of every recorded run agree with its tree (CONTRACT.md §14.19)."""

from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.events.events import COMPLETES, REQUEST_KINDS, scope_of
from refold.engine.events.outcome import Outcome, failed
from refold.engine.log.names import parent_of
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import ChildRequest
from refold.engine.runners.in_process import InProcess
from refold.exports.spans import Spans, TraceSpan
from refold.page.document import page
from refold.page.other_forms import trace_events
from refold.replay.index.standing import STANDINGS
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode
from tests.support.conformance import ROOT, rehashed
from tests.support.loops import for_each
from tests.support.watched import record as written
from tests.support.watched import says, talk, user

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "engine-2"
ROOTS = sorted(path.name for path in LOGS.glob("*.jsonl") if parent_of(path) is None)


def below(node: RunNode) -> list[RunNode]:
    return [node, *(each for child in node.children for each in below(child))]


def runs(spans: list[TraceSpan]) -> list[TraceSpan]:
    return [
        each for each in spans if each.attributes.get("gen_ai.operation.name") == "invoke_agent"
    ]


@for_each("name", ROOTS)
def test_spans_tell_what_the_tree_tells(name: str) -> None:
    """Names, statuses, durations, tokens and costs of each run; and calls by tool."""
    tree = OpenedRun(LOGS / name).tree
    spans = list(Spans(LOGS / name, content=True))

    def told(node: RunNode) -> tuple[Any, ...]:
        took = None if node.duration_ms is None else node.duration_ms
        return node.name or node.program, node.status, took, node.usage.input_tokens

    def shown(span: TraceSpan) -> tuple[Any, ...]:
        facts = span.attributes
        took = (span.end_us - span.start_us) // 1000
        return (
            facts["gen_ai.agent.name"],
            facts["refold.status"],
            took,
            facts["refold.usage.input_tokens"],
        )

    nodes = sorted(map(told, below(tree)), key=str)
    assert [each[:2] + each[3:] for each in nodes] == [
        each[:2] + each[3:] for each in sorted(map(shown, runs(spans)), key=str)
    ]
    known = Counter(each for each in nodes if each[2] is not None)
    assert not known - Counter(map(shown, runs(spans)))
    calls = Counter(
        each.attributes["gen_ai.tool.name"]
        for each in spans
        if "gen_ai.tool.name" in each.attributes
    )
    called = Counter[str]()
    for node in below(tree):
        called.update({use.tool: use.called for use in node.tools})
    assert calls == +called


@for_each("name", ROOTS)
def test_every_span_hangs_in_one_tree_and_has_an_id_of_its_own(name: str) -> None:
    spans = list(Spans(LOGS / name))
    by_id = {each.id: each for each in spans}

    assert len(by_id) == len(spans)
    assert [each.parent for each in spans if each.parent not in by_id] == [None]
    assert {each.trace for each in spans} == {spans[0].trace}
    assert all(each.start_us <= each.end_us for each in spans)
    assert list(Spans(LOGS / name)) == spans


@pytest.mark.parametrize("name", ["watched.jsonl", "delegating.jsonl"])
def test_a_subagent_is_nested_in_the_call_that_started_it(name: str) -> None:
    spans = list(Spans(LOGS / name))
    by_id = {each.id: each for each in spans}

    above = {
        each.attributes["gen_ai.agent.name"]: by_id[each.parent].name
        for each in runs(spans)
        if each.parent
    }

    told = {
        "watched.jsonl": {"cook": "execute_tool Task", "hiker": "execute_tool Task"},
        "delegating.jsonl": {"helper": "execute_tool subagent_dispatch"},
    }
    assert told[name].items() <= above.items()


@for_each("name", ROOTS)
def test_each_entry_is_in_a_span_or_counted(name: str) -> None:
    """Nothing is left out in silence."""
    spans = Spans(LOGS / name)
    shown = {
        (each.attributes.get("refold.call"), each.attributes.get(member))
        for each in spans
        for member in ("refold.entry", "refold.answer_entry")
    }
    logs = {node.log for node in below(spans.tree) if node.log and Path(node.log).exists()}
    kinds = Counter(
        entry.kind
        for log in logs
        for entry in read_entries(Path(log))
        if not entry.kind.startswith(("run.started", "run.finished", "child."))
    )

    counted = {k: v for k, v in spans.left_out.items() if k in kinds}
    in_spans = sum(n for kind, n in kinds.items()) - sum(counted.values())
    assert len({each for each in shown if each[1] is not None}) <= in_spans
    known = {"tool.called", "tool.returned", "model.asked", "model.answered"}
    known |= {"input.asked", "input.given", "effect.cancelled", "x-refold.tools"}
    assert set(kinds) - set(counted) <= known


def test_content_is_left_out_unless_it_is_asked_for() -> None:
    log = LOGS / "watched.jsonl"
    bare, whole = Spans(log), Spans(log, content=True)

    told = str(list(bare))
    assert "Bergen" not in told
    assert "You lead the planning" not in told, "the name of a conversation is its prompt"
    assert bare.left_out["texts"] > 0
    assert "Plan a day in Bergen." in str(list(whole))
    assert not whole.left_out["texts"]


def test_a_fork_is_linked_to_its_source(tmp_path: Path) -> None:
    async def adds(run: refold.Run, _given: Any) -> Any:
        return await run.tool("add", a=1, b=2)

    def add(a: int, b: int) -> int:
        return a + b

    source, fork = tmp_path / "source.jsonl", tmp_path / "fork.jsonl"
    refold.record(adds, None, log=source, tools=[refold.tool(add)])
    refold.fork(source, program=adds, into=fork, edits={"0#1": 7}, tools=[refold.tool(add)])

    (above,) = (each for each in Spans(source) if each.parent is None)
    (root,) = (each for each in Spans(fork) if each.parent is None)

    assert root.links == ((above.trace, above.id),)
    assert root.trace != above.trace


@for_each("member", ["description", "schema"])
def test_a_tool_that_lacks_a_member_ends_no_export(tmp_path: Path, member: str) -> None:
    """Its log is damaged, and chained all the same."""

    async def calls(run: refold.Run, _given: Any) -> Any:
        return await run.tool("say")

    def say() -> str:
        return "hi"

    log = tmp_path / ROOT
    refold.record(calls, None, log=log, tools=[refold.tool(say)])
    whole = [span.name for span in Spans(log)]
    rehashed(lambda rows: rows[0]["data"]["tools"][0].pop(member) and None)(tmp_path)

    assert not refold.verify(log).intact
    assert [span.name for span in Spans(log)] == whole


class _Never:
    """A runner whose children never begin."""

    name = "never"

    def run(self, request: ChildRequest, /) -> Outcome:
        assert request.cancel.wait(60)
        return failed("cancelled", "cancelled", "cancelled by its parent")


def test_a_delegation_without_a_result_is_a_span_below_its_call(tmp_path: Path) -> None:
    """Nothing of it was seen but that it was asked for."""
    task = {"subagent_type": "scout", "prompt": "Find a hall."}
    log = written(tmp_path / "a.jsonl", talk(user("Plan."), says("", ("t1", "Task", task))))

    spans = list(Spans(log, content=True))

    (scout,) = (each for each in runs(spans) if each.attributes["gen_ai.agent.name"] == "scout")
    (call,) = (each for each in spans if "gen_ai.tool.name" in each.attributes)
    assert scout.parent == call.id
    assert scout.attributes["refold.brief"] == "Find a hall."


class _Killed:
    """A runner whose children are killed before they write their end, after a minute."""

    name = "killed"

    def run(self, request: ChildRequest, /) -> Outcome:
        outcome = InProcess().run(request)
        assert isinstance(outcome, Outcome)
        assert request.log is not None
        *lines, _ = request.log.read_bytes().splitlines(keepends=True)
        request.log.write_bytes(b"".join(lines))
        return attrs.evolve(outcome, duration_ms=60_000)


def test_a_child_that_was_killed_ends_when_its_parent_was_told_so(tmp_path: Path) -> None:
    """Its own log shows neither when it ended nor when its process began."""

    async def ends(_run: refold.Run, _given: Any) -> None:
        pass

    async def asks(run: refold.Run, _given: Any) -> None:
        await run.delegate(refold.Delegation(program=ends, input=1, brief="end"))

    runners = {"killed": _Killed()}
    log = refold.record(asks, None, log=tmp_path / "a.jsonl", runner="killed", runners=runners).log

    root, child = OpenedRun(log).agents
    whole, part = sorted(runs(list(Spans(log))), key=lambda each: each.parent is not None)
    assert part.end_us <= whole.end_us
    assert part.end_us - part.start_us == 60_000_000
    assert root.interval is not None
    assert child.interval is not None
    assert (child.interval[1] or 0) <= (root.interval[1] or 0)
    assert (child.interval[1] or 0) - child.interval[0] == 60_000_000


def test_a_child_that_was_cancelled_before_it_began_is_one_span(tmp_path: Path) -> None:
    """Its cancellation is no end of it: that is its outcome."""

    async def naps(run: refold.Run, _given: Any) -> None:
        await run.sleep(60)

    async def gives_up(run: refold.Run, _given: Any) -> None:
        child = await run.start(refold.Delegation(program=naps, input=1, brief="nap"))
        run.cancel(child)
        await run.join(child)

    log = refold.record(
        gives_up, None, log=tmp_path / "a.jsonl", runner="never", runners={"never": _Never()}
    ).log
    kinds = [entry.kind for entry in read_entries(log)]
    assert kinds[1:4] == ["child.started", "effect.cancelled", "child.finished"]

    ids = [each.id for each in Spans(log)]
    assert len(ids) == len(set(ids)) == 2


@pytest.mark.parametrize(
    "step", [pytest.param(17, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", ROOTS)
def test_in_no_prefix_is_said_of_what_is_open_that_it_has_ended(
    name: str, step: int, tmp_path: Path
) -> None:
    """By the tree, which `show`, `ls` and the MCP server print, by spans, and on the timeline."""
    lines = (LOGS / name).read_bytes().splitlines(keepends=True)
    entries = list(read_entries(LOGS / name))
    for end in range(1, len(lines), step):
        log, waiting = tmp_path / "prefix.jsonl", dict[str, int]()
        log.write_bytes(b"".join(lines[:end]))
        for entry in entries[:end]:
            if entry.kind in REQUEST_KINDS:
                waiting[entry.call or ""] = entry.seq
            elif entry.kind in COMPLETES or entry.kind == "effect.cancelled":
                waiting.pop(entry.call or "", None)

        tree = OpenedRun(log).tree
        busy = {"", *map(scope_of, waiting)}
        spans = list(Spans(log))
        lanes = [*trace_events(page(log, content=False).sides[0])]

        for node in below(tree):
            if node is tree or (tree.guarantee and node.scope in busy):
                assert node.status in STANDINGS
                assert not node.notable
        seen = [node for node in below(tree) if node.requests or not node.scope]
        assert len(runs(spans)) == sum(node.log_state != "missing" for node in seen)
        assert len({each.id for each in spans}) == len(spans)
        told = Counter(each.attributes["refold.status"] for each in runs(spans))
        assert told["completed"] <= [node.status for node in below(tree)].count("completed")
        assert (
            next(each for each in runs(spans) if not each.parent).attributes["refold.status"]
            == tree.status
        )
        shown = {each.attributes.get("refold.entry"): each for each in spans}
        drawn = {each["args"].get("entry"): each for each in lanes}
        for seq in waiting.values():
            assert shown[seq].attributes["refold.status"] == "open" or seq not in shown
            assert drawn[seq]["args"]["status"] == "open"


def test_a_provisional_link_is_marked(tmp_path: Path) -> None:
    task = says("", ("c", "Task", {"prompt": "Look into the old cellar."}))
    begun = [*talk(user("Go."), task), *talk(user("Look into the old cellar."), says("Dust."))]
    log = written(tmp_path / "a.jsonl", begun, output={"exit_code": 1, "stdout": ""})

    marks = [each.attributes.get("refold.is_provisional") for each in runs(list(Spans(log)))]
    assert sorted(marks, key=bool) == [None, None, True]
