"""Starts runs, and bounds them: a root by `record`, children by runners.

Input: programs and their inputs. Output: recordings, and outcomes of children. Imports `recording`,
`children`, `process` and the folders below them. Rules: CONTRACT.md §7.3.

    recorded         a recorded run, as the caller gets it
    preflight        checks the needs of all children before a run begins
    recording        `record` and `record_async`: a root run, from its call to its recording
    child_run        a child as a separate recording, and its reply
    in_process       a child on a thread of this process; cooperative deadline
    in_subprocess    a child in a process of its own; hard limits
    stub, child      the other side of it: its first file, and its work
    shipped          the runners that every root has
    on_ray           the same process on a node of a Ray cluster

To add one: implement `engine.ports.ports.ChildRunner`. A runner for every root is listed in
`shipped`, which commands and the contract suite `tests/contract/test_runners.py` read; one of your
own is passed to `record(runners={…})`, and put into that suite.
"""

from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.engine.ports.ports import ChildRunner as ChildRunner
    from refold.engine.runners.in_process import InProcess as InProcess
    from refold.engine.runners.in_subprocess import InSubprocess as InSubprocess
else:
    __getattr__, __dir__, __all__ = names(__name__)
