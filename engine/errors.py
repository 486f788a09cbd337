"""Every error that Refold raises.

    RefoldError
      UsageError                 you called it wrongly; nothing has happened yet
        LogExists                a log is never overwritten
        LogMissing               there is no log at the path
        EntryMissing             the log has no entry of that number
        LogNameRefused           a path that the naming rule does not allow
        RecordingRefused         `record` while a program is being imported
        ProgramNotFound          a program that cannot be imported or is none
        ModelNotFound            a model named in a form that does not exist
        ScriptRefused            a script of replies that is none
        ToolRefused              a tool that cannot be registered
        ToolUnknown              a name that no given tool has
        ToolNeeded               replay needs the tool's types to give its result back
        ArgumentsRefused         arguments that do not fit the tool's signature
        InvalidDefError          an agent's definition file that is none
        DefNotFoundError         no agent has that id
        ConfigRefused            a configuration that cannot be read, or says what it may not
        SessionNotFound          no run of the tree has that session id
        LimitRefused             nonsense as a limit
        ExtraMissing             an optional dependency is not installed
        SnapshotRefused          a snapshot of what is no recording
        SliceRefused             a class that can be no slice of a session
        SnapshotSerializationError  a session that no snapshot can hold
        SnapshotRestoreError     a snapshot that does not fit the session
        PromptRefused            a prompt that cannot be registered or rendered
        ToolValidationError      a delegation tool's input that its document does not allow
      NotCanonical               a value that a log cannot hold exactly
      LogError
        LogDamaged               bytes that do not verify: where, expected, found
        LogUnsupported           written by a newer version
        LogLocked                another process writes this log
        LogSealed                `run.finished` was written; nothing follows
        EventMalformed           data that is not what its kind says
        LogPoisoned              a write or sync failed; nothing more can be appended
      ProgramError               raised inside the program, by what it asked for
        ToolError                a tool failed
        ModelError               a model request failed
        LimitReached             a limit refused what was asked
        DispatchSubagentError    a child that a tool waited for did not complete
        RunEnded                 a program ends itself for a reason of its own
        OutsideLoop              the program tried to leave the kernel
        Stuck                    nothing can ever wake the program again
      Diverged                   a re-execution asked for something else than the record

Data as attributes, positional so that every error survives pickling; the message is built in
`__str__`: where, what was expected, what was found, what to do.  The `repr` is that of exceptions,
which shows the same data and costs every start of a process less than a generated one.
"""

from typing import Any

import attrs


class RefoldError(Exception):
    """Base of all errors raised by Refold."""


class UsageError(RefoldError):
    """The call was wrong; nothing has happened yet."""


@attrs.define(eq=False, repr=False)
class LogExists(UsageError):
    """The log to be written is already there (CONTRACT.md §4.1)."""

    path: str

    def __str__(self) -> str:
        return f"{self.path} exists, and a log is never overwritten: name another, or remove it"


@attrs.define(eq=False, repr=False)
class LogMissing(UsageError):
    """There is no log at the path."""

    path: str
    why: str = "no such file"

    def __str__(self) -> str:
        return f"{self.path}: {self.why}; `refold ls` lists the logs of a folder"


@attrs.define(eq=False, repr=False)
class LogNameRefused(UsageError):
    """A log, or a packed one, cannot have this name (CONTRACT.md §4)."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


@attrs.define(eq=False, repr=False)
class EntryMissing(UsageError):
    """The log has no entry of that number."""

    path: str
    at: int
    """As asked: a seq, or a negative number counted from the end."""
    entries: int

    def __str__(self) -> str:
        last = self.entries - 1
        return (
            f"{self.path} has no entry {self.at}: it has {self.entries}, seq 0 to {last}, "
            f"or -{self.entries} to -1 from the end"
        )


@attrs.define(eq=False, repr=False)
class RecordingRefused(UsageError):
    """`refold.record` was called while Refold imports the file that holds the program."""

    file: str

    def __str__(self) -> str:
        return (
            f"{self.file} calls refold.record while it is being imported for its program: "
            'put the call under `if __name__ == "__main__":`'
        )


@attrs.define(eq=False, repr=False)
class ProgramNotFound(UsageError):
    """A program was named that cannot be imported, or that is none."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"program {self.name!r}: {self.why}. Name it as module:function or file.py:function"


