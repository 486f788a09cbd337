"""Records a test several times, to learn what its delegation has in common (`--refold-samples`).

`refold.pytest_plugin` calls it before the recording that a test keeps; `replay.testing.structure`
puts the structures together. Rules: CONTRACT.md §13.10.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from refold.replay.testing.structure import is_sampled, varies_in


def why_none(item: pytest.Item, nextitem: pytest.Item | None, syrupy: Any, count: int) -> str:
    """Run a test so many times; return how one of these failed, empty if all passed."""
    for number in range(1, count + 1):
        before = [*syrupy._assertions]  # noqa: SLF001 - there is no other way
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(item.config.option, "update_snapshots", True)
            patch.setattr(syrupy, "queue_snapshot_write", lambda **_: None)
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        syrupy._assertions[:] = before  # noqa: SLF001 - the same
        item._initrequest()  # type: ignore[attr-defined]  # noqa: SLF001 - as other plugins do
        for report in reports:
            if not report.passed:
                return f"recording {number} of {count + 1}: {report.longreprtext}"
    return ""


def varying(snapshot: Any) -> Iterator[str]:
    """Yield what varied between the recordings of one test's snapshots."""
    for one in getattr(snapshot, "executions", {}).values():
        if isinstance(one.asserted_data, str) and is_sampled(one.asserted_data):
            yield from varies_in(one.asserted_data) or ["nothing varies"]
