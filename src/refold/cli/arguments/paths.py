"""The type of every path on the command line."""

from pathlib import Path
from typing import Any

import click

from refold.engine.log.names import begins_at_home


class UserPath(click.Path):
    """A path; `~/` at its beginning is HOME: shells leave it in `--log=~/x`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if isinstance(value, str) and begins_at_home(value):
            value = str(Path(value).expanduser())
        return super().convert(value, param, ctx)
