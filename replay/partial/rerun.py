"""Runs a recorded program again with outcomes from the record, the world, or stubs.

The result is a separate recording, with the same identity, input and limits as the record
(CONTRACT.md §12.10). `replay.partial.drift` compares it, and `replay.resume.fork` continues it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from refold.engine import errors
from refold.engine.events.events import RunStarted
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import ChildRunner, Model, Program, Reference, SessionPort, Tool
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import Recorder
from refold.engine.recording.run_request import RunRequest
from refold.engine.recording.supplied import Supplied
from refold.engine.runners.in_process import InProcess
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import run_to_end
from refold.engine.secrets.vault import vault_of
from refold.replay.index.by_call import Book
from refold.replay.partial.sources import BookSupply, Sources
from refold.replay.reexecute.world import LoggedModel, identity_of, known_tools, program_of


@attrs.frozen(kw_only=True)
class Again:
    """The program to run again, and its tools, models and sources."""

    program: Program | Reference | str | None
    tools: Mapping[str, Tool]
    models: Mapping[str, Model]
    session: SessionPort | None
    sources: Sources
    volatile: tuple[str, ...] = ()
    """Paths that are ignored in requests, in addition to those that the log lists."""


def rerun(book: Book, again: Again, log: Path) -> tuple[Recording | None, BookSupply]:
    """Run what `book` recorded again, into a new log; return how it ended, and what served it.

    `None` where an outcome was missing: the log stops there.

    Raises:
        LogExists: a log is never overwritten.
        ToolNeeded: a tool that is to run live was not passed.
        ModelAbsent: nor was a model that is to be asked.
    """
    check_given(book.started, again)
    supply = BookSupply(book, again.sources, volatile=again.volatile)
    request = request_again(book, again, log, supply)
    identity = attrs.evolve(request.identity, parent=None)
    request = attrs.evolve(request, identity=identity, durability="fast")
    return unless_missing(request, supply, Supplied), supply


def request_again(book: Book, again: Again, log: Path, supply: BookSupply) -> RunRequest:
    """Return the request to a recorder that runs `book` again into `log`."""
    started = book.started
    return RunRequest(
        program=program_of(again.program, started),
        program_name=started.program,
        input=started.input,
        identity=identity_of(started),
        limits=Limits.from_json(started.limits),
        log=log,
        tools=known_tools(started, again.tools),
        models=_with_stand_ins(book, again.models),
        runners=_Anyone({InProcess.name: InProcess()}),
        session=again.session,
        supply=supply,
        vault=vault_of(started.rules),
    )


def unless_missing(
    request: RunRequest, supply: BookSupply, recorder: Callable[[RunRequest, Host], Recorder]
) -> Recording | None:
    """Return the recording; `None` if an outcome was missing, which the supply notes."""
    try:
        return run_to_end(lambda host: recorder(request, host).record(), request.cancel)
    except (errors.NotCanonical, errors.ValueRefused) as error:
        problem = f"an edited or stubbed result does not match its type: {error}"
        raise errors.UsageError(problem) from None
    except (errors.OutcomeMissing, errors.ChildStopped):
        if not supply.missing:
            raise
        return None


class _Anyone(dict[str, ChildRunner]):
    """Runners under which every name means this process: a supply cannot cross into another."""

    def get(self, _name: str, _default: object = None) -> ChildRunner:
        """Return the one runner."""
        return self[InProcess.name]


def _with_stand_ins(book: Book, models: Mapping[str, Model]) -> dict[str, Model]:
    """Return the given models, and a stand-in for each recorded model that was not given."""
    recorded: dict[str, Model] = {
        name: LoggedModel(full, is_script=name in book.scripts)
        for name, full in book.started.models.items()
    }
    return {**recorded, **models}


def check_given(started: RunStarted, again: Again) -> None:
    """Refuse to begin without the tools and models that must run live.

    Raises:
        ToolNeeded: tools are missing; lists them all.
        ModelAbsent: a model is missing.
    """
    sources = again.sources
    absent = [
        offer["name"]
        for offer in started.tools
        if not offer.get("delegates")
        and offer["name"] not in again.tools
        and sources.lets_run("tool", offer["name"], offer["effect"])
    ]
    if absent:
        raise errors.ToolAbsent(absent[0], "a live run", tuple(absent[1:]))
    for name, full in started.models.items():
        if sources.lets_run("model", name) and name not in again.models:
            raise errors.ModelAbsent(name, full)
