import asyncio
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.errors import LogDamaged, LogMissing
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact
from refold.engine.log.reader import read_entries
from refold.engine.models import FunctionModel
from refold.engine.ports.ports import Delegation, ModelRequest
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.replay.compare.diff import diff
from refold.replay.compare.log_diff import LogDiff
from refold.replay.compare.pairing import ArgumentMode, MatchMode
from refold.replay.difference.pointer_diff import Difference
from refold.replay.testing.snapshot import delegation_text, log_text
from refold.tools.contract.tool_types import tool
from tests.support.delegating import child, read, recorded, search
from tests.support.peaks import bytes_per_entry
from tests.support.scripted_runners import Unavailable

X, Y, Z = ("search", "x"), ("search", "y"), ("search", "z")
DONE = ("return", "done")


class Two:
    """Records two plans and compares them."""

    def __init__(self, folder: Path) -> None:
        self.a, self.b = folder / "a.jsonl", folder / "b.jsonl"

    def diff(
        self,
        a: Any,
        b: Any,
        *,
        match: MatchMode = "strict",
        arguments: ArgumentMode = "exact",
        options: dict[str, Any] | None = None,
    ) -> LogDiff:
        recorded(self.a, a)
        recorded(self.b, b, **(options or {}))
        return diff(self.a, self.b, match=match, arguments=arguments)


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


def categories(found: LogDiff) -> list[tuple[str, str]]:
    return [(each.where, each.category) for each in found.differences]


FULL = [
    X,
    ("both", [Y, child("dig", [X, ("ask", "?")])], [Z, child("dig", [("try", "nothing")])]),
    DONE,
]


def test_two_runs_that_did_the_same_are_identical(two: Two) -> None:
    """Other ids, times and heads; another seed is context."""
    found = two.diff(FULL, FULL, options={"seed": 2})

    assert found.identical
    assert (found.runs, found.notes) == (3, ())
    assert str(found).startswith("no differences: ")
    assert " entries in 3 runs compared" in str(found)
    assert [place.pointer for each in found.context for place in each.differences] == ["/seed"]


def test_another_source_of_a_child_is_context(tmp_path: Path) -> None:
    """It may explain what the child did otherwise; told of the child, whose program it is."""

    def parent_of(version: int) -> Any:
        if version == 1:

            async def dig(_run: Run, _input: Any) -> int:
                return 7
        else:

            async def dig(_run: Run, _input: Any) -> int:
                return 4 + 3

        async def parent(run: Run, _input: Any) -> Any:
            return (await run.delegate(Delegation(program=dig))).output

        return parent

    logs = [record(parent_of(at), log=tmp_path / f"{at}.jsonl", seed=1).log for at in (1, 2)]
    found = diff(*logs)

    assert found.identical
    (context,) = found.context
    assert context.run.startswith("root > ")
    assert [place.pointer for place in context.differences] == ["/fingerprint/source"]


def test_a_log_is_identical_with_itself(two: Two) -> None:
    log = recorded(two.a, FULL).log

    assert diff(log, log).identical
    assert diff(str(log), log).context == ()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([X, Y, DONE], [X, Z, Y, DONE], [("root > search#2", "only_in_b")]),
        ([X, Z, Y, DONE], [X, Y, DONE], [("root > search#2", "only_in_a")]),
        ([("note", "a"), DONE], [("note", "b"), DONE], [("root > note#1", "arguments")]),
        ([("return", 1)], [("return", 2)], [("root", "output")]),
        ([X, DONE], [("read", "x"), DONE], [("root > search#1", "name")]),
        ([X, DONE], [("note", "x"), DONE], [("root > search#1", "kind")]),
        ([X, Y, DONE], [Y, X, DONE], [("root > search#2", "order")]),
        ([DONE], [("give up", "no_progress")], [("root", "status"), ("root", "output")]),
    ],
)
def test_each_difference_has_its_category(
    two: Two, a: Any, b: Any, expected: list[tuple[str, str]]
) -> None:
    assert categories(two.diff(a, b)) == expected


def test_one_inserted_call_is_one_difference_in_a_long_scope(two: Two) -> None:
    plan = [("search", f"q{at}") for at in range(30)]

    found = two.diff([*plan, DONE], [*plan[:7], X, *plan[7:], DONE])

    assert categories(found) == [("root > search#8", "only_in_b")]


