"""Every error that Refold raises.

::

    RefoldError
      UsageError                 you called it wrongly; nothing has happened yet
        LogExists                a log is never overwritten
        LogMissing               the path has no log
        RunExists                a store has a different run of that name
        EntryMissing             the log has no entry of that number
        LogObserved              a watched command's log where a program's is needed, or the reverse
        LogNameRefused           a path that the naming rule does not allow
        OutputRefused            a path that no page or report may be written to
        RecordingRefused         `record` while a program is being imported
        NestedRun                `record`, `resume`, `reexecute` … inside of a program
        ProgramRefused           a program that does not take a run and its input
        ProgramNotFound          a program that cannot be imported, or is not one
        TypeRefused              a program whose annotations Refold cannot read values by
        ValueRefused             an input or output that does not fit its program's annotation
        OptionRefused            an option of a public call that has the wrong type
        ModelNotFound            a model named in a form that does not exist
        ScriptRefused            an invalid script of replies
        ToolRefused              a tool that cannot be registered
        ToolUnknown              a name that no given tool has
        ToolNeeded               replay needs the tool's types to give its result back
          DelegationNeeded       … or its code, for a delegation tool is executed again
          ProgramNeeded          … or the tool, for its children ran a program of its own
          ToolAbsent             a run that continues live needs a tool that was not passed
        ModelAbsent              … or a model
        SessionNeeded            the run had a session with reducers that were not passed
        NotReady                 children of the run lack something that they need
        ArgumentsRefused         arguments that do not fit the tool's signature
        InvalidDefError          a file that does not define an agent
        DefNotFoundError         no agent has that id
        ConfigRefused            a configuration that cannot be read, or is invalid
        LimitRefused             an invalid limit
        ExtraMissing             an optional dependency is not installed
        ProgramMissing           a program of this machine is missing or too old
        KeyRefused               a file without a key that can sign, or without allowed signers
        SystemUnsupported        this operating system has no process groups or file locks
        ForkRefused              a fork without a place, or with an edit of nothing
        AnswerRefused            an answer that fits no open question
        SliceRefused             a class that cannot be a slice of a session
        SnapshotSerializationError  a session that no snapshot can hold
        SnapshotRestoreError     a snapshot that does not fit the session
        PromptRefused            a prompt that cannot be registered or rendered
        ToolValidationError      a delegation tool's input that its document does not allow
        FolderIncomplete         the folder of a watched run cannot be restored
      NotCanonical               a value that a log cannot hold exactly
      LogError
        LogDamaged               bytes that do not verify: where, expected, found
        LogUnsupported           written by a newer version
        LogLocked                another process writes this log
        LogSealed                `run.finished` was written; nothing follows
          NothingToResume        … of a watched command that ended well
        LogUnsealed              the record has no end, but the operation needs one
        EventMalformed           data that does not fit its kind
        LogPoisoned              a write or sync failed; nothing more can be appended
        StoreDamaged             an object of a store is damaged
        FolderRefused            invalid folder data in a log
        ContentMissing           the content of a recorded file is no longer available
      StoreFailed                a store cannot be reached, or refuses
      GitFailed                  git cannot be run, or failed
      ProgramError               raised inside the program, by its own requests
        ToolError                a tool failed
          AgentUnknown           … because it names an agent that does not exist
        ModelError               a model request failed
        LimitReached             a limit refused a request
        DispatchSubagentError    a child that a tool waited for did not complete
        RunEnded                 a program ends itself for a reason of its own
        OutsideLoop              the program tried to leave the kernel
      Unanswered                 raised by the asked person's code: the question stays open
      InDoubt                    a resume needs a decision on effects in doubt
      ChildStopped               a resume cannot continue, because a child cannot
      AttemptsExhausted          a run that was resumed as often as allowed
      OutcomeMissing             a request without a recorded outcome that may not run live
      RecordingGone              the process that has the log of a watched command takes no more
      ChildFailed                `Outcome.result()` of a child that did not complete
      RunFailed                  `Recording.result()` of a run that did not complete
      Diverged                   a re-execution asked for something else than the record
      Nondeterministic           … right after the run, under `record(check=True)`

Not in this tree: `SecondInterrupt`, a `KeyboardInterrupt` that no caller sees by this class.

Data as attributes, positional so that every error survives pickling; `__str__` builds the message:
place, expected, found, advice.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar, Final, dataclass_transform


class RefoldError(Exception):
    """Base of all errors raised by Refold."""

    call = ""
    """Key of the program's call that failed with it; empty for none."""
    outcome: Any = None
    """Of the child that did not complete, if `Outcome.result()` raised it."""


