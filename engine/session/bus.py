"""The subscribers of one run's events.

A bus is a view: it carries the events of one run and keeps none of them, for the log is what keeps.
Events published in a child's view reach only that view; its subscribers count as the parent's for
as long as the view is open, so that one forgotten open can be seen.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

E = TypeVar("E")


class EventBus:
    """The subscribers of one run, called in the order in which they came."""

    def __init__(self, *, on_close: "Callable[[EventBus], None] | None" = None) -> None:
        self._lock = threading.Lock()
        self._handlers: list[tuple[type, Callable[[Any], object]]] = []
        self._views: list[EventBus] = []
        self._on_close = on_close

    @property
    def subscribers(self) -> int:
        """The number of subscriptions, those of open views included."""
        with self._lock:
            views = tuple(self._views)
            own = len(self._handlers)
        return own + sum(view.subscribers for view in views)

    def subscribe(self, kind: type[E], handler: Callable[[E], object], /) -> None:
        """Have `handler` called for each event that is a `kind`; once, however often asked."""
        with self._lock:
            if (kind, handler) not in self._handlers:
                self._handlers.append((kind, handler))

    def publish(self, event: object, /, *, but: Callable[[Any], object] | None = None) -> None:
        """Tell every subscriber of the event's kind, `but` for one.

        Raises:
            Exception: raised by a subscriber; later subscribers are not called.
        """
        with self._lock:
            told = [handler for kind, handler in self._handlers if isinstance(event, kind)]
        for handler in told:
            if handler != but:
                handler(event)

    @property
    def kinds(self) -> tuple[type, ...]:
        """The classes that were subscribed to."""
        with self._lock:
            return tuple(dict.fromkeys(kind for kind, _ in self._handlers))

    def accepts(self, kind: type, /, *, but: Callable[[Any], object] | None = None) -> bool:
        """Return whether events of that class have a subscriber, `but` for one."""
        with self._lock:
            return any(issubclass(kind, each) and told != but for each, told in self._handlers)

    def view(self) -> "EventBus":
        """Return the bus of a child run, open until it is closed."""
        view = EventBus(on_close=self._leave)
        with self._lock:
            self._views.append(view)
        return view

    def close(self) -> None:
        """Forget all subscriptions and leave the bus above; closing again does nothing."""
        with self._lock:
            self._handlers.clear()
            on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(self)

    def _leave(self, view: "EventBus") -> None:
        with self._lock:
            self._views = [other for other in self._views if other is not view]