def test_a_difference_says_where_with_keys_and_pointers(two: Two) -> None:
    found = two.diff([child("dig", [X, Y]), DONE], [child("dig", [X, Z]), DONE])

    asked, ended, output = found.differences
    assert (asked.where, asked.run, asked.what) == (
        "root > dig[1] > search#2",
        "root > dig[1]",
        "search#2",
    )
    assert (asked.scope, asked.call_a, asked.call_b) == ("0", "0#2", "0#2")
    assert [str(each) for each in asked.differences] == ['/arguments/query: "y" → "z"']
    assert (ended.category, output.category) == ("result", "output")
    assert (output.where, output.scope, output.call_a) == ("root > dig[1]", "", None)


def test_a_call_that_one_log_lacks_is_told_whole_and_where(two: Two) -> None:
    """By the log that has it: what was asked, its key and its entry."""
    gone = two.diff([X, Y, DONE], [X, DONE]).differences[0]
    new = diff(two.b, two.a).differences[0]
    entry = next(one for one in read_entries(two.a) if one.call == "0#2")
    asked = {"tool": "search", "arguments": {"query": "y"}, "effect": "reads"}

    assert (gone.category, new.category) == ("only_in_a", "only_in_b")
    assert gone.differences == (Difference("", "removed", before=asked),)
    assert new.differences == (Difference("", "added", after=asked),)
    assert (gone.call_a, gone.call_b, gone.seq_a, gone.seq_b) == ("0#2", None, entry.seq, None)
    assert (new.call_a, new.call_b, new.seq_a, new.seq_b) == (None, "0#2", None, entry.seq)


def test_each_part_of_a_result_and_of_a_tool_counts(two: Two) -> None:
    """Both calls are named; a tool may have come to change the world; artifacts are an end."""
    note, changes = Artifact(kind="note", value="n"), tool(effect="changes")(search.__wrapped__)
    tools: dict[str, Any] = {"tools": [read, changes]}
    found = two.diff([("report", "s", ())], [("report", "s", (note,))], options=tools)

    assert categories(found)[0] == ("root", "header")
    assert found.differences[0].differences[0].pointer == "/tools/search/effect"
    output = next(each for each in found.differences if each.category == "output")
    assert "/artifacts/0" in [each.pointer for each in output.differences]


def test_children_are_compared_where_their_starts_are(two: Two) -> None:
    """Not by the number of their log: an inserted child shifts the numbers of all later ones."""
    dig = child("dig", [X, child("deep", [Y])])

    found = two.diff([dig, DONE], [child("new", [Z]), dig, DONE])

    assert categories(found) == [("root > new[1]", "only_in_b")]
    assert found.runs == 3


def test_what_a_parent_was_told_is_reported_where_the_child_did_it(two: Two) -> None:
    found = two.diff([child("dig", [("return", 1)]), DONE], [child("dig", [("return", 2)]), DONE])

    assert categories(found) == [("root > dig[1]", "output")]


def test_a_start_that_one_run_rejects_ends_otherwise(two: Two) -> None:
    found = two.diff(
        [child("dig", []), DONE], [child("dig", []), DONE], options={"limits": Limits(max_depth=0)}
    )

    assert categories(found) == [("root", "header"), ("root > dig[1]", "result")]
    assert found.differences[0].differences[0].pointer == "/limits/max_depth"


def test_input_program_and_tools_are_compared_at_the_top(two: Two) -> None:
    found = two.diff([DONE], [DONE], options={"tools": []})

    assert categories(found) == [("root", "header")]
    assert [each.pointer for each in found.differences[0].differences] == [
        "/tools/read",
        "/tools/search",
    ]
    assert not found.identical


MANY, LESS = [X, Y, ("read", "f", 3), DONE], [("read", "f"), X, DONE]


@pytest.mark.parametrize(
    ("match", "arguments", "expected"),
    [
        ("unordered", "exact", ["only_in_a", "arguments", "result"]),
        ("unordered", "ignore", ["only_in_a", "result"]),
        ("superset", "superset", ["result"]),
        ("superset", "subset", ["arguments", "result"]),
        ("subset", "ignore", ["only_in_a", "result"]),
    ],
)
def test_modes_let_be_what_they_say(
    two: Two, match: MatchMode, arguments: ArgumentMode, expected: list[str]
) -> None:
    """`superset`: each call of b is in a; arguments `superset`: a asked with more."""
    found = two.diff(MANY, LESS, match=match, arguments=arguments)

    assert sorted(each.category for each in found.differences) == sorted(expected)


