"""Documents of `--json` that commands put together themselves, unlike replay's reports.

Values of commands flow in; JSON objects flow out, whose schemas follow from the classes here.
Paths are as people gave them.
"""

from typing import Any

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import InvalidDefError, OutcomeMissing
from refold.replay.difference.pointer_diff import Difference


@attrs.frozen(kw_only=True)
class PrintedFork(Document):
    """A fork, and how it differs from its origin: `refold fork`."""

    origin: str
    at: int
    """The last entry of the origin that was kept."""
    log: str | None
    """`None`: the fork was refused before anything ran live, and left no log."""
    status: str
    output: Any = None
    replays: bool | None = None
    """Whether a new process replayed the fork identically; `None` if none did."""
    missing: tuple[OutcomeMissing, ...] = ()
    """A request that was not recorded and may not run."""
    diff: dict[str, Any] | None


@attrs.frozen(kw_only=True)
class PrintedResume(Document):
    """A command that broke off and ran again: `refold resume LOG -- COMMAND`."""

    origin: str
    log: str
    status: str
    served: int
    """Requests that were answered from the record."""
    live: int
    """Requests that were sent on."""
    unasked: int
    """Recorded answers that were not asked for again."""
    different: tuple[str, ...] = ()
    """Questions that were refused, for the command has changed: each in words."""
    patch: str = ""
    """The copy's differences from the user's folder, as a unified diff."""
    applied: bool = False
    """Whether it was written there."""


@attrs.frozen(kw_only=True)
class PrintedState(Document):
    """The state after an entry: `refold show --at N`."""

    log: str
    at: int
    digest: str
    recorded_digest: str | None
    agrees: bool | None
    """`None` where nothing was recorded to compare it with."""
    state: dict[str, Any]


@attrs.frozen(kw_only=True)
class PrintedFile:
    """One file of a recorded folder."""

    path: str
    mode: str
    """As git writes it."""
    size_bytes: int | None
    """`None` where git has it."""
    change: str
    """`added`, `changed` or `removed` since the start; empty for none of them."""
    left_out: str
    """Why its content is not in the log; empty if it is there, or in the repository."""


@attrs.frozen(kw_only=True)
class PrintedFiles(Document):
    """The folder of a watched command after an entry: `refold files`."""

    log: str
    folder: str
    """Its place at that time."""
    digest: str
    """Of its tree."""
    files: tuple[PrintedFile, ...]


@attrs.frozen(kw_only=True)
class PrintedStates(Document):
    """The differences of the states after two entries: `refold show --at N --to M`."""

    log: str
    before: int
    after: int
    before_digest: str
    after_digest: str
    differences: tuple[Difference, ...]


@attrs.frozen(kw_only=True)
class SalvagedLog(Document):
    """A new log with the valid entries of another: `refold verify --salvage`."""

    log: str
    entries: int
    head: str
    children: int
    """Logs of children that were copied."""
    blobs: int
    contents: int
    """Contents of files."""
    is_sealed: bool


@attrs.frozen(kw_only=True)
class PrintedAgent(Document):
    """An agent that a file defines."""

    id: str
    name: str
    description: str
    model: str
    tools: tuple[str, ...] | None
    """`None` for those of its caller."""


@attrs.frozen(kw_only=True)
class CheckedAgents(Document):
    """The agents of a folder: `refold run --dry-run`."""

    folder: str
    ok: bool
    agents: tuple[PrintedAgent, ...]
    problems: tuple[InvalidDefError, ...]
    """Files that define none, and why."""


@attrs.frozen(kw_only=True)
class ComparedRun(Document):
    """The sums of one run: `refold ls --diff`."""

    log: str
    status: str
    standing: str = ""
    """How it stands without an end, in words."""
    subagents: int = 0
    failed: int = 0
    calls: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    untold: int | None = None
    """Answers whose tokens the provider did not tell; `None` for none."""
    cost_usd_micros: int | None = None
    duration_ms: int | None = None
    differences: int = 0
    """From the first run."""
    first_difference: str = ""
    changed_files: str = ""
    """How many files of its folder it added, changed and removed: `+2 ~3 -1`; empty for none."""
    differing_files: tuple[str, ...] = ()
    """Files of its folder that differ at the end from those of the first run."""
    gaps: tuple[str, ...]
    """Logs, large texts and contents of files that could not be read: it is without them."""
