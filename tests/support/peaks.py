"""What reading a log takes at its highest, by the number of its entries."""

import tracemalloc
from collections.abc import Callable


def bytes_per_entry(read: Callable[[int], object], few: int = 500, many: int = 4_500) -> float:
    """Return by how much the peak of memory grows with an entry; `read` reads a log of so many."""
    read(few)  # what is imported and cached once is no part of it
    return (_peak(read, many) - _peak(read, few)) / (many - few)


def _peak(read: Callable[[int], object], entries: int) -> int:
    tracemalloc.start()
    try:
        read(entries)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