def test_strict_with_arguments_ignored_still_minds_the_order(two: Two) -> None:
    found = two.diff([X, ("read", "f"), DONE], [("read", "f"), Y, DONE], arguments="ignore")

    assert [each.category for each in found.differences] == ["result", "order"]


def test_a_missing_log_of_a_child_is_a_note(two: Two) -> None:
    plan = [child("dig", [X]), DONE]
    two.diff(plan, plan)
    two.b.with_name("b.1.jsonl").unlink()

    found = diff(two.a, two.b)

    assert found.identical
    (note,) = found.notes
    assert note.startswith("root > dig[1]: not compared")
    assert str(two.b.with_name("b.1.jsonl")) in note


def test_so_it_is_where_one_side_never_began_it(two: Two) -> None:
    """Whichever that is; where neither did, nothing is missing."""
    plan = [child("dig", [X]), DONE]
    recorded(two.a, plan, runner="absent", runners={"absent": Unavailable()})
    recorded(two.b, plan)
    two.b.with_name("b.1.jsonl").unlink()

    assert [len(diff(a, b).notes) for a, b in ((two.a, two.b), (two.b, two.a))] == [1, 1]
    assert diff(two.a, two.a).notes == ()


def test_an_unsealed_log_is_compared_as_far_as_it_goes(two: Two) -> None:
    two.diff([X, Y], [X, Y])
    lines = two.b.read_bytes().splitlines(keepends=True)
    two.b.write_bytes(b"".join(lines[:4]) + b'{"seq":4')

    found = diff(two.a, two.b)

    assert categories(found) == [
        ("root > search#2", "result"),
        ("root", "status"),
        ("root", "output"),
    ]
    left = [
        "the bytes after the last entry of {}, 8 bytes",
        "what comes after the last entry of {}, which has no end",
    ]
    assert list(found.notes) == [f"root: not compared: {s.format(two.b)}" for s in left]
    assert diff(two.b, two.b).identical
    assert set(diff(two.b, two.b).notes) == set(found.notes)


def test_what_cannot_be_read_is_an_error(two: Two) -> None:
    two.diff([child("dig", [X])], [child("dig", [X])])
    inner = two.b.with_name("b.1.jsonl")
    inner.write_bytes(inner.read_bytes().replace(b'"x"', b'"y"'))

    with pytest.raises(LogDamaged):
        diff(two.a, two.b)
    with pytest.raises(LogMissing):
        diff(two.a, two.a.with_name("c.jsonl"))


def test_a_flood_of_differences_is_counted_to_its_end(two: Two) -> None:
    two.diff([X] * 9, [Y] * 9)

    found = diff(two.a, two.b, most=3)

    assert (len(found.differences), found.count) == (3, 19)
    assert "and 16 differences more" in str(found)


