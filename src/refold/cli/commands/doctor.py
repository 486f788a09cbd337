"""`refold doctor -- COMMAND`: would this command be recorded?

The command runs against a built-in upstream that answers one short text.  Rules: CONTRACT.md
§16.15.
"""

import sys
from typing import Any, Final

import click

from refold.cli.arguments.foreign import sessions
from refold.cli.output import output
from refold.cli.output.exit_codes import DIFFERS, FINE
from refold.cli.output.pages import page

_PAGE: Final = """
Examples:
  refold doctor -- python agent.py
  refold doctor -- claude -p hello
  refold doctor --upstream GROQ_BASE_URL=https://api.groq.com/openai/v1 \\
         -- python agent.py

Exit code: 0 a request to a model was read · 1 none was.
"""


@click.command("doctor", epilog=page(_PAGE), context_settings={"allow_interspersed_args": False})
@click.argument("command", metavar="-- COMMAND…", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option(
    "--upstream", "upstreams", metavar="VARIABLE=URL", multiple=True,
    help="The variable that a client of another provider reads its base URL from.",
)  # fmt: skip
@click.option("--profile", metavar="NAME", default="", help="As for `refold record`.")
def command(*, command: tuple[str, ...], upstreams: tuple[str, ...], profile: str) -> int:
    """Say whether a command would be recorded, with no model and no key.

    The command is run as `refold record` runs it, but what it asks is answered
    here, with one short text in each provider's format.  Nothing leaves this
    machine by the variables that are set, and nothing is recorded.
    """
    found = sessions().examine_command(command, upstreams=upstreams, profile=profile)
    sys.stdout.flush()
    for line in _lines(found):
        output.told(line)
    if found.models:
        output.told(("it would be recorded", "green"))
        return FINE
    output.told(("no request to a model was read", "bold red"))
    for line in found.advice:
        output.told(f"  {line}")
    return DIFFERS


def _lines(found: Any) -> list[str]:
    lines = [f"known as {found.profile}"] if found.profile else []
    lines.append(f"variables set: {', '.join(found.variables)}")
    for (route, method, path, api), count in found.seen.items():
        read = "not read" if api == "other" else f"read as {api}"
        lines.append(f"{method} {path} ({route}): {read}, {count}×")
    if not found.seen:
        lines.append("no request came")
    lines += [f"WebSocket {path}: refused with 426" for path in found.websockets]
    lines.append(f"the command ended with exit code {found.ended.exit_code}")
    return lines
