"""The calls of `refold` that join the folders: `record`, `reexecute`, `replay_all` and their like.

The engine knows no tool and replay knows none either; here the tools that Refold ships are added to
those that are given, and plain functions become tools.
"""

import asyncio
import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

import refold.programs  # noqa: F401 - `refold.record` knows them by name
from refold.engine.encoding.canonical import Json
from refold.engine.log import read_entries
from refold.engine.ports.ports import Program, Reference, SessionPort, Tool
from refold.engine.runners.recording import Recording
from refold.engine.runners.recording import record as _record
from refold.engine.runners.recording import record_async as _record_async
from refold.tools.contract.tool_types import as_tool

if TYPE_CHECKING:
    from refold.replay.bulk.bulk import Execute, Programs
    from refold.replay.bulk.report import BulkReport
    from refold.replay.partial.drift_report import DriftReport
    from refold.replay.reexecute.report import ReplayReport
    from refold.replay.resume.fork import Fork
    from refold.replay.resume.open_ends import OpenEnds
    from refold.replay.what_if.order_report import ExploreReport
    from refold.replay.what_if.sensitivity import SensitivityReport

Tools = Sequence[Tool | Callable[..., Any]]


def record(
    program: "Program | Reference | str",
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    *,
    tools: Tools = (),
    check: bool | None = None,
    **options: Any,
) -> Recording:
    """Run `program(run, input)` and record it; return how it ended, whatever that was.

    Options are those of `refold.engine.runners.recording.record`: `log`, `model`, `models`,
    `runner`, `runners`, `limits`, `seed`, `clock`, `session`, `durability`, `ask`, `secrets`,
    `redaction`, `volatile`.  A plain function among `tools` becomes a tool that is taken to change
    the world.

    With `check`, the run is re-executed right after it was recorded, here and in fresh processes
    with another hash seed, time zone and working directory, and the recording's `warnings` say what
    the program read beside `run`.  Where the variable `REFOLD_CHECK` is 1, every run is, and they
    are Python's warnings, too.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: the call is wrong in another way; nothing was recorded.
        Nondeterministic: under `check`, the program did something else the second time.
    """
    ready = [as_tool(tool) for tool in tools]
    recording = _record(program, input, tools=ready, **options)
    if not _is_checked(check):
        return recording
    found = _checked(recording, program, ready, options.get("session"), is_asked=check is True)
    return found if check else _warned(found)


async def record_async(
    program: "Program | Reference | str",
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    *,
    tools: Tools = (),
    check: bool | None = None,
    **options: Any,
) -> Recording:
    """Record as `record` does, from a coroutine; asynchronous tools run on the caller's loop.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: the call is wrong in another way; nothing was recorded.
        Nondeterministic: under `check`, the program did something else the second time.
    """
    ready = [as_tool(tool) for tool in tools]
    recording = await _record_async(program, input, tools=ready, **options)
    if not _is_checked(check):
        return recording
    session = options.get("session")
    found = await asyncio.to_thread(
        _checked, recording, program, ready, session, is_asked=check is True
    )
    return found if check else _warned(found)


def _is_checked(check: bool | None) -> bool:  # noqa: FBT001 - as `record` takes it
    return os.environ.get("REFOLD_CHECK", "") not in ("", "0") if check is None else check


def _warned(recording: Recording) -> Recording:
    """Say what was found to who did not ask for it in the call, and may not look at the result."""
    for text in recording.warnings:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    return recording


def _checked(
    recording: Recording,
    program: "Program | Reference | str",
    tools: Sequence[Tool],
    session: "SessionPort | None",
    *,
    is_asked: bool,
) -> Recording:
    """Re-execute a fresh recording, here and in fresh processes.

    Who did not ask for it in the call is not told of what another process cannot import.
    """
    from refold.replay.bulk.bulk import named  # noqa: PLC0415 - as in `reexecute`
    from refold.replay.testing.selfcheck import checked, checked_elsewhere, twin_of  # noqa: PLC0415 - same

    found = checked(
        recording,
        lambda: reexecute(recording, program, tools=tools, session=twin_of(session)),
    )
    needed = [tool for tool in tools if tool.typed or tool.delegates]
    known = session if getattr(session, "factory", None) is not None else None
    there = checked_elsewhere(found, _replayer(named(program), needed, (), known))
    return there if is_asked else found


