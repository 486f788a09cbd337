"""A child in another process asks for more tokens, and is answered, or gives up (§8.3)."""

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from refold.engine.children.tokens import asking, served

Inherited = Callable[[int | None], int]
NEVER: Callable[[], bool] = lambda: False  # noqa: E731 - short enough


@pytest.fixture
def inherited() -> Iterator[Inherited]:
    """Return a copy of a descriptor, as a child has one; closed in the end."""
    with contextlib.ExitStack() as stack:

        def copied(descriptor: int | None) -> int:
            assert descriptor is not None
            made = os.dup(descriptor)
            stack.callback(os.close, made)
            return made

        yield copied


def test_what_the_parent_gives_arrives(inherited: Inherited) -> None:
    """As often as it asks; the descriptor goes to no process of the child's own."""
    left = [40, 0]

    with served(lambda has, _wants, _gives_up: has + left.pop(0)) as descriptor:
        ours = inherited(descriptor)
        os.set_inheritable(ours, True)  # noqa: FBT003 - as it comes to a child
        ask = asking(ours)
        assert [ask(2, None, NEVER), ask(300, None, NEVER)] == [42, 300]
        assert not os.get_inheritable(ours)


def test_a_child_gives_up_though_the_parent_does_not_answer(inherited: Inherited) -> None:
    """And the parent is told that the child has ended, or it would wait for ever."""

    def waits(_has: int, _wants: int | None, gives_up: Callable[[], bool]) -> int:
        while not gives_up():
            pass
        return 0

    with served(waits) as descriptor:
        assert asking(inherited(descriptor))(1, None, lambda: True) == 0


def test_without_a_parent_there_is_nothing(inherited: Inherited) -> None:
    with served(lambda _has, _wants, _gives_up: 40) as descriptor:
        ask = asking(inherited(descriptor))

    assert ask(1, None, NEVER) == 0


def test_where_nobody_gives_there_is_nobody_to_ask() -> None:
    with served(None) as descriptor:
        assert descriptor is None
