"""The calls of `refold` that join the folders: `record`, `reexecute`, `verify` and their like.

The engine knows no tool and replay knows none either; here the tools that Refold ships are added to
those that are given, and plain functions become tools.
"""

import asyncio
import contextlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import attrs

import refold.programs  # `refold.record` knows them by name
import refold.replay
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.parameters import names_nearest
from refold.engine.encoding.plain import to_json
from refold.engine.errors import OptionRefused, UsageError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import CUT, T
from refold.engine.log.descriptors import holding
from refold.engine.log.names import log_path
from refold.engine.log.reader import Entry, read_entries
from refold.engine.ports.ports import (
    ChildRunner,
    Clock,
    Durability,
    Model,
    Program,
    ProgramOf,
    Question,
    Reference,
    SessionPort,
    Tool,
)
from refold.engine.recording.nested import check_may_start
from refold.engine.recording.workers import is_loop_here
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import known_models
from refold.engine.runners.recording import record as _record
from refold.engine.runners.recording import record_async as _record_async
from refold.engine.secrets.redaction import Redaction
from refold.options import Tools, checked, shown
from refold.replay.index.malformed import explains_malformed

if TYPE_CHECKING:
    from refold.engine.signing.signature import SigningKey
    from refold.replay.bulk.bulk import Execute, Programs
    from refold.replay.partial.rerun import Again

LogPath = str | os.PathLike[str]
"""A path, or a `Recording`, which represents its log."""
Logs = list[Any] | tuple[LogPath, ...]
"""Logs and folders; a list of paths of any kind."""


@names_nearest
def record(
    program: "ProgramOf[T] | Reference | str",
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    *,
    log: "LogPath | None" = None,
    tools: Tools = (),
    model: "Model | str | None" = None,
    models: "Mapping[str, Model | str] | None" = None,
    runner: str = "in-process",
    runners: "Mapping[str, ChildRunner] | None" = None,
    limits: Limits | None = None,
    seed: str | int | None = None,
    clock: "Clock | None" = None,
    session: "SessionPort | None" = None,
    durability: "Durability" = "group",
    ask: "Callable[[Question], Json] | None" = None,
    secrets: Mapping[str, str] | None = None,
    redaction: Redaction | None = None,
    volatile: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    sign: "LogPath | None" = None,
    check: bool | None = None,
) -> Recording[T]:
    """Run `program(run, input)`, record it, and return its recording, however the run ended.

    Args:
        program: A function, `async def` or plain; or ``module:name``, ``file.py:name``.
        input: Any value that a log can hold and that fits the program's annotation (§9.12).
        log: The file to write; by default a new one under `runs/`.
        tools: Tools that the program may call by name.  Tools passed to `run.tool` need not be
            here.  A plain function becomes a tool with the effect `changes`.
        model: The default of `run.model`: a model, or ``openai:NAME``, ``anthropic:NAME``,
            ``pydantic:PROVIDER:NAME``.
        models: More models, by the names that `run.model(model=…)` uses.
        runner: The default runner of children: `in-process`, `subprocess` or `ray`.
        runners: More runners, by name; they may replace the built-in ones.
        limits: Limits of the root run.  Children's limits are never higher.
        seed: A number or string that determines all generated values.
        clock: A clock that determines all times that programs and models see.
        session: The session of the run; the log begins with its snapshot.
        durability: `fast`, `group` or `strict` (CONTRACT.md §4.4).
        ask: A function that answers `run.ask`, plain or `async def`.  It is called on a thread with
            a `refold.Question`, and may raise `refold.Unanswered`.  An unanswered question suspends
            the run (§9.9).
        secrets: Values by the names that `run.secret` uses.  Other names are environment variables.
        redaction: Values to redact before anything is written or delivered (§3.9).
        volatile: Paths that a replay does not compare, such as `tool:fetch/arguments/ts`.  The
            report lists their differences (§12.7).
        labels: Texts by name, such as `{"order": "A-117"}`, by which `refold ls --text` finds the
            run.  They are not compared, and no digest includes them.
        sign: The file of an unencrypted OpenSSH private key that signs the log at the end of the
            run (§5.5).  Needs `ssh-keygen`.
        check: Whether to replay the run immediately, in this process and in new ones with a
            different hash seed, time zone and working directory.  `warnings` then lists code that
            reads outside `run`.  If the variable `REFOLD_CHECK` is 1, every run is checked, and
            the findings are Python warnings as well.

    Raises:
        LogExists: the log exists; it is not overwritten.
        UsageError: an argument is wrong, which `OptionRefused` names, or the function was called
            incorrectly; nothing was recorded.
        LogPoisoned: the log could not be written to its end.
        KeyRefused: `sign` names a file without a usable key; nothing was recorded.
        Nondeterministic: with `check`, the program did something different in the replay.
    """
    options = checked("record", **locals())  # all that was passed, and nothing else yet
    del options["check"]
    _check_program("record", program)
    key = _signing_key(options.pop("sign"))
    recording = report_recording(_record(program, input, **options))
    if is_loop_here():
        warnings.warn(_BLOCKS, RuntimeWarning, stacklevel=3)  # above the decorator
    _sign(recording, key)
    if not is_checked(check):
        return recording
    found = _checked(recording, program, options["tools"], session, is_asked=check is True)
    return found if check else _warned(found, 4)


