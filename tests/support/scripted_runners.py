"""Runners for tests: one that answers from a script, one that cannot run anything."""

import threading
from collections.abc import Callable, Mapping
from typing import Final

from refold.engine.children.reply import outcome_of
from refold.engine.events.outcome import Outcome, failed
from refold.engine.ports.ports import ChildRequest

Reply = bytes | Outcome | Callable[[ChildRequest], "bytes | Outcome"]
"""A raw frame, as a child would send it; an outcome; or what makes one of them."""


class Scripted:
    """Answers each child from a script, by its brief; starts nothing and writes no log.

    `replies` maps a brief to its reply; `*` stands for every other brief.
    """

    name = "scripted"

    def __init__(self, replies: Mapping[str, Reply] | Reply) -> None:
        self._replies = replies if isinstance(replies, Mapping) else {"*": replies}
        self._lock: Final = threading.Lock()
        self.requests: list[ChildRequest] = []
        """What was asked, in the order of arrival."""

    def run(self, request: ChildRequest, /) -> Outcome:
        """Return the scripted outcome; a frame is parsed and capped as a real one is."""
        with self._lock:
            self.requests.append(request)
        reply = self._replies.get(request.brief, self._replies.get("*"))
        if callable(reply):
            reply = reply(request)
        if reply is None:
            return failed("failed", "script", f"the script has no reply for {request.brief!r:.80}")
        return reply if isinstance(reply, Outcome) else outcome_of(reply, request.policy)


class Unavailable:
    """A runner that can start nothing."""

    name = "unavailable"

    def __init__(self, why: str = "this machine cannot start children") -> None:
        self._why = why

    def run(self, request: ChildRequest, /) -> Outcome:  # noqa: ARG002 - it is the same for each
        """Return that no runner is available."""
        return failed("failed", "runner_unavailable", self._why)
