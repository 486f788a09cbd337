"""The result of a recorded run for its caller.

Apart from `record`: commands that only read logs need no kernel, and start in half the time.
"""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.errors import RunFailed, ValueRefused
from refold.engine.events.data_digest import tree_digest_in
from refold.engine.events.events import RunFinished
from refold.engine.events.outcome import Artifact, Fault, Generic, T_co, Usage, artifact_of
from refold.engine.ports.ports import Question
from refold.engine.ports.program_types import PLAIN, ProgramTypes

if TYPE_CHECKING:
    from refold.engine.events.outcome import OutputOf


@attrs.frozen(kw_only=True)
class RecordingFields(Document):
    """The fields of a `Recording`."""

    hidden = ("cause", "output_json")

    status: str
    """`completed`, `failed`, `timed_out`, `cancelled` or `limit` (CONTRACT.md §7.1); or
    `suspended`: the run waits for a person, and its log is unfinished."""
    reason: str
    """`done`, or the reason."""
    output: Any
    """The program's return value, read back from the log with its annotation; of a `Report`, its
    output."""
    error: Fault | None
    """Set unless `completed`."""
    log: Path
    """The path of the log."""
    head: str
    """The hash of the last entry: keep it elsewhere to detect a cut or replaced log."""
    entries: int
    """The number of lines in the log."""
    where: str = ""
    """``file.py:26``, the line of the program that raised, or empty."""
    summary: str = ""
    """The summary of a `Report` that the program returned, or empty."""
    artifacts: tuple[Artifact, ...] = ()
    """The artifacts of a `Report`, or empty."""
    usage: Usage = Usage()
    """Tokens spent, children included."""
    duration_ms: int = 0
    """Virtual time of the run, in milliseconds."""
    data_digest: str = ""
    """Equal for two runs that did the same, with one seed and a fixed clock (§6.2).  It covers this
    run without its children."""
    tree_digest: str = ""
    """The same for the run and all joined children; empty if a child's digest is unknown."""
    questions: tuple[Question, ...] = ()
    """The open questions of a suspended run."""
    warnings: tuple[str, ...] = ()
    """Calls and exceptions that were never awaited, lines that blocked the loop, unread failures of
    children (§9.10), default limits that refused something, a failed `ask` (§9.9); with
    `record(check=True)`, lines that read outside `run`; and a replay in a new process that differs
    or was not possible (§12.12)."""
    replays: bool | None = None
    """Whether a new process replayed the log identically, and a fork's origin (§12.12); `None` if
    none did."""

    output_json: Json = attrs.field(eq=False, repr=False)
    """The output as the log holds it."""
    cause: BaseException | None = attrs.field(default=None, eq=False, repr=False)
    """The exception of the program, in this process only; it is not in the log."""

    @output_json.default
    def _output_json(self) -> Json:
        return self.output


class Recording(RecordingFields, Generic[T_co]):
    """A recorded run of a program that returns T."""

    __slots__ = ()

    if TYPE_CHECKING:
        output: OutputOf

    @classmethod
    def of(cls, finished: RunFinished, types: ProgramTypes = PLAIN, **stands: Any) -> Self:
        """Return the recording of a run's last event and the path of its log."""
        output = finished.output
        if finished.status == "completed":
            with contextlib.suppress(ValueRefused):  # redacted at the end, it stays as it is
                output = types.read_output(output)
        return cls(
            status=finished.status,
            reason=finished.reason,
            output=output,
            output_json=finished.output,
            error=finished.error,
            summary=finished.summary or "",
            artifacts=tuple(map(artifact_of, finished.artifacts or ())),
            data_digest=finished.data_digest,
            tree_digest=tree_digest_in(attrs.asdict(finished, recurse=False)),
            **stands,
        )

    @property
    def ok(self) -> bool:
        """Whether the program returned."""
        return self.status == "completed"

    def result(self) -> T_co:
        """Return the output.

        Raises:
            RunFailed: the run did not complete; its `__cause__` is the program's exception, if it
                was raised in this process.
        """
        if self.ok:
            return cast("T_co", self.output)
        said = self.message
        if self.questions:
            count = "1 answer" if len(self.questions) == 1 else f"{len(self.questions)} answers"
            asked = "; ".join(f"{each.key} {each.question}" for each in self.questions)
            said = (
                f"it waits for {count}: {asked}\nContinue it with refold.resume(log, program, "
                f"answers={{{self.questions[0].key!r}: …}}); see refold resume {self.log} --list"
            )
        raise RunFailed(str(self.log), self.status, self.reason, said) from self.cause

    @property
    def message(self) -> str:
        """The error and its place in one line, or empty."""
        if self.error is None:
            return ""
        return f"{self.error.message} ({self.where})" if self.where else self.error.message

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data, the output as the log holds it."""
        return super().as_json() | {"output": self.output_json}

    def __fspath__(self) -> str:
        """Return the path of its log: every function that takes a log takes a recording."""
        return str(self.log)

    def __str__(self) -> str:
        told = f": {self.message or self.reason}" if not self.ok else ""
        return f"{self.status}{told}  {self.log}"