def test_looks_at_the_clock_are_noted_where_one_run_has_more(tmp_path: Path) -> None:
    """They are no calls (§13.2): two runs that differ in them alone are no all-clear."""

    async def looks(run: Run, _input: Any) -> None:
        run.now()
        await run.sleep(0.0001)
        if run.environment("LOOKS") == "twice":
            run.now()

    logs = []
    for name, times in (("a", "once"), ("b", "once"), ("c", "twice")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOOKS", times)
            logs.append(record(looks, log=tmp_path / f"{name}.jsonl", seed=1).log)

    assert diff(logs[0], logs[1]).notes == ()
    (note,) = diff(logs[0], logs[2]).notes
    assert note == "root: not compared: looks at the clock, of which there are 1 and 2"


@pytest.mark.long
@pytest.mark.parametrize("match", ["strict", "unordered"])
def test_a_diff_takes_a_few_bytes_an_entry(tmp_path: Path, match: MatchMode) -> None:
    """Of each of the logs; a fifth of what objects took."""

    def calls(run: PlainRun, count: int) -> None:
        for number in range(count):
            run.tool(search, query=str(number))

    def compared(count: int) -> None:
        log = tmp_path / f"{count}.jsonl"
        if not log.exists():
            record(calls, count // 2, log=log, tools=[search], durability="fast")
        assert diff(log, log, match=match).identical

    assert bytes_per_entry(compared) < (100 if match == "strict" else 250)


class Turns:
    """Answers requests of branches in a given order: each when the one before has its child."""

    def __init__(self, order: Sequence[str]) -> None:
        self._began = {name: threading.Event() for name in order}
        self._before = dict(zip(order[1:], order, strict=False))

    def model(self) -> FunctionModel:
        """Return a model with a price."""
        return FunctionModel(self._answer, "openai:gpt-5-mini")

    def _answer(self, request: ModelRequest) -> dict[str, Any]:
        kind, _, name = str(request.messages[-1]["content"]).partition(" ")
        if kind == "child":
            self._began[name].set()
        elif name in self._before:
            assert self._began[self._before[name]].wait(60)
        usage = {"input_tokens": 10, "output_tokens": 5, "cost_usd_micros": 2000}
        return {"text": name, "usage": usage}


async def below(run: Run, task: list[Any]) -> str:
    """Ask as a child; with a level left, start one more."""
    name, levels = task
    await run.model([{"role": "user", "content": f"child {name}"}])
    if levels:
        await run.delegate(Delegation(program=below, input=[name, levels - 1]))
    return str(name)


async def branches(run: Run, task: dict[str, Any]) -> list[str]:
    """Three branches in parallel: each asks, and starts a child that inherits what is left."""
    caps = Limits(**task.get("caps", {}))

    async def branch(name: str) -> str:
        await run.model([{"role": "user", "content": f"branch {name}"}])
        child = Delegation(program=below, input=[name, 1], limits=caps)
        return (await run.delegate(child)).result()

    return await asyncio.gather(*map(branch, "abc"))


@given(a=st.permutations("abc"), b=st.permutations("abc"))
@settings(max_examples=6)
def test_the_rest_of_a_budget_hangs_on_the_order_of_spending_and_is_not_compared(
    a: list[str], b: list[str]
) -> None:
    """In diffs and snapshots; the diff tells what each was granted (§13.2)."""
    with tempfile.TemporaryDirectory() as folder:
        limits = Limits(model_tokens=4000, cost_usd=1)
        one, other = (
            record(
                branches, {}, log=f"{folder}/{at}.jsonl", model=Turns(order).model(),
                limits=limits, durability="fast", seed=1,
            )
            for at, order in enumerate((a, b))
        )  # fmt: skip
        found = diff(one.log, other.log)
        texts = [(log_text(log), delegation_text(log)) for log in (one.log, other.log)]

    assert (one.ok, other.ok, found.count) == (True, True, 0), str(found)
    assert texts[0] == texts[1]
    assert found.context or a == b, "each parallel child has another part"
    places = {each.pointer for run in found.context for each in run.differences}
    assert places <= {"/limits/model_tokens", "/limits/cost_usd"}


@pytest.mark.parametrize(
    ("limits", "caps", "category"),
    [
        ([{"model_tokens": 4000}, {"model_tokens": 5000}], [{}, {}], "header"),
        ([{}, {}], [{"model_tokens": 400}, {"model_tokens": 500}], "arguments"),
        ([{"cost_usd": 1}] * 2, [{"max_children": 3}, {"max_children": 2}], "arguments"),
    ],
)
def test_a_limit_that_somebody_changed_is_a_difference(
    limits: list[dict[str, Any]], caps: list[dict[str, Any]], category: str, tmp_path: Path
) -> None:
    """A root's own, a child's where its parent has none to share, and caps that nobody spends."""
    logs = [
        record(
            branches, {"caps": own}, log=tmp_path / f"{at}.jsonl", model=Turns("abc").model(),
            limits=Limits(**cap),
        ).log
        for at, (cap, own) in enumerate(zip(limits, caps, strict=True))
    ]  # fmt: skip

    found = {each.category for each in diff(*logs).differences} - {"input"}
    assert found == {category}


def test_the_differences_that_keep_their_details_are_the_first_in_time(two: Two) -> None:
    """A flood of later ones, in a scope that is compared before, takes the place of none."""
    two.diff([("both", [X], [X]), *[X] * 9], [("both", [Y], [Y]), *[Y] * 9])
    whole = diff(two.a, two.b, most=None).differences

    for most in range(len(whole) + 2):
        assert diff(two.a, two.b, most=most).differences == whole[:most]
