"""Which files of two runs are each other's by their names, and that contents are compared."""

import posixpath
from datetime import date
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.observed.file_names import FileNames, pattern_of
from tests.support.loops import for_each

DAYS = date(2026, 11, 29), date(2027, 1, 3)
A, B, C = (f"121c6862-7ee5-447c-96ee-78670c7f50{n}" for n in ("aa", "bb", "cc"))
ALIKE = (
    ("report-20261129-101500.md", "report-20270103-081201.md"),
    ("out/2026-11-29/10-15-00/run.log", "out/2027-01-03/08-12-01/run.log"),
    (
        "logs/2026-11-29T10-15-00+00-00_sums_gPbMeKBJzSgJrRf5m9hkuB.eval",
        "logs/2027-01-03T08-12-01+00-00_sums_bTz3yM4Vd7XqPc2Wk8NrLe.eval",
    ),
    (f"run-{A}.json", f"run-{B}.json"),
    ("trace_1795947300.json", "trace_1798964400.json"),
    ("tmpab12cd_x/out", "tmpq9_zzt10/out"),
)


def paired(was: list[str], now: list[str], **contents: str) -> dict[str, str]:
    """Pair names; files have their `contents`, or all the same."""
    names = FileNames(DAYS)

    def is_same(one: str, other: str) -> bool:
        texts = contents.get(one, ""), names.renamed(contents.get(other, ""))
        return texts[0] == texts[1]

    return names.pairs(was, now, str, is_same)


@for_each("was, now", ALIKE)
def test_names_with_a_time_or_an_id_are_pairs(was: str, now: str) -> None:
    """And in texts, the recorded name is in the place of the current one."""
    names = FileNames(DAYS)
    assert names.pairs([was], [now], str, lambda *_: True) == {was: now}
    assert names.count == 1
    assert names.renamed(f"Log: {posixpath.basename(now)}.") == f"Log: {posixpath.basename(was)}."
    assert pattern_of(was) == pattern_of(now) != was


@for_each(
    "was, now",
    [
        ("chapter1.md", "chapter2.md"),
        ("report-2026-10-01.md", "report-2026-11-01.md"),
        ("report-20261129.md", "report-20271129.md"),
        ("v1.2.3.txt", "v1.2.4.txt"),
        ("readme.md", "license.md"),
        (f"a-{A}.json", f"b-{B}.json"),
        (f"{A}-{A}.json", f"{B}-{C}.json"),
        (f"{A}-{B}.json", f"{C}-{C}.json"),
    ],
)
def test_other_names_are_not(was: str, now: str) -> None:
    """A number, a date that is not of the own run, one id for two."""
    assert paired([was], [now]) == {}


def test_of_several_alike_equal_contents_are_paired_first() -> None:
    """The rest in order, if both have as many."""
    was, now = [f"{A}.x", f"{B}.x"], [f"{C}.x", f"{A[:-2]}dd.x"]
    contents = {was[0]: "one", was[1]: "two", now[0]: "two", now[1]: "one"}
    assert paired(was, now, **contents) == {was[0]: now[1], was[1]: now[0]}
    assert paired(was, now, **(contents | {now[1]: "changed"})) == {was[1]: now[0], was[0]: now[1]}
    assert paired(was, now[:1], **contents) == {was[1]: now[0]}


@given(st.uuids(), st.uuids())
def test_any_two_uuids_are_a_pair(was: UUID, now: UUID) -> None:
    """One that begins with eight digits is no date."""
    assert paired([f"run-{was}.json"], [f"run-{now}.json"]) != {} or was == now
    digits = f"10032857-6828-4933-{str(now)[19:]}"
    assert paired([f"run-{was}.json"], [f"run-{digits}.json"]) != {}


NAMES = st.lists(
    st.tuples(st.sampled_from(["a", "log", "out/x"]), st.integers(0, 59)), max_size=5, unique=True
)


@given(NAMES, NAMES, st.data())
def test_each_file_is_in_one_pair_and_equal_ones_alike(
    was: list[tuple[str, int]], now: list[tuple[str, int]], data: st.DataObject
) -> None:
    """No pair is of two kinds of names; a changed content stays in a pair, or alone."""
    olds = {f"{name}-20261129-1015{at:02}.txt" for name, at in was}
    news = {f"{name}-20270103-0812{at:02}.txt" for name, at in now}
    texts = {each: data.draw(st.sampled_from("xy")) for each in sorted(olds | news)}

    found = paired(sorted(olds), sorted(news), **texts)

    assert len({*found.values()}) == len(found)
    assert found.keys() <= olds
    assert {*found.values()} <= news
    assert all(pattern_of(one) == pattern_of(other) for one, other in found.items())
    for kind in {pattern_of(each) for each in olds | news}:
        ours, theirs = ([n for n in each if pattern_of(n) == kind] for each in (olds, news))
        equal = sum(
            min(sum(texts[n] == text for n in each) for each in (ours, theirs)) for text in "xy"
        )
        assert sum(texts[n] == texts[found[n]] for n in ours if n in found) == equal
        assert sum(n in found for n in ours) == (len(ours) if len(ours) == len(theirs) else equal)
