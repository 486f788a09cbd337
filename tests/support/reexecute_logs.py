"""Re-executes tree programs in a process of its own, with its own hash seed and version.

`python reexecute_logs.py LOG…` prints one JSON list: for each log, the divergence or null.
Run by `tests/properties/test_programs.py`; it imports nothing of the tests but `trees.py`.
"""

import json
import sys
from pathlib import Path

from refold.replay.reexecute.reexecute import reexecute

_PROGRAM = f"{Path(__file__).with_name('trees.py')}:tree_program"


def main(logs: list[str]) -> None:
    """Print what each log's re-execution found."""
    found = []
    for log in logs:
        report = reexecute(log, _PROGRAM)
        found.append(None if report.identical else str(report))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
