"""A bus tells the subscribers of its own run, in order, and counts those of open views."""

from typing import Any

from refold.engine.session import EventBus


def test_subscribers_are_told_by_kind_and_in_order() -> None:
    bus, told = EventBus(), list[tuple[str, Any]]()
    bus.subscribe(str, lambda event: told.append(("first", event)))
    bus.subscribe(object, lambda event: told.append(("second", event)))

    bus.publish("a")
    bus.publish(1)

    assert told == [("first", "a"), ("second", "a"), ("second", 1)]


def test_a_subscription_counts_once() -> None:
    bus, told = EventBus(), list[str]()
    bus.subscribe(str, told.append)
    bus.subscribe(str, told.append)

    assert bus.subscribers == 1
    bus.publish("a")
    assert told == ["a"]


def test_a_publisher_can_leave_itself_out() -> None:
    bus, told = EventBus(), list[str]()
    bus.subscribe(str, told.append)

    bus.publish("a", but=told.append)

    assert told == []
    assert bus.accepts(str)
    assert not bus.accepts(int)
    assert not bus.accepts(str, but=told.append)
    assert bus.kinds == (str,)


def test_a_view_is_told_only_of_its_own_run_and_counts_while_it_is_open() -> None:
    bus, above, below = EventBus(), list[str](), list[str]()
    bus.subscribe(str, above.append)
    view = bus.view()
    view.subscribe(str, below.append)

    bus.publish("a")
    view.publish("b")

    assert (above, below, bus.subscribers) == (["a"], ["b"], 2)
    other = bus.view()
    other.subscribe(str, below.append)
    other.subscribe(str, above.append)
    view.close()
    view.close()
    view.publish("c")
    view.subscribe(str, above.append)
    assert (below, bus.subscribers) == (["b"], 3), "its own, and those of the view still open"