@attrs.define(eq=False, repr=False)
class ModelNotFound(UsageError):
    """A model was named in a form that does not exist (CONTRACT.md §11)."""

    spec: str
    why: str

    def __str__(self) -> str:
        return f"model {self.spec!r}: {self.why}"


@attrs.define(eq=False, repr=False)
class ScriptRefused(UsageError):
    """A script of model replies that is not one (CONTRACT.md §11)."""

    path: str
    """The file, or what else held the script."""
    pointer: str
    """JSON pointer to the offending place; empty for the whole."""
    expected: str
    found: str

    def __str__(self) -> str:
        where = f"{self.path}, at {self.pointer}" if self.pointer else self.path
        return f"{where}: expected {self.expected}, found {self.found}"


@attrs.define(eq=False, repr=False)
class ToolRefused(UsageError):
    """A function that cannot be a tool: its types cannot make the round trip through a log."""

    tool: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"tool {self.tool!r}, {self.where}: {self.why}"


@attrs.define(eq=False, repr=False)
class ToolUnknown(UsageError):
    """A tool was asked for by a name that none of the given tools has."""

    tool: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"no tool is named {self.tool!r}; known: {known}. Pass it in tools=[…]"


@attrs.define(eq=False, repr=False)
class ToolNeeded(UsageError):
    """A tool called by name returned a typed value, and replay was not given the tool."""

    tool: str
    call: str

    def __str__(self) -> str:
        return (
            f"{self.call}: {self.tool!r} was called by name and returns a typed value; replay "
            f"needs its types, and never runs it: pass tools=[{self.tool}] (--tools on the "
            "command line)"
        )


@attrs.define(eq=False, repr=False)
class ArgumentsRefused(UsageError):
    """Arguments that do not fit a tool's signature. Nothing is coerced but int to float."""

    tool: str
    problems: tuple[str, ...]
    """One line a problem: JSON pointer, expected, found."""

    def __str__(self) -> str:
        return f"{self.tool}: " + "; ".join(self.problems)


@attrs.define(eq=False, repr=False)
class InvalidDefError(UsageError):
    """An agent's definition that cannot be read, or says what it may not (CONTRACT.md §10.6)."""

    agent: str
    """The agent's id: the folder's name, or the file's where it is no `AGENT.md`."""
    reason: str
    path: str = ""

    def __str__(self) -> str:
        where = f" ({self.path})" if self.path else ""
        return f"Invalid agent {self.agent!r}: {self.reason}{where}"


@attrs.define(eq=False, repr=False)
class DefNotFoundError(UsageError, ValueError):
    """No agent has that id, or none that the caller may dispatch to (CONTRACT.md §10.6)."""

    agent: str

    def __str__(self) -> str:
        return f"Agent '{self.agent}' not found"


