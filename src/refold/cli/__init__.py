"""The `refold` command: what composes engine, tools and replay for people.

Words of a command line flow in; lines, or one JSON document, and an exit code flow out.  Kept light
on purpose: `refold --version` imports nothing more.  May import everything; each room may import
those above it in this list.  Rules: CONTRACT.md §14.

    output/       how commands speak: safe lines on a terminal, documents, exit codes
    schema/       JSON schemas of the documents
    arguments/    what commands share: logs, programs, tools, what is live
    commands/     one file a command
    group         the commands by name

To add a command: see `cli.group`.
"""

import gc
import sys
from collections.abc import Sequence

from refold import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; by default on the arguments of this process.

    Raises:
        SystemExit: with the exit code of the command (CONTRACT.md §14).
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"refold {__version__}")
        return
    if arguments is None:
        gc.disable()  # what imports make is no garbage, now or at the end: a sixth of the start
    try:
        from refold.cli.group import refold  # noqa: PLC0415 - what a command needs, it imports

        refold.main(words, prog_name="refold")
    except KeyboardInterrupt:  # while its parts were imported: nothing has begun
        print("refold: interrupted", file=sys.stderr)
        sys.exit(130)