def _signing_key(path: "LogPath | None") -> "SigningKey | None":
    if path is None:
        return None
    from refold.engine.signing.signature import SigningKey  # noqa: PLC0415 - few runs are signed

    return SigningKey(Path(path))


def _sign(recording: Recording, key: "SigningKey | None") -> None:
    """Sign the log of a run that ended."""
    if key is not None:
        from refold.engine.signing.signature import sign_log  # noqa: PLC0415 - few runs are signed

        sign_log(recording.log, key)


@names_nearest
async def record_async(
    program: "ProgramOf[T] | Reference | str",
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    *,
    log: "LogPath | None" = None,
    tools: Tools = (),
    model: "Model | str | None" = None,
    models: "Mapping[str, Model | str] | None" = None,
    runner: str = "in-process",
    runners: "Mapping[str, ChildRunner] | None" = None,
    limits: Limits | None = None,
    seed: str | int | None = None,
    clock: "Clock | None" = None,
    session: "SessionPort | None" = None,
    durability: "Durability" = "group",
    ask: "Callable[[Question], Json] | None" = None,
    secrets: Mapping[str, str] | None = None,
    redaction: Redaction | None = None,
    volatile: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    sign: "LogPath | None" = None,
    check: bool | None = None,
) -> Recording[T]:
    """Record like `record`, from a coroutine; asynchronous tools run on the caller's loop.

    Cancelling the awaiting task cancels the run, which ends as `cancelled`. Arguments and
    errors are those of `record`.
    """
    options = checked("record_async", **locals())  # all that was passed, and nothing else yet
    del options["check"]
    _check_program("record_async", program)
    try:
        key = _signing_key(options.pop("sign"))
        recording = report_recording(await _record_async(program, input, **options))
    except UsageError as error:
        raise error.with_traceback(None)  # noqa: B904 - the call is wrong, no line of ours
    _sign(recording, key)
    if not is_checked(check):
        return recording
    found = await asyncio.to_thread(
        _checked, recording, program, options["tools"], session, is_asked=check is True
    )
    return found if check else _warned(found, 3)


_CUT_OFF: Final = "the provider cut the answer off; the parameter max_tokens may allow more"
_BLOCKS: Final = (
    "refold.record blocked the running event loop until the run had ended: "
    "use await refold.record_async(…), or a thread under another library than asyncio"
)


