"""Implements the fixture `refold_run`: a call that records a run, or replays it.

It decides which of the two, and reports a test that differs from its recording.
`refold.replay.testing.recordings` places recordings, `refold.testing.reproduce` names them on a
command line; options, markers and reports are `refold.pytest_plugin`'s, which imports this file
when a test first asks for the fixture. The rules are CONTRACT.md §13.12 to §13.14.
"""

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import attrs
import pytest

from refold.api import record, reexecute, report_recording
from refold.engine.errors import LogDamaged, Nondeterministic, OutsideLoop, RefoldError, UsageError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import T
from refold.engine.log.reader import scan
from refold.engine.ports.ports import Model, Program, ProgramOf, Reference, SessionPort, Tool
from refold.engine.ports.programs import load_program
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record as engine_record
from refold.options import checked
from refold.replay.audit.verify import verify
from refold.replay.difference.causes import CAUSES_SHOWN, cause_texts, causes
from refold.replay.index.run_end import recording_of_log
from refold.replay.reexecute.network import Allowed, NetworkWatch
from refold.replay.reexecute.world import first_event
from refold.replay.testing.recordings import (
    Place,
    asked_otherwise,
    failed_beside,
    fresh_beside,
    move_over,
    remove,
)
from refold.testing.reproduce import IF_MEANT, explained, replay_command, shown
from refold.tools.contract.tool_types import as_tool

Mode = Literal["none", "once", "new_episodes", "all", "rewrite", "accept"]

_TEARDOWN: Final = "teardown_"
"""The beginning of the names of runs in a test's tear-down."""
LIVE: Final = ("all", "rewrite", "accept")
"""Modes that record though there is a recording; `accept` where it no longer replays."""
_OPTIONS: Final = frozenset(
    name
    for call in (record, engine_record)
    for name, parameter in inspect.signature(call).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
)
"""What `refold.record` takes; a replay takes it, too, and has no use for most of it."""


@attrs.frozen(kw_only=True)
class Settings:
    """Facts of a test that are known before it begins."""

    place: Place
    """Of its recordings."""
    mode: Mode
    command: str
    """What runs it alone, typed in `base`, without the mode."""
    base: Path
    """The folder from which paths are shown."""
    network: Allowed = "none"
    """The network that a program, or a test that asks models, may use in a replay."""
    on_miss: Literal["recorded", "fail"] = "recorded"
    """Whether a changed request gets the recorded answer, or is refused."""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    """Passed to each run."""
    name: str = ""
    """The test's name in a log of its model requests."""
    test: str = ""
    """Which one it is, from its file on."""
    asks: bool = False
    """Whether the test's function takes `refold_models` itself: then it has to ask something."""
    folders: Mapping[str, str] = attrs.field(factory=dict)
    """Folders of the test that are new each time, by their fixture."""
    upstreams: Sequence[str] = ()
    """As `refold record --upstream` takes them."""

    def shown(self, log: Path, *, is_quoted: bool = False) -> str:
        """Return a path as one would type it in `base`."""
        return shown(log, self.base, is_quoted=is_quoted)

    def again(self, mode: Mode) -> str:
        """Return the command of the test in a mode."""
        return f"{self.command} --refold-{'accept' if mode == 'accept' else f'record={mode}'}"

    def if_meant(self) -> str:
        """Return what to do where a change is meant."""
        return f"{IF_MEANT}\n  {self.again('accept')}"

    def unrecorded(self, log: Path, what: str, advice: str = "") -> str:
        """Return the advice for a missing recording; by default, to make the first."""
        first = (
            "By default, tests only replay. Record this one, and commit the file "
            f"with the test:\n  {self.again('once')}\nIf the test was renamed or "
            "moved, move its recording instead."
        )
        return f"{self.shown(log)}: no recording of {what}.\n{advice or first}"


@attrs.frozen
class _Asked:
    """One run that a test asks for."""

    log: Path
    """Its recording."""
    program: Program | Reference | str
    argument: Any
    tools: Sequence[Tool]
    options: dict[str, Any]


