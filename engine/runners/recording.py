"""`record`: from plain code, or awaited; a root run, or a child inside its runner.

A shell file.  Here a request is completed (ids, seed, log path, limits) and handed to
`engine.recording.recorder`; what becomes of it is returned as data.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import NotCanonical, UsageError
from refold.engine.events.limits import CEILINGS, Limits
from refold.engine.kernel.unawaited import tell, tell_quietly
from refold.engine.log.names import check_alone, fresh_path
from refold.engine.models.prices import check_priced
from refold.engine.ports.people import ASK_FAILED
from refold.engine.ports.ports import (
    CancelSignal,
    ChildRunner,
    Clock,
    Durability,
    Identity,
    Model,
    People,
    Program,
    Question,
    Reference,
    SessionPort,
    Tool,
)
from refold.engine.ports.program_types import types_of
from refold.engine.ports.programs import load_program, program_name
from refold.engine.recording.host import Host
from refold.engine.recording.nested import check_may_start
from refold.engine.recording.recorder import Recorder, unset_hits
from refold.engine.recording.run_request import RecordedRun, RunRequest, by_name
from refold.engine.recording.workers import beside_loop, on_thread
from refold.engine.runners.preflight import preflight
from refold.engine.runners.recorded import Recording
from refold.engine.runners.shipped import known_runners
from refold.engine.secrets.redaction import Redaction, check_named
from refold.engine.secrets.vault import Vault


def record(
    program: Program | Reference | str,
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    **options: Any,
) -> Recording:
    """Run `program(run, input)` and record it; return its end, of any kind.

    Options are those of `root_request`.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: the call is wrong in another way; nothing was recorded.
        LogPoisoned: the log could not be written to its end.
    """
    check_may_start("record")
    request = root_request(program, input, **options)
    return run_to_end(lambda host: Recorder(request, host).record(), request.cancel)


def run_to_end(work: Callable[[Host], RecordedRun], cancel: CancelSignal) -> Recording:
    """Record on a host of its own, beside a loop that runs here already; return how it ended.

    Raises:
        KeyboardInterrupt: the run was cancelled by Ctrl-C; its log is whole.
    """
    recorded = beside_loop(lambda: _hosted(work, None), cancel.set)
    if recorded.interrupted:
        raise KeyboardInterrupt
    return recording_of(recorded)


async def record_async(
    program: Program | Reference | str,
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    **options: Any,
) -> Recording:
    """Record as `record` does, from a coroutine: the kernel has a thread of its own.

    Asynchronous tools run on the caller's loop, so they may share its clients and locks.
    Cancelling the awaiting task cancels the run, which ends as `cancelled`.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: the call is wrong in another way; nothing was recorded.
    """
    check_may_start("record_async")
    request = root_request(program, input, **options)
    loop = asyncio.get_running_loop()
    ended = asyncio.wrap_future(
        on_thread(lambda: _hosted(lambda host: Recorder(request, host).record(), loop))
    )
    try:
        recorded = await asyncio.shield(ended)
    except asyncio.CancelledError:
        request.cancel.set()
        await asyncio.wait([ended])
        raise
    return recording_of(recorded)


def root_request(
    program: Program | Reference | str,
    argument: Json,
    *,
    log: str | os.PathLike[str] | None = None,
    tools: Sequence[Tool] = (),
    model: Model | None = None,
    models: Mapping[str, Model] | None = None,
    runner: str = "in-process",
    runners: Mapping[str, ChildRunner] | None = None,
    limits: Limits | None = None,
    seed: str | int | None = None,
    clock: Clock | None = None,
    session: SessionPort | None = None,
    durability: Durability = "group",
    ask: Callable[[Question], Json] | None = None,
    secrets: Mapping[str, str] | None = None,
    redaction: Redaction | None = None,
    volatile: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> RunRequest:
    """Return the request of a root run.

    Args:
        program: A function, `async def` or plain; or `module:name`, `file.py:name`.
        argument: Its input: any value that a log can hold.
        log: The path of the log; by default a fresh name under `runs/`.
        tools: The tools that the program may call by name; tools passed to `run.tool` need not be
            here.
        model: What `run.model` asks by default.
        models: More models, by the names that `run.model(model=…)` uses.
        runner: What children run on by default: `in-process` or `subprocess`.
        runners: More runners, by name; they may replace those.
        limits: Caps of the root; its children's only narrow.
        seed: Fixes everything that is drawn; a number or text.
        clock: Fixes every time that programs and models see.
        session: The value of `run.session`; its snapshot is at the beginning of the log.
        durability: `fast`, `group` or `strict` (CONTRACT.md §4.4).
        ask: Who answers `run.ask`; called on a thread with a `refold.Question`, and may raise
            `refold.Unanswered`.  A question that nobody answers suspends the run (§9.9).
        secrets: Values by the names that `run.secret` uses; others are environment variables.
        redaction: Values to remove from the texts of tools, models and callers, before they are
            written or delivered (CONTRACT.md §3.9).
        volatile: Paths whose values a re-execution does not compare, `tool:fetch/arguments/ts`; its
            report lists the ignored values (§12.7).
        labels: Texts by name, by which people find the run (§14.10).

    Raises:
        UsageError: the call is wrong.
    """
    known = known_models(model, models)
    check_priced(limits or CEILINGS, known)
    offered = by_name(tools)
    if redaction is not None:
        check_named(redaction, offered, (each.name for each in known.values()))
    name = program_name(program)
    seed_text = os.urandom(16).hex() if seed is None else digest.of_value(digest.VALUE, seed)[:32]
    run_id = digest.of_bytes(digest.IDENTITY, f"{seed_text}\0{name}".encode())[:16]
    found = load_program(program)
    request = RunRequest(
        program=found,
        program_name=name,
        input=_input(found, argument),
        identity=Identity(run_id=run_id, root_id=run_id, path="", depth=0, seed=seed_text),
        limits=(limits or CEILINGS).completed(CEILINGS),
        log=check_alone(Path(log)) if log is not None else fresh_path(name),
        tools=offered,
        models=known,
        runners=known_runners(runner, runners),
        runner=runner,
        durability=durability,
        clock=clock,
        session=session,
        people=People(ask=ask),
        labels=labels or {},
        vault=Vault(
            redaction, secrets=secrets, volatile=volatile, key_variables=key_variables(known)
        ),
    )
    return preflight(request)


def key_variables(models: Mapping[str, Model]) -> set[str]:
    """Return the names of the environment variables from which models take their keys."""
    return {name for model in models.values() for name in getattr(model, "key_variables", ())}


def known_models(model: Model | None, models: Mapping[str, Model] | None) -> dict[str, Model]:
    """Return models by name, the default under the empty one.

    Raises:
        UsageError: one of them is not a runner.
    """
    known = dict(models or {})
    if model is not None:
        known[""] = model
    for name, given in known.items():
        if not hasattr(given, "complete"):
            where = f"models[{name!r}]" if name else "model"
            found = f"{type(given).__name__} {given!r:.60}"
            raise UsageError(f"{where}: expected a Model (see refold.engine.models), found {found}")
    return known


def _input(program: Program, value: object) -> Json:
    types = types_of(program)
    try:
        plain = to_json(value)
    except NotCanonical as error:
        raise NotCanonical(error.pointer, error.expected, error.found, "input") from None
    types.read_input(plain, misspelt_first=True)
    return plain


def _hosted(
    work: Callable[[Host], RecordedRun], loop: asyncio.AbstractEventLoop | None
) -> RecordedRun:
    with contextlib.closing(Host(loop)) as host:
        return work(host)


def recording_of(recorded: RecordedRun) -> Recording:
    """Return the result of a recorded run for its caller."""
    tell(recorded.slips)
    tell_quietly(recorded.unheard)
    state = recorded.fold.state()
    return Recording.of(
        recorded.finished,
        types=recorded.types,
        log=recorded.log,
        head=recorded.head,
        entries=recorded.entries,
        where="{}:{}".format(*recorded.place) if recorded.place else "",
        usage=state.usage.plus(state.children_usage),
        duration_ms=recorded.duration_ms,
        questions=recorded.questions,
        cause=recorded.raised,
        warnings=(
            *map(str, (*recorded.slips, *recorded.unheard)),
            *(
                f"{words} refused: the default limit of {hit.allowed:g} was reached; to "
                f"raise it, pass limits=refold.Limits({hit.limit}=…)"
                for hit in unset_hits(recorded.fold)
                for words in [f"{hit.count} child runs" if hit.count > 1 else "1 child run"]
            ),
            *(
                f"the question {each.question!r} ({each.key}) stays open: {each.problem}"
                for each in recorded.questions
                if each.problem.startswith(ASK_FAILED)
            ),
        ),
    )