def reexecute(
    log: str | os.PathLike[str] | Recording,
    program: "Program | Reference | str | None" = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
    volatile: Iterable[str] = (),
) -> "ReplayReport":
    """Run the program of `log` again with recorded outcomes, and compare; execute nothing else.

    The delegation tools that Refold ships are known; own ones, and own tools with typed results
    that the program calls by name, are passed as `tools`; for a run that had a session, a fresh
    one with the same reducers is passed as `session`, unless it held nothing but plans.  `volatile`
    are paths that are not compared, besides those that the log lists: `tool:fetch/arguments/ts`.

    Chains and the heads of children are verified on the way.  Whether entries make sense together
    (CONTRACT.md §5.2) is for `verify` to say, which `refold replay` asks first.

    Raises:
        LogError: there is no such log.
        ProgramNotFound: no program was given and the log's is none that Refold ships.
        ToolNeeded: a tool has to be passed.
    """
    from refold.replay.reexecute import reexecute as replay  # noqa: PLC0415 - who only records needs none

    path = _path_of(log)
    known = _with_shipped(path, tools)
    session = _session_for(path, session)
    return replay.reexecute(path, program, tools=known, session=session, volatile=volatile)


def resume(
    log: str | os.PathLike[str] | Recording,
    program: "Program | Reference | str | None" = None,
    *,
    tools: Tools = (),
    **options: Any,
) -> Recording:
    """Go on in the log of a run that broke off, or that waits for a person; return how it ended.

    The program is re-executed to the end of the record and runs live from there; what had ended is
    not done again.  Options are those of `refold.replay.resume.resume.resume`: what `record` was
    given (`model`, `models`, `runner`, `runners`, `clock`, `session`, `durability`), what people
    say (`answers`, `by`, `ask`, `retry`, `fail`, `results`), `secrets` and `max_attempts`.  The
    delegation tools that Refold ships are known; all others that the run was offered are passed as
    `tools`.

    Raises:
        InDoubt: effects may have changed the world, and nobody said what became of them.
        Diverged: the program no longer does what the record says; the log is as it was.
        ChildStopped: a child cannot go on.
        AttemptsExhausted: it was tried often enough.
        LogSealed: the run has ended.
        LogLocked: it is still running.
        AnswerRefused: an answer fits no open question, or not its schema.
        LogError: the log is damaged, or there is none.
        ToolNeeded: a tool has to be passed.
    """
    from refold.replay.resume.resume import resume as go_on  # noqa: PLC0415 - as in `reexecute`

    path = _path_of(log)
    if program is None:
        return go_on(path, program, **_given(path, tools, options))
    # What an own program would still do with its session cannot be read in a log that broke off.
    return go_on(path, program, tools=_with_shipped(path, tools), **options)


def open_ends(log: str | os.PathLike[str] | Recording) -> "OpenEnds":
    """Return what waits for people in an unfinished run and its children: questions and doubts.

    Raises:
        LogError: the log is damaged, or there is none.
    """
    from refold.replay.resume.open_ends import open_ends as found  # noqa: PLC0415 - as in `reexecute`

    return found(_path_of(log))


def replay_all(
    paths: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
    program: "Program | Reference | str | Programs | None" = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
    volatile: Iterable[str] = (),
    jobs: int | None = None,
    fail_fast: bool = False,
    timeout_seconds: float | None = None,
) -> "BulkReport":
    """Re-execute many logs side by side, each in a process of its own; execute nothing else.

    Args:
        paths: Logs, and folders whose root logs are meant, at any depth.
        program: What the logs of its name are re-executed with; or several, by the names that
            the logs show.  Not needed for those that Refold ships.
        tools: As for `reexecute`.
        session: A session with the reducers that the runs' had: each run that had one gets an
            empty one with the same.  In other processes its `factory` makes them.
        volatile: As for `reexecute`, for all logs.
        jobs: How many logs at a time; by default as many as there are processors.  Where the
            programs, the tools or the session can be made nowhere else, it is one, in this process.
        fail_fast: Start none after the first that is not identical.
        timeout_seconds: Wall time that one log may take; then its row is `timed out`.

    Raises:
        LogMissing: a path is not there, or there are no logs.
        ProgramNotFound: a program that was passed cannot be imported.  A log whose program was
            not passed is a row that says so.
        UsageError: the call is wrong in another way; a limit of time is, where programs, tools or
            the session can be made nowhere else.
    """
    from refold.engine.recording.nested import check_may_start  # noqa: PLC0415 - as in `reexecute`
    from refold.replay.bulk.bulk import find_logs, named, replay_logs  # noqa: PLC0415 - the same

    check_may_start("replay_all")
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    known = [as_tool(tool) for tool in tools]
    execute = _replayer(named(program), known, tuple(volatile), session)
    return replay_logs(
        find_logs(given), execute, jobs=jobs, fail_fast=fail_fast, timeout_seconds=timeout_seconds
    )