@dataclass_transform(eq_default=False)
class Detailed:
    """Makes the annotations of an error its arguments and attributes, in their order.

    What attrs would do, without generating code: every start of a child pays for each class that is
    generated.  The values are the exception's `args`, so that errors survive pickling.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _text: ClassVar[str] = "{why}"
    """Its message, with the attributes in braces; a class may have a `__str__` instead."""

    def __init_subclass__(cls) -> None:
        cls._fields = (*cls._fields, *cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self._fields, values, strict=False)) | named
        unknown = given.keys() - set(self._fields)
        if len(values) > len(self._fields) or unknown:
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields)}")
        for name in self._fields:
            if name not in given and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} needs {name}")
            setattr(self, name, given.get(name, getattr(type(self), name, None)))
        super().__init__(*(getattr(self, name) for name in self._fields))  # an exception's

    def __str__(self) -> str:
        return self._text.format_map(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Return its attributes by name."""
        return {name: getattr(self, name) for name in self._fields}


def _quoted(path: str) -> str:
    import shlex  # noqa: PLC0415 - only to complain

    return shlex.quote(path)


class UsageError(RefoldError):
    """The call was wrong; nothing has happened yet."""


class LogExists(Detailed, UsageError):
    """The log to be written is already there (CONTRACT.md §4.1)."""

    path: str
    root: str = ""
    """The root's log, if `path` is a child's, left over from a run that is gone."""

    def __str__(self) -> str:
        if self.root:
            return (
                f"{self.path} is left over from another run: remove it with `refold rm "
                f"--force {_quoted(self.root)}`, or choose a different log"
            )
        return (
            f"{self.path} already exists, and logs are never overwritten: choose a "
            f"different name, or remove the run with `refold rm {_quoted(self.path)}`"
        )


class LogMissing(Detailed, UsageError):
    """The log does not exist."""

    path: str
    why: str = "no such file"

    _text = "{path}: {why}; `refold ls` lists the logs of a folder"


class RunExists(Detailed, UsageError):
    """A store holds another run, or another head, of that name (CONTRACT.md §4.8)."""

    place: str
    run: str

    _text = (
        "{place} already has a different {run}, and runs in a store are never overwritten: "
        "push it under a different name or to a different prefix"
    )


class LogNameRefused(Detailed, UsageError):
    """A log, or a packed one, cannot have this name (CONTRACT.md §4)."""

    path: str
    why: str

    _text = "{path}: {why}"


class OutputRefused(Detailed, UsageError):
    """A page or a report cannot be written to this path (CONTRACT.md §4.9)."""

    path: str
    why: str

    _text = "{path}: {why}"


class EntryMissing(Detailed, UsageError):
    """The log has no entry of that number."""

    path: str
    at: int
    """As asked: a seq, or a negative number counted from the end."""
    entries: int

    def __str__(self) -> str:
        if not self.entries:
            return f"{self.path} has no entry {self.at}: the log is empty"
        last = self.entries - 1
        return (
            f"{self.path} has no entry {self.at}: its {self.entries} entries are numbered 0 to "
            f"{last}, or -{self.entries} to -1 from the end"
        )


class RecordingRefused(Detailed, UsageError):
    """`refold.record` was called while Refold imports the file that holds the program."""

    file: str

    _text = (
        "{file} calls refold.record when it is imported: "
        'move the call under `if __name__ == "__main__":`'
    )


class NestedRun(Detailed, UsageError):
    """A program records, resumes or re-executes by itself: a replay would do so for real."""

    function: str
    """`record`, `resume`, `reexecute`, …"""

    _text = (
        "refold.{function} was called inside a program, so a replay would repeat it for real. "
        "Start a child instead, run.delegate(refold.Delegation(…)), or call it in a tool "
        "(@refold.tool)"
    )


