"""How a child in another process asks its parent for more `model_tokens`: over a socket pair.

Eight bytes, big-endian, ask: the child's cap. Eight bytes answer: the tokens given. A pair of its
own, because the end of the request pipe means that the parent is gone, and the reply is one frame.
Rules: CONTRACT.md §8.3.
"""

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

from refold.engine.ports.ports import MoreTokens

_BYTES: Final = 8
_POLL_SECONDS: Final = 0.1


@contextlib.contextmanager
def served(tokens: MoreTokens | None) -> Iterator[int | None]:
    """Answer a child for as long as it runs; yields its end of the pair, to be passed on."""
    if tokens is None:
        yield None
        return
    ours, theirs = socket.socketpair()
    over = threading.Event()
    desk = threading.Thread(
        target=_answer, args=(ours, tokens, over.is_set), name="refold-tokens", daemon=True
    )
    desk.start()
    try:
        yield theirs.fileno()
    finally:
        over.set()
        theirs.close()
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)  # what the child forked may hold the other end
        desk.join()
        ours.close()


def _answer(ours: socket.socket, tokens: MoreTokens, is_over: Callable[[], bool]) -> None:
    with contextlib.suppress(OSError):  # the child is gone
        while len(asked := ours.recv(_BYTES)) == _BYTES:  # what was sent at once arrives at once
            given = tokens(int.from_bytes(asked, "big"), None, is_over)
            ours.sendall(given.to_bytes(_BYTES, "big"))


def asking(descriptor: int) -> MoreTokens:
    """Return what asks over the child's end of the pair; no process of the child inherits it."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - Python's own

    def ask(has: int, _wants: int | None, gives_up: Callable[[], bool]) -> int:
        with contextlib.suppress(OSError):  # the parent is gone
            os.write(descriptor, has.to_bytes(_BYTES, "big"))
            while not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
                if gives_up():
                    return 0
            return int.from_bytes(os.read(descriptor, _BYTES), "big")  # nothing is the end
        return 0

    return ask
