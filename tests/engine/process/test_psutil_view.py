"""psutil shows the same processes as `/proc`, where there is one (CONTRACT.md §7.3).

What both must do is in `test_views` and `test_tree`, which run over either.
"""

import psutil

from refold.engine.process.psutil_view import PsutilView
from refold.engine.process.tree import system_view


def test_both_views_place_a_process_alike() -> None:
    """Births are counted in other units, and are compared within one view only."""
    for process in (psutil.Process(), *psutil.Process().parents()):
        ours, other = system_view().member(process.pid), PsutilView().member(process.pid)

        assert ours
        assert other
        assert ours._replace(born=0) == other._replace(born=0)
