"""Names the adapter of a framework, for the refusal of a program that used it without one.

The adapters are above the engine and register in `ADAPTERS` (CONTRACT.md §17).
"""

from types import FrameType

ADAPTERS: dict[str, str] = {}
"""What makes programs of a framework's agents, by the name that the framework is imported by."""


def adapter_for(frame: FrameType | None) -> str:
    """Return the adapter of the framework that a call came through; empty for none."""
    while frame is not None:
        installed = frame.f_code.co_filename.rpartition("-packages/")[2]
        if found := ADAPTERS.get(installed.partition("/")[0]):
            return found
        frame = frame.f_back
    return ""