def report_recording(recording: Recording) -> Recording:
    """Say on standard error that a run failed, or why a question stays open.

    Nothing is printed about a log with a hidden name: the caller moves it (`refold.testing`).
    """
    if recording.log.name.startswith("."):
        return recording
    said = [
        f"the question {question.question!r} stays open: {question.problem}"
        for question in recording.questions
        if question.problem
    ]
    if not recording.ok and recording.status != "suspended":
        said.append(str(recording))
    if recording.ok and recording.reason == CUT:
        said.append(f"{recording.log.name}: {_CUT_OFF}")
    if said and sys.stderr is not None:
        from refold.replay.run.tree_text import advice, printable  # noqa: PLC0415 - most say nothing

        for each in said:  # one line each, which moves no cursor: a server may have worded it
            line = printable(each + advice(each)).replace("\n", "\\n")
            sys.stderr.write(f"refold: {line}\n")
    return recording


def _check_program(call: str, program: object) -> None:
    """Refuse a program's result in place of the program, and anything else that is not one."""
    if inspect.iscoroutine(program):
        name = program.__name__
        program.close()  # else Python warns that it was never awaited
        expected = f"the function itself: {call}({name}, input)"
        raise OptionRefused(call, "program", expected, f"a coroutine, {name}(…)")
    may_be_none = () if call.startswith("record") else (None,)
    if not (callable(program) or isinstance(program, str | Reference) or program in may_be_none):
        expected = "a function, module:name or file.py:name"
        raise OptionRefused(call, "program", expected, shown(program))


def is_checked(check: bool | None = None, default: str = "") -> bool:  # noqa: FBT001 - as `record` takes it
    """Return whether a run is checked: as the call says, or the variable, or else the default."""
    given = (os.environ.get("REFOLD_CHECK") or default).lower()
    return given not in ("", "0", "false", "no", "off") if check is None else check