class ProgramNotFound(Detailed, UsageError):
    """The named program cannot be imported, or is not a program."""

    name: str
    why: str

    _text = "program {name!r}: {why}"


class ProgramRefused(Detailed, UsageError):
    """A program that cannot be called with a run and its input (CONTRACT.md §9)."""

    name: str
    parameters: str
    """Their names."""

    _text = (
        "program {name} must take two parameters, {name}(run, input); found {name}({parameters})"
    )


class TypeRefused(Detailed, UsageError):
    """A program has an annotation by which no value can be read (CONTRACT.md §9.12)."""

    program: str
    where: str
    """`parameter 'ticket'` or `return`."""
    why: str

    _text = "program {program!r}, {where}: {why}"


class ValueRefused(Detailed, UsageError):
    """The input or output of a program does not fit its annotation (CONTRACT.md §9.12)."""

    program: str
    part: str
    """`input` or `output`."""
    pointer: str
    """JSON pointer to the offending place; empty for the whole value."""
    expected: str
    found: str

    def __str__(self) -> str:
        place = f", at {shortened(self.pointer)}" if self.pointer else ""
        verb = "pass" if self.part == "input" else "return"
        return (
            f"the {self.part} of program {self.program!r}{place}: expected {self.expected}, found "
            f"{self.found}; {verb} a value that fits its annotation, or change the annotation"
        )


class ChildFailed(Detailed, RefoldError):
    """`Outcome.result()` was asked of a child that did not complete (CONTRACT.md §7.1)."""

    status: str
    code: str
    said: str

    def __str__(self) -> str:
        return f"the child ended as {self.status}: {self.said or self.code}"


class RunFailed(Detailed, RefoldError):
    """`Recording.result()` was asked of a run that did not complete (CONTRACT.md §9.6)."""

    log: str
    status: str
    reason: str
    said: str
    """What went wrong, and where; empty where nothing raised."""

    def __str__(self) -> str:
        return f"{self.log}: the run ended as {self.status}: {self.said or self.reason}"


class OptionRefused(Detailed, UsageError):
    """An option of a public call is of another kind than it takes (CONTRACT.md §9.6)."""

    call: str
    """`record`, `resume`, …"""
    option: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.call}({self.option}=…): expected {self.expected}; found {self.found}"


class ModelNotFound(Detailed, UsageError):
    """A model was named in a form that does not exist (CONTRACT.md §11)."""

    spec: str
    why: str

    _text = "model {spec!r}: {why}"


class ScriptRefused(Detailed, UsageError):
    """A script of model replies that is not one (CONTRACT.md §11)."""

    path: str
    """The file, or what else held the script."""
    pointer: str
    """JSON pointer to the offending place; empty for the whole."""
    expected: str
    """Empty if `found` is a complete message, such as "no such file"."""
    found: str

    def __str__(self) -> str:
        where = f"{self.path}, at {self.pointer}" if self.pointer else self.path
        if not self.expected:
            return f"{where}: {self.found}"
        return f"{where}: expected {self.expected}, found {self.found}"


class ToolRefused(Detailed, UsageError):
    """A function that cannot be a tool: its types cannot make the round trip through a log."""

    tool: str
    where: str
    why: str

    _text = "tool {tool!r}, {where}: {why}"


class ToolUnknown(Detailed, UsageError):
    """A tool was asked for by a name that none of the given tools has."""

    tool: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"no tool is named {self.tool!r}; known: {known}. Pass it in tools=[…]"


class ToolNeeded(Detailed, UsageError):
    """A tool called by name returned a typed value, and replay was not given the tool."""

    tool: str
    call: str

    _text = (
        "{call}: {tool!r} was called by name, and a replay needs the tool to read its typed "
        "result, although it does not run it: pass tools=[{tool}] (--tools on the command line)"
    )


class DelegationNeeded(ToolNeeded):
    """A delegation tool was called, and the re-execution was not given it (CONTRACT.md §10.4)."""

    _text = (
        "{tool!r} is a delegation tool, which is part of the program and runs again in a replay: "
        "pass tools=[{tool}] (--tools on the command line)"
    )


class ProgramNeeded(ToolNeeded):
    """Children of a shipped delegation tool ran a program that no log can import (§10.4.5)."""

    program: str

    _text = (
        "the children of {tool} ran the program {program!r}: pass the tool with tools=[…] "
        "(--tools FILE.py:TOOL on the command line)"
    )