def replayer(
    programs: Mapping[str, dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    volatile: Sequence[str],
    session: dict[str, Any] | None = None,
) -> "Execute":
    """Return what re-executes a log, in a process that finds programs and tools by reference.

    `session` is how it makes an empty session with the run's reducers.
    """
    from refold.engine.ports.programs import load, load_program  # noqa: PLC0415 - of that process only

    ready = {name: load_program(Reference(**found)) for name, found in programs.items()}
    known = [load(Reference(**found)) for found in tools]
    if session is None:
        return _executing(ready, known, volatile)
    factory = Reference(**session)

    def fresh() -> Any:
        made = load(factory)
        return made() if callable(made) else made

    return _executing(ready, known, volatile, fresh)


def _replayer(
    programs: "Programs",
    tools: Sequence[Tool],
    volatile: Sequence[str],
    session: "SessionPort | None",
) -> "Execute | Reference":
    """Return what re-executes a log: by reference, if another process can make it all."""
    from refold.engine.errors import ProgramNotFound  # noqa: PLC0415 - as above
    from refold.engine.ports.programs import elsewhere, load_program, reference_of  # noqa: PLC0415 - as above
    from refold.replay.testing.selfcheck import twin_of  # noqa: PLC0415 - as above

    ready = {name: load_program(program) for name, program in programs.items()}
    here = _executing(ready, tools, volatile, lambda: twin_of(session))
    found = [tool.reference for tool in tools]
    if session is not None:
        found.append(getattr(session, "factory", None))
    try:
        references = {name: attrs.asdict(reference_of(each)) for name, each in programs.items()}
        made = [attrs.asdict(elsewhere(each)) for each in found if each is not None]
    except ProgramNotFound:
        return here
    if len(made) < len(found):
        return here
    given: dict[str, Any] = {"programs": references, "volatile": list(volatile)}
    given["session"] = None if session is None else made.pop()
    return Reference(__name__, "replayer", {**given, "tools": made})


def _executing(
    programs: "Programs",
    tools: Sequence[Tool],
    volatile: Sequence[str],
    session: Callable[[], Any] = lambda: None,
) -> "Execute":
    from refold.replay.audit.session_fold import had_session  # noqa: PLC0415 - as above
    from refold.replay.bulk.bulk import program_for, replay_row  # noqa: PLC0415 - as above

    def execute(log: Path) -> Any:
        return replay_row(
            log,
            lambda path, name: reexecute(
                path,
                program_for(path, name, programs),
                tools=tools,
                session=session() if had_session(path) else None,
                volatile=volatile,
            ),
        )

    return execute


def explore(
    log: str | os.PathLike[str] | Recording,
    program: "Program | Reference | str | None" = None,
    *,
    tools: Tools = (),
    **options: Any,
) -> "ExploreReport":
    """Run the program of `log` under other orders of completion, with what was recorded.

    Nothing but the program is executed.  The report names the first order that changes the
    output, shrunk to the fewest moves.  Options are those of `refold.replay.what_if.explore`:
    `orders` (how many at most, 200), `timers` (whether timeouts race), `seed`, `children`,
    `session`.

    Raises:
        LogError: there is no such log, or it has no end.
        Diverged: in the recorded order, the program does not do what its log says.
        UsageError: the call is wrong, or the program keeps something from one run to the next.
    """
    from refold.replay.what_if import explore as replay  # noqa: PLC0415 - as in `reexecute`

    path = _path_of(log)
    return replay.explore(path, program, **_given(path, tools, options))


def sensitivity(
    log: str | os.PathLike[str] | Recording,
    program: "Program | Reference | str | None" = None,
    *,
    tools: Tools = (),
    **options: Any,
) -> "SensitivityReport":
    """Alter each recorded outcome of `log` in turn, run the program, and say what depends on it.

    Nothing but the program is executed.  Options are those of `refold.replay.what_if.sensitivity`:
    `errors` (a failure in the place of each success, too), `only` (a part of a call), `session`.

    Raises:
        LogError: there is no such log, or it has no end.
        Diverged: the program does not do what its log says.
        UsageError: the call is wrong, or the program keeps something from one run to the next.
    """
    from refold.replay.what_if import sensitivity as replay  # noqa: PLC0415 - as in `reexecute`

    path = _path_of(log)
    return replay.sensitivity(path, program, **_given(path, tools, options))


def drift(
    log: str | os.PathLike[str] | Recording,
    program: "Program | Reference | str | None" = None,
    *,
    tools: Tools = (),
    **options: Any,
) -> "DriftReport":
    """Run the program of `log` again with live outcomes, and say per call what differs.

    By default everything is live but tools that change the world, whose recorded results are
    served.  Options are those of `refold.replay.partial.drift`: `sources` (a `refold.Sources`),
    `model`, `models`, `session`, `compare`, `twice`, `into`, `volatile`.

    Raises:
        LogError: there is no such log, or it has no end.
        ToolNeeded: a tool that is to run live was not passed.
        UsageError: nor was a model, or the call is wrong in another way.
    """
    from refold.replay.partial.drift import drift as live  # noqa: PLC0415 - as in `reexecute`

    path = _path_of(log)
    return live(path, program, **_given(path, tools, options))


def fork(
    log: str | os.PathLike[str] | Recording,
    at: int | None = None,
    program: "Program | Reference | str | None" = None,
    *,
    into: str | os.PathLike[str],
    tools: Tools = (),
    **options: Any,
) -> "Fork":
    """Copy a log up to entry `at` into a new one, change results, and let the program go on.

    Options are those of `refold.replay.resume.fork`: `edits` (outcomes by call key), `sources` (a
    `refold.Sources`; by default everything comes from the record), `model`, `models`, `session`.

    Raises:
        EntryMissing: the log has no such entry.
        ForkRefused: nothing says where to fork, or an edit names no outcome.
        Diverged: an edit changes what stands before the fork.
        LogExists: `into` exists.
        UsageError: the call is wrong in another way.
    """
    from refold.replay.resume.fork import fork as forked  # noqa: PLC0415 - as in `reexecute`

    path = _path_of(log)
    return forked(path, at, program, into=into, **_given(path, tools, options))


def _path_of(log: str | os.PathLike[str] | Recording) -> str | os.PathLike[str]:
    return log.log if isinstance(log, Recording) else log


def _given(log: str | os.PathLike[str], tools: Tools, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with what every run of a recorded program takes."""
    session = _session_for(log, options.get("session"))
    return {**options, "tools": _with_shipped(log, tools), "session": session}


def _session_for(log: str | os.PathLike[str], given: "SessionPort | None") -> "SessionPort | None":
    """Return the session that is passed, else an empty one where the run had no other.

    Raises:
        SessionNeeded: the run's held what only its own reducers know.
    """
    from refold.engine.errors import LogDamaged, SessionNeeded  # noqa: PLC0415 - as above
    from refold.replay.audit.session_fold import StandIn, beyond, had_session  # noqa: PLC0415 - as above

    if given is not None or not had_session(log):
        return given
    from refold.tools.agents.plans import register_plans  # noqa: PLC0415 - few runs have a session

    def planned() -> StandIn:
        session = StandIn(factory=Reference("refold.engine.session.session", "Session", {}))
        register_plans(session)
        return session

    held = ""
    with contextlib.suppress(LogDamaged):  # which the re-execution tells
        held = beyond(log, planned)
    if held:
        raise SessionNeeded(os.fspath(log), held)
    return planned()


def _with_shipped(log: str | os.PathLike[str], tools: Tools) -> list[Tool]:
    given = [as_tool(tool) for tool in tools]
    return [*_shipped(log, {tool.name for tool in given}), *given]


def _shipped(log: str | os.PathLike[str], given: set[str]) -> list[Tool]:
    """Return the shipped delegation tools that the run was offered and that nobody passed."""
    first = next(iter(read_entries(log, torn_ok=True)), None)
    offers = first.data.get("tools", []) if first is not None else []
    names = {offer["name"] for offer in offers if offer.get("delegates")} - given
    if not names:
        return []
    from refold.tools.delegation.shipped import offered_tools  # noqa: PLC0415 - most runs delegate nothing

    return [tool for tool in offered_tools(offers) if tool.name in names]
