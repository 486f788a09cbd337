import pickle

from refold.engine.events.limits import CEILINGS, Limits
from refold.engine.events.outcome import Usage
from refold.engine.state.run_state import Conversation, Left, RunState, TalkPoint, ToolCount


def test_what_is_left_is_the_caps_less_what_was_used() -> None:
    """Depth, children, iterations and tokens count down; bytes are only known at the end."""
    state = RunState(
        depth=1,
        limits=Limits(
            max_depth=3, max_children=4, max_iterations=8, model_tokens=1000, output_bytes=64
        ),
        children_started=1,
        iterations=3,
        usage=Usage(input_tokens=100, output_tokens=20),
        children_usage=Usage(input_tokens=30),
        tokens_reserved=50,
    )

    assert state.left == Left(levels=2, children=3, iterations=5, tokens=800, output_bytes=64)


def test_nothing_left_is_zero_and_no_cap_is_none() -> None:
    """A run may overshoot with its last answer; what is left is never negative."""
    state = RunState(
        depth=9,
        children_started=1_070,
        limits=CEILINGS.narrowed(Limits(model_tokens=10)),
        usage=Usage(input_tokens=99),
    )

    assert state.left == Left(levels=0, children=0, iterations=None, tokens=0, output_bytes=None)


def test_tools_used_are_in_the_order_of_first_use() -> None:
    state = RunState(tools=(ToolCount("search", 2, 2), ToolCount("add", 1, 1)))

    assert state.tools_used == ("search", "add")


def test_a_conversation_without_turns_is_its_prefix() -> None:
    """Chain and length are those of the last entry that stores messages, or of the prefix."""
    bare = Conversation("0", "p", 3)
    grown = Conversation("0", "p", 3, (TalkPoint(7, 5, "q"),))

    assert (bare.chain, bare.messages) == ("p", 3)
    assert (grown.chain, grown.messages) == ("q", 5)


def test_a_state_is_a_value() -> None:
    """Equal states are equal and hash alike; a state survives pickling."""
    one, other = RunState(program="p", tools=(ToolCount("a"),)), RunState(program="p")

    assert one == RunState(program="p", tools=(ToolCount("a"),))
    assert hash(one) == hash(RunState(program="p", tools=(ToolCount("a"),)))
    assert one != other
    assert pickle.loads(pickle.dumps(one)) == one
