"""How drift reads: counts, text, JSON and JUnit; rules are CONTRACT.md §12.10."""

from pathlib import Path

import attrs

from refold.engine.errors import OutcomeMissing
from refold.replay.difference.excuses import Ignored
from refold.replay.difference.pointer_diff import differences
from refold.replay.partial.drift_report import CallDrift, DriftReport, row_text
from refold.replay.partial.sources import Sources
from tests.support.loops import for_each

SAME = CallDrift(where="p > a#1", call="0#1", kind="tool", name="a", verdict="same")
OTHER = CallDrift(
    where="p > b#2", call="0#2", kind="tool", name="b", verdict="result_changed",
    recorded={"x": 1}, now={"x": 2}, diff=differences({"x": 1}, {"x": 2}),
)  # fmt: skip
NOISE = CallDrift(
    where="p > c#3", call="0#3", kind="tool", name="c", verdict="result_changed", noise=True
)
LATER = CallDrift(
    where="p > d#4", call="0#4", kind="tool", name="d", verdict="new", consequent=True
)


def report(*rows: CallDrift, missing: tuple[OutcomeMissing, ...] = ()) -> DriftReport:
    """Return a report of these rows."""
    return DriftReport(
        log=Path("a.jsonl"), into=None, calls=rows, missing=missing, sources=Sources()
    )


@for_each(
    "rows, is_identical",
    [((SAME,), True), ((SAME, NOISE), True), ((SAME, OTHER), False), ((LATER,), False), ((), True)],
)
def test_noise_is_no_drift(rows: tuple[CallDrift, ...], *, is_identical: bool) -> None:
    """Consequences are."""
    assert report(*rows).identical is is_identical


def test_what_is_missing_is_not_identical() -> None:
    """The run stopped there."""
    assert not report(SAME, missing=(OutcomeMissing("e#5", ""),)).identical


def test_the_text_has_counts_differences_and_marks() -> None:
    """One block a call that differs."""
    text = str(report(SAME, OTHER, NOISE, LATER, missing=(OutcomeMissing("e#5", "f#5", "why"),)))

    assert text == (
        "drift: 1 same, 2 result changed, 1 new (1 consequent, 1 noise)\n"
        "result_changed: a different result  p > b#2\n"
        "  differs   /x: 1 → 2\n"
        "result_changed: a different result  p > c#3  (noise)\n"
        "new: not recorded  p > d#4  (consequent)\n"
        "missing   no recorded outcome for e#5; the most similar recorded one is f#5 (why)"
    )


def test_what_did_not_run_live_keeps_a_report_from_reading_as_an_all_clear() -> None:
    """Its result cannot drift: it came from the record, or was a stub."""
    lines = str(attrs.evolve(report(SAME), served=("tool pay (2)", "model m (1)"))).splitlines()

    assert (
        lines[-1]
        == "not compared, because their results were recorded ones: tool pay (2), model m (1)"
    )


def test_what_was_ignored_is_listed() -> None:
    """§12.7: so many values, and where they stand."""
    one = Ignored(
        log="a.jsonl", seq=1, what="tool:b", call="0#2", pointer="/result/ts", recorded=1, now=2,
        rule="tool:b/result/ts",
    )  # fmt: skip
    whole = attrs.evolve(report(SAME), ignored=(one,) * 12, ignored_count=12)

    lines = str(whole).splitlines()

    assert lines[1] == "ignored: 12 values that changed"
    assert lines[2] == "  tool:b at 0#2  /result/ts: 1 → 2  (tool:b/result/ts)"
    assert lines[-1] == "  … and 2 more: to list them, add --all"


def test_many_differences_are_counted() -> None:
    """A row stays a few lines."""
    before, after = dict.fromkeys("abcdefgh", 1), dict.fromkeys("abcdefgh", 2)
    row = CallDrift(
        where="p", call="", kind="tool", name="t", verdict="result_changed",
        diff=differences(before, after),
    )  # fmt: skip

    assert row_text(row).splitlines()[-1] == "            … and in 2 more places"


def test_junit_has_a_case_a_call() -> None:
    """Drift is a failure, noise is skipped, what is missing an error."""
    cases = report(SAME, OTHER, NOISE, missing=(OutcomeMissing("e#5", ""),)).junit().cases

    assert [case.name for case in cases if case.failure] == ["p > b#2"]
    assert [case.name for case in cases if case.skipped] == ["p > c#3"]
    assert [case.name for case in cases if case.error] == ["e#5"]