class ToolAbsent(ToolNeeded):
    """A run that continues live had tools that nobody passed."""

    others: tuple[str, ...] = ()
    """The names of the rest of them."""

    def __str__(self) -> str:
        names = (self.tool, *self.others)
        told = f"tool{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
        return (
            f"the run had the {told} and now continues live: pass "
            f"tools=[{', '.join(names)}] (--tools FILE.py:NAME on the command line)"
        )


class ModelAbsent(Detailed, UsageError):
    """A run that continues live had a model that nobody passed."""

    name: str
    """As the program asks for it; empty for the default."""
    full: str
    """The model's own name."""

    def __str__(self) -> str:
        option = f"models={{{self.name!r}: …}}" if self.name else "model=…"
        return (
            f"the run had the model {self.full!r} and now continues live: pass {option} "
            "(--model SPEC on the command line)"
        )


class SessionNeeded(Detailed, UsageError):
    """The run had a session whose reducers only a session like it knows (CONTRACT.md §6.3)."""

    log: str
    """Empty where the program asks for it while it runs."""
    held: str
    """The content that an empty session cannot have, or take."""

    def __str__(self) -> str:
        where = f"{self.log}: " if self.log else ""
        return (
            f"{where}the run had a session ({self.held}): pass a new one with the same "
            "reducers as session=… (--tools FILE.py:NAME on the command line)"
        )


class NotReady(Detailed, UsageError):
    """Children of the run lack something that all of them need (CONTRACT.md §10.4.8)."""

    problems: tuple[str, ...]
    """The missing things, one text each, with the tools that need them."""

    def __str__(self) -> str:
        return "the run cannot begin: " + "; ".join(self.problems)


class ArgumentsRefused(Detailed, UsageError):
    """Arguments that do not fit a tool's signature. Nothing is coerced but int to float."""

    tool: str
    problems: tuple[str, ...]
    """One line a problem: JSON pointer, expected, found."""

    def __str__(self) -> str:
        return f"{self.tool}: " + "; ".join(self.problems)


class InvalidDefError(Detailed, UsageError):
    """An agent's definition that cannot be read, or has invalid content (CONTRACT.md §10.6)."""

    agent: str
    """The agent's id: the folder's name, or the file's if it is not `AGENT.md`."""
    reason: str
    path: str = ""

    def __str__(self) -> str:
        where = f" ({self.path})" if self.path else ""
        return f"Invalid agent {self.agent!r}: {self.reason}{where}"


class DefNotFoundError(Detailed, UsageError, ValueError):
    """No agent has that id, or none that the caller may dispatch to (CONTRACT.md §10.6)."""

    agent: str

    _text = "Agent '{agent}' not found"


