"""A record against a run with live outcomes, call by call; rules are CONTRACT.md §12.10."""

import asyncio
import functools
import itertools
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.errors import LogExists, LogUnsealed, ToolNeeded, UsageError
from refold.engine.log.reader import read_entries
from refold.replay.partial.drift_report import DriftReport
from refold.replay.partial.sources import Sources
from tests.support import forks
from tests.support.forks import TOOLS, factor, kept, model, report
from tests.support.loops import for_each, some

pytestmark = pytest.mark.usefixtures("as_it_was")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A recorded run."""
    return refold.record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log


def rows(found: DriftReport) -> list[tuple[str, str, bool]]:
    """Return what is not the same: where, verdict, whether consequent."""
    return [
        (row.where.removeprefix("report > "), row.verdict, row.consequent)
        for row in found.calls
        if row.verdict != "same"
    ]


@pytest.mark.parametrize(
    "sources",
    [
        Sources(),
        Sources(tools="live"),
        Sources(model="live"),
        Sources(children="live"),
        Sources(model="live", tools="live", children="live"),
        Sources(model="live", tools="live", children="live", may_change=True),
        Sources(tool={"get": "live"}),
    ],
)
def test_nothing_drifts_where_nothing_has_changed(log: Path, sources: Sources) -> None:
    """Whatever is live."""
    found = refold.drift(log, report, sources=sources, tools=TOOLS, model=model())

    assert found.identical, found
    assert "no drift" in str(found)


def test_a_tool_that_answers_otherwise_is_drift_and_the_rest_follows(log: Path) -> None:
    """The calls whose results changed are primary; what was asked after them is consequent."""
    factor["value"] = 2

    found = refold.drift(log, report, tools=TOOLS, model=model())

    assert rows(found) == [
        ('get#1 in 0/1 (key="a")', "result_changed", False),
        ('get#1 in 0/2 (key="bb")', "result_changed", False),
        ('model scripted#1 ("the sum is 6")', "arguments_changed", True),
        ('parent[1] > get#1 (key="ccc")', "result_changed", False),
        ('parent[1] > reader[1] > get#1 (key="cccccc")', "result_changed", False),
        ("parent[1] > reader[1] > output", "result_changed", True),
        ('parent[1] > child reader#2 ("cccccc")', "result_changed", True),
        ("parent[1] > output", "result_changed", True),
        ('child parent#2 ("ccc")', "result_changed", True),
        ("put#3 (value=6)", "arguments_changed", True),
    ]
    assert [one.call for one in found.missing] == ["put#3 (value=6)"]
    assert "--yes" in str(found.missing[0])
    assert kept == [3]


def test_a_tool_that_changes_the_world_runs_only_if_it_may(log: Path) -> None:
    """Asked for the same, its recorded result is served."""
    kept.clear()

    all_live = refold.drift(log, report, tools=TOOLS, model=model())
    assert kept == []
    tools = refold.drift(log, report, tools=TOOLS, model=model(), sources=Sources(tools="live"))
    assert kept == []
    may = Sources(tools="live", may_change=True)
    changed = refold.drift(log, report, tools=TOOLS, model=model(), sources=may)
    assert kept == [3]

    (unseen,) = all_live.served  # identical, and no all-clear: §12.10
    assert f"not compared, because their results were recorded ones: {unseen}" in str(all_live)
    assert unseen in tools.served
    assert {one.split()[0] for one in changed.served} == {"model", "child"}
    assert changed.as_json()["served"] == list(changed.served)


def test_what_is_not_recorded_stops_the_run_and_names_the_nearest(log: Path) -> None:
    """Never something like it is served."""
    factor["value"] = 2

    found = refold.drift(log, report, sources=Sources(tools="live"), tools=TOOLS)

    (missing,) = found.missing
    assert missing.call == 'model scripted#1 ("the sum is 6")'
    assert missing.nearest == 'model scripted#1 ("the sum is 3")'
    unreached = [row for row in found.calls if row.verdict == "missing"]
    assert unreached
    assert all(row.consequent for row in unreached)
    assert not found.identical


def test_what_a_run_that_stopped_did_not_come_to_is_no_drift_of_its_own(log: Path) -> None:
    """Though no result had changed before: the program asked for what is not recorded."""

    async def edited(run: refold.Run, _input: Any) -> Any:
        return await run.model([{"role": "user", "content": "Something else."}])

    found = refold.drift(log, edited, sources=Sources(), tools=TOOLS)

    unreached = [row for row in found.calls if row.verdict == "missing"]
    assert len(unreached) > 1
    assert all(row.consequent for row in unreached)


def test_where_nothing_is_recorded_nothing_is_the_nearest(tmp_path: Path) -> None:
    async def quiet(_run: refold.Run, _input: Any) -> None:
        return None

    log = refold.record(quiet, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log

    (missing,) = refold.drift(log, report, sources=Sources(), tools=TOOLS).missing

    assert missing.nearest == ""


@refold.tool(effect="reads")
async def endless() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return ""


def test_what_was_given_up_stays_so_and_says_why(tmp_path: Path) -> None:
    """The record has no outcome that could be served."""

    async def asks(run: refold.Run, _input: Any, *, patient: bool) -> str:
        asked = asyncio.ensure_future(run.tool("endless"))
        await asyncio.sleep(0)
        if not patient:
            asked.cancel()
        try:
            return str(await asked)
        except asyncio.CancelledError:
            return "given up"
        except refold.ToolError as error:
            return f"{error.code}: {error}"

    impatient, patient = (functools.partial(asks, patient=one) for one in (False, True))
    log = refold.record(impatient, log=tmp_path / "a.jsonl", tools=[endless]).log

    end = refold.drift(log, patient, sources=Sources(), tools=[endless]).calls[-1]

    assert "cancelled: " in end.now["output"]
    assert "it was abandoned in the recording" in end.now["output"]


def test_noise_is_what_two_live_runs_differ_in(log: Path) -> None:
    """With `twice`, a result that is never the same twice is no drift."""
    count = iter(range(1, 100))

    @refold.tool(effect="reads")
    def get(key: str) -> int:
        return len(key) + (100 * next(count) if key == "a" else 0)

    sources = Sources(tools="live", model="stub", stubs={"model": "three"})

    found = refold.drift(log, report, sources=sources, tools=[get, forks.put], twice=True)

    noise = [row.where for row in found.calls if row.noise]
    assert 'report > get#1 in 0/1 (key="a")' in noise
    assert found.counts["noise"] == len(noise)


@pytest.mark.parametrize("answer", some(1, [1, 2]))
def test_noise_is_where_a_cancelled_child_stopped(tmp_path: Path, answer: int) -> None:
    """It came further in the record than in the live run; what its parent got counts."""
    reached, is_live = threading.Event(), False

    @refold.tool(effect="reads")
    async def step() -> int:
        if is_live:
            await asyncio.Event().wait()
        return 1

    @refold.tool(effect="reads")
    async def reach() -> None:
        reached.set()
        await asyncio.Event().wait()

    @refold.tool(effect="reads")
    def gate() -> int:
        assert reached.wait(60)
        return answer if is_live else 1

    @refold.tool(effect="reads")
    async def leave(steps: int) -> int:
        return steps

    async def child(run: refold.Run, _: None) -> int:
        steps = 0
        try:
            steps += await run.tool(step)
            await run.tool(reach)
        finally:
            await run.tool(leave, steps=steps)
        return steps

    async def parent(run: refold.Run, _: None) -> int:
        task = asyncio.create_task(run.delegate(refold.Delegation(program=child)))
        got = await run.tool(gate)
        task.cancel()
        return got

    log = tmp_path / "run.jsonl"
    tools: list[Any] = [step, reach, leave, gate]
    refold.record(parent, None, log=log, tools=tools)
    is_live = True

    sources = Sources(tools="live", children="live")
    found = refold.drift(log, parent, sources=sources, tools=tools)

    cut = [row for row in found.calls if row.noise]
    assert {row.verdict for row in cut} == {"result_changed", "arguments_changed", "missing"}
    assert all("child" in row.where for row in cut)
    assert found.identical is (answer == 1)


COUNTER = itertools.count(1)


def stamping(**options: Any) -> Any:
    """Return a tool whose result says when it was asked, which is another time each time."""

    @refold.tool(effect="reads", **options)
    def fetch(url: str, ts: int) -> dict[str, Any]:
        return {"body": url.upper(), "ts": ts, "size": len(url) + factor["value"] - 1}

    return fetch


async def fetches(run: refold.Run, urls: list[str]) -> list[str]:
    """Ask for each, and say when."""
    return [(await run.tool("fetch", url=url, ts=next(COUNTER)))["body"] for url in urls]


async def hands_down(run: refold.Run, urls: list[str]) -> Any:
    """Have a child do it, and hand its output on with the time."""
    outcome = await run.delegate(refold.Delegation(program=fetches, input=urls))
    return {"said": outcome.output, "at": next(COUNTER)}


PATHS = ["/arguments/ts", "/result/ts"]
VOLATILE = [f"tool:fetch{path}" for path in PATHS]


@for_each(
    "options, volatile, now",
    [
        ({"volatile": VOLATILE}, [], {}),  # as record was told
        ({}, [], {"volatile": PATHS}),  # as the tool says by now
        ({}, VOLATILE, {}),  # as drift is told
    ],
)
def test_what_is_volatile_is_no_drift_and_listed(
    tmp_path: Path, options: Any, volatile: list[str], now: Any
) -> None:
    """§12.7: requests and results, wherever the rule is from; one that is not, is."""
    log = refold.record(
        fetches, ["a", "b"], log=tmp_path / "a.jsonl", tools=[stamping()], check=False, **options
    ).log
    tools = [stamping(**now)]

    found = refold.drift(log, fetches, tools=tools, volatile=volatile)
    part = refold.drift(log, fetches, tools=[stamping()], volatile=["tool:fetch/result/ts"])

    assert found.identical, found
    assert [(one.call, one.pointer) for one in found.ignored] == [
        ("0#1", "/arguments/ts"), ("0#1", "/result/ts"),
        ("0#2", "/arguments/ts"), ("0#2", "/result/ts"),
    ]  # fmt: skip
    assert "ignored: 4 values" in str(found)
    assert found.as_json()["ignored_count"] == 4
    assert part.identical is bool(options)


def test_a_tool_that_declares_it_is_heard_from_its_record(tmp_path: Path) -> None:
    """§12.7: whoever runs it live need not declare it again."""
    declaring = stamping(volatile=PATHS)
    log = refold.record(
        fetches, ["a"], log=tmp_path / "a.jsonl", tools=[declaring], check=False
    ).log

    assert refold.drift(log, fetches, tools=[stamping()]).identical


def test_what_else_differs_is_drift_beside_it(tmp_path: Path) -> None:
    """A line is excused whole or not at all; an inserted call is one new call."""
    log = refold.record(
        fetches, ["a", "b"], log=tmp_path / "a.jsonl", tools=[stamping()], check=False
    ).log
    factor["value"] = 2

    async def more(run: refold.Run, urls: list[str]) -> Any:
        return await fetches(run, ["new", *urls])

    drifted = refold.drift(log, fetches, tools=[stamping()], volatile=VOLATILE)
    factor["value"] = 1
    inserted = refold.drift(log, more, tools=[stamping()], volatile=VOLATILE)

    assert [row.verdict for row in drifted.calls] == ["result_changed", "result_changed", "same"]
    assert [row.verdict for row in inserted.calls] == ["new", "same", "same", "result_changed"]


def test_a_comparator_judges_what_is_not_volatile(tmp_path: Path) -> None:
    """Both rules hold at once, and what is volatile is listed all the same."""
    log = refold.record(
        fetches, ["abcdefghij"], log=tmp_path / "a.jsonl", tools=[stamping()], check=False
    ).log
    factor["value"] = 2
    rules = {"fetch": "numbers:0.2"}

    found = refold.drift(log, fetches, tools=[stamping()], volatile=VOLATILE, compare=rules)

    assert found.identical, found
    assert [one.pointer for one in found.ignored] == ["/arguments/ts", "/result/ts"]


def test_a_recorded_outcome_is_served_where_only_what_is_volatile_differs(tmp_path: Path) -> None:
    """§12.10: the same is asked for, by the rules of the record."""
    log = refold.record(
        hands_down, ["a", "b"], log=tmp_path / "a.jsonl", tools=[stamping()], check=False,
        volatile=[*VOLATILE, "run/output/at"],
    ).log  # fmt: skip

    found = refold.drift(log, hands_down, sources=Sources(children="live"))

    assert found.identical, found
    assert {one.log for one in found.ignored} == {str(log), str(tmp_path / "a.1.jsonl")}
    assert "/output/at" in {one.pointer for one in found.ignored}


def test_what_is_volatile_in_a_childs_end_is_so_in_its_outcome(tmp_path: Path) -> None:
    """The parent gets no more than the child said."""

    async def above(run: refold.Run, urls: list[str]) -> int:
        children = [refold.Delegation(program=hands_down, input=[url]) for url in urls]
        return len([await run.delegate(child) for child in children])

    log = refold.record(
        above, ["a"], log=tmp_path / "a.jsonl", tools=[stamping()], check=False,
        volatile=[*VOLATILE, "run/output/at"],
    ).log  # fmt: skip

    assert refold.drift(log, above, tools=[stamping()]).identical


def test_a_conversation_goes_on_after_a_volatile_message(tmp_path: Path) -> None:
    """The digest of what came before differs from then on, and that alone is excused, too."""

    async def talks(run: refold.Run, _: Any) -> int:
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"now {next(COUNTER)}"}]
        for _turn in range(2):
            reply = await run.model(messages)
            messages += [reply.message, {"role": "user", "content": "go on"}]
        return len(messages)

    log = refold.record(
        talks, log=tmp_path / "a.jsonl", model=model(), volatile=["model:*/added/0/content"],
        check=False,
    ).log  # fmt: skip

    served = refold.drift(log, talks, sources=Sources())
    asked = refold.drift(log, talks, model=model())

    assert served.identical, served
    assert asked.identical, asked
    assert [one.pointer for one in asked.ignored] == ["/added/0/content", "/predecessor"]


def test_what_was_taken_out_is_no_drift(tmp_path: Path) -> None:
    """§12.7: a marker stands for any text, in requests as in results."""

    @refold.tool(effect="reads")
    def login(password: str) -> str:
        return f"in with {password}"

    async def logs_in(run: refold.Run, _: Any) -> int:
        return len(await run.tool("login", password="hunter22"))

    rules = refold.Redaction(secrets=["hunter22"])
    log = refold.record(logs_in, log=tmp_path / "a.jsonl", tools=[login], redaction=rules).log

    served = refold.drift(log, logs_in, sources=Sources())

    assert served.identical, served
    assert [one.rule for one in served.ignored] == ["redaction"]


def test_a_volatile_path_that_is_none_is_refused(log: Path) -> None:
    """Nobody believes that something is ignored which is not."""
    with pytest.raises(UsageError, match="tool:NAME"):
        refold.drift(log, report, tools=TOOLS, model=model(), volatile=["get/result"])


@pytest.mark.parametrize("name", ["gte", "models", ""])
def test_a_rule_for_what_is_not_there_is_refused(log: Path, name: str) -> None:
    """It would say nothing; the message names what there is, children's calls included."""
    with pytest.raises(
        UsageError, match="expected one of get, parent, put, reader, scripted, tool"
    ):
        refold.drift(log, report, tools=TOOLS, model=model(), compare={name: "text"})


