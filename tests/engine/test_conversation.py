"""Each message stands in a log once: requests name the prefix that it has (CONTRACT.md §2.4)."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine import digest
from refold.engine.conversation import Conversations

ONE, TWO, THREE, FOUR = ({"role": "user", "content": text} for text in ("1", "2", "3", "4"))


def chain(*messages: Any) -> str:
    """Return the chain digest of a conversation, as the contract says it."""
    at = ""
    for message in messages:
        at = digest.chained(at, message)
    return at


def test_a_new_conversation_has_no_predecessor() -> None:
    """All its messages are added."""
    prefix = Conversations().prefix((ONE, TWO))

    assert (prefix.predecessor, prefix.base, prefix.messages) == ("", 0, 2)
    assert prefix.end == chain(ONE, TWO)


def test_an_answer_need_not_be_repeated() -> None:
    """The next request names what was asked and what was answered, and adds the rest."""
    known = Conversations()
    prefix = known.prefix((ONE,))
    known.asked(prefix)
    known.answered(prefix.end, prefix.messages, TWO)

    following = known.prefix((ONE, TWO, THREE))

    assert (following.predecessor, following.base) == (chain(ONE, TWO), 2)
    assert list(following.chain) == [chain(ONE, TWO, THREE)]


def test_a_conversation_that_turned_off_shares_its_beginning() -> None:
    """An edited message begins a branch; what stands before it is named."""
    known = Conversations()
    known.asked(known.prefix((ONE, TWO, THREE)))

    branch = known.prefix((ONE, FOUR, THREE))

    assert (branch.predecessor, branch.base) == (chain(ONE), 1)


def test_a_request_that_adds_nothing_names_all_of_it() -> None:
    """The same request again stores no message."""
    known = Conversations()
    known.asked(known.prefix((ONE, TWO)))

    again = known.prefix((ONE, TWO))

    assert (again.base, again.end, again.chain) == (2, chain(ONE, TWO), {})


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([ONE, TWO, THREE]), max_size=6), max_size=6))
def test_prefix_and_rest_are_always_the_whole(conversations: list[list[Any]]) -> None:
    """Whatever was asked before: the digest at the end is that of all messages."""
    known = Conversations()
    for messages in conversations:
        prefix = known.prefix(tuple(messages))
        known.asked(prefix)

        assert prefix.end == chain(*messages)
        assert prefix.predecessor == chain(*messages[: prefix.base])
        assert prefix.base + len(prefix.chain) >= len(messages)
