"""The end of a run, from the program's result or exception, or from the reason it was stopped.

Also converts exceptions to data and back. Pure; statuses and reasons are CONTRACT.md §7.1.
"""

import asyncio
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

import refold.engine
from refold.engine.encoding.canonical import Json, encode, kind_of
from refold.engine.encoding.plain import to_json
from refold.engine.errors import (
    AgentUnknown,
    DefNotFoundError,
    LimitReached,
    ModelError,
    NestedRun,
    NotCanonical,
    OutsideLoop,
    ProgramError,
    RunEnded,
    ToolError,
    UsageError,
    ValueRefused,
)
from refold.engine.events.events import LimitHit
from refold.engine.events.outcome import CUT, Artifact, Fault, Report
from refold.engine.log.blobs import DATA_MAX, encode_data
from refold.engine.loop.loop import CALLBACKS_MAX, Loop, Task, is_asyncios, is_engines, is_librarys
from refold.engine.ports.program_types import PLAIN, ProgramTypes
from refold.engine.values import Value

_END_BYTES_MAX: Final = DATA_MAX - 32 * 1024
"""The size limit of the program's data in a run's end; the rest of its entry needs space too."""


@attrs.frozen
class Verdict(Value):
    """How a run ended, before it is written down."""

    status: str
    reason: str
    output: Json = None
    error: Fault | None = None
    report: Report | None = None
    place: tuple[str, int] | None = None
    """File and line of the program that raised; for people, and in no digest."""
    raised: BaseException | None = None
    """The program's exception, if it was raised in this process; never logged."""
    call: str = ""
    """The call whose failure that is, or comes from."""


@attrs.frozen
class ProgramResult(Value):
    """What became of the program's own code."""

    value: Any = None
    error: BaseException | None = None
    abandoned: bool = False


def verdict_of_value(
    value: Any, output_bytes: int | None, types: ProgramTypes = PLAIN
) -> tuple[Verdict, LimitHit | None]:
    """Return how a run ended that returned `value`, and the limit that it hit, if any."""
    report = value if isinstance(value, Report) else None
    try:
        if report is not None:
            _check_report(report)
        output = types.dump_output(to_json(report.output if report else value))
        size = len(encode(output))
        given = (*report.artifacts, *report.own) if report else ()
        artifacts = [_artifact(each, at) for at, each in enumerate(given)]
        encode_data({"output": output, "artifacts": artifacts}, bytes_max=_END_BYTES_MAX)
    except NotCanonical as error:
        if inspect.iscoroutine(value):
            value.close()  # or Python would name a line of ours
        what = "the program's return value"
        error = NotCanonical(error.pointer, error.expected, error.found, what)
        return failed("output", str(error)), None
    except ValueRefused as error:
        return refused(error), None
    if output_bytes is None or size <= output_bytes:
        reason = CUT if report is not None and report.is_cut else "done"
        return Verdict("completed", reason, output=output, report=report), None
    message = f"the output has {size} bytes; {output_bytes} allowed"
    verdict = Verdict("limit", "limit", error=Fault(code="output_bytes", message=message))
    return verdict, LimitHit("output_bytes", output_bytes, "run", size)


def _check_report(report: Report) -> None:
    """Refuse what would make the log damaged, or end the engine.

    Raises:
        NotCanonical: the summary is not a text, or the artifacts are not a list.
    """
    if not isinstance(report.summary, str | None):
        raise NotCanonical("/summary", "a text", kind_of(report.summary))
    if not isinstance(report.artifacts, tuple | list):
        raise NotCanonical("/artifacts", "a tuple of refold.Artifact", kind_of(report.artifacts))


def _artifact(artifact: object, at: int) -> dict[str, Any]:
    if not isinstance(artifact, Artifact):
        raise NotCanonical(f"/artifacts/{at}", "a refold.Artifact", kind_of(artifact))
    return attrs.asdict(artifact)


def cancelled(message: str) -> Verdict:
    """Return the end of a run that was cancelled, and by whom."""
    return Verdict("cancelled", "cancelled", error=Fault(code="cancelled", message=message))


def result_of(task: Task) -> ProgramResult:
    """Return what became of a task that is done."""
    if task.cancelled():
        return ProgramResult(abandoned=True)
    error = task.exception()
    return ProgramResult(error=error) if error is not None else ProgramResult(value=task.result())


def fault_of(error: BaseException) -> dict[str, str]:
    """Return an exception as the data of a failed tool: {code, message, type}."""
    match error:
        case ToolError():
            return {"code": error.code, "message": error.message, "type": error.error_type}
        case _:
            return {"code": "raised", "message": text_of(error), "type": type(error).__name__}