@pytest.mark.parametrize("name", ["get", "reader", "scripted", "tool", "child", "input", "*"])
def test_a_rule_is_for_a_name_or_a_kind(log: Path, name: str) -> None:
    """Of the root run or of a run below it."""
    assert refold.drift(log, report, tools=TOOLS, model=model(), compare={name: "text"}).identical


@pytest.mark.parametrize(
    ("compare", "is_same"),
    [({}, False), ({"model": "text"}, True), ({"*": "text"}, True), ({"get": "text"}, False)],
)
def test_results_count_as_the_same_by_rule(
    log: Path, compare: dict[str, Any], *, is_same: bool
) -> None:
    """By the name of a tool, a kind, or for all."""
    sources = Sources(model="live")

    found = refold.drift(log, report, sources=sources, model=model("THREE"), compare=compare)

    first = next(row for row in found.calls if row.kind == "model")
    assert (first.verdict == "same") is is_same


def test_stubs_give_what_is_said(log: Path) -> None:
    """A tool's result, a model's text, a child's summary; else nothing."""
    sources = Sources(tools="stub", model="stub", stubs={"get": 5, "model": "x", "put": 7})

    found = refold.drift(log, report, sources=sources)

    output = next(row for row in found.calls if row.kind == "output")
    assert output.now["output"][:3] == [5, 5, "x"]


