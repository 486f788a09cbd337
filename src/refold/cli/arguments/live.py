"""Reads the options of commands that run something live.

Models, tools and children, and single tools, are set to `recorded`, `live` or `stub`; a model or
tools that are named are meant to be used. Rules: CONTRACT.md §12.10.
"""

import contextlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli.arguments.loading import (
    base_url_option,
    import_from_here,
    load_model,
    load_session,
    load_tools,
    session_option,
    tools_beside,
)
from refold.cli.arguments.logs import (
    OpenedLog,
    as_one,
    first_entry,
    place_of,
    program_started,
    refuse_damaged,
    started,
)
from refold.cli.output import output
from refold.cli.output.pages import WORDS
from refold.cli.output.people import said
from refold.engine.encoding.canonical import Json
from refold.engine.errors import (
    Diverged,
    EntryMissing,
    ForkRefused,
    LogError,
    LogObserved,
    ModelAbsent,
    ModelNotFound,
    OutcomeMissing,
    ProgramNotFound,
    ProgramRefused,
    RefoldError,
    ToolAbsent,
    UsageError,
)
from refold.engine.log.names import tree
from refold.engine.log.reader import Entry
from refold.engine.ports.people import check_result
from refold.engine.ports.ports import Model, SessionPort, Tool
from refold.engine.ports.programs import names_shipped
from refold.programs.shipped import tools_of
from refold.replay.index.by_call import Book
from refold.replay.partial.sources import MODES, SourceMode, Sources, unasked

