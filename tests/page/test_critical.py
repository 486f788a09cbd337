"""The critical path: through the child that was waited for last."""

from typing import Any

import pytest

from refold.page.critical import critical_path


def test_the_path_goes_through_the_child_that_was_waited_for() -> None:
    """Of a call and a child that ran side by side, the later one is on it, and its own entries."""
    links = {
        (0, 1): [("after", 0, 0)],
        (0, 2): [("after", 0, 0)],
        (0, 3): [("answers", 0, 1)],
        (0, 4): [("answers", 0, 2), ("ends with", 1, 1)],
        (0, 5): [("after", 0, 4)],
        (1, 0): [("started by", 0, 2)],
        (1, 1): [("after", 1, 0)],
    }
    times = {0: [0, 1, 2, 5, 20, 21], 1: [4, 18]}
    scopes = {0: ["", "0", "0", "0", "0", "0"], 1: ["", ""]}

    path = critical_path({place: [*found] for place, found in links.items()}, times, scopes)

    assert path == [
        [0, 0, 2, 0, 2],
        [1, 0, 1, 2, 18],
        [0, 4, 5, 18, 21],
    ]


def test_a_log_without_its_parent_ends_the_path() -> None:
    assert critical_path(
        {(0, 0): [("started by", -1, 3)], (0, 1): [("after", 0, 0)]}, {0: [0, 7]}, {0: ["", ""]}
    ) == [[0, 0, 1, 0, 7]]


def test_a_log_without_entries_has_no_path() -> None:
    assert critical_path({}, {}, {}) == []


@pytest.mark.parametrize(
    ("scope", "path"),
    [("0", [[0, 0, 3, 0, 10]]), ("1", [[1, 0, 0, 1, 3], [0, 3, 3, 3, 10]])],
)
def test_a_child_is_waited_for_unless_its_task_did_something_after_its_end(
    scope: str, path: list[list[Any]]
) -> None:
    """What other tasks did meanwhile says nothing."""
    links = {
        (0, 1): [("after", 0, 0)],
        (0, 2): [("after", 0, 1)],
        (0, 3): [("answers", 0, 1), ("ends with", 1, 0)],
        (1, 0): [("started by", 0, 1)],
    }
    scopes = {0: ["", "0", scope, "0"], 1: [""]}

    found = critical_path(
        {place: [*each] for place, each in links.items()}, {0: [0, 1, 9, 10], 1: [3]}, scopes
    )

    assert found[-len(path) :] == path