def test_the_new_run_can_be_kept(log: Path, tmp_path: Path) -> None:
    """As a log that verifies, and is never overwritten."""
    found = refold.drift(log, report, into=tmp_path / "b.jsonl", tools=TOOLS, model=model())

    assert found.into is not None
    assert refold.diff(log, found.into).identical
    with pytest.raises(LogExists):
        refold.drift(log, report, into=found.into, tools=TOOLS, model=model())


def test_what_is_live_has_to_be_passed(log: Path) -> None:
    """Tools and models; an unknown source is refused."""
    with pytest.raises(ToolNeeded, match="get"):
        refold.drift(log, report, model=model())
    with pytest.raises(UsageError, match="model"):
        refold.drift(log, report, tools=TOOLS)
    with pytest.raises(UsageError, match="maps tools' names to recorded, live, stub"):
        Sources(tool="live")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="recorded, live, stub"):
        Sources(model="lively")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="recorded, live, stub"):
        Sources(tool={"get": "lively"})  # type: ignore[dict-item]  # the mistake


def test_an_unfinished_record_is_refused(log: Path) -> None:
    """There is nothing to compare its end with."""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    with pytest.raises(LogUnsealed):
        refold.drift(log, report, tools=TOOLS, model=model())


def test_a_session_starts_as_it_was_recorded(tmp_path: Path) -> None:
    """Not with what the one that was passed happens to hold."""

    @attrs.frozen
    class Seen:
        key: str

    def session(*keys: str) -> refold.Session:
        made = refold.Session()
        made.register(Seen)
        for key in keys:
            made.dispatch(Seen(key))
        return made

    async def counts(run: refold.Run, _: Any) -> int:
        await run.tool("get", key="a" * len(run.session.select_all(Seen)))
        return len(run.session.select_all(Seen))

    log = refold.record(
        counts, None, log=tmp_path / "a.jsonl", tools=TOOLS, session=session("x", "y")
    ).log

    found = refold.drift(log, counts, tools=TOOLS, session=session())

    assert found.identical, found