class ConfigRefused(Detailed, UsageError):
    """A `refold.yaml`, or a `[tool.refold]`, with invalid content (CONTRACT.md §14)."""

    path: str
    line: int
    """1-based; 0 where the file as a whole is meant."""
    pointer: str
    """The member, as `tools.spawn.profiles.coder`; empty for the whole."""
    why: str
    """The expected and the found value, and the nearest known name."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.pointer}: {self.why}" if self.pointer else f"{place}: {self.why}"


class LimitRefused(Detailed, UsageError):
    """An invalid limit: zero, negative, a bool, a text, or a fraction of a whole."""

    limit: str
    expected: str
    found: str

    _text = "limit {limit}: expected {expected}, found {found}"


class ExtraMissing(Detailed, UsageError):
    """An optional dependency is needed and not installed."""

    module: str
    extra: str

    _text = (
        "{module} is not installed: pip install 'refold[{extra}]' (in a clone, "
        "pip install '.[{extra}]')"
    )

    @classmethod
    @contextlib.contextmanager
    def of(cls, extra: str) -> Iterator[None]:
        """Raise this if a module that the block imports is missing, other than our own."""
        try:
            yield
        except ModuleNotFoundError as error:
            if (missing := error.name or extra).startswith("refold"):
                raise
            raise cls(missing, extra) from None


class ProgramMissing(Detailed, UsageError):
    """A program of this machine is needed, and is not there or too old."""

    program: str
    needed: str
    found: str

    _text = "{program}: {found}: {needed}"


class KeyRefused(Detailed, UsageError):
    """A file without a key that can sign a log, or without allowed signers (CONTRACT.md §5.5)."""

    path: str
    expected: str
    found: str
    line: int = 0
    """From 1; 0 for the whole file."""

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: expected {self.expected}; found {self.found}"


class SystemUnsupported(Detailed, UsageError):
    """The operation needs process groups and file locks, which Windows does not have."""

    what: str

    _text = (
        "{what} needs Linux or macOS: on Windows, use WSL. The commands that read logs work here:"
        " refold ls, show, files, why, view, export, verify, diff"
    )


class NotCanonical(Detailed, RefoldError):
    """A value that JSON lines cannot hold exactly (CONTRACT.md §3.5). Nothing was written."""

    pointer: str
    """JSON pointer to the offending place; empty for the value itself."""
    expected: str
    found: str
    value: str = ""
    """Which value of a call, as `input`; empty where the caller knows."""

    def __str__(self) -> str:
        place = f"at {shortened(self.pointer)}" if self.pointer else ""
        where = "".join(f"{each}: " for each in (self.value, place) if each)
        return f"{where}expected {self.expected}, found {self.found}"


def shortened(pointer: str) -> str:
    """Return a pointer that a person can read: a value that holds itself has a very long one."""
    return pointer if len(pointer) <= _POINTER_MAX else f"{pointer[:30]}…{pointer[-30:]}"


_POINTER_MAX: Final = 120


class SliceRefused(Detailed, UsageError):
    """A class that can be no slice, or no event, of a session (CONTRACT.md §6.3)."""

    slice: str
    why: str

    _text = "slice {slice}: {why}"


class SnapshotSerializationError(Detailed, UsageError):
    """A session would hold what no snapshot can; the session is as it was (CONTRACT.md §6.3)."""

    slice: str
    item: int | None
    """0-based, in the slice; `None` for one that is not in it yet, and for an event."""
    why: str

    def __str__(self) -> str:
        place = "" if self.item is None else f", item {self.item}"
        return f"slice {self.slice}{place}: {self.why}"


class SnapshotRestoreError(Detailed, UsageError):
    """A snapshot does not fit the session, which is untouched (CONTRACT.md §6.3)."""

    why: str


class PromptRefused(Detailed, UsageError, ValueError):
    """A prompt that cannot be registered, or cannot be rendered as asked (CONTRACT.md §10.20)."""

    why: str


class ToolValidationError(Detailed, UsageError, ValueError):
    """Input of a delegation tool that its document does not allow; nothing was started."""

    why: str


class LogError(RefoldError):
    """A log cannot be read or written."""


_SUMS: Final = frozenset({"entries", "data digest", "children root", "another end", "another head"})
"""Damage that may be in any line before the reported one."""


def damage_meaning(what: str) -> str:
    """Return the meaning of a kind of damage, if its name is not clear; else `""`."""
    return "the line was altered or replaced" if what == "hash" else ""


class LogDamaged(Detailed, LogError):
    """Bytes that do not verify. Never repaired silently (CONTRACT.md §5)."""

    path: str
    line: int
    """1-based, as an editor counts."""
    byte: int
    """Offset of the line's first byte in the file."""
    expected: str
    found: str
    what: str
    """The kind of damage, in a few words: `hash`, `seq`, `torn tail`, `blob missing`, …"""

    def __str__(self) -> str:
        meaning = damage_meaning(self.what)
        return (
            f"{self.path}:{self.line} (byte {self.byte}): {self.what}: expected {self.expected}, "
            f"found {self.found}{': ' if meaning else ''}{meaning}.{self._kept()}"
        )

    def _kept(self) -> str:
        """Describe the lines before; empty if a sum over them is wrong."""
        kept = self.line - 1
        if not kept or self.what in _SUMS:
            return ""
        lines = "Line 1 is" if kept == 1 else f"Lines 1-{kept} are"
        return f" {lines} intact: to see what can be saved, use `refold verify`."


class LogUnsupported(Detailed, LogError):
    """A log written by a newer version, or no log at all."""

    path: str
    expected: str
    found: str

    _text = "{path}: expected {expected}, found {found}"

    @property
    def what(self) -> str:
        """Its name in a verification (CONTRACT.md §5.1)."""
        return "newer format" if "format" in self.expected else "not a log"