_MODEL: Final = "recorded|live|stub|SPEC"
_OPTIONS: Final = (
    click.option(
        "--model", "models", metavar=_MODEL, multiple=True,
        help="Source of model answers.  openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME, "
        "scripted:FILE and FILE.py:NAME mean live, with that model.",
    ),
    base_url_option,
    click.option(
        "--tools", metavar="recorded|live|stub|MODULE:NAME,…", multiple=True,
        help="Source of tool results, and the tools or lists of tools, as in live,app.py:TOOLS.",
    ),
    click.option(
        "--children", type=click.Choice(MODES),
        help="Source of subagents' outcomes; live ones run in this process.",
    ),
    click.option(
        "--tool", "single", metavar="NAME=recorded|live|stub", multiple=True,
        help="Source of one tool's results; overrides --tools.",
    ),
    click.option(
        "--stub", "stubs", metavar="NAME=JSON", multiple=True,
        help="Result of a stubbed tool, or of `model` or `child`; by default null.  Use @FILE "
             "to read a file.",
    ),
    click.option(
        "--yes", "may_change", is_flag=True,
        help="Allow live tools with the effect `changes`, and commands of unknown origin.",
    ),
    session_option,
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Live:
    """The options for live sources."""

    models: tuple[str, ...] = ()
    base_url: str | None = None
    tools: tuple[str, ...] = ()
    children: SourceMode | None = None
    single: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()
    may_change: bool = False
    session: str | None = None
    is_live: bool = False
    """Whether everything without an option of its own is live: `fork --live`."""

    def remedy(self, missing: OutcomeMissing, *, all_live: Entry | None = None) -> str:
        """Return this command with the options that a missing outcome needs; empty for none.

        With `all_live`, the first entry of the run, `--live` replaces an option for a kind whose
        source was not set.
        """
        options = shlex.split(missing.options)
        modes = {"--model": self.models, "--tools": modes_and_tools(self.tools)[0]}
        modes["--children"] = self.children or ()
        kind = options[0] if options else ""
        if all_live and not self.is_live and kind in modes and not modes[kind]:
            lacks = not self.models and unasked(all_live)
            rest = options[2:] if options[1] == "live" else options
            options = [
                "--live",
                *(("--model", "SPEC") if lacks and kind != "--model" else ()),
                *rest,
            ]
        drops = lambda name, mode: name in options and mode in ("recorded", "stub")  # noqa: E731
        return again(*options, drops=drops) if options else ""

    @property
    def is_all_recorded(self) -> bool:
        """Whether nothing but the record is asked for."""
        words = [*self.models, *modes_and_tools(self.tools)[0], self.children or "recorded"]
        words += [each.partition("=")[2] for each in self.single]
        words += ["stub" for _ in self.stubs]
        return all(word == "recorded" for word in words)


live_options: Final = as_one("live", Live, *_OPTIONS)
"""Adds the options to a command, which gets them as `live`."""


@attrs.frozen(kw_only=True)
class LiveOptions:
    """Sources of outcomes from the options, and the objects that live ones need."""

    sources: Sources
    tools: tuple[Tool, ...]
    models: dict[str, Model]
    session: SessionPort | None
    places: tuple[str, ...]
    """The places in which `--tools` finds the tools."""

    def passed(self) -> dict[str, Any]:
        """Return them as keyword arguments of `refold.drift` and `refold.fork`."""
        return attrs.asdict(self, filter=lambda one, _: one.name != "places", recurse=False)


def again(*options: str, drops: Callable[[str, str], bool] = lambda _name, _value: False) -> str:
    """Return the line of this command with more options.

    They replace given ones of the same name that count once. `drops` says which others to leave
    out, by name and value.
    """
    words = click.get_current_context().meta[WORDS]
    at = words.index("--") if "--" in words else len(words)
    left, rest = ["refold"], iter(words[:at])
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in (*_ONCE, "--set", "--tools"):
            left.append(word)
            continue
        given = [word] if equals else [word, next(rest, "")]
        if not ((name in _ONCE and name in options) or drops(name, value if equals else given[1])):
            left += given
    return shlex.join([*left, *options, *words[at:]])


_PLACED: Final = ("--at", "--set")
_ONCE: Final = ("--at", "--children", "--model", "--program")


@contextlib.contextmanager
def remedied(log: OpenedLog, program: str | None, *, takes_command: bool = False) -> Iterator[None]:
    """Add the whole command that works to an error that has one.

    `takes_command`: whether this command continues watched runs, and so takes their `-- COMMAND`.
    """
    try:
        yield
    except RefoldError as error:
        if isinstance(error, LogError):
            raise
        for line in _remedies(error, log, program, takes_command=takes_command):
            error.add_note(line)
        raise


def _remedies(
    error: RefoldError, log: OpenedLog, program: str | None, *, takes_command: bool
) -> Iterator[str]:
    run = started(log.path)
    named = ("--program", place_of(run.program)) if program is None else ()
    words = click.get_current_context().meta[WORDS]
    match error:
        case LogObserved(is_observed=True) if takes_command:
            yield again("--", "COMMAND")
        case LogObserved(is_observed=False):
            yield again(*named).rpartition(" -- ")[0]
        case ProgramNotFound() if named:
            yield again(*named)
        case ProgramNotFound() | ProgramRefused() if program is not None:
            source = program.partition(":")[0]
            is_kept = Path(source).is_file() if source.endswith(".py") else ":" in program
            place = f"{source if is_kept else 'FILE.py'}:{run.program}"
            if place != program:
                yield again("--program", place)
        case ToolAbsent():
            tools = ",".join(f"FILE.py:{name}" for name in (error.tool, *error.others))
            is_live = words[0] == "replay" and "--live" in words
            lacks_model = is_live and "--model" not in words and run.models
            yield again(*named, "--tools", tools, *(("--model", "SPEC") if lacks_model else ()))
        case ModelAbsent():
            is_unnamed = error.name in unasked(first_entry(log.path))
            yield again(*named, "--model", "SPEC" if is_unnamed else "live")
            yield again(*named, "--model", "recorded")
        case ModelNotFound():
            is_bare = ":" not in error.spec and error.spec not in run.models.values()
            yield again(*named, "--model", f"openai:{error.spec}" if is_bare else "SPEC")
        case EntryMissing() if error.entries:
            yield again("--at", str(error.entries - 1 if error.at > 0 else 0))
        case ForkRefused(options=options, dropped=key) if options or key:
            yield again(
                *options, drops=lambda name, said: key in (name, said.partition("=")[0].strip())
            )
        case Diverged() if all(any(word.startswith(name) for word in words) for name in _PLACED):
            yield again(drops=lambda name, _said: name == "--at")


def live_of(log: OpenedLog, program: str | None, default: SourceMode, live: Live) -> LiveOptions:
    """Return the sources for this log; those without an option are `default`.

    Raises:
        UsageError: an option is impossible.
        ProgramNotFound: a tool cannot be imported.
    """
    run = program_started(log)
    refuse_damaged(log)
    modes, places = modes_and_tools(live.tools)
    import_from_here(program)
    given = load_tools(places)
    own = tools_of(run.program) if program is None and names_shipped(run) else ()
    beside = tools_beside(program, run, {tool.name for tool in given})
    known = {tool.name: tool for tool in (*own, *beside.values(), *given)}
    chosen, asked = _models(live, log)
    default = "live" if live.is_live else default
    tool: dict[str, Any] = dict(pair(each, "--tool") for each in live.single)
    sources = Sources(
        model=chosen or default,
        tools=_last(modes) or default,  # type: ignore[arg-type]  # one of the modes
        children=live.children or default,
        tool=tool,
        stubs=said("--stub", live.stubs, _fits(known), example="search=[]"),
        may_change=live.may_change,
    )
    _check_names(log, known, tool, sources.stubs)
    needed = {"model": "--model stub", "child": "--children stub"}
    for name in sources.stubs:
        if sources.mode_of(name if name in needed else "tool", name) != "stub":
            option = needed.get(name, f"--tool {name}=stub")
            raise UsageError(f"--stub {name} has no effect without {option}")
    made = load_session(live.session, log.path)
    found = (*filter(None, [places]), *beside)
    tools = tuple(known.values())
    return LiveOptions(sources=sources, tools=tools, models=asked, session=made, places=found)


def _fits(known: Mapping[str, Tool]) -> Callable[[str, Json], None]:
    return lambda name, value: check_result(name, known.get(name), value)


def _check_names(
    log: OpenedLog, known: Iterable[str], tool: Iterable[str], stubs: Iterable[str]
) -> None:
    """Refuse a name that no run was offered or called: it would have no effect."""
    if not (tool or stubs):
        return
    names = {*known}
    for path in filter(Path.exists, tree(log.path)):
        names |= {offer["name"] for offer in started(path).tools}
        requests = Book(path, unfinished_ok=True).requests.values()
        names |= {asked.item.name for asked in requests if asked.item.kind == "tool"}
    for option, given in (("--tool", [*tool]), ("--stub", [*stubs])):
        extra = () if option == "--tool" else ("model", "child")
        for name in given:
            if name not in names and name not in extra:
                listed = ", ".join(sorted(names)) or "none"
                raise UsageError(
                    f"{option} {name}: this run does not have such a tool; its tools are {listed}"
                )


def _models(live: Live, log: OpenedLog) -> tuple[SourceMode | None, dict[str, Model]]:
    """Return where answers come from, and the models that are to be asked."""
    mode = _last([each for each in live.models if each in MODES])
    specs = [each for each in live.models if each not in MODES]
    recorded = started(log.path).models
    if specs:
        model = load_model(specs[-1], live.base_url)
        return "live", dict.fromkeys(recorded or ("",), model)
    if mode == "live" or (mode is None and live.is_live):
        for name, was in unasked(first_entry(log.path)).items():
            which = f" {name!r}" if name else ""
            problem = (
                f"{'--model live' if mode else '--live'} asks models live, and the model{which} of "
                f"this run was {was}: add --model SPEC, such as FILE.py:NAME or openai:NAME, or "
                "keep its answers with --model recorded"
            )
            raise ForkRefused(output.shown_path(log.path), problem, ("--model", "SPEC"))
        return mode, {name: load_model(spec, live.base_url) for name, spec in recorded.items()}  # type: ignore[return-value]  # one of the modes
    return mode, {}  # type: ignore[return-value]  # the same


def modes_and_tools(values: Iterable[str]) -> tuple[list[str], str]:
    """Return the modes among what `--tools` was given, and the rest, separated by commas."""
    words = [word for each in values for word in map(str.strip, each.split(",")) if word]
    places = [word for word in words if word not in MODES]
    return [word for word in words if word in MODES], ",".join(places)


def _last(values: list[str]) -> str | None:
    return values[-1] if values else None


def pair(text: str, option: str) -> tuple[str, str]:
    """Return the texts before and after the first `=`.

    Raises:
        UsageError: there is no `=`, or nothing before it.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} {text!r:.60}: expected NAME=…")
    return name, value


def edits_of(
    given: Sequence[str], fits: Callable[[str, Json], object] = lambda _key, _value: None
) -> dict[str, Json]:
    """Parse `KEY=JSON`, `KEY=@FILE` and `KEY=TEXT` of `--set`, by key.

    Raises:
        UsageError: as for `people.said`; or a text is the name of a file, which would not be read.
    """
    for each in given:
        text = each.partition("=")[2].strip()
        if os.path.isfile(text):  # noqa: PTH113 - a text that can be no name is none
            raise UsageError(
                f"--set {each!r:.60}: {text} is a file: to read it, write {'@' + text!r}; "
                f"to use the text itself, {json.dumps(text)!r}"
            )
    return said("--set", given, fits)
