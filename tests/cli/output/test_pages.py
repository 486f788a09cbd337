"""The end of a help page is shown as it was written, line by line."""

import click
from click.testing import CliRunner

from refold.cli.output.pages import HelpPage


def test_lines_are_kept_and_blocks_stay_apart() -> None:
    @click.command("do", cls=HelpPage)
    def command() -> None:
        """Do it.

        Examples:
          one
          two

        Exit code: 0
        """

    shown = CliRunner().invoke(command, ["--help"]).stdout

    assert shown.endswith("\n\n  Examples:\n    one\n    two\n\n  Exit code: 0\n")
