"""What a divergence says, to people and to machines."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from syrupy.assertion import SnapshotAssertion

from refold.engine.errors import Diverged, ToolError
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.runners.recording import record
from refold.replay.explain.divergence import HEADLINES, Divergence
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.reexecute.report import ReplayReport
from refold.tools.contract.tool_types import FunctionTool
from tests.support.loops import for_each
from tests.support.steps import Step, program_of, recorded, search

A: Step = ("tool", "search", {"q": "a"})
B: Step = ("tool", "fetch", {"q": "b"})
C: Step = ("tool", "search", {"q": "c"})

CHANGES: dict[str, tuple[list[Step], list[Step]]] = {
    "missing_call": ([A, B, C], [A, C]),
    "extra_call": ([A, C], [A, B, C]),
    "reordered": ([A, B, C], [A, C, B]),
    "kind_changed": ([A, B], [A, ("child", [A])]),
    "name_changed": ([A, B], [A, ("tool", "search", {"q": "b"})]),
    "args_changed": ([A, B], [A, ("tool", "fetch", {"q": "\x1b[31mred"})]),
    "output_changed": ([A, ("return", {"n": [1, 2]})], [A, ("return", {"n": [1, 3]})]),
    "unconsumed": ([A, B, C], [A, ("return", "early")]),
    "unrecorded_await": (
        [("start", [A]), B, ("return", 1)],
        [("start", [A]), ("await",), B, ("return", 1)],
    ),
}
ELSEWHERE = {"log_damaged", "environment", "not_served", "result_changed"}


def report_of(tmp_path: Path, before: list[Step], after: list[Step]) -> ReplayReport:
    return reexecute(recorded(tmp_path / "a.jsonl", *before).log, program_of(*after))


def scrubbed(text: str, tmp_path: Path) -> str:
    """Return the text without what depends on where, and on which line, the test stands."""
    text = text.replace(str(tmp_path), "DIR")
    return re.sub(r"/\S+/(\w+\.py):\d+", r"\1:LINE", text)


def test_every_category_has_a_change_here() -> None:
    """`result_changed` needs live effects, `not_served` a command; the others stand below."""
    assert set(HEADLINES) == set(CHANGES) | ELSEWHERE


def test_the_contract_says_what_each_category_means() -> None:
    """§12.4: in the words that a report begins with; of a result, more of them."""
    contract = (Path(__file__).parents[3] / "CONTRACT.md").read_text(encoding="utf-8")
    section = contract.partition("**§12.4 ")[2].partition("**§12.5 ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))

    assert list(told) == list(HEADLINES)
    assert {name for name in told if told[name] != HEADLINES[name]} == {"result_changed"}


@pytest.mark.parametrize("category", CHANGES)
def test_the_text_of_a_category(tmp_path: Path, category: str, snapshot: SnapshotAssertion) -> None:
    """Case 109: where, recorded, now, what differs, what still matched, the likely cause."""
    report = report_of(tmp_path, *CHANGES[category])

    assert report.divergences[0].category == category
    assert scrubbed("\n\n".join(map(str, report.causes)), tmp_path) == snapshot


@for_each("category", CHANGES)
def test_a_divergence_goes_through_json(tmp_path: Path, category: str) -> None:
    """What `--json` prints holds the whole divergence, headline included."""
    found = report_of(tmp_path, *CHANGES[category]).divergences[0]
    document = json.loads(json.dumps(found.as_json()))

    assert document["headline"] == HEADLINES[found.category]
    assert str(Divergence.from_json(document)) == str(found)


def test_the_text_holds_no_control_character(tmp_path: Path) -> None:
    """Whatever a log or a program says: a terminal prints a divergence, and does nothing else."""
    text = str(report_of(tmp_path, *CHANGES["args_changed"]))

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def test_a_report_that_differs_raises_on_demand(tmp_path: Path) -> None:
    """`check` raises the first divergence, with the divergence as its data."""
    report = report_of(tmp_path, [A], [B])

    with pytest.raises(Diverged) as caught:
        report.check()

    assert caught.value.divergence is report.divergences[0]
    assert "name_changed" in str(caught.value)


def test_a_damaged_log(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Bytes that do not verify are never replayed: the place in the file, and what to do."""
    log = recorded(tmp_path / "a.jsonl", A, B).log
    log.write_bytes(log.read_bytes().replace(b'"q":"b"', b'"q":"d"'))

    found = reexecute(log, program_of(A, B)).divergences[0]

    assert found.category == "log_damaged"
    text = re.sub(r"\b[0-9a-f]{12,}", "HASH", scrubbed(str(found), tmp_path))
    assert re.sub(r"byte \d+", "byte N", text) == snapshot