class RecordedRuns:
    """The recordings of one test, of all kinds: used, made and kept ones."""

    called = ""
    """The fixture."""
    unkept_for = "its run did not complete"
    """Why a run is not used, unless it waits for what `accept` is to accept."""

    def __init__(self, settings: Settings) -> None:
        """Say where recordings lie, and how runs of the test are recorded or replayed."""
        self._settings = settings
        self._place = settings.place
        self._mode = settings.mode
        self._shown = settings.shown
        self._again = settings.again
        self._had_recordings = bool(settings.place.recorded())
        self._unnamed = 0
        self._prefix = ""
        self._failure: str | None = None
        """Why a run failed the test, which may swallow that, or run it in a thread."""
        self._used: list[Path] = []
        self._waiting: dict[Path, Path] = {}
        """The places of incomplete runs, and their targets if the test passes."""
        self._ways: dict[Path, str | None] = {}
        """The command that replays each run, if one can."""
        self.explained: tuple[tuple[str, ...], str] | None = None
        """The text of `reproduce.explained`, for a replay that diverged."""
        self.recorded: list[Path] = []
        """The recordings that were made, in order."""

    def __repr__(self) -> str:
        return f"{self.called}({self._place.stem!r}, mode={self._mode!r})"

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep the reason if the block fails the test."""
        try:
            yield
        except (pytest.fail.Exception, LogDamaged) as error:
            self._failure = str(error)
            raise

    def tear_down(self) -> None:
        """Name the runs from now on as those of the test's tear-down, and count them anew."""
        self._prefix, self._unnamed = _TEARDOWN, 0

    def _claim(self, name: str | None) -> Path:
        if name is None:
            self._unnamed += 1
        if self._prefix:
            name = f"{self._prefix}{name or self._unnamed}"
        log = self._place.log(self._unnamed, name)
        if log in self._used:
            raise UsageError(f"name={name!r}: another run of this test has the same name")
        self._used.append(log)
        return log

    def _is_replayed(self, log: Path) -> bool:
        """Return whether the run is replayed; that it can be neither is a failure."""
        __tracebackhide__ = True
        if self._mode in LIVE:
            return False
        if log.exists():
            return True
        is_first = not self._had_recordings
        if self._mode == "new_episodes" or (self._mode == "once" and is_first):
            return False
        again = self._again("new_episodes")
        others = f"The test has other recordings. Record the missing one:\n  {again}"
        advice = "" if is_first else others
        return fail(self._settings.unrecorded(log, "this run", advice))

    def _put(self, made: Path, log: Path, *, is_good: bool) -> Path:
        """Put a run in the place of its recording if it is good enough, else beside; return it."""
        is_kept = is_good and self._mode != "accept"  # which waits for the test, too
        kept = log if is_kept or self._mode == "all" else failed_beside(log)
        move_over(made, kept)
        if kept == log:
            remove(failed_beside(log))
            self.recorded.append(log)
        else:
            self._waiting[kept] = log
        return kept

    def settle(self) -> None:
        """Fail a test that passed if a run failed or has no end, or a recording was not used.

        Before its tear-down, this leaves out the recordings of runs in the tear-down.
        """
        __tracebackhide__ = True
        if self._failure is not None:
            fail(self._failure)
        for kept in self._waiting:
            if not scan(kept).sealed:
                fail(f"{self._shown(kept)}: not a valid recording, because the run has no end")
        unused = self._unused()
        if not self._prefix:
            later = f"{self._place.stem}-{_TEARDOWN}"
            unused = [log for log in unused if not log.stem.startswith(later)]
        if unused and self._mode not in LIVE:
            listed = "\n  ".join(self._shown(log) for log in unused)
            fail(
                f"recordings that this test did not use:\n  {listed}\nThe test makes "
                "fewer runs than it did when it was recorded. If this is intended, "
                f"remove the files, or accept the current runs:\n  {self._again('accept')}"
            )

    def keep(self) -> None:
        """Put the runs that waited for the end of the test in place; remove unused ones."""
        for kept, log in self._waiting.items():
            move_over(kept, log)
            self.recorded.append(log)
        self._waiting.clear()
        for log in self._unused() if self._mode in LIVE else ():
            remove(log)

    def _unused(self) -> list[Path]:
        return [log for log in self._place.recorded() if log not in self._used]

    # --- texts ---------------------------------------------------------------------------

    def how_to_reproduce(self) -> str:
        """Return the commands that show again what this test saw; one a line."""
        lines = [self._again("none" if self._may_replay() else self._mode)]
        kept = {log: kept for kept, log in self._waiting.items()}
        for log in self._used:
            at = kept.get(log, log)
            if not at.exists():
                continue
            lines.append(f"refold show {self._shown(at, is_quoted=True)}")
            if way := self._ways.get(log):
                lines.append(way.format(log=self._shown(at, is_quoted=True)))
        why = "the test did not pass" if self._mode == "accept" else self.unkept_for
        unkept = [f"not used, because {why}: {self._shown(at)}" for at in kept.values()]
        return "\n".join([*lines, *unkept])

    def _may_replay(self) -> bool:
        """Return whether the recordings show again what this test saw."""
        has_all = all(log.exists() for log in self._used) and bool(self._used)
        return has_all and not self._waiting

    def to_show(self) -> list[tuple[Path, Path | None]]:
        """Return the logs of this test: of one that was recorded anew, the one before it, too."""
        kept = {log: kept for kept, log in self._waiting.items()}
        pairs = [(kept.get(log, log), log if log in kept else None) for log in self._used]
        return [(log, old if old and old.exists() else None) for log, old in pairs if log.exists()]


