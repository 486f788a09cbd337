"""Builds the commands that Refold prints, from the header of a log and the missing options.

An error that can name its option builds no command.
"""

from pathlib import Path
from typing import Final

import attrs

from refold.cli.arguments.loading import (
    config_option,
    models_by_name,
    root_option,
    run_tools,
    tools_option,
)
from refold.cli.arguments.logs import first_entry, started
from refold.cli.arguments.options import option, with_options
from refold.cli.output import output
from refold.engine.ports.programs import names_shipped, program_place
from refold.engine.values import Value
from refold.replay.index.guarantee import is_observed
from refold.replay.partial.sources import unasked

_BY_FILE: Final = "run_command"
"""A tool of Refold's own that only the configuration of an agent file sets up."""


@attrs.frozen(kw_only=True, field_transformer=with_options)
class Given(Value):
    """Options that a run takes each time that its program runs."""

    program: str | None = option(
        "Program, as module:name or file.py:name; not needed for built-in ones.", "MODULE:NAME"
    )
    tools: str = tools_option()
    agent: Path | None = option("Agent file of a `refold run`.", "AGENT.md")
    model: tuple[str, ...] = option(
        "openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME, scripted:FILE or FILE.py:NAME; by "
        "default the one in the log.  NAME= selects a model of the run.",
        "[NAME=]SPEC",
    )
    root: Path = root_option
    config: Path | None = config_option
    ask: bool = option("Answer further questions at this terminal.")


def next_line(verb: str, log: Path, given: Given, *more: str, is_live: bool = True) -> str:
    """Return the command that runs a log's program again, with placeholders for missing options.

    `more` comes last. With `is_live` false, no model is asked, so none is missing.

    Raises:
        LogDamaged: the log has no header.
    """
    if is_observed(log):
        return output.command(verb, log, *more, "--", "COMMAND")
    run = started(log)
    if given.program is None and not names_shipped(run):
        given = attrs.evolve(given, program=program_place(run.program))
    elif given.program is not None and is_live:
        known = {tool.name for tool in run_tools(given.program, run, given.tools)}
        left = [f"FILE.py:{name}" for offer in run.tools if (name := offer["name"]) not in known]
        given = attrs.evolve(given, tools=",".join([*filter(None, [given.tools]), *left]))
    elif is_live and given.agent is None and not given.tools:
        from refold.tools.agents.agent_files import NAMEABLE_TOOLS  # noqa: PLC0415 - reads YAML

        names = [offer["name"] for offer in run.tools]
        left = [f"FILE.py:{name}" for name in names if name not in NAMEABLE_TOOLS]
        needs_file = verb == "resume" and _BY_FILE in names
        agent = Path("AGENT.md") if needs_file else None
        given = attrs.evolve(given, tools=",".join(left), agent=agent)
    said = models_by_name(given.model)
    if is_live and not said.keys() & {"", "*"}:
        names = [name for name in unasked(first_entry(log)) if name not in said]
        specs = (f"{name}=SPEC" if name else "SPEC" for name in names)
        given = attrs.evolve(given, model=(*given.model, *specs))
    words = list[str]()
    for name, value in attrs.asdict(given, recurse=False).items():
        for each in value if isinstance(value, tuple) else (value,):
            if each and each != Path():
                words += [f"--{name}", *([] if each is True else [output.shown_path(each)])]
    return output.command(verb, log, *words, *more)