def _warned(recording: Recording, stacklevel: int) -> Recording:
    """Print the findings for a caller who did not ask for them and may not read the result."""
    for text in recording.warnings:
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)
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

    A caller who did not ask for it is not warned about objects that cannot be imported elsewhere.
    """
    from refold.replay.testing.selfcheck import checked, checked_elsewhere, twin_of  # noqa: PLC0415 - as in `reexecute`

    found = checked(
        recording,
        lambda: reexecute(recording, program, tools=tools, session=twin_of(session)),
    )
    there = checked_elsewhere(found, _replayer_elsewhere(program, tools, session))
    return there if is_asked or there.replays else found


def _replayed(
    recording: Recording,
    program: "Program | Reference | str | None",
    tools: Sequence[Tool],
    session: "SessionPort | None",
    check: bool | None,  # noqa: FBT001 - as `resume` takes it
    origin: Path | None = None,
) -> Recording:
    """Replay a log that was continued, and its origin, in a new process.

    For a caller who did not ask for it, a difference is a Python warning as well.
    """
    if not is_checked(check, "1"):
        return recording
    from refold.engine.ports.programs import program_name  # noqa: PLC0415 - as above
    from refold.replay.testing.selfcheck import replayed_elsewhere  # noqa: PLC0415 - as above

    name = program_name(program) if program is not None else "the program"
    replayer = _replayer_elsewhere(program, tools, session)
    found = replayed_elsewhere(recording, name, replayer, origin)
    if check is None and found.replays is False:
        warnings.warn(found.warnings[-1], RuntimeWarning, stacklevel=4)  # above the decorator
    return found


def _replayer_elsewhere(
    program: "Program | Reference | str | None",
    tools: Sequence[Tool],
    session: "SessionPort | None",
) -> "Execute | Reference":
    """Return what re-executes a log of the program, with the tools that a replay needs."""
    from refold.replay.bulk.bulk import named  # noqa: PLC0415 - as above

    needed = [tool for tool in tools if tool.typed or tool.delegates]
    known = session if getattr(session, "maker", None) is not None else None
    return _replayer(named(program), needed, (), known)


@overload
def reexecute(
    log: LogPath,
    program: "ProgramOf | Reference | str | None" = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
    volatile: Iterable[str] = (),
) -> "refold.replay.ReplayReport": ...


@overload
def reexecute(
    log: Logs,
    program: "ProgramOf | Reference | str | Programs | None" = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
    volatile: Iterable[str] = (),
    jobs: int | None = None,
    fail_fast: bool = False,
    timeout_seconds: float | None = None,
    on_verdict: "Callable[[refold.replay.LogResult], None] | None" = None,
) -> "refold.replay.BulkReport": ...


@names_nearest
@explains_malformed
def reexecute(
    log: Any,
    program: Any = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
    volatile: Iterable[str] = (),
    jobs: int | None = None,
    fail_fast: bool = False,
    timeout_seconds: float | None = None,
    on_verdict: Callable[[Any], None] | None = None,
) -> Any:
    """Run the program of `log` again with the recorded results, and compare.

    Only programs and delegation tools are executed.  Pass as `tools` your own delegation tools,
    and tools with typed results that the program calls by name.

    The hash chain and the heads of children are verified as well.  `verify` also checks that
    the entries are consistent (CONTRACT.md §5.2); `refold replay` calls it first.

    Args:
        log: A log; or a list of logs and folders, which mean all root logs below them. Those are
            replayed in parallel, in separate processes, and the other arguments can be given.
        program: The program, or with a list several by their names in the logs.  Not needed for
            programs that come with Refold.
        tools: See above.
        session: A new session with the same reducers, if the run had one, unless it held only
            plans.  In other processes, its `factory` makes them.
        volatile: Paths that are not compared, such as `tool:fetch/arguments/ts`, in addition to
            those in the log.
        jobs: The number of logs at once; by default the number of processors.  It is 1,
            in this process, if another process cannot import the programs, the tools or the
            session.
        fail_fast: Whether to stop at the first log that differs.
        timeout_seconds: The wall time for one log; then its row is `timed out`.
        on_verdict: A function that is called with each row as soon as it is known.

    Raises:
        LogError: the log does not exist or is damaged.  In a list, its row says that it is damaged.
        ProgramNotFound: no program was passed, and the log's program does not come with Refold.
        ToolNeeded: a tool is missing in `tools`.
        UsageError: the function was called incorrectly; or `timeout_seconds` is given for programs,
            tools or a session that another process cannot import.
    """
    many = {
        "jobs": jobs, "fail_fast": fail_fast, "timeout_seconds": timeout_seconds,
        "on_verdict": on_verdict,
    }  # fmt: skip
    given: dict[str, Any] = {"tools": tools, "session": session, "volatile": volatile}
    if _are_logs("reexecute", log, many):
        return _replay_all(log, program, given, many)
    with holding():  # all looks at the log read it once
        given = _given("reexecute", program, log=log, **given)
        from refold.replay.reexecute import reexecute as replay  # noqa: PLC0415 - who only records needs none

        return replay.reexecute(program=program, **given)


def _are_logs(call: str, log: object, many: Mapping[str, Any]) -> bool:
    """Return whether `log` is a list of logs; refuse options of a list for one log."""
    are_many = isinstance(log, Iterable) and not isinstance(log, str | os.PathLike)
    for name, value in many.items():
        if value not in (None, False) and not are_many:
            raise OptionRefused(call, name, "nothing for one log; it is for a list", shown(value))
    return are_many


def _replay_all(
    logs: Any, program: Any, given: Mapping[str, Any], many: Mapping[str, Any]
) -> "refold.replay.BulkReport":
    from refold.replay.bulk.bulk import find_logs, named, replay_logs  # noqa: PLC0415 - as in `reexecute`
    from refold.replay.bulk.processes import Schedule  # noqa: PLC0415 - the same

    check_may_start("reexecute")
    on_verdict = many["on_verdict"]
    ready = checked("reexecute", **given, on_verdict=on_verdict)
    execute = _replayer(named(program), ready["tools"], tuple(ready["volatile"]), given["session"])
    how = Schedule(**{name: many[name] for name in ("jobs", "fail_fast", "timeout_seconds")})
    return replay_logs(find_logs(logs, "reexecute"), execute, how, on_verdict)


@overload
def verify(
    log: LogPath, *, expect_head: str | None = None, trust: LogPath | None = None
) -> "refold.replay.Verification": ...


@overload
def verify(
    log: Logs,
    *,
    jobs: int | None = None,
    timeout_seconds: float | None = None,
    on_verdict: "Callable[[refold.replay.Verification], None] | None" = None,
) -> "tuple[refold.replay.Verification, ...]": ...


@names_nearest
@explains_malformed
def verify(
    log: Any,
    *,
    expect_head: str | None = None,
    trust: LogPath | None = None,
    jobs: int | None = None,
    timeout_seconds: float | None = None,
    on_verdict: Callable[[Any], None] | None = None,
) -> Any:
    """Verify a log and all logs below it; execute nothing.  Damage is reported, never raised.

    Args:
        log: A log; or a list of logs and folders, which mean all root logs below them.  A list
            gives one result for each root log, in the order of the logs.  A log that cannot be read
            is not intact, and does not stop the others.
        expect_head: A head of one log, kept elsewhere: with it, an unsealed log can be complete,
            and a different head is damage.
        trust: A file of allowed signers (ssh-keygen(1)): without it, nothing is authentic.
        jobs: The number of processes; by default, processes are started only for thousands of logs.
        timeout_seconds: The wall time for one log; then it is not intact.
        on_verdict: As for `reexecute`.

    Raises:
        ProgramMissing: `trust` is given, the log is signed, and `ssh-keygen` is missing or too old.
        LogMissing: the log, or a path of the list, does not exist, or has no logs.
        LogNameRefused: `log` does not end in `.jsonl`; a packed log is opened first.
        LogUnsupported: the log was written by a newer version.
        KeyRefused: the file of allowed signers cannot be read.
        UsageError: the function was called incorrectly.
    """
    many = {"jobs": jobs, "timeout_seconds": timeout_seconds, "on_verdict": on_verdict}
    if not _are_logs("verify", log, many):
        from refold.replay.audit import verify as one  # noqa: PLC0415 - as in `reexecute`

        return one.verify(log, expect_head=expect_head, trust=trust)
    if expect_head is not None or trust is not None:
        name, value = ("trust", trust) if expect_head is None else ("expect_head", expect_head)
        raise OptionRefused("verify", name, "nothing for a list; it is for one log", shown(value))
    from refold.replay.bulk.bulk import find_logs, verify_logs  # noqa: PLC0415 - as in `reexecute`
    from refold.replay.bulk.processes import Schedule  # noqa: PLC0415 - the same

    checked("verify", on_verdict=on_verdict)
    how = Schedule(jobs=jobs, timeout_seconds=timeout_seconds)
    return verify_logs(find_logs(log, "verify"), how, on_verdict)


@names_nearest
@explains_malformed
def resume(
    log: LogPath,
    program: "ProgramOf[T] | Reference | str | None" = None,
    *,
    tools: Tools = (),
    model: "Model | str | None" = None,
    models: "Mapping[str, Model | str] | None" = None,
    runner: str | None = None,
    runners: "Mapping[str, ChildRunner] | None" = None,
    clock: "Clock | None" = None,
    session: "SessionPort | None" = None,
    durability: "Durability" = "group",
    answers: Mapping[str, Json] | None = None,
    by: str = "",
    ask: "Callable[[Question], Json] | None" = None,
    retry: Iterable[str] = (),
    fail: Iterable[str] = (),
    results: Mapping[str, Json] | None = None,
    max_attempts: int | None = None,
    secrets: Mapping[str, str] | None = None,
    check: bool | None = None,
) -> Recording[T]:
    """Continue a run that broke off or waits for a person, in the same log; return its recording.

    The program runs with the recorded results to the end of the log, and then live.  Finished
    effects are not repeated.  Pass as `tools` all tools of the run, except the delegation tools
    that Refold ships.  When the run has ended, a new process replays the log.  If that differs,
    `replays` of the recording is false, and a warning has the difference.

    Args:
        log: The log of a root run that broke off or is suspended; its children continue too.
        program: The current program; not needed for programs that come with Refold.
        tools: All tools of the run; they are executed after the end of the log.
        model: As for `record`.
        models: As for `record`.
        runner: As for `record`; by default the recorded runner of the children.
        runners: As for `record`.
        clock: As for `record`.
        session: A new session with the same reducers, if the run had one.
        durability: As for `record`.
        answers: Answers to open questions, by key; see `refold.replay.open_ends`.
        by: The name of the person who answers.
        ask: As for `record`.
        retry: Keys of effects in doubt that run again.
        fail: Keys of effects in doubt, or of children, that count as failed.
        results: Results of effects in doubt, by key.
        max_attempts: The maximum number of attempts, including the first; by default 10.
        secrets: As for `record`.
        check: Whether to replay the log in a new process at the end.  The default is yes, unless
            the variable `REFOLD_CHECK` is 0.

    Raises:
        InDoubt: effects may have changed something, and no argument settles them.
        Diverged: the program differs from the log; the log was not changed.
        ChildStopped: a child cannot continue.
        AttemptsExhausted: the maximum number of attempts is reached.
        LogSealed: the run has ended.
        LogLocked: the run is still running.
        AnswerRefused: an answer does not fit an open question or its schema.
        LogError: the log is damaged or does not exist.
        ToolNeeded: a tool is missing in `tools`.
        UsageError: the function was called incorrectly.
    """
    given = _given("resume", **locals())
    from refold.engine.ports.ports import People  # noqa: PLC0415 - as in `reexecute`
    from refold.replay.resume.resume import resumed  # noqa: PLC0415 - the same

    people = People(
        answers={key: to_json(value) for key, value in (answers or {}).items()},
        ask=ask,
        by=by,
        retry=frozenset(retry),
        fail=frozenset(fail),
        results={key: to_json(value) for key, value in (results or {}).items()},
    )
    recording = resumed(
        given["log"],
        program,
        people,
        tools=given["tools"],
        models=known_models(given["model"], given["models"]),
        runner=runner,
        runners=runners,
        max_attempts=max_attempts,
        secrets=secrets,
        clock=clock,
        session=given["session"],
        durability=durability,
    )
    return _replayed(recording, program, given["tools"], session, check)


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

    def fresh() -> Any:
        made = load(Reference(**session)) if session is not None else None
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
    maker = getattr(session, "maker", None)
    needed = [tool.reference for tool in tools]
    if (session is not None and maker is None) or None in needed:
        return here
    try:
        given = {
            "programs": {name: attrs.asdict(reference_of(each)) for name, each in programs.items()},
            "tools": [attrs.asdict(elsewhere(each)) for each in needed if each is not None],
            "session": attrs.asdict(elsewhere(maker)) if maker is not None else None,
            "volatile": list(volatile),
        }
    except ProgramNotFound:
        return here
    return Reference(__name__, "replayer", given)


def _executing(
    programs: "Programs",
    tools: Sequence[Tool],
    volatile: Sequence[str],
    session: Callable[[], Any],
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


@names_nearest
@explains_malformed
def explore(
    log: LogPath,
    program: "ProgramOf | Reference | str | None" = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
    orders: int = 200,
    timers: bool = False,
    on_order: Callable[[int], None] | None = None,
) -> "refold.replay.ExploreReport":
    """Run the program of `log` with the recorded results in other orders of completion.

    Only the program is executed.  The report contains the first order that changes the output,
    reduced to the moves that are needed to change it.

    Args:
        log: The log of a finished root run or child.
        program: The current program; not needed for programs that come with Refold.
        tools: Your own delegation tools, and tools with typed results, as for `reexecute`.
        session: A session with the same reducers, if the run had one.
        orders: The maximum number of orders.
        timers: Whether to also vary timers: a timeout may fire before a call that was in time.
        on_order: A function that is called after each order, with the number of orders so far.

    Raises:
        LogError: the log does not exist or has no end.
        Diverged: in the recorded order, the program differs from its log.
        UsageError: the call is incorrect, or the program keeps state from one run to the next.
    """
    given = _given("explore", **locals())
    from refold.replay.what_if.explore import explored  # noqa: PLC0415 - as in `reexecute`
    from refold.replay.what_if.rehearsal import Stage  # noqa: PLC0415 - the same

    stage = Stage(given["log"], program, tools=given["tools"], session=given["session"])
    return explored(stage, orders, on_order, timers=timers)


@names_nearest
@explains_malformed
def sensitivity(
    log: LogPath,
    program: "ProgramOf | Reference | str | None" = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
    only: str = "",
    on_call: Callable[[int, int], None] | None = None,
) -> "refold.replay.SensitivityReport":
    """Change each recorded result of `log` in turn, run the program, and report the effects.

    Only the program is executed.

    Args:
        log: The log of a finished root run or child.
        program: The current program; not needed for programs that come with Refold.
        tools: Your own delegation tools, and tools with typed results, as for `reexecute`.
        session: A session with the same reducers, if the run had one.
        only: A part of a label; results of other calls are not changed or reported.
        on_call: A function that is called before each result, with its number and their count.

    Raises:
        LogError: the log does not exist or has no end.
        Diverged: the program differs from its log.
        UsageError: the call is incorrect, or the program keeps state from one run to the next.
    """
    given = _given("sensitivity", **locals())
    from refold.replay.what_if.rehearsal import Stage  # noqa: PLC0415 - the same
    from refold.replay.what_if.sensitivity import influences  # noqa: PLC0415 - as in `reexecute`

    stage = Stage(given["log"], program, tools=given["tools"], session=given["session"])
    return influences(stage, only=only, on_call=on_call)


@names_nearest
@explains_malformed
def drift(
    log: LogPath,
    program: "ProgramOf | Reference | str | None" = None,
    *,
    sources: "refold.Sources | None" = None,
    tools: Tools = (),
    model: "Model | str | None" = None,
    models: "Mapping[str, Model | str] | None" = None,
    session: "SessionPort | None" = None,
    compare: Mapping[str, Callable[[Json, Json], bool] | str] | None = None,
    twice: bool = False,
    into: LogPath | None = None,
    volatile: Iterable[str] = (),
) -> "refold.replay.DriftReport":
    """Run the program of `log` again with live results, and compare each call with the log.

    Args:
        log: The log of a finished root run.
        program: The current program; not needed for programs that come with Refold.
        sources: The source of each kind of result: live, recorded or a stub (`refold.Sources`).
            By default all are live, except for tools with the effect `changes`.
        tools: The tools that run live.
        model: The default model, if models are live; as for `record`.
        models: More models, by name.
        session: A new session with the same reducers, if the run had one.
        compare: Rules that compare results, by the name of a tool, `model` or `child`, or `*` for
            all: `exact` (the default), `text`, `subset`, ``numbers:0.01``, or a function.
        twice: Whether to run twice, and treat differences between both runs as noise.
        into: The log of the new run; by default it is not kept.
        volatile: Paths that are not compared, `tool:fetch/result/ts`, in addition to those in the
            log and of `tools` (§12.7).

    Raises:
        LogExists: `into` exists.
        LogError: the log does not exist or has no end.
        ToolNeeded: a tool that is live was not passed.
        UsageError: a model that is live was not passed, or the function was called incorrectly.
    """
    given = _given("drift", **locals())
    from refold.replay.partial.drift import LIVE, drifted  # noqa: PLC0415 - as in `reexecute`

    again = _again(program, given, sources or LIVE)
    new = Path(into) if into is not None else None
    return drifted(given["log"], again, compare=compare or {}, twice=twice, into=new)


@names_nearest
@explains_malformed
def fork(
    log: LogPath,
    at: int | None = None,
    program: "ProgramOf | Reference | str | None" = None,
    *,
    into: LogPath,
    edits: Mapping[str, Json] | None = None,
    again: str | None = None,
    sources: "refold.Sources | None" = None,
    tools: Tools = (),
    model: "Model | str | None" = None,
    models: "Mapping[str, Model | str] | None" = None,
    session: "SessionPort | None" = None,
    check: bool | None = None,
) -> "refold.replay.Fork":
    """Copy a log up to entry `at`, change results, and continue the program from there.

    When the fork has ended, a new process replays it and `log`, as after `resume`.

    Args:
        log: The log of a root run or child; runs above a child are copied up to its end.
        at: The seq of the last entry to keep; by default the entry of the first edited result.
            A negative number counts from the end.
        program: The current program of the root run; not needed for programs that come with Refold.
        into: The new root log.
        edits: New results, by call key of `log`; for a call of a child, with the calls that lead
            there, `0#1 > 0#2`.
        again: `failed` runs failed children again, with their successful results from the log;
            `at` is not needed.
        sources: The sources of results after `at` (`refold.Sources`); by default all recorded.  A
            live source runs every request of its kind, including unchanged ones.
        tools: The tools that run live.
        model: The default model, if models are live; as for `record`.
        models: More models, by name.
        session: A new session with the same reducers, if the run had one.
        check: As for `resume`.

    Raises:
        EntryMissing: the log does not have this entry.
        ForkRefused: neither `at` nor an edit is given, or a result cannot be edited.
        Diverged: an edit changes the part before the fork.
        LogExists: `into` exists.
        UsageError: the function was called incorrectly.
    """
    given = _given("fork", **locals())
    from refold.replay.partial.sources import Sources  # noqa: PLC0415 - as in `reexecute`
    from refold.replay.resume.fork import forked  # noqa: PLC0415 - the same

    way = _again(program, given, sources or Sources())
    if again not in (None, "failed"):
        raise UsageError(f"again={again!r:.60}: expected 'failed'")
    failed = again is not None
    made = forked(given["log"], at, way, into=Path(into), edits=edits or {}, failed=failed)
    if made.recording is None:
        return made
    replayed = _replayed(made.recording, program, given["tools"], session, check, made.origin)
    return attrs.evolve(made, recording=replayed)


def _given(call: str, program: object, **options: Any) -> dict[str, Any]:
    """Return the checked arguments, with those that every run of a recorded program takes.

    Raises:
        UsageError: an option is wrong, or this is called by a program.
    """
    given = checked(call, **options)
    _check_program(call, program)
    check_may_start(call)
    log = Path(given["log"]) if call == "resume" else log_path(call, given["log"])
    given["log"] = log
    entries = read_entries(log, torn_ok=True)
    first = next(entries, None)
    from refold.replay.audit.session_fold import has_session  # noqa: PLC0415 - who only records needs none

    # What an own program would still do with its session cannot be read in a log that broke off.
    if given["session"] is None and (call != "resume" or program is None) and has_session(entries):
        given["session"] = _planned(log)
    is_live = call in ("resume", "fork", "drift")
    return given | {"tools": _with_shipped(first, given["tools"], is_live=is_live)}


def _again(
    program: "Program | Reference | str | None", given: Mapping[str, Any], sources: "refold.Sources"
) -> "Again":
    from refold.replay.partial.rerun import Again  # noqa: PLC0415 - as in `reexecute`

    return Again(
        program=program,
        tools={tool.name: tool for tool in given["tools"]},
        models=known_models(given["model"], given["models"]),
        session=given["session"],
        sources=sources,
        volatile=tuple(given.get("volatile", ())),
    )


def _planned(log: LogPath) -> "SessionPort":
    """Return an empty session for a run that had one.

    Raises:
        SessionNeeded: the run's held what only its own reducers know.
    """
    from refold.engine.errors import LogDamaged, SessionNeeded  # noqa: PLC0415 - as above
    from refold.replay.audit.session_fold import StandIn, beyond  # noqa: PLC0415 - as above
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


def _with_shipped(first: Entry | None, tools: Sequence[Tool], *, is_live: bool) -> list[Tool]:
    """Return tools with the shipped delegation tools that the run was offered and nobody passed.

    In a run that goes on live, none whose children run a program of their own: it has to be passed.
    """
    offers = first.data.get("tools", []) if first is not None else []
    offers = [offer for offer in offers if not (is_live and offer.get("runs"))]
    names = {offer["name"] for offer in offers if offer.get("delegates")}
    names -= {tool.name for tool in tools}
    if not names:
        return [*tools]
    from refold.tools.delegation.shipped import offered_tools  # noqa: PLC0415 - most runs delegate nothing

    return [*(tool for tool in offered_tools(offers) if tool.name in names), *tools]