def recorded_otherwise(log: Path, what: str, **said: str) -> Path:
    """Return a copy of a log that says that it was recorded under another Python, say."""
    copy = log.with_name("copy.jsonl")
    first, *rest = read_entries(log)
    started: Any = first.event
    other = attrs.evolve(started, **{what: {**getattr(started, what), **said}})
    with LogWriter.create(copy, other) as writer:
        for entry in rest:
            writer.append(entry.event, entry.call, entry.cause)
    return copy


def test_another_python_is_the_first_suspect(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """A difference under another version of Python is called `environment`; none is none."""
    log = recorded(tmp_path / "a.jsonl", A, B).log
    log = recorded_otherwise(log, "versions", python="3.9")

    assert reexecute(log, program_of(A, B)).identical
    found = reexecute(log, program_of(B, A)).divergences[0]

    assert found.category == "environment"
    text = re.sub(r"3\.9 → \S+", "3.9 → HERE", scrubbed(str(found), tmp_path))
    assert text == snapshot


def test_a_changed_source_goes_before_another_python(tmp_path: Path) -> None:
    """Both have changed: the program is the nearer suspect."""

    async def one(run: Any, _input: Any) -> Any:
        return await run.tool("search", q="a")

    async def two(run: Any, _input: Any) -> Any:
        return await run.tool("search", q="b")

    two.__name__ = "one"  # the same program, edited
    log = recorded(tmp_path / "a.jsonl", A, program=one).log
    log = recorded_otherwise(log, "versions", python="3.9")

    assert reexecute(log, two).divergences[0].category == "args_changed"


def test_what_is_no_call_is_told_by_its_kind(tmp_path: Path) -> None:
    """A look at the clock has neither name nor key; a value and a remark have a key."""
    log = recorded(tmp_path / "a.jsonl", A, A).log
    found = {}
    for step in (("uuid",), ("now",), ("note", "n")):
        first = reexecute(log, program_of(A, step, A)).divergences[0]
        found[first.now["kind"]] = (first.category, first.recorded, first.now["call"])

    assert found == {
        "value": ("extra_call", None, "0#2"),
        "clock": ("extra_call", None, ""),
        "note": ("extra_call", None, "0#2"),
    }


def test_another_hash_seed_is_named_beside_what_differs(tmp_path: Path) -> None:
    """The order of a set, say, depends on it."""
    log = recorded(tmp_path / "a.jsonl", A, B).log
    log = recorded_otherwise(log, "fingerprint", hash_seed="77")

    found = reexecute(log, program_of(B, A)).divergences[0]

    assert found.fingerprints["hash_seed"][0] == "77"


def test_a_changed_source_is_named_and_does_not_decide(tmp_path: Path) -> None:
    """Two texts of a program that do the same are identical; where they differ, the text is why."""

    async def one(run: Any, _input: Any) -> Any:
        return await run.tool("search", q="a")

    async def two(run: Any, _input: Any) -> Any:
        found = await run.tool("search", q="a")
        return found  # noqa: RET504 - another text, the same program

    async def three(run: Any, _input: Any) -> Any:
        return [await run.tool("search", q="a")]

    three.__name__ = "one"  # the same program, edited
    log = recorded(tmp_path / "a.jsonl", A, program=one).log

    assert reexecute(log, two).identical
    found = reexecute(log, three).divergences[0]
    assert "source" in found.fingerprints
    assert "the program has changed" in found.cause
    assert Divergence.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_a_call_that_had_failed_is_told_with_its_error(tmp_path: Path) -> None:
    """Among what still matched: it may be why the program went another way."""

    async def program(run: Any, _input: Any) -> Any:
        with contextlib.suppress(ToolError):
            await run.tool("fail")
        return await run.tool("search", q="a")

    async def changed(run: Any, _input: Any) -> Any:
        with contextlib.suppress(ToolError):
            await run.tool("fail")
        return await run.tool("search", q="b")

    def fail() -> None:
        """Raise."""
        raise RuntimeError("not there")

    log = record(program, log=tmp_path / "a.jsonl", tools=[FunctionTool(fail), search]).log

    text = str(reexecute(log, changed).divergences[0])

    assert re.search(r"matched +2 tool\.returned 0#1 error raised: \"not there\"", text)


@for_each("value, shown", [("ab" * 32, "ab" * 8), ("abcdef" * 4, "abcdef" * 4), ("", "none")])
def test_only_a_digest_is_cut_short(tmp_path: Path, value: str, shown: str) -> None:
    """Any other fingerprint is shown as it is, and where there was none, that is said."""
    found = report_of(tmp_path, [A], [B]).divergences[0]

    text = str(attrs.evolve(found, fingerprints={"source": (value, "x")}))

    assert f"  changed   source: {shown} → x\n" in f"{text}\n"


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """And where nothing is, nothing is said."""
    found = report_of(tmp_path, [A, ("return", 1)], [B, ("return", 2)]).divergences[0]
    assert found.later_count == len(found.later) == 1

    assert "more" not in found.in_full()
    assert attrs.evolve(found, later_count=3).in_full().endswith("… and 2 more")
