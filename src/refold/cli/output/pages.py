"""Help pages: a command's docstring, whose lines are shown as they are written from a title on."""

import inspect
import re
from typing import Any, Final

import click

_AS_WRITTEN: Final = "\b\n"
"""What click reads as: do not fill this paragraph."""
_TITLE: Final = re.compile(r"^[A-Z][\w ]*:$", re.MULTILINE)


class HelpPage(click.Command):
    """A command whose docstring from the first title on, `Examples:`, is below its options."""

    def __init__(self, name: str, **options: Any) -> None:
        """Split the docstring."""
        text = inspect.cleandoc(options.pop("help"))
        title = _TITLE.search(text)
        at = title.start() if title else len(text)
        blocks = (f"{_AS_WRITTEN}{block}" for block in text[at:].split("\n\n") if block)
        super().__init__(name, help=text[:at].rstrip(), epilog="\n\n".join(blocks), **options)