class LogLocked(Detailed, LogError):
    """Another writer holds the log (CONTRACT.md §4.3)."""

    path: str
    pid: int | None

    def __str__(self) -> str:
        holder = f"process {self.pid}" if self.pid else "another writer"
        return (
            f"{self.path} is being written by {holder} or one of its forks, and a log can have "
            "only one writer: try again when that process has ended"
        )


class LogSealed(Detailed, LogError):
    """The log ends with `run.finished`, and nothing may follow (CONTRACT.md §4.4)."""

    path: str

    _text = (
        "{path} is complete, so nothing can be appended; to continue from any of its entries in a "
        "new log, use `refold fork`"
    )


class NothingToResume(LogSealed):
    """A watched command ended well, and left nothing open (CONTRACT.md §16.21)."""

    def __str__(self) -> str:
        return (
            f"{self.path}: nothing to resume: the command succeeded, and nothing waits for an "
            "answer; to repeat the requests of one subagent, use "
            f"`refold fork {_quoted(self.path)} --again AGENT -- COMMAND`"
        )


class LogObserved(Detailed, UsageError):
    """The log is a watched command's where a program's is needed, or the other way round.

    The program of a watched command did not run on the kernel, so it cannot be re-executed: its
    requests are matched instead (CONTRACT.md §16).
    """

    path: str
    is_observed: bool

    def __str__(self) -> str:
        if self.is_observed:
            return (
                f"{self.path} is the log of a watched command, not of a program on "
                f"Refold's kernel: use `refold replay {_quoted(self.path)} -- COMMAND …`, "
                "or `refold fork` or `refold resume` with -- COMMAND; to replay a test's "
                "recording, use pytest"
            )
        return (
            f"{self.path} is the log of a program on Refold's kernel, not of a "
            "watched command: leave out -- COMMAND, and pass --program"
        )


class LogUnsealed(Detailed, LogError):
    """The log has no `run.finished`, and the operation needs the end of the run."""

    path: str
    standing: str
    """How the run stands, in words, with the question if it waits for a person."""

    _text = "{path} has no run.finished entry: {standing}"


class EventMalformed(Detailed, LogError):
    """The data of an entry does not fit its kind (CONTRACT.md §2)."""

    kind: str
    pointer: str
    """JSON pointer into the data; empty for the data itself."""
    expected: str
    found: str

    def __str__(self) -> str:
        where = self.pointer or "(the data itself)"
        return f"{self.kind} at {where}: expected {self.expected}, found {self.found}"


class LogPoisoned(Detailed, LogError):
    """A write or a sync failed; the writer takes nothing more, ever (CONTRACT.md §4.4)."""

    path: str
    durable_seq: int
    """The last entry known to be on disk; -1 for none."""
    why: str

    def __str__(self) -> str:
        safe = f"Entries up to {self.durable_seq} are" if self.durable_seq >= 0 else "No entry is"
        return (
            f"{self.path}: {self.why}. {safe} known to be on disk, and nothing more will be "
            "written. To see what is there, use `refold verify`; when the cause is fixed, "
            "`refold resume` continues the run"
        )


class StoreDamaged(Detailed, LogError):
    """An object of a store is missing or wrong; nothing was made of it (CONTRACT.md §4.8)."""

    object: str
    """Its URL, or the run's."""
    expected: str
    found: str

    _text = "{object}: expected {expected}, found {found}"


class StoreFailed(Detailed, RefoldError):
    """A store cannot be reached, or refuses (CONTRACT.md §4.8)."""

    store: str
    why: str

    _text = "{store}: {why}. To continue from here, run the command again"


class FolderRefused(Detailed, LogError):
    """A log describes a folder in a forbidden way; nothing is made of it (CONTRACT.md §16.16)."""

    path: str
    """Of the file, or which part of the list."""
    expected: str
    found: str

    _text = "the recorded folder: {path}: expected {expected}, found {found}"


class ContentMissing(Detailed, LogError):
    """The content of a recorded file is no longer available (CONTRACT.md §16.16)."""

    file: str
    """Its path, its digest, or its id in git."""
    place: str
    """The place where it should be; empty for none."""
    why: str
    what: str = "content missing"
    """`content missing` or `content damaged`."""

    def __str__(self) -> str:
        place = f" in {self.place}" if self.place else ""
        return f"the content of {self.file} is missing{place}: {self.why}"