async def _asks(run: refold.Run, key: str) -> Any:
    return await run.tool("get", key="x" * await run.tool("put", value=len(key)))


async def _delegates(run: refold.Run, key: str) -> Any:
    async def below(run: refold.Run, key: str) -> Any:
        return (await run.delegate(refold.Delegation(program=_asks, input=key))).output

    return (await run.delegate(refold.Delegation(program=below, input=key))).status


def test_what_is_missing_in_a_child_stops_the_run_above_it(tmp_path: Path) -> None:
    """However deep it is; the child did not fail, for nobody said so."""
    log = refold.record(_delegates, "kk", log=tmp_path / "a.jsonl", tools=TOOLS).log
    sources = Sources(children="live", tool={"put": "stub"}, stubs={"put": 5})

    found = refold.drift(log, _delegates, sources=sources, tools=TOOLS, into=tmp_path / "b.jsonl")

    assert [one.call for one in found.missing] == ['get#2 (key="xxxxx")']
    assert str(found.missing[0]).endswith(
        "(pass sources=refold.Sources(tools='live', children='live', tool={'put': 'stub'}, "
        "stubs={'put': 5}); on the command line: --source tools=live)"
    )
    for path in ("b.jsonl", "b.1.jsonl", "b.1.1.jsonl"):
        assert not any(
            entry.kind in ("child.finished", "run.finished")
            for entry in read_entries(tmp_path / path)
        )


