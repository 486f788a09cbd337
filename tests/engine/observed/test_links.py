"""A link is provisional until the caller shows the call's result (CONTRACT.md §16.5)."""

import pytest

from refold.engine.observed.links import Links

BEGAN = ("x-refold.conversation", "", {"scope": "0/1/1", "how": "prompt", "call": "0/1#2"})
ASKED: tuple[str, str, dict[str, str]] = ("model.asked", "0/1#3", {})
RETURNED: tuple[str, str, dict[str, str]] = ("tool.returned", "0/1#2", {})
COMPLETED = ("run.finished", "", {"status": "completed"})
BROKE_OFF = ("run.finished", "", {"status": "failed"})


@pytest.mark.parametrize(
    ("entries", "standing"),
    [
        ([BEGAN], "provisional"),
        ([BEGAN, BROKE_OFF], "provisional"),
        ([BEGAN, RETURNED, ASKED, COMPLETED], "confirmed"),
        ([RETURNED, ASKED, BEGAN, COMPLETED], "confirmed"),
        ([BEGAN, ASKED, RETURNED], "confirmed"),
        ([BEGAN, ASKED], "dropped"),
        ([BEGAN, COMPLETED], "dropped"),
        ([("model.asked", "0/1#1", {}), BEGAN], "provisional"),
        ([("model.asked", "0/2#1", {}), BEGAN], "provisional"),
    ],
)
@pytest.mark.parametrize("how", ["prompt", "delegation", "header", "handoff"])
def test_what_comes_later_confirms_or_drops_it(
    entries: list[tuple[str, str, dict[str, str]]], standing: str, how: str
) -> None:
    """Unless an id, a header or a handoff is the evidence."""
    links = Links()
    for seq, (kind, call, data) in enumerate(entries):
        links.take(kind, call, seq, data | ({"how": how} if "how" in data else {}))

    assert links.standing("0/1/1") == (standing if how in ("prompt", "delegation") else "confirmed")
    assert links.above("0/1/1") == ("0" if links.standing("0/1/1") == "dropped" else "0/1")


def test_a_conversation_that_continues_under_another_scope_shows_no_results() -> None:
    """So that its links cannot be confirmed, and are kept."""
    links = Links()
    links.take(BEGAN[0], BEGAN[1], 3, BEGAN[2])
    links.take("model.answered", "0/1#3", 4, {})
    links.take("x-refold.conversation", "", 5, {"scope": "0/2", "how": "continues"}, 4)
    links.take(COMPLETED[0], COMPLETED[1], 6, COMPLETED[2])

    assert links.standing("0/1/1") == "provisional"


def test_a_link_by_the_result_is_below_the_call_wherever_it_began() -> None:
    links = Links()
    links.take("x-refold.conversation", "", 1, {"scope": "0/2", "agent": ""})
    links.take(*RETURNED[:2], 2, RETURNED[2])
    links.take("x-refold.conversation", "", 3, {"scope": "0/2", "how": "result", "call": "0/1#2"})

    assert (links.standing("0/2"), links.above("0/2")) == ("confirmed", "0/1")


def test_what_fetches_an_answer_does_not_continue_its_conversation() -> None:
    links = Links()
    links.take(*BEGAN[:2], 1, BEGAN[2])
    links.take("model.asked", "0/1#4", 2, {"parameters": {"$method": "GET"}})

    assert links.standing("0/1/1") == "provisional"