class FolderIncomplete(Detailed, UsageError):
    """The folder of a log cannot be made again: contents are missing (CONTRACT.md §16.20)."""

    log: str
    missing: tuple[str, ...]
    """The missing files, each with the reason."""
    shallow: str = ""
    """The work tree that is a shallow clone, if it was tried."""

    _shown: ClassVar[int] = 20

    def __str__(self) -> str:
        told = [f"  {each}" for each in self.missing[: self._shown]]
        if rest := len(self.missing) - len(told):
            told.append(f"  and {rest} more")
        if self.shallow:
            told.append(
                f"{self.shallow} is a shallow clone: fetch all commits (git fetch --unshallow, or "
                "fetch-depth: 0 in CI), or record with --keep-content"
            )
        return "\n".join(
            [
                f"{self.log}: the folder cannot be restored, so nothing was run; missing files:",
                *told,
                "replay in the repository, use a log packed with --files, or pass --copy none",
            ]
        )


class GitFailed(Detailed, RefoldError):
    """git cannot be run, or failed (CONTRACT.md §16.16)."""

    folder: str
    command: str
    why: str

    _text = "{folder}: git {command}: {why}"


class ProgramError(RefoldError):
    """Raised inside a program by one of its requests; a program may catch it."""


class ToolError(Detailed, ProgramError):
    """A tool failed: it raised, timed out, or returned a value that a log cannot hold."""

    tool: str
    message: str
    code: str = "raised"
    """`raised`, `timed_out`, `arguments`, `result`, `unknown_tool`, or a tool's own word."""
    error_type: str = ""
    """The name of the exception's class, for people; empty without an exception."""

    def __str__(self) -> str:
        kind = f"{self.error_type}: " if self.error_type else ""
        return f"{self.tool}: {kind}{self.message}"


class AgentUnknown(ToolError, ValueError):
    """`subagent_dispatch` was given an id that no other agent has: a `ValueError` to the letter."""

    def __str__(self) -> str:
        return self.message


class ModelError(Detailed, ProgramError):
    """A model request failed after the client's own retries."""

    model: str
    message: str
    code: str = "raised"
    """`raised`, `timed_out`, `connection`, `malformed`, `credentials`, `parameters`, `messages`,
    `script_exhausted`, `http_<status>`, or a script's own word."""

    def __str__(self) -> str:
        return f"{self.full_text} ({self.code})"

    @property
    def full_text(self) -> str:
        """Model and message, for where the code is shown beside it."""
        return f"{self.model}: {self.message}" if self.model else self.message


class LimitReached(Detailed, ProgramError):
    """A limit refused a request, or ended the run (CONTRACT.md §8)."""

    limit: str
    allowed: float
    observed: float

    _text = "{limit}: {allowed:g} allowed, {observed:g} asked or reached"


class DispatchSubagentError(Detailed, ProgramError):
    """The child of a delegation tool did not complete."""

    why: str


class RunEnded(Detailed, ProgramError):
    """A program ends its run as failed, for a reason that `run.finished` names."""

    reason: str
    """`no_progress`, `fatal_tool_error`, or the program's own word."""
    message: str

    _text = "{message}"


class OutsideLoop(Detailed, ProgramError):
    """The program tried to leave the kernel: a socket, a thread, a process, a signal."""

    method: str
    file: str
    line: int
    adapter: str = ""
    """The module that records agents of the framework which tried; empty where none did."""
    remedy: str = "Make it a tool (@refold.tool) and call it through run.tool"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: {self.method} would leave the recorded run. "
        if self.adapter:
            return (
                f"{where}{self.adapter} records the models and tools of an agent. Make everything "
                "else that it opens a tool (@refold.tool), and call it through run.tool"
            )
        return f"{where}{self.remedy}"


class SecondInterrupt(KeyboardInterrupt):
    """Ctrl-C while the first one was being obeyed: nothing is waited for (CONTRACT.md §9.6)."""


class Unanswered(RefoldError):
    """Raised by who is asked: the question stays open, and the run is suspended."""


