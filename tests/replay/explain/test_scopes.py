"""Aligning requests task by task: what shifted, what came, what went (CONTRACT.md §12.4)."""

from refold.replay.explain.scopes import AlignmentStep, aligned, aligned_scopes
from refold.replay.index.asked_items import Item


def item(call: str, name: str, argument: int = 0) -> Item:
    return Item("tool", name, {"x": argument}, call)


def told(steps: list[AlignmentStep]) -> list[str]:
    """Return what is not the same, in a few words."""
    return [
        f"{step.op} {step.recorded.name if step.recorded else ''}"
        f"{'→' if step.op == 'changed' else ''}{step.now.name if step.now else ''}"
        for step in steps
        if step.op != "same"
    ]


def test_a_branch_that_is_gone_shifts_no_other() -> None:
    """Scopes are numbered in the order of creation; what was asked in them tells which is which."""
    recorded = [item("0/1#1", "a"), item("0/2#1", "b"), item("0/3#1", "c")]

    now = [item("0/1#1", "b"), item("0/2#1", "c")]

    assert told(aligned_scopes(recorded, now)) == ["dropped a"]


def test_a_branch_in_front_is_one_branch_more() -> None:
    """Whatever stands in the scopes below it."""
    recorded = [item("0/1#1", "a"), item("0/1/1#1", "b")]

    now = [item("0/1#1", "x"), item("0/2#1", "a"), item("0/2/1#1", "b")]

    assert told(aligned_scopes(recorded, now, frozenset().__contains__)) == ["added x"]


def test_scopes_that_were_the_same_before_stay_paired() -> None:
    """A scope that had lines before the first difference is itself, whatever is asked in it."""
    recorded = [item("0/1#2", "a"), item("0/2#2", "b")]
    now = [item("0/1#2", "b"), item("0/2#2", "a")]

    steps = aligned_scopes(recorded, now, {"0/1", "0/2"}.__contains__)

    assert told(steps) == ["changed a→b", "changed b→a"]


def test_a_changed_argument_in_a_branch_is_one_change() -> None:
    """Cheaper than a branch less and a branch more."""
    recorded = [item("0/1#1", "a"), item("0/2#1", "b", 1)]

    steps = aligned_scopes(recorded, [item("0/1#1", "a"), item("0/2#1", "b", 2)])

    assert told(steps) == ["changed b→b"]


def test_a_branch_is_told_by_what_is_asked_below_it() -> None:
    """What is likest there makes two branches the same one."""
    recorded = [item("0/1/1#1", "a", 1)]

    steps = aligned_scopes(recorded, [item("0/1/1#1", "b", 2), item("0/2/1#1", "a", 2)])

    assert told(steps) == ["added b", "changed a→a"]


def test_timers_are_aligned_apart_from_calls() -> None:
    """They take no ordinal of the calls, and where they stand among them says nothing."""
    recorded = [item("0#1", "a"), Item("timer", "", None, "0@1"), item("0#2", "b")]

    now = [item("0#1", "a"), item("0#2", "b"), Item("timer", "", None, "0@1")]

    assert told(aligned_scopes(recorded, now)) == []


def test_many_branches_that_all_changed_are_paired_by_number() -> None:
    """A table of every pair would take too long."""
    recorded = [item(f"0/{n}#1", "a", n) for n in range(1, 60)]

    steps = aligned_scopes(recorded, [item(f"0/{n}#1", "a", -n) for n in range(1, 61)])

    assert [step.op for step in steps] == ["changed"] * 59 + ["added"]


def test_the_alignment_prefers_the_nearest_explanation() -> None:
    """A changed argument is one change; another name costs less than dropping and adding."""
    one, two, three = item("0#1", "a", 1), item("0#2", "b", 2), item("0#3", "c", 3)
    other = item("0#2", "b", 9)

    assert [step.op for step in aligned([one, two, three], [one, other, three])] == [
        "same",
        "changed",
        "same",
    ]
    assert [step.op for step in aligned([one, three], [one, two, three])] == [
        "same",
        "added",
        "same",
    ]
    assert [step.op for step in aligned([one, two, three], [one, three])] == [
        "same",
        "dropped",
        "same",
    ]
    assert aligned([], []) == []