@attrs.define(eq=False, repr=False)
class ConfigRefused(UsageError):
    """A `refold.yaml`, or a `[tool.refold]`, that says what it may not (CONTRACT.md §14)."""

    path: str
    line: int
    """1-based; 0 where the file as a whole is meant."""
    pointer: str
    """The member, as `tools.spawn.profiles.coder`; empty for the whole."""
    why: str
    """What was expected, what was found, and the nearest known name."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.pointer}: {self.why}" if self.pointer else f"{place}: {self.why}"


@attrs.define(eq=False, repr=False)
class SessionNotFound(UsageError):
    """No run in the tree of a log has that session id (CONTRACT.md §10)."""

    session_id: str
    log: str

    def __str__(self) -> str:
        return (
            f"{self.log}: no run below it has the session {self.session_id!r}; only children of "
            "subagent_dispatch can be read back"
        )


@attrs.define(eq=False, repr=False)
class LimitRefused(UsageError):
    """A limit that is no limit: zero, negative, a bool, a text, a fraction where none fits."""

    limit: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"limit {self.limit}: expected {self.expected}, found {self.found}"


@attrs.define(eq=False, repr=False)
class ExtraMissing(UsageError):
    """An optional dependency is needed and not installed."""

    module: str
    extra: str

    def __str__(self) -> str:
        return f"{self.module} is not installed: pip install 'refold[{self.extra}]'"


@attrs.define(eq=False, repr=False)
class NotCanonical(RefoldError):
    """A value that JSON lines cannot hold exactly (CONTRACT.md §3.5). Nothing was written."""

    pointer: str
    """JSON pointer to the offending place; empty for the value itself."""
    expected: str
    found: str

    def __str__(self) -> str:
        where = self.pointer or "(the value itself)"
        return f"at {where}: expected {self.expected}, found {self.found}"


@attrs.define(eq=False, repr=False)
class SnapshotRefused(UsageError):
    """A delegation snapshot was taken of something that is no recording (CONTRACT.md §13)."""

    found: str

    def __str__(self) -> str:
        return f"expected a recording, a log's path or a delegation tree, found {self.found}"


@attrs.define(eq=False, repr=False)
class SliceRefused(UsageError):
    """A class that can be no slice, or no event, of a session (CONTRACT.md §6.3)."""

    slice: str
    why: str

    def __str__(self) -> str:
        return f"slice {self.slice}: {self.why}"


@attrs.define(eq=False, repr=False)
class SnapshotSerializationError(UsageError):
    """A session holds what no snapshot can; the session is as it was (CONTRACT.md §6.3)."""

    slice: str
    item: int
    """0-based, in the slice."""
    why: str

    def __str__(self) -> str:
        return f"slice {self.slice}, item {self.item}: {self.why}"


@attrs.define(eq=False, repr=False)
class SnapshotRestoreError(UsageError):
    """A snapshot does not fit the session, which is untouched (CONTRACT.md §6.3)."""

    why: str

    def __str__(self) -> str:
        return self.why


@attrs.define(eq=False, repr=False)
class PromptRefused(UsageError, ValueError):
    """A prompt that cannot be registered, or cannot be rendered as asked (CONTRACT.md §10.20)."""

    why: str

    def __str__(self) -> str:
        return self.why


@attrs.define(eq=False, repr=False)
class ToolValidationError(UsageError, ValueError):
    """Input of a delegation tool that its document does not allow; nothing was started."""

    why: str

    def __str__(self) -> str:
        return self.why


class LogError(RefoldError):
    """A log cannot be read or written."""


@attrs.define(eq=False, repr=False)
class LogDamaged(LogError):
    """Bytes that do not verify. Never repaired silently (CONTRACT.md §5)."""

    path: str
    line: int
    """1-based, as an editor counts."""
    byte: int
    """Offset of the line's first byte in the file."""
    expected: str
    found: str
    what: str
    """What is wrong, in a few words: `hash`, `seq`, `torn tail`, `blob missing`, …"""

    def __str__(self) -> str:
        keep = f" Lines 1-{self.line - 1} are intact." if self.line > 1 else ""
        return (
            f"{self.path}:{self.line} (byte {self.byte}): {self.what}: "
            f"expected {self.expected}, found {self.found}.{keep}"
        )


