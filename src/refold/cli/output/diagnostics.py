"""Diagnostics: structlog to standard error; for people on a terminal, else one JSON object a line.

Only the command line configures structlog; the library is silent. Nothing reads diagnostics back:
the log has everything that counts. Rules: CONTRACT.md §14.
"""

import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from refold.cli.output import output


def configure(level: str) -> None:
    """Send diagnostics of at least `level` to standard error.

    Args:
        level: `debug`, `info`, `warning` or `error`.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_rendering(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        # Standard error as it is then: a test may have closed the one of now.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _rendering() -> list[Any]:
    if not sys.stderr.isatty():
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [_made_safe, structlog.dev.ConsoleRenderer(colors=not os.environ.get("NO_COLOR"))]


def _made_safe(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {
        key: output.safe(value) if isinstance(value, str) else value for key, value in event.items()
    }
