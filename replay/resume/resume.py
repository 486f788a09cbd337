"""`resume`: continue in the log of a run that was interrupted or waits for a person.

The program is re-executed to the end of the record. There the kernel's world changes from the log's
reader to a recorder that appends to it. Effects in flight are started again or decided by people;
finished ones are not repeated. The rules are CONTRACT.md §4.7.

`replay.resume.open_ends` reads the state at the end of an unfinished record.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine import errors
from refold.engine.children.unfinished import await_writer
from refold.engine.events.events import (
    ModelAnswered,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolReturned,
)
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import ChildRef, Outcome, failed
from refold.engine.kernel.unawaited import Slip, place_of
from refold.engine.kernel.verdict import Verdict
from refold.engine.kernel.world import World
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import child_path, is_there
from refold.engine.log.reader import read_entries, scan
from refold.engine.log.writer import LogWriter
from refold.engine.loop.loop import Timer
from refold.engine.ports.effects import AskModel, AskPerson, CallTool, Effect, GiveUp, RunChild
from refold.engine.ports.people import check_answer
from refold.engine.ports.ports import ChildRunner, Model, People, Program, Reference, Tool
from refold.engine.ports.programs import fingerprint_of
from refold.engine.recording.driver import Arrival
from refold.engine.recording.host import Host
from refold.engine.recording.ledger import Handed, Ledger
from refold.engine.recording.recorder import Recorder
from refold.engine.recording.run_request import RecordedRun, RunRequest, by_name
from refold.engine.recording.supplied import Supplied
from refold.engine.runners.preflight import preflight
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import key_variables, run_to_end
from refold.engine.runners.shipped import RUNNERS, known_runners
from refold.engine.secrets.vault import Vault, vault_of
from refold.replay.index.guarantee import refuse_observed, refuse_other_rules
from refold.replay.partial.given_values import given
from refold.replay.reexecute.network import program_watch
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.reexecute.world import (
    LoggedModel,
    Replayed,
    first_event,
    identity_of,
    program_of,
)
from refold.replay.resume.open_ends import Standing, open_ends

ATTEMPTS_MAX: Final = 10
"""The default limit of a run's attempts, including the first."""

CONTINUED: Final = Reference("refold.replay.resume.resume", "continued")
"""The function by which a runner continues in the unfinished log of a child."""


def resumed(
    path: Path,
    program: Program | Reference | str | None,
    people: People,
    *,
    tools: Sequence[Tool],
    models: Mapping[str, Model],
    runner: str | None,
    runners: Mapping[str, ChildRunner] | None,
    max_attempts: int | None,
    secrets: Mapping[str, str] | None,
    **terms: Any,
) -> Recording:
    """Continue the root run of a log, in the same log; return how it ended.

    The program is re-executed to the end of the record, then runs live.  Effects in flight are
    started again with the same idempotency key, unless they change the world: a person must decide
    the outcome of those. The limit of attempts does not apply to a run that continues with an
    answer. Arguments are those of `refold.resume`; `terms` are its clock, session and durability.

    Raises:
        InDoubt: effects may have changed the world, and nobody decided their outcome.
        Diverged: the program no longer matches the record.
        ChildStopped: a child's program does not, or cannot continue for a different reason.
        AttemptsExhausted: the limit of attempts is reached.
        LogSealed: the run has ended.
        LogLocked: it is still running.
        AnswerRefused: an answer does not fit an open question or its schema.
        LogError: the log is damaged or missing.
        ProgramNotFound: no program was given, and Refold does not ship the log's.
        ToolNeeded: a tool must be passed.
        NotReady: children of the run lack something; the log is unchanged.
    """
    _check_open(path)
    standing = Standing(path)
    started = refuse_other_rules(path, refuse_observed(path, standing.started))
    if started.parent is not None:
        advice = "resume its root, which also continues the child"
        raise errors.UsageError(f"{path} is the log of a child: {advice}")
    most = max_attempts or ATTEMPTS_MAX
    if standing.fold.attempts >= most and not people.answers:
        raise errors.AttemptsExhausted(str(path), standing.fold.attempts + 1, most)
    _check_decisions(path, people)
    chosen = runner or _recorded_runner(path)
    request = preflight(
        RunRequest(
            program=program_of(program, started),
            program_name=started.program,
            input=started.input,
            identity=identity_of(started),
            limits=Limits.from_json(started.limits),
            log=path,
            tools=by_name(tools),
            models=models,
            runners=known_runners(chosen, runners),
            runner=chosen,
            people=people,
            vault=_vault(started, secrets, models),
            **terms,
        )
    )
    return run_to_end(lambda host: continued(request, host).record(), request.cancel)