async def _starts(run: refold.Run, _: Any) -> Any:
    count = await run.tool("get", key="a")
    given = [refold.Delegation(program=forks.reader, input=f"k{n}") for n in range(count)]
    return [(await run.delegate(each)).output for each in given]


def test_a_live_child_that_was_not_recorded_runs(tmp_path: Path) -> None:
    """What it asks comes from where its kind does: its tools, too, have to be live."""
    log = refold.record(_starts, None, log=tmp_path / "a.jsonl", tools=TOOLS).log
    factor["value"] = 2

    live = Sources(children="live", tools="live")
    lives = refold.drift(log, _starts, sources=live, tools=TOOLS, into=tmp_path / "b.jsonl")

    assert not lives.missing
    assert list(read_entries(tmp_path / "b.jsonl"))[-1].data["output"] == [4, 4]


def test_a_child_that_was_not_recorded_starts_with_the_session_that_it_is_given(
    tmp_path: Path,
) -> None:
    """Its parent's record says how that one's began, and nothing of the child's."""

    @attrs.frozen
    class Seen:
        key: str

    def session() -> refold.Session:
        made = refold.Session()
        made.register(Seen)
        return made

    async def counts(run: refold.Run, _: Any) -> int:
        return len(run.session.select_all(Seen))

    async def lead(run: refold.Run, _: Any) -> list[Any]:
        run.session.dispatch(Seen("x"))
        found = []
        for _again in range(await run.tool("get", key="a")):
            given = refold.Delegation(program=counts, session=run.session.clone())
            found.append((await run.delegate(given)).output)
        return found

    log = refold.record(lead, None, log=tmp_path / "a.jsonl", tools=TOOLS, session=session()).log
    factor["value"] = 2

    refold.drift(
        log, lead, sources=Sources(children="live", tools="live"), tools=TOOLS, session=session(),
        into=tmp_path / "b.jsonl",
    )  # fmt: skip

    assert list(read_entries(tmp_path / "b.jsonl"))[-1].data["output"] == [1, 1]


async def _typed(_run: refold.Run, number: int) -> int:
    return number + 1


async def _returns_typed(run: refold.Run, number: int) -> int:
    return (await run.delegate(refold.Delegation(program=_typed, input=number))).result()


def test_a_stub_of_a_child_is_its_output(tmp_path: Path) -> None:
    """A child with a return annotation could not be a stub: the output was always null."""
    log = refold.record(_returns_typed, 1, log=tmp_path / "typed.jsonl").log
    sources = Sources(children="stub", stubs={"child": 5})

    refold.drift(log, _returns_typed, sources=sources, into=tmp_path / "b.jsonl")

    assert list(read_entries(tmp_path / "b.jsonl"))[-1].data["output"] == 5
