"""`refold doctor -- COMMAND`: would this command be recorded?

The command runs against a built-in upstream that answers one short text.  Rules: CONTRACT.md
§16.15.
"""

import sys
from typing import Any

import click

from refold.cli.arguments.foreign import Foreign, sessions
from refold.cli.arguments.options import argument, chosen, declared
from refold.cli.output import output
from refold.cli.output.exit_codes import DIFFERS, FINE


@declared("doctor", has_json=False, context_settings={"allow_interspersed_args": False})
def command(
    *,
    command: tuple[str, ...] = argument(click.UNPROCESSED, "-- COMMAND…", nargs=-1, required=True),
    foreign: Foreign = chosen(click.Option, "upstream", "profile"),
) -> int:
    r"""Check whether a command can be recorded, without a model or a key.

    The command runs as it would with `refold record`, but every request is answered with the same
    short text, in the provider's format.  Requests that use the variables do not leave this
    machine, and nothing is recorded.

    Examples:
      refold doctor -- python agent.py
      refold doctor -- claude -p hello
      refold doctor --upstream GROQ_BASE_URL=https://api.groq.com/openai/v1 \
             -- python agent.py

    Exit code: 0 a model request arrived · 1 none arrived.
    """
    given = {"upstreams": foreign.upstream, "profile": foreign.profile}
    found = sessions().examine_command(command, **given)
    sys.stdout.flush()
    for line in _lines(found):
        output.note(line)
    if found.models:
        output.note(("it would be recorded", "green"))
        return FINE
    output.note(("no model request arrived", "bold red"))
    for line in found.advice:
        output.note(f"  {line}")
    return DIFFERS


def _lines(found: Any) -> list[str]:
    lines = [f"known as {found.profile}"] if found.profile else []
    lines.append(f"variables set: {', '.join(found.variables)}")
    for (route, method, path, api), count in found.seen.items():
        read = "not read" if api == "other" else f"read as {api}"
        lines.append(f"{method} {path} ({route}): {read}, {count}×")
    if not found.seen:
        lines.append("no request arrived")
    lines += found.unserved if found.models else ()  # else the advice has them
    lines.append(f"the command exited with status {found.ended.exit_code}")
    return lines