@attrs.define(eq=False, repr=False)
class LogUnsupported(LogError):
    """A log written by a newer version, or no log at all."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


@attrs.define(eq=False, repr=False)
class LogLocked(LogError):
    """Another writer holds the log (CONTRACT.md §4.3)."""

    path: str
    pid: int | None

    def __str__(self) -> str:
        holder = f"process {self.pid}" if self.pid else "another writer"
        return f"{self.path} is being written by {holder}; a log has one writer"


@attrs.define(eq=False, repr=False)
class LogSealed(LogError):
    """The log ends with `run.finished`, and nothing may follow (CONTRACT.md §4.4)."""

    path: str

    def __str__(self) -> str:
        return f"{self.path} is sealed by run.finished; nothing is appended to it"


@attrs.define(eq=False, repr=False)
class EventMalformed(LogError):
    """The data of an entry is not what its kind says (CONTRACT.md §2)."""

    kind: str
    pointer: str
    """JSON pointer into the data; empty for the data itself."""
    expected: str
    found: str

    def __str__(self) -> str:
        where = self.pointer or "(the data itself)"
        return f"{self.kind} at {where}: expected {self.expected}, found {self.found}"


@attrs.define(eq=False, repr=False)
class LogPoisoned(LogError):
    """A write or a sync failed; the writer takes nothing more, ever (CONTRACT.md §4.4)."""

    path: str
    durable_seq: int
    """The last entry known to be on disk; -1 for none."""
    why: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.why}. Entries to seq {self.durable_seq} are safe; nothing more is "
            "appended. Make room or mend the disk; `refold verify` says what is there"
        )


class ProgramError(RefoldError):
    """Raised inside a program by what it asked for; a program may catch it."""


@attrs.define(eq=False, repr=False)
class ToolError(ProgramError):
    """A tool failed: it raised, timed out, or gave what a log cannot hold."""

    tool: str
    message: str
    code: str = "raised"
    """`raised`, `timed_out`, `arguments`, `result`, `unknown_tool`, or a tool's own word."""
    error_type: str = ""
    """The name of the exception's class, for people; empty where there was none."""

    def __str__(self) -> str:
        kind = f"{self.error_type}: " if self.error_type else ""
        return f"{self.tool}: {kind}{self.message}"


@attrs.define(eq=False, repr=False)
class ModelError(ProgramError):
    """A model request failed after the client's own retries."""

    model: str
    message: str
    code: str = "raised"
    """`raised`, `timed_out`, `connection`, `malformed`, `credentials`, `parameters`, `messages`,
    `script_exhausted`, `http_<status>`, or a script's own word."""

    def __str__(self) -> str:
        return f"{self.model}: {self.message} ({self.code})"


@attrs.define(eq=False, repr=False)
class LimitReached(ProgramError):
    """A limit refused what was asked, or ended the run (CONTRACT.md §8)."""

    limit: str
    allowed: float
    observed: float

    def __str__(self) -> str:
        return f"{self.limit}: {self.allowed:g} allowed, {self.observed:g} asked or reached"


@attrs.define(eq=False, repr=False)
class DispatchSubagentError(ProgramError):
    """The child of a delegation tool did not complete."""

    why: str

    def __str__(self) -> str:
        return self.why


@attrs.define(eq=False, repr=False)
class RunEnded(ProgramError):
    """A program ends its run as failed, for a reason that `run.finished` names."""

    reason: str
    """`no_progress`, `fatal_tool_error`, or the program's own word."""
    message: str

    def __str__(self) -> str:
        return self.message


@attrs.define(eq=False, repr=False)
class OutsideLoop(ProgramError):
    """The program tried to leave the kernel: a socket, a thread, a process, a signal."""

    method: str
    file: str
    line: int

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.method} would leave the recorded run. "
            "Make it a tool (@refold.tool) and call it through run.tool"
        )


@attrs.define(eq=False, repr=False)
class Stuck(ProgramError):
    """Nothing is ready, in flight or timed: the program waits for ever."""

    waiting: tuple[str, ...]
    """One line a task: its scope and where it waits."""

    def __str__(self) -> str:
        return "the program waits for what can never come: " + "; ".join(self.waiting)


@attrs.define(eq=False, repr=False)
class Diverged(RefoldError):
    """A re-execution asked for, or yielded, something else than the record."""

    divergence: Any
    """The `refold.replay.divergence.Divergence`."""

    def __str__(self) -> str:
        return str(self.divergence)
