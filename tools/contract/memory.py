"""Per-run memory and settings of stateless tools.

One tool value serves all runs, so the data of a run is stored beside the tool, by run. Threads
share this storage. Rules: CONTRACT.md §10.4.
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
    """Return a tool's memory under `name` for this run, created on first use.

    It lives as long as the run and is empty at the start of a replay, so store only values that
    follow from the calls and their outcomes.
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