def _vault(
    started: RunStarted, secrets: Mapping[str, str] | None, models: Mapping[str, Model]
) -> Vault:
    """Return the vault of a continued run, with its own rules (CONTRACT.md §3.9).

    Raises:
        UsageError: its secrets given by value were not given again.
    """
    lost = started.rules.get("redaction", {}).get("secrets", 0)
    if lost and not secrets:
        raise errors.UsageError(
            f"the run was recorded with {lost} secrets (Redaction(secrets=…)), which "
            "are not in the log: pass them again, under any names: resume(log, "
            "secrets={name: value})"
        )
    return vault_of(started.rules, secrets, key_variables=key_variables(models))


def continued(request: RunRequest, host: Host) -> "Continued":
    """Return the recorder that continues in the unfinished log of `request`, a root or a child."""
    if request.supply is not None:
        return Forked(request, host)
    return Continued(request, host)


class Continued(Recorder):
    """A recorder whose run begins as a re-execution."""

    def __init__(self, request: RunRequest, host: Host) -> None:
        """Read the log, and refuse to continue without a tool or model that it may ask for.

        Raises:
            ToolAbsent: lists the missing tools.
            ModelAbsent: a model was not passed.
        """
        tools, session = request.tools, request.session
        self._replayed = Replayed(request.log, tools=tools, session=session, successor=self._go_on)
        started = self._replayed.started
        if absent := [each["name"] for each in started.tools if each["name"] not in request.tools]:
            raise errors.ToolAbsent(absent[0], "", tuple(absent[1:]))
        for name, full in started.models.items():
            if name not in request.models:
                raise errors.ModelAbsent(name, full)
        self._has_writer = False
        self._is_fenced = False
        self._lock = threading.Lock()
        """Held while the log is taken over: a fence comes before that, or after."""
        super().__init__(
            attrs.evolve(request, resume=CONTINUED), host, kernel=self._replayed.kernel
        )

    def fence(self) -> tuple[str, int]:
        """Refuse what this run may still append; return its head and entries."""
        with self._lock:
            self._is_fenced = True
        return super().fence() if self._has_writer else self._stands()

    def _let_go(self) -> None:
        if self._has_writer:
            super()._let_go()

    def record(self) -> RecordedRun:
        """Re-execute the record, run to the end, and seal the log.

        Raises:
            Diverged: the program does not match the record; the log is unchanged.
            InDoubt: nobody decided the outcome of an effect; the log is unchanged.
            LogPoisoned: the log cannot be written; appended entries stay.
        """
        self._replayed.check_session()
        refused = self._replayed.kernel.fail  # what is re-executed goes past the record
        with program_watch(refused, applies=lambda: not self._has_writer):
            return super().record()

    def _seal(self, verdict: Verdict) -> RunFinished:
        replayed = self._replayed
        if replayed.cursor.broken is not None:
            raise replayed.cursor.broken
        is_left = not self._has_writer and replayed.cursor.peek() is not None
        if replayed.explorer is not None or is_left:
            self._raise_divergence()
        if not self._has_writer:
            self._go_on()  # the program had ended, and only that was not written
        return super()._seal(verdict)

    def _raise_divergence(self) -> None:
        request = self.request
        _check_open(request.log)  # while it was read, somebody else may have gone on with it
        report = reexecute(
            request.log,
            request.program,
            tools=list(request.tools.values()),
            session=request.session,
        )
        report.check()
        problem = "the program behaved differently on the second attempt"
        raise errors.UsageError(f"{request.log}: {problem}")

    def _go_on(self) -> World:
        """Become the kernel's world at the end of the record."""
        for effect in self._replayed.kernel.wanted:
            self._replayed.keep(effect)
        self._replayed.kernel.unheard += self._edited()
        if self._waits_only():
            return self._at_rest()
        with self._lock:
            handed = self._handed()
            self._replayed.kernel.models = self.request.models
            self.take_over(handed)
        return self

    def _edited(self) -> Iterator[Slip]:
        """Yield a warning for each child whose program was edited after it had ended."""
        for child in self._replayed.children:
            path = child_path(self.request.log, child.number)
            with contextlib.suppress(errors.LogError, errors.LogMissing, errors.ProgramNotFound):
                started = first_event(path)
                program = program_of(child.delegation.program, started)
                recorded, now = (
                    each.get("source") for each in (started.fingerprint, fingerprint_of(program))
                )
                if recorded == now or None in (recorded, now):
                    continue
                if child.call in self._replayed.logged or scan(path).sealed:
                    message = (
                        f"subagent {child.number} had ended before {started.program} was edited, "
                        "and is not run again: see refold replay LOG (it runs the new version)"
                    )
                    yield Slip(message, *place_of(program))

    def _waits_only(self) -> bool:
        """Return whether nothing is to be done but to wait for answers that nobody gives."""
        kernel, people = self._replayed.kernel, self.request.people
        if not kernel.open or kernel.children or kernel.loop.timers or kernel.stopped is not None:
            return False
        if kernel.loop.is_stepping() or people.ask is not None or kernel.is_closing:
            return False
        asked = [self._replayed.effects[call] for call in kernel.open]
        return all(
            isinstance(effect, AskPerson) and kernel.child_path(effect.call) not in people.answers
            for effect in asked
        )

    def _at_rest(self) -> World:
        """Become the world of a run that is suspended as it was: its log is not touched."""
        kernel = self._replayed.kernel
        self.fold = self._replayed.fold
        for call in kernel.open:
            effect = self._replayed.effects[call]
            if isinstance(effect, AskPerson):
                self._asked[call] = effect
        questions = [self._question(call) for call in self._asked]
        self._questions = tuple(sorted(questions, key=lambda question: question.place))
        kernel.world = World(self.fold)
        return kernel.world

    def _stands(self) -> tuple[str, int]:
        if self._has_writer:
            return super()._stands()
        found = scan(self.request.log)
        return found.head, found.entries

    def _handed(self) -> Handed:
        if self._is_fenced:
            raise errors.UsageError(f"{self.request.log} is closed")
        replayed = self._replayed
        standing = Standing(self.request.log, replayed.cursor.taken)  # as far as it was compared
        effects, arrivals, doubts = self._decided(standing)
        resumed = LogWriter.resume(self.request.log, durability=self.request.durability)
        if resumed.writer.head != standing.head:
            resumed.writer.close()
            raise errors.LogLocked(str(self.request.log), None)  # somebody else went on meanwhile
        self._has_writer = True
        cut = resumed.cut.as_json() if resumed.cut else None
        lines = standing.fold, standing.digest, standing.requests, standing.starts, standing.leaves
        return Handed(
            ledger=Ledger(resumed.writer, *lines, step=standing.step),
            resumed=RunResumed(standing.fold.attempts + 1, cut, doubts, self._other_models()),
            active_us=standing.active_us,
            virtual_us=standing.virtual_us,
            timers=[
                (self._left_us(timer, standing, armed), timer)
                for key, timer in replayed.kernel.loop.timers.items()
                if (armed := replayed.armed.get(key)) is not None
            ],
            effects=effects,
            arrivals=arrivals,
            asked=standing.events,
            changes=standing.changes_made,
        )

    def _other_models(self) -> dict[str, str] | None:
        """Return the names of the models from here on; `None` if the record has the same."""
        now = {name: model.name for name, model in sorted(self.request.models.items())}
        recorded = self._replayed.started.models | self._replayed.cursor.models_now()
        return now if now != recorded else None

    def _left_us(self, timer: Timer, standing: Standing, armed: int) -> int:
        """Return the rest of a timer that was armed when the log had `armed` entries."""
        if timer.at_us is not None and self.request.clock is None:
            return timer.at_us - standing.active_us
        return timer.delay_us - standing.active_us + standing.active_at(armed)

    def _decided(
        self, standing: Standing
    ) -> tuple[list[Effect], list[Arrival], list[dict[str, Any]]]:
        """Return effects to start again, decided completions, and their entries for `run.resumed`.

        Raises:
            InDoubt: an effect is neither.
        """
        kernel, kept = self._replayed.kernel, self._replayed.effects
        effects: list[Effect] = []
        arrivals: list[Arrival] = []
        doubts: list[dict[str, Any]] = []
        for call in sorted(
            [*kernel.open, *kernel.children], key=lambda call: standing.requests[call]
        ):
            decision, arrival = self._decision(kept[call], standing.path(call))
            if arrival is not None:
                arrivals.append(Arrival(call, arrival))
            else:
                effects.append(self._of_now(kept[call]))
            kind, name = _kind_and_name(kept[call])
            doubts.append({"call": call, "kind": kind, "name": name, "decision": decision})
        return effects, arrivals, doubts

    def _of_now(self, effect: Effect) -> Effect:
        """Return an open request to a model with the model that is given now."""
        if isinstance(effect, AskModel) and isinstance(effect.model, LoggedModel):
            return attrs.evolve(effect, model=self.request.models[effect.name])
        return effect

    def _decision(self, effect: Effect, key: str) -> tuple[str, Any]:
        people = self.request.people
        match effect:
            case CallTool(tool=tool) if key in people.results:
                return "result", given(ToolReturned("ok"), key, people.results[key], tool=tool)
            case CallTool() if key in people.fail:
                return "failed", ToolReturned("error", error=_IN_DOUBT)
            case CallTool(tool=tool, arguments=arguments):
                if tool.effect == "changes" and key not in people.retry:
                    listed = f"{key}  {tool.name}({', '.join(arguments)})"
                    raise errors.InDoubt(str(self.request.log), (listed,), (key,))
                return "retried", None
            case AskPerson():
                return "answered" if key in people.answers else "asked", None
            case RunChild() if key in people.fail:
                return "failed", self._ended(effect, failed("failed", **_CHILD_IN_DOUBT))
            case RunChild() if effect.call in self._replayed.given_up:
                return self._of_cancelled(effect)
            case RunChild():
                return "resumed", None
            case _ if key in people.fail:
                return "failed", ModelAnswered("error", error=_IN_DOUBT)
            case _:
                return "retried", None

    def _of_cancelled(self, effect: RunChild) -> tuple[str, Any]:
        """Return the outcome of a child that was cancelled before the run broke off."""
        path = self._left_by(effect)
        if is_there(path) and scan(path).sealed:
            return "resumed", None
        outcome = failed("cancelled", "cancelled", "cancelled by its parent")
        return "cancelled", self._ended(effect, outcome)

    def _ended(self, effect: RunChild, outcome: Outcome) -> Outcome:
        """Return the outcome of a child that is not resumed, bound to its existing log."""
        path = self._left_by(effect)
        found = scan(path) if is_there(path) else None
        if found is None or found.entries == 0:
            return outcome
        if found.torn is not None and found.damage is None and not found.ended:
            LogWriter.resume(path).writer.close()  # cuts it off: the head is the file's
        child = ChildRef(run=effect.run_id, head=found.head, events=found.entries)
        return attrs.evolve(outcome, child=child)

    def _left_by(self, effect: RunChild) -> Path:
        """Return the log of a child of the attempt before, once that has left it."""
        path = child_path(self.request.log, effect.number)
        await_writer(path, self.request.cancel)
        return path


