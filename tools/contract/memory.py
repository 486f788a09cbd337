"""What a stateless tool remembers for one run, and how it was set up in it.

A tool is one value for all runs, so what belongs to a run is kept beside it, by run.  A shell file:
threads share what is kept.  Rules: CONTRACT.md §10.4.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from refold.engine.encoding.canonical import Json
from refold.engine.program.run import Run

T = TypeVar("T")

_memories: Final[WeakKeyDictionary[Run, dict[str, Any]]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def memory_of(run: Run, name: str, make: Callable[[], T]) -> T:
    """Return what a tool keeps under `name` for this run, made on first use.

    It lives as long as the run and starts empty in a replay: keep there only what follows from the
    calls and their outcomes.
    """
    with _lock:
        memories = _memories.setdefault(run, {})
    if name not in memories:
        memories[name] = make()
    found: T = memories[name]
    return found


def settings_of(run: Run, name: str, make: Callable[[], Json]) -> Any:
    """Return how the tool `name` is set up in this run: recorded once, at its first use.

    So a replay needs neither the files that it was read from nor the tool as it was set up.
    """
    return memory_of(run, f"settings of {name}", lambda: run.settings(name, make))
