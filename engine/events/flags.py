"""Rules of scheduling: their version, and flags of those that came within one (CONTRACT.md §15.1).

A log is re-executed by the rules that its flags name; where a flag is missing, by the rule that
held before it. So older logs replay as before, and new ones by the better rules of today. No rule
has come since version 1.0, so nothing asks for one yet.
"""

from typing import Any, Final

ENGINE_VERSION: Final = 2
"""Of the rules by which the kernel schedules; 1 was before version 1.0."""
FLAGS: Final[dict[str, Any]] = {}
"""The flags of runs that are recorded now, `run.started.versions.flags`."""
