"""The pytest plugin: fixtures for tests of programs that delegate.

pytest imports this file at every start, so it imports nothing but pytest; what a fixture needs is
imported when a test asks for it.  What a snapshot holds is `replay.snapshot`'s to say.

To add a fixture: import what it needs inside of it.  The rules are CONTRACT.md §13.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


@pytest.fixture
def delegation_snapshot(request: pytest.FixtureRequest) -> "SnapshotAssertion":
    """The delegation tree of this test's recordings: `assert recording == delegation_snapshot`.

    A recording, a log's path or a tree is compared with the text under `__snapshots__`;
    `--snapshot-update` writes it.

    Raises:
        ExtraMissing: syrupy is not installed, or not loaded as a plugin.
    """
    if not request.config.pluginmanager.hasplugin("syrupy"):
        from refold.engine.errors import ExtraMissing  # noqa: PLC0415 - only where it is raised

        raise ExtraMissing("syrupy", "pytest")
    from refold.replay.snapshot import DelegationSnapshotExtension  # noqa: PLC0415 - see above

    snapshot: SnapshotAssertion = request.getfixturevalue("snapshot")
    return snapshot.use_extension(DelegationSnapshotExtension)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show below a failed test what changed: pytest cuts an assert's own explanation short."""
    report = yield
    snapshot: Any = getattr(item, "funcargs", {}).get("delegation_snapshot")
    if call.when != "call" or not report.failed or not getattr(snapshot, "executions", None):
        return report
    last = snapshot.executions[snapshot.num_executions - 1]
    if not last.success and isinstance(last.asserted_data, str):
        from refold.replay.snapshot import what_changed  # noqa: PLC0415 - only for what failed

        text = what_changed(last.recalled_data, last.asserted_data)
        report.sections.append(("delegation: what changed", text))
    return report
