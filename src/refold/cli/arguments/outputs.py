"""Options that name a file to be written, which is never a log.  Rules: CONTRACT.md §4.9."""

from pathlib import Path
from typing import Any, Final

import click

from refold.cli.arguments.options import LOG, Decorator, option
from refold.page.output_files import OutputFile, OutputKind

_FORCE: Final = "refold.force"

force_option: Final[Decorator] = click.option(
    "-f", "--force", is_flag=True, is_eager=True, expose_value=False,
    callback=lambda context, _, force: context.meta.update({_FORCE: force}),
    help="Replace a file that Refold did not write; never a log.",
)  # fmt: skip


def output_file(path: Path, kind: OutputKind) -> OutputFile:
    """Return the output file of a command, with `--force` applied if it has the option.

    Raises:
        OutputRefused: it would not be written.
    """
    file = OutputFile(path, kind, click.get_current_context().meta.get(_FORCE))
    file.check()
    return file


def output_option(text: str, *names: str, kind: OutputKind) -> Any:
    """Declare an option that names a file to be written; the parameter gets an `OutputFile`."""

    def made(_context: object, _parameter: object, path: Path | None) -> OutputFile | None:
        if path == Path("-"):
            raise click.BadParameter("this option writes a file: pass a file name, or /dev/stdout")
        return None if path is None else output_file(path, kind)

    return option(text, *names, "FILE", type=LOG, callback=made)
