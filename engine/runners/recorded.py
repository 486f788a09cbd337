"""What a caller learns of a recorded run.

Apart from `record`: commands that only read logs need no kernel, and start in half the time.
"""

from pathlib import Path
from typing import Any, Self

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.errors import RunFailed
from refold.engine.events.data_digest import tree_digest_in
from refold.engine.events.events import RunFinished
from refold.engine.events.outcome import Artifact, Fault, Usage
from refold.engine.ports.ports import Question


@attrs.frozen(kw_only=True)
class Recording(Document):
    """A recorded run."""

    hidden = ("cause",)

    status: str
    """`completed`, `failed`, `timed_out`, `cancelled` or `limit` (CONTRACT.md §7.1); or
    `suspended`: the run waits for a person, and its log is unfinished."""
    reason: str
    """`done`, or why not."""
    output: Json
    """The program's return value, as the log holds it; of a `Report`, its output."""
    error: Fault | None
    """Set unless `completed`."""
    log: Path
    """Where the log stands."""
    head: str
    """Hash of the log's last entry: keep it elsewhere, and nobody can cut the log unnoticed."""
    entries: int
    """How many lines it has."""
    where: str = ""
    """``file.py:26``, the line of the program that raised; empty where none did."""
    summary: str = ""
    """Of a `Report` that the program returned; else empty."""
    artifacts: tuple[Artifact, ...] = ()
    """The same."""
    usage: Usage = Usage()
    """Tokens spent, children included."""
    duration_ms: int = 0
    """Virtual time of the run, in milliseconds."""
    data_digest: str = ""
    """Equal for two runs that did the same, under one seed and a fixed clock (§6.2); of this run
    alone, whatever its children did."""
    tree_digest: str = ""
    """The same for the run and all children that were joined; empty where one's is not known."""
    questions: tuple[Question, ...] = ()
    """What a suspended run waits for."""
    warnings: tuple[str, ...] = ()
    """Calls of the program that were never awaited, exceptions that nobody awaited, lines that held
    up its loop (§9.10); limits that nobody set and that refused something; and, under
    `record(check=True)`, where it read the world and not `run` (§12.12)."""

    cause: BaseException | None = attrs.field(default=None, eq=False, repr=False)
    """What the program raised, in this process alone; no log holds it."""

    @classmethod
    def of(cls, finished: RunFinished, **stands: Any) -> Self:
        """Return what a run's last event says, beside where its log stands."""
        return cls(
            status=finished.status,
            reason=finished.reason,
            output=finished.output,
            error=finished.error,
            summary=finished.summary or "",
            artifacts=tuple(Artifact(**item) for item in finished.artifacts or ()),
            data_digest=finished.data_digest,
            tree_digest=tree_digest_in(attrs.asdict(finished, recurse=False)),
            **stands,
        )

    @property
    def ok(self) -> bool:
        """Whether the program returned."""
        return self.status == "completed"

    def result(self) -> Json:
        """Return the output.

        Raises:
            RunFailed: the run did not complete; its `__cause__` is what the program raised, where
                that happened in this process.
        """
        if self.ok:
            return self.output
        raise RunFailed(str(self.log), self.status, self.reason, self.message) from self.cause

    @property
    def message(self) -> str:
        """What went wrong, and where, in one line; empty where nothing did."""
        if self.error is None:
            return ""
        return f"{self.error.message} ({self.where})" if self.where else self.error.message

    def __fspath__(self) -> str:
        """Return the path of its log: whatever takes a log takes a recording."""
        return str(self.log)

    def __str__(self) -> str:
        told = f": {self.message or self.reason}" if not self.ok else ""
        return f"{self.status}{told}  {self.log}"