class Forked(Supplied, Continued):
    """A recorder that continues in a copied beginning, with supplied outcomes."""

    def _waits_only(self) -> bool:
        """Return whether the record has no answer to the open questions either."""
        supply: Any = self.request.supply
        answers = supply.book.answers
        return super()._waits_only() and answers.keys().isdisjoint(self._replayed.kernel.open)

    def _decision(self, effect: Effect, key: str) -> tuple[str, Any]:
        """Leave all open requests to the supply: in a new run, nothing is in doubt."""
        if isinstance(effect, AskPerson):
            return super()._decision(effect, key)
        return "forked", None

    def _decided(
        self, standing: Standing
    ) -> tuple[list[Effect], list[Arrival], list[dict[str, Any]]]:
        """Start open requests, and cancel again those that the program had cancelled."""
        effects, arrivals, doubts = super()._decided(standing)
        given_up = self._replayed.given_up
        effects += [GiveUp(one.call) for one in effects if one.call in given_up]
        return effects, arrivals, doubts


_CHILD_IN_DOUBT: Final = {
    "code": "in_doubt",
    "message": "the run broke off while this was under way, and it was decided to count as failed",
}
_IN_DOUBT: Final = _CHILD_IN_DOUBT | {"type": ""}


def _kind_and_name(effect: Effect) -> tuple[str, str]:
    match effect:
        case CallTool(tool=tool):
            return "tool", tool.name
        case AskPerson(question=question):
            return "input", question
        case RunChild(delegation=delegation):
            return "child", delegation.agent or ""
        case _:
            return "model", getattr(effect, "name", "")


