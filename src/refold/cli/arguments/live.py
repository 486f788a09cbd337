"""Reads the options of commands that run something live.

`--source` sets models, tools, children and single tools to `recorded`, `live` or `stub`; a model
that is named is asked. Rules: CONTRACT.md §12.10.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.cli.arguments.loading import (
    import_from_here,
    load_model,
    load_session,
    run_tools,
    tools_option,
)
from refold.cli.arguments.logs import (
    OpenedLog,
    first_entry,
    program_started,
    refuse_damaged,
    started,
)
from refold.cli.arguments.options import option, with_options
from refold.cli.output import output
from refold.cli.output.people import parse_decisions
from refold.engine.encoding.canonical import Json
from refold.engine.errors import ForkRefused, UsageError
from refold.engine.log.names import tree
from refold.engine.ports.people import check_result
from refold.engine.ports.ports import Model
from refold.replay.index.by_call import Book
from refold.replay.partial.sources import MODES, SourceMode, Sources, unasked

_KINDS: Final = ("model", "tools", "children")
"""What `--source` can name besides a tool."""


@attrs.frozen(kw_only=True, field_transformer=with_options)
class Live:
    """The options for live sources."""

    is_live: bool = option(
        "Run everything live that does not have a source of its own; of fork, after the entry."
    )
    models: tuple[str, ...] = option(
        "Model to ask live: openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME, scripted:FILE or "
        "FILE.py:NAME.",
        "--model SPEC",
    )
    tools: str = tools_option()
    source: dict[str, str] = option(
        "Where results come from: model, tools, children or the name of a tool, and recorded, "
        "live, stub (null) or stub:JSON, stub:@FILE.  Live children run in this process.",
        "NAME=MODE",
    )
    may_change: bool = option(
        "Allow live tools with the effect `changes`, and commands of unknown origin.", "--yes"
    )

    def modes(self) -> dict[str, SourceMode]:
        """Return the mode of each name of `--source`.

        Raises:
            UsageError: one is unknown.
        """
        found = dict[str, SourceMode]()
        for name, text in self.source.items():
            mode = "stub" if text.startswith("stub:") else text
            if mode not in MODES:
                expected = "expected NAME=recorded, live, stub or stub:JSON"
                raise UsageError(f"--source {f'{name}={text}'!r:.60}: {expected}")
            found[name] = mode
        return found

    def stubs(self) -> dict[str, str]:
        """Return the results of stubs, as JSON by name."""
        found = {name: mode[5:] for name, mode in self.source.items() if mode.startswith("stub:")}
        return {"child" if name == "children" else name: text for name, text in found.items()}

    @property
    def is_all_recorded(self) -> bool:
        """Whether nothing but the record is asked for."""
        asks = self.is_live or bool(self.models)
        return not asks and all(mode == "recorded" for mode in self.modes().values())


def live_of(log: OpenedLog, program: str | None, live: Live) -> dict[str, Any]:
    """Return the sources for this log, and the tools, models and session that live ones need.

    They are arguments of `refold.drift` and `refold.fork`. What has no option is recorded, or live.

    Raises:
        UsageError: an option is impossible.
        ProgramNotFound: a tool cannot be imported.
    """
    run = program_started(log)
    refuse_damaged(log)
    modes = live.modes()
    import_from_here(program)
    known = {tool.name: tool for tool in run_tools(program, run, live.tools)}
    _check_names(log, known, modes.keys() - {*_KINDS})
    mode, asked = _models(live, log, modes.get("model"))
    default: SourceMode = "live" if live.is_live else "recorded"
    sources = Sources(
        model=mode or default,
        tools=modes.get("tools", default),
        children=modes.get("children", default),
        tool={name: mode for name, mode in modes.items() if name not in _KINDS},
        stubs=parse_decisions(
            "--source", live.stubs(), lambda name, value: check_result(name, known.get(name), value)
        ),
        may_change=live.may_change,
    )
    made = load_session(live.tools, program, log.path)
    return {"sources": sources, "tools": (*known.values(),), "models": asked, "session": made}


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
        model = load_model(live.models[-1])
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
            raise ForkRefused(output.shown_path(log.path), problem)
        return mode, {name: load_model(spec) for name, spec in recorded.items()}
    return mode, {}


def edits_of(
    given: Mapping[str, str], fits: Callable[[str, Json], object] = lambda _key, _value: None
) -> dict[str, Json]:
    """Parse the JSON, `@FILE` or text of each key of `--set`.

    Raises:
        UsageError: as for `people.parse_decisions`; or a text names a file that would not be read.
    """
    for key, text in given.items():
        if os.path.isfile(text.strip()):  # noqa: PTH113 - a text that can be no name is none
            raise UsageError(
                f"--set {key}: {text} is a file: to read it, write {'@' + text!r}; "
                f"to use the text itself, {json.dumps(text)!r}"
            )
    return parse_decisions("--set", given, fits)