class AnswerRefused(Detailed, UsageError):
    """An answer that fits no open question, or not the schema of its question."""

    key: str
    expected: str
    found: str
    """Empty if no open question has the key; then `expected` has the open ones."""

    def __str__(self) -> str:
        if not self.found:
            return f"{self.key!r} is not an open question; open: {self.expected}"
        return f"the answer to {self.key!r} does not fit: {self.found}; expected {self.expected}"


class InDoubt(Detailed, RefoldError):
    """Before a run can continue, somebody must decide about effects that may have happened."""

    log: str
    effects: tuple[str, ...]
    """`0#3 save(path="x")`, one for each."""
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        listed = "\n".join(f"  {effect}" for effect in self.effects)
        return (
            f"{self.log}: these effects were in flight when the log ended, so they may or may not "
            "have happened:\n"
            f"{listed}\n"
            "Find out what happened, and pass for each of them --settle KEY=retry (run it again), "
            "KEY=fail (treat it as failed), or KEY=result:JSON (use this result)"
        )


class ChildStopped(Detailed, RefoldError):
    """A child could not be resumed; neither its log nor its parent's shows that it has ended."""

    log: str
    """Of the parent."""
    code: str
    """The class of the child's error: `Diverged`, …"""
    message: str

    _text = (
        "{log}: the run cannot continue because one of its children cannot. Fix the problem and "
        "resume again, or treat the child as failed (--settle KEY=fail).\n"
        "{message}"
    )


class AttemptsExhausted(Detailed, RefoldError):
    """A run that was resumed as often as allowed."""

    log: str
    attempts: int
    allowed: int

    def __str__(self) -> str:
        return (
            f"{self.log}: attempt {self.attempts} would exceed the limit of {self.allowed}: the "
            "run keeps breaking off. To see where, use "
            f"`refold show {_quoted(self.log)}`; to try again, use "
            f"refold.resume(max_attempts={self.attempts})"
        )


class ForkRefused(Detailed, UsageError):
    """A fork of nowhere, or with an edit of nothing."""

    log: str
    problem: str
    options: tuple[str, ...] = ()
    """The options of the command line that mend it."""
    dropped: str = ""
    """The option, or the key of an edit, that is too many."""

    _text = "{log}: {problem}"


class OutcomeMissing(Detailed, RefoldError):
    """Something was asked for that the record has no outcome for, and that may not run live."""

    call: str
    """The call that was made."""
    nearest: str
    """The recorded request that is most like it; empty for none."""
    why: str = ""
    options: str = ""
    """The options of the command line that let it run."""
    key: str = ""
    """Its call key, from the root run down."""

    def __str__(self) -> str:
        near = f"; the most similar recorded one is {self.nearest}" if self.nearest else ""
        why = f" ({self.why})" if self.why else ""
        return f"no recorded outcome for {self.call}{near}{why}"


class RecordingGone(Detailed, RefoldError):
    """The report of an MCP proxy cannot be recorded, so nothing passes (CONTRACT.md §16.11)."""

    address: str
    why: str

    _text = (
        "the recording or replay at {address} does not accept reports: {why}. The address comes "
        "from REFOLD_RECORDING, here or in a parent process, and is valid only while the command "
        "of `refold record` or `refold replay` runs"
    )


class Diverged(Detailed, RefoldError):
    """A re-execution asked for, or yielded, something else than the record."""

    divergence: Any
    """The `refold.replay.explain.divergence.Divergence`."""

    def __str__(self) -> str:
        return str(self.divergence)


class Nondeterministic(Detailed, RefoldError):
    """A run that was re-executed right after it was recorded did something else (§12.12)."""

    log: str
    recording: Any
    """The `Recording`: the log is written and whole."""
    divergence: Any
    """The `refold.replay.explain.divergence.Divergence`."""
    findings: Any = ()
    """Values read other than through `run`: a tuple of `refold.replay.testing.tripwire.Finding`."""
    elsewhere: str = ""
    """The differences of the second process; empty if it was the same process."""

    def __str__(self) -> str:
        lines = [
            f"{self.log}: the program behaved differently when it was run again{self.elsewhere}",
            str(self.divergence),
        ]
        if self.findings:
            lines += ["values that the program read without run:"]
            lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)
