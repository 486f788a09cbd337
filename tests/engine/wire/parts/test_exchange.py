"""The values between the interfaces, the observer and the replay."""

from refold.engine.wire.parts.exchange import NO_TOOLS, Asked


def test_all_that_is_compared_of_a_request_is_in_its_json() -> None:
    """Which interface, which model, what was said, with what, and which tools."""
    message = {"role": "user", "content": "Hi"}
    asked = Asked(
        api="chat",
        model="m",
        messages=(message,),
        parameters={"n": 1},
        tools=({"type": "function"},),
    )

    assert asked.as_json() == {
        "api": "chat",
        "model": "m",
        "messages": [message],
        "parameters": {"n": 1},
        "tools": [{"type": "function"}],
    }


def test_tools_have_a_digest_where_there_are_any() -> None:
    """Whatever the order of their members; another for other tools."""
    one, same, other = (
        Asked(api="chat", model="m", tools=({**tool},))
        for tool in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 2})
    )

    assert one.tools_digest() == same.tools_digest() != other.tools_digest()
    assert Asked(api="chat", model="m").tools_digest() == NO_TOOLS


def test_an_answer_is_asked_for_as_a_stream_by_true_alone() -> None:
    """Not by what a server might take for it."""
    streams = [
        Asked(api="chat", model="m", parameters=given).streamed
        for given in ({"stream": True}, {"stream": False}, {"stream": 1}, {})
    ]

    assert streams == [True, False, False, False]
