"""Runs a recorded program again with its outcomes from the record, the world, or stubs.

What `replay.drift` compares and `replay.fork` goes on with: a recording of its own, under the same
identity, input and limits as the record (CONTRACT.md §12.10).
"""

from collections.abc import Mapping
from pathlib import Path

import attrs

from refold.engine.errors import OutcomeMissing, ToolNeeded, UsageError
from refold.engine.events import RunStarted
from refold.engine.limits import Limits
from refold.engine.ports import ChildRunner, Model, Program, Reference, SessionPort, Tool
from refold.engine.recorder import RunRequest
from refold.engine.recording import Recording, run_to_end
from refold.engine.runners.in_process import InProcess
from refold.engine.supplied import Supplied
from refold.engine.vault import vault_of
from refold.replay.book import Book
from refold.replay.reexecute import program_of
from refold.replay.sources import BookSupply, Sources
from refold.replay.world import RecordedModel, identity_of, known_tools


@attrs.frozen(kw_only=True)
class Again:
    """What is run again, and with what."""

    program: Program | Reference | str | None
    tools: Mapping[str, Tool]
    models: Mapping[str, Model]
    session: SessionPort | None
    sources: Sources


@attrs.frozen(kw_only=True)
class Rerun:
    """One run, run again."""

    log: Path
    recording: Recording | None
    """`None` where an outcome was missing: the log stops there."""
    missing: tuple[OutcomeMissing, ...]
    live: int
    """Outcomes that came from the world, in the root run."""


def rerun(book: Book, again: Again, log: Path) -> Rerun:
    """Run what `book` recorded again, into a new log.

    Raises:
        LogExists: a log is never overwritten.
        ToolNeeded: a tool that is to run live was not passed.
        UsageError: nor was a model that is to be asked.
    """
    started = book.started
    check_given(started, again)
    supply = BookSupply(book, again.sources)
    request = RunRequest(
        program=program_of(again.program, started.program),
        program_name=started.program,
        input=started.input,
        identity=attrs.evolve(identity_of(started), parent=None),
        limits=Limits.from_json(started.limits),
        log=log,
        tools=known_tools(started, again.tools),
        models=stand_ins(started, again.models),
        runners=Anyone({InProcess.name: InProcess()}),
        durability="fast",
        session=again.session,
        supply=supply,
        vault=vault_of(started.rules),
    )
    recording = None
    try:
        recording = run_to_end(lambda host: Supplied(request, host).record(), request.cancel)
    except OutcomeMissing as error:
        if error not in supply.missing:
            supply.missing.append(error)
    return Rerun(log=log, recording=recording, missing=tuple(supply.missing), live=len(supply.live))


class Anyone(dict[str, ChildRunner]):
    """Runners under which every name means this process: a supply cannot cross into another."""

    def get(self, _name: str, _default: object = None) -> ChildRunner:
        """Return the one runner."""
        return self[InProcess.name]


def stand_ins(started: RunStarted, models: Mapping[str, Model]) -> dict[str, Model]:
    """Return the models given, and a stand-in for each recorded one that was not."""
    recorded: dict[str, Model] = {
        name: RecordedModel(full) for name, full in started.models.items()
    }
    return {**recorded, **models}


def check_given(started: RunStarted, again: Again) -> None:
    """Refuse to begin without what is to run live.

    Raises:
        ToolNeeded: a tool is missing.
        UsageError: a model is missing.
    """
    sources = again.sources
    for offer in started.tools:
        name = offer["name"]
        is_live = sources.tool.get(name, sources.tools) == "live" and not offer.get("delegates")
        may_run = sources.may_change or offer["effect"] != "changes"
        if is_live and may_run and name not in again.tools:
            raise ToolNeeded(name, "a live run")
    for name in started.models:
        if sources.model == "live" and name not in again.models:
            option = f"models={{{name!r}: …}}" if name else "model=…"
            raise UsageError(f"the model is to be asked live: pass {option} (--model-from …)")
