"""Which conversation a request belongs to; what it is answered never depends on it (§16.5)."""

from typing import Any

from refold.engine.encoding.conversation import Conversations
from refold.engine.observed.profile import Whose
from refold.engine.observed.threads import Thread, Threads
from refold.engine.wire.parts.exchange import Asked


def _asked(system: str, first: str, *more: dict[str, Any]) -> Asked:
    messages = ({"role": "system", "content": system}, {"role": "user", "content": first}, *more)
    return Asked(api="chat", model="m", messages=messages)


def _chain(asked: Asked) -> tuple[str, ...]:
    return Conversations().prefix(asked.messages).added


def _begun(threads: Threads, asked: Asked, hint: str = "") -> Thread:
    thread = threads.begin(asked, None, Whose(hint))
    threads.asked(thread, _chain(asked))
    return thread


def test_a_request_goes_on_with_whose_messages_it_begins_with() -> None:
    """However much was added."""
    threads = Threads()
    first = _asked("You are A.", "Hello there")
    thread = _begun(threads, first)
    longer = _asked("You are A.", "Hello there", {"role": "assistant", "content": "Hi"})

    assert threads.found(longer, _chain(longer)) is thread


def test_short_first_messages_do_not_make_two_conversations_one() -> None:
    """They are too short to be found again, and still differ."""
    threads = Threads()
    first, other = _asked("You are A.", "1"), _asked("You are A.", "2")
    threads.answered(_begun(threads, first), "", is_whole=True)

    assert threads.found(other, _chain(other)) is None


def test_a_header_tells_conversations_apart() -> None:
    """Where the program says itself which is which."""
    threads = Threads()
    asked = _asked("You are A.", "Hello there", {"role": "user", "content": "changed"})
    thread = _begun(threads, _asked("You are A.", "Hello there"), "one")
    threads.answered(thread, "", is_whole=True)
    cut = _asked("You are A.", "Hello there!")

    assert threads.found(asked, ("other",), Whose("one")) is thread
    assert threads.found(asked, ("other",), Whose("two")) is None
    assert threads.found(cut, _chain(cut), Whose("one")) is None


def test_what_stands_before_the_task_makes_no_two_programs_one() -> None:
    """Examples, or where the program works (aider, Qwen Code): what it is to do tells."""
    threads = Threads(lambda text: text.removesuffix(" Be brief."))
    shown = {"role": "assistant", "content": "Ok."}

    def does(task: str, *more: dict[str, Any]) -> Asked:
        return _asked("You are A.", "An example", shown, {"role": "user", "content": task}, *more)

    one, other = does("Fix the notes. Be brief."), does("Fix the texts.")
    first = _begun(threads, one)
    threads.answered(first, "", is_whole=True)
    assert threads.found(other, _chain(other)) is None
    second = _begun(threads, other)
    threads.answered(second, "", is_whole=True)
    goes_on = does("Fix the notes.", shown, {"role": "user", "content": "and now?"})

    assert threads.found(goes_on, _chain(goes_on)) is first
