"""The `refold` command: what composes engine, tools and replay for people.

Kept light on purpose: `refold --version` imports nothing more.  The commands are listed in
`cli.group`, one short file each.  Rules: CONTRACT.md §14.
"""

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
    try:
        from refold.cli.group import refold  # noqa: PLC0415 - what a command needs, it imports

        refold.main(words, prog_name="refold")
    except KeyboardInterrupt:  # while its parts were imported: nothing has begun
        print("refold: interrupted", file=sys.stderr)
        sys.exit(130)