def _recorded_runner(log: Path) -> str:
    """Return the runner of a run's first child, from its log."""
    child = child_path(log, 1)
    first = next(iter(read_entries(child, torn_ok=True)), None) if is_there(child) else None
    named = first.meta.get("runner") if first is not None else None
    return named if named in RUNNERS else "in-process"


def _check_open(log: Path) -> None:
    found = scan(log)
    refuse_if_locked(log)
    if found.damage is not None:
        raise found.damage.as_error()
    if found.ended:
        raise errors.LogSealed(str(log))


def _check_decisions(log: Path, people: People) -> None:
    """Check people's decisions against the open requests, before anything is done.

    Raises:
        AnswerRefused: an answer does not fit an open question.
        InDoubt: an open effect has no decision.
        UsageError: a decision is about something that is not open.
    """
    ends = open_ends(log)
    questions = {question.key: question for question in ends.questions}
    for key, answer in people.answers.items():
        if key not in questions:
            raise errors.AnswerRefused(key, ", ".join(questions) or "none", "")
        check_answer(questions[key], answer)
    decided = people.retry | people.fail | people.results.keys()
    for key in sorted(decided):
        if key not in ends.unfinished:
            known = ", ".join(ends.unfinished) or "nothing is"
            raise errors.UsageError(f"nothing is in flight at {key!r}; known: {known}")
    left = [doubt for doubt in ends.doubts if doubt.key not in decided]
    if left:
        keys = tuple(doubt.key for doubt in left)
        raise errors.InDoubt(str(log), tuple(map(str, left)), keys)