def text_of(error: BaseException) -> str:
    """Return an exception's text, fit for a log: at most 4,000 characters, no lone surrogates.

    A group, such as a `TaskGroup` raises, includes the texts of its exceptions, because its own is
    not enough.
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception whose text raises is still an exception
        text = "(its text cannot be shown)"
    if inner := list(itertools.islice(_within(error), _INNER_TOLD + 1)):
        told = [f"{type(one).__name__}: {text_of(one)}" for one in inner[:_INNER_TOLD]]
        text = "; ".join([f"{text}: {told[0]}", *told[1:], *(["…"] if inner[_INNER_TOLD:] else [])])
    return text[:4000].encode(errors="backslashreplace").decode()


_INNER_TOLD: Final = 8
"""The maximum number of a group's exceptions in its text."""


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, those of a group, and those that they were raised from."""
    left, seen = [error], set[int]()
    while left:
        if id(one := left.pop(0)) not in seen:
            seen.add(id(one))
            yield one
            left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
            left += [one.__cause__] if one.__cause__ is not None else []


def _within(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group, including nested groups."""
    left: list[BaseException] = [error] if isinstance(error, BaseExceptionGroup) else []
    while left:
        if isinstance(one := left.pop(), BaseExceptionGroup):
            left += reversed(one.exceptions)
        else:
            yield one


def tool_error(tool: str, fault: Mapping[str, Any]) -> ToolError:
    """Return the error that a failed tool raises in the program."""
    is_unknown = (fault.get("code"), fault.get("type")) == ("refused", DefNotFoundError.__name__)
    kind = AgentUnknown if is_unknown else ToolError
    return kind(
        tool,
        str(fault.get("message", "")),
        str(fault.get("code", "raised")),
        str(fault.get("type", "")),
    )


def failed(code: str, message: str, reason: str = "error") -> Verdict:
    """Return the end of a run that failed."""
    return Verdict("failed", reason, error=Fault(code=code, message=message))


_REFOLD: Final = refold.engine.__path__[0].rpartition("/")[0]
"""The folder of Refold itself."""


def place_of(error: BaseException) -> tuple[str, int] | None:
    """Return file and line of the innermost frame of `error` in the user's own code.

    Without one, of a library that is not part of the engine. For a group, of its first exception.
    """
    place, is_own = None, False
    for one in _within(error):
        if (place := place_of(one)) is not None:
            return place
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if place is not None and isinstance(error, NestedRun) and file.startswith(_REFOLD):
            break  # the program called it; below are calls of ours, not all of the engine
        own = not is_librarys(file)
        if own or not (is_own or is_engines(file)):
            place, is_own = (file, line), own
    return place


def verdict_of_error(error: BaseException) -> Verdict:
    """Return how a run ended whose program raised `error`."""
    match error:
        case LimitReached(limit=limit):
            reason = "max_iterations" if limit == "max_iterations" else "limit"
            return Verdict("limit", reason, error=Fault(code=limit, message=str(error)))
        case RunEnded():
            return failed(error.reason, error.message, error.reason)
        case OutsideLoop():
            return failed("outside_loop", str(error))
        case ModelError():
            return failed(error.code, error.full_text)
        case ProgramError() | UsageError():
            return failed("raised", f"{type(error).__name__}: {error}")
        case _:
            return failed("raised", f"{type(error).__name__}: {text_of(error)}")


def refused(error: ValueRefused) -> Verdict:
    """Return the end of a run whose input or output does not fit its program's annotation."""
    return attrs.evolve(failed(error.part, str(error)), raised=error)


def timed_out(hit: LimitHit) -> Verdict:
    """Return the end of a run whose wall time was over."""
    message = f"it did not end within {hit.allowed:g} s"
    return Verdict("timed_out", "limit", error=Fault(code="timeout_seconds", message=message))


def stuck(loop: Loop) -> Verdict:
    """Return the end of a run that nothing could ever wake; names its tasks (CONTRACT.md §9.4)."""
    waiting = _tasks(loop.unfinished)
    return failed("stuck", f"nothing can wake the program: {waiting}")


def spinning(loop: Loop) -> Verdict:
    """Return the end of a run that never waits; names its first tasks (CONTRACT.md §9.4)."""
    many = f"the program never waits: it ran {CALLBACKS_MAX:,} callbacks in one step"
    running = _tasks(itertools.islice(loop.unfinished, _TASKS_NAMED))
    return failed("spinning", f"{many}: {running}. Wait for an event, or sleep")


def unending(loop: Loop) -> str:
    """Return the message about tasks that ignore their cancellation; names the first (§9.4)."""
    running = _tasks(itertools.islice(loop.unfinished, _TASKS_NAMED), is_librarys)
    advice = "Do not suppress asyncio.CancelledError there"
    return f"the program did not end when it was cancelled: {running}. {advice}"


def _tasks(
    tasks: Iterable[asyncio.Task[Any]], is_passed_by: Callable[[str], bool] = is_asyncios
) -> str:
    return "; ".join(f"task {_scope_name(task)} {_waits_at(task, is_passed_by)}" for task in tasks)


_TASKS_NAMED: Final = 8
"""The maximum number of tasks that a message names."""


def _scope_name(task: asyncio.Task[Any]) -> str:
    return task.scope.path if isinstance(task, Task) else task.get_name()


def _waits_at(task: asyncio.Task[Any], is_passed_by: Callable[[str], bool] = is_asyncios) -> str:
    """Return where a task waits: the innermost line of the program in its chain of coroutines.

    `is_passed_by`: whether a file is not the program's.
    """
    waiting: Any = task.get_coro()
    place = "waits"
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        code = frame.f_code
        if not is_passed_by(code.co_filename) or place == "waits":
            name = code.co_filename.rpartition("/")[2]
            place = f"waits at {name}:{frame.f_lineno} in {code.co_name}"
        waiting = waiting.cr_await
    return place