class RefoldRun(RecordedRuns):
    """Records or replays the runs of one test, under its name."""

    called = "refold_run"

    def __call__(
        self,
        program: ProgramOf[T] | Reference | str,
        input: object = None,  # noqa: A002 - the word of the domain
        /,
        *,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        model: Model | str | None = None,
        models: Mapping[str, Model | str] | None = None,
        session: SessionPort | None = None,
        limits: Limits | None = None,
        seed: str | int | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Recording[T]:
        """Run `program(run, input)`, live or against its recording, and return how it ended.

        Args:
            program: As `refold.record` takes it.
            input: The same.
            tools: The same; not executed in a replay.
            model: The same; not asked in a replay.
            models: The same.
            session: A fresh one for each call.
            limits: As `refold.record` takes them.
            seed: The same.
            name: What this run is called among several of a test; by default they are counted.
            options: More of `refold.record`: `runner`, `runners`, `clock`, `durability`.

        Raises:
            UsageError: the call is wrong.
            Failed: as `pytest.fail` does; the run is not the recorded one, or none was recorded.
        """
        __tracebackhide__ = True
        if "log" in options:
            raise UsageError("refold_run names the log after the test; use name=… to name its runs")
        given = {
            "model": model, "models": models, "session": session, "limits": limits, "seed": seed,
            **options,
        }  # fmt: skip
        for option in options.keys() - _OPTIONS:
            if option == "input":
                raise TypeError("refold_run takes the input as its second positional argument")
            raise TypeError(f"neither refold_run nor refold.record has an argument {option!r}")
        try:
            said = {"tools": tools, "limits": limits, "seed": seed, "session": session, **options}
            given_tools = checked("refold_run", **said)["tools"]
            ready = [*map(as_tool, self._settings.tools), *given_tools]
            log = self._claim(name)
            self._ways[log] = replay_command(
                program, ready, self._settings.base, has_session=session is not None
            )
            asked = _Asked(log, program, input, ready, given)
            with self._failing():
                if self._is_replayed(log):
                    return self._replay(asked)
            if self._mode == "accept" and log.exists() and session is None:  # a replay fills it
                with contextlib.suppress(pytest.fail.Exception, RefoldError):
                    return self._replay(asked)
                self.explained = None  # for it is recorded anew: that stops no test
            return self._record(asked)
        except RefoldError as error:
            if isinstance(error, LogDamaged):
                error.add_note(
                    "Restore the recording from version control, with `recordings/** -text` "
                    "in .gitattributes to preserve its line endings, or record it again:\n  "
                    f"{self._again('accept')}"
                )
            raise error.with_traceback(None) from error.__cause__  # the place is the test's

    # --- recording -----------------------------------------------------------------------

    def _record(self, asked: _Asked) -> Recording:
        log = asked.log
        made = fresh_beside(log)
        try:
            with warnings.catch_warnings():
                # A test that is a coroutine is not served meanwhile: it waits for this very run.
                warnings.filterwarnings("ignore", "refold.record blocked", RuntimeWarning)
                recording = record(
                    asked.program, asked.argument, log=made, tools=asked.tools, **asked.options
                )
        except KeyboardInterrupt:
            remove(made)
            raise
        except Nondeterministic as error:
            raise self._unsteady(error, log) from None
        except BaseException:
            if made.exists():
                move_over(made, failed_beside(log))
            raise
        return report_recording(
            attrs.evolve(recording, log=self._put(made, log, is_good=recording.ok))
        )

    def _unsteady(self, error: Nondeterministic, log: Path) -> Nondeterministic:
        """Keep a run that was not the same when it was run again beside the recording."""
        kept = failed_beside(log)
        move_over(error.recording.log, kept)
        recording = attrs.evolve(error.recording, log=kept)
        at = self._shown(kept)
        divergence = attrs.evolve(error.divergence, log=at)
        return Nondeterministic(at, recording, divergence, error.findings)

    # --- replaying -----------------------------------------------------------------------

    def _replay(self, asked: _Asked) -> Recording:
        __tracebackhide__ = True
        log, session = asked.log, asked.options["session"]
        recording = recording_of_log(log, load_program(asked.program))
        self._check_request(asked)
        with NetworkWatch(self._settings.network) as watch:
            report = reexecute(log, asked.program, tools=asked.tools, session=session)
        if watch.seen:
            fail(_network_text(self._shown(log), watch.seen))
        if not report.identical:
            differing = [
                attrs.evolve(each, log=self._shown(Path(each.log))) for each in report.divergences
            ]
            text = "\n".join(cause_texts(causes(differing), CAUSES_SHOWN)).strip()
            self.explained = explained(causes(differing), text)
            fail(f"{text}\n{self._settings.if_meant()}")
        if not (found := verify(log)).intact:
            damage = next(one for each in found.logs for one in each.damage)
            raise damage.as_error()
        return recording

    def _check_request(self, asked: _Asked) -> None:
        __tracebackhide__ = True
        options = asked.options
        named = {"": options["model"], **(options["models"] or {})}
        found = asked_otherwise(
            first_event(asked.log),
            asked.argument,
            tools=[tool.name for tool in asked.tools],
            models={name: _name_of(model) for name, model in named.items() if model is not None},
            limits=options["limits"],
            seed=options["seed"],
        )
        if found:
            lines = "\n".join(f"  differs   {difference}" for difference in found)
            fail(
                "the test starts a different run than the one in "
                f"{self._shown(asked.log)}\n{lines}\n{self._settings.if_meant()}"
            )


def _name_of(model: Model | str) -> str:
    """Return a log's name of a model, which may be a text; a replay opens none."""
    name = model if isinstance(model, str) else model.name
    return "scripted" if name.startswith("scripted:") else name


def _network_text(log: str, seen: Sequence[OutsideLoop]) -> str:
    places = "\n  ".join(dict.fromkeys(str(each) for each in seen))
    return (
        f"the program used the network during the replay of {log}\n  {places}\nIf "
        "this is intended, allow it with "
        "@pytest.mark.refold(network='loopback'), or 'any'"
    )


def fail(text: str) -> NoReturn:
    """Fail the test with a complete text."""
    __tracebackhide__ = True
    pytest.fail(text)


def folder_of(test_file: Path, recordings: str | os.PathLike[str]) -> Path:
    """Return the folder of a test file's recordings; `recordings` is taken from beside it."""
    return test_file.parent / recordings / test_file.stem
