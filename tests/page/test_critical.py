"""The critical path: through the child that was waited for last."""

from typing import Any

import pytest

from refold.page.critical import critical_path


def test_the_path_goes_through_the_child_that_was_waited_for() -> None:
    """Of a call and a child that ran side by side, the later one is on it, and its own entries."""
    links = {
        ("a", 1): [("after", "a", 0)],
        ("a", 2): [("after", "a", 0)],
        ("a", 3): [("answers", "a", 1)],
        ("a", 4): [("answers", "a", 2), ("ends with", "b", 1)],
        ("a", 5): [("after", "a", 4)],
        ("b", 0): [("started by", "a", 2)],
        ("b", 1): [("after", "b", 0)],
    }
    times = {"a": [0, 1, 2, 5, 20, 21], "b": [4, 18]}
    scopes = {"a": ["", "0", "0", "0", "0", "0"], "b": ["", ""]}

    path = critical_path({place: [*found] for place, found in links.items()}, times, scopes, "a")

    assert path == [
        ["a", 0, 2, 0, 2],
        ["b", 0, 1, 2, 18],
        ["a", 4, 5, 18, 21],
    ]


def test_a_log_without_its_parent_ends_the_path() -> None:
    assert critical_path(
        {("a", 0): [("started by", "", 3)], ("a", 1): [("after", "a", 0)]},
        {"a": [0, 7]},
        {"a": ["", ""]},
        "a",
    ) == [["a", 0, 1, 0, 7]]


def test_a_log_without_entries_has_no_path() -> None:
    assert critical_path({}, {}, {}, "a") == []


@pytest.mark.parametrize(
    ("scope", "path"),
    [("0", [["a", 0, 3, 0, 10]]), ("1", [["b", 0, 0, 1, 3], ["a", 3, 3, 3, 10]])],
)
def test_a_child_is_waited_for_unless_its_task_did_something_after_its_end(
    scope: str, path: list[list[Any]]
) -> None:
    """What other tasks did meanwhile says nothing."""
    links = {
        ("a", 1): [("after", "a", 0)],
        ("a", 2): [("after", "a", 1)],
        ("a", 3): [("answers", "a", 1), ("ends with", "b", 0)],
        ("b", 0): [("started by", "a", 1)],
    }
    scopes = {"a": ["", "0", scope, "0"], "b": [""]}

    found = critical_path(
        {place: [*each] for place, each in links.items()},
        {"a": [0, 1, 9, 10], "b": [3]},
        scopes,
        "a",
    )

    assert found[-len(path) :] == path
