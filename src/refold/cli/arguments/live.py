"""Reads the options of commands that run something live.

`--source` sets models, tools, children and single tools to `recorded`, `live` or `stub`; a model
that is named is asked. Rules: CONTRACT.md §12.10.
"""

import contextlib
import json
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli.arguments.loading import (
    base_url_option,
    import_from_here,
    joined,
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

_OPTIONS: Final = (
    click.option(
        "--model", "models", metavar="SPEC", multiple=True,
        help="Model to ask live: openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME, "
        "scripted:FILE or FILE.py:NAME.",
    ),
    base_url_option,
    click.option(
        "--tools", metavar="MODULE:NAME,…", multiple=True, callback=joined,
        help="Tools, or lists of tools, besides those in the module of the program.",
    ),
    click.option(
        "--source", "given", metavar="NAME=MODE", multiple=True,
        help="Where results come from: model, tools, children or the name of a tool, and recorded, "
        "live, stub (null) or stub:JSON, stub:@FILE.  Live children run in this process.",
    ),
    click.option(
        "--yes", "may_change", is_flag=True,
        help="Allow live tools with the effect `changes`, and commands of unknown origin.",
    ),
    session_option,
)  # fmt: skip
_KINDS: Final = ("model", "tools", "children")
"""What `--source` can name besides a tool."""


@attrs.frozen(kw_only=True)
class Live:
    """The options for live sources."""

    models: tuple[str, ...] = ()
    base_url: str | None = None
    tools: str = ""
    given: tuple[str, ...] = ()
    may_change: bool = False
    session: str | None = None
    is_live: bool = False
    """Whether everything without a source of its own is live: `fork --live`."""

    def modes(self) -> dict[str, SourceMode]:
        """Return the mode of each name of `--source`; the last one counts.

        Raises:
            UsageError: one is not NAME=MODE.
        """
        found = dict[str, SourceMode]()
        for each in self.given:
            name, _, mode = each.partition("=")
            mode = mode.partition(":")[0] if mode.startswith("stub:") else mode
            if not name or mode not in MODES:
                expected = "expected NAME=recorded, live, stub or stub:JSON"
                raise UsageError(f"--source {each!r:.60}: {expected}")
            found[name] = mode
        return found

    def stubs(self) -> list[str]:
        """Return the results of stubs, as KEY=JSON."""
        pairs = (each.partition("=") for each in self.given)
        found = {name: mode[5:] for name, _, mode in pairs if mode.startswith("stub:")}
        return [f"{'child' if name == 'children' else name}={text}" for name, text in found.items()]

    def remedy(self, missing: OutcomeMissing, *, all_live: Entry | None = None) -> str:
        """Return this command with the options that a missing outcome needs; empty for none.

        With `all_live`, the first entry of the run, `--live` replaces an option for a kind whose
        source was not set.
        """
        options = shlex.split(missing.options)
        kind = options[1].partition("=")[0] if options[:1] == ["--source"] else "model"
        is_set = kind in self.modes() or (kind == "model" and self.models)
        is_named = options[:1] == ["--model"]
        if all_live and options and not self.is_live and kind in _KINDS and not is_set:
            lacks = not self.models and unasked(all_live)
            rest = options if is_named else options[2:]
            spec = ("--model", "SPEC") if lacks and kind != "model" else ()
            options = ["--live", *spec, *rest]
        drops = lambda name, value: name == "--source" and value.partition("=")[0] == kind  # noqa: E731
        return again(*options, drops=drops) if options else ""

    @property
    def is_all_recorded(self) -> bool:
        """Whether nothing but the record is asked for."""
        return not self.models and all(mode == "recorded" for mode in self.modes().values())


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
        if name not in (*_ONCE, "--set", "--source"):
            left.append(word)
            continue
        given = [word] if equals else [word, next(rest, "")]
        value = value if equals else given[1]
        is_replaced = (name in _ONCE and name in options) or drops(name, value)
        is_model = name == "--source" and "--model" in options and value.startswith("model=")
        if not (is_replaced or is_model):
            left += given
    return shlex.join([*left, *options, *words[at:]])


_PLACED: Final = ("--at", "--set")
_ONCE: Final = ("--at", "--model", "--program")


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
    is_own = program is None and not names_shipped(run)
    named = ("--program", place_of(run.program)) if is_own else ()
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
            has_model = "--model" in words or any("model=" in word for word in words)
            lacks_model = is_live and not has_model and run.models
            yield again(*named, "--tools", tools, *(("--model", "SPEC") if lacks_model else ()))
        case ModelAbsent():
            is_unnamed = error.name in unasked(first_entry(log.path))
            asked = ("--model", "SPEC") if is_unnamed else ("--source", "model=live")
            yield again(*named, *asked)
            yield again(*named, "--source", "model=recorded")
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
    modes = live.modes()
    import_from_here(program)
    given = load_tools(live.tools)
    own = tools_of(run.program) if program is None and names_shipped(run) else ()
    beside = tools_beside(program, run, {tool.name for tool in given})
    known = {tool.name: tool for tool in (*own, *beside.values(), *given)}
    _check_names(log, known, modes.keys() - {*_KINDS})
    mode, asked = _models(live, log, modes.get("model"))
    default = "live" if live.is_live else default
    sources = Sources(
        model=mode or default,
        tools=modes.get("tools", default),
        children=modes.get("children", default),
        tool={name: mode for name, mode in modes.items() if name not in _KINDS},
        stubs=said("--source", live.stubs(), _fits(known)),
        may_change=live.may_change,
    )
    made = load_session(live.session, log.path)
    found = (*filter(None, [live.tools]), *beside)
    tools = tuple(known.values())
    return LiveOptions(sources=sources, tools=tools, models=asked, session=made, places=found)


def _fits(known: Mapping[str, Tool]) -> Callable[[str, Json], None]:
    return lambda name, value: check_result(name, known.get(name), value)


def _check_names(log: OpenedLog, known: Iterable[str], given: Collection[str]) -> None:
    """Refuse a name that no run was offered or called: it would have no effect."""
    if not given:
        return
    names = {*known}
    for path in filter(Path.exists, tree(log.path)):
        names |= {offer["name"] for offer in started(path).tools}
        requests = Book(path, unfinished_ok=True).requests.values()
        names |= {asked.item.name for asked in requests if asked.item.kind == "tool"}
    for name in sorted({*given} - names):
        listed = ", ".join(sorted(names)) or "none"
        raise UsageError(
            f"--source {name}: expected {', '.join(_KINDS)}, or a tool of this run: {listed}"
        )


def _models(
    live: Live, log: OpenedLog, mode: SourceMode | None
) -> tuple[SourceMode | None, dict[str, Model]]:
    """Return where answers come from, and the models that are to be asked."""
    recorded = started(log.path).models
    if live.models:
        model = load_model(live.models[-1], live.base_url)
        return "live", dict.fromkeys(recorded or ("",), model)
    if mode == "live" or (mode is None and live.is_live):
        for name, was in unasked(first_entry(log.path)).items():
            which = f" {name!r}" if name else ""
            option = "--source model=live" if mode else "--live"
            problem = (
                f"{option} asks models live, and the model{which} of this run was {was}: add "
                "--model SPEC, such as FILE.py:NAME or openai:NAME, or keep its answers with "
                "--source model=recorded"
            )
            raise ForkRefused(output.shown_path(log.path), problem, ("--model", "SPEC"))
        return mode, {name: load_model(spec, live.base_url) for name, spec in recorded.items()}
    return mode, {}


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
