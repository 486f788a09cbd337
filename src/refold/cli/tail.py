"""`refold tail`: the last entries of a log, and with `--follow` those still to come."""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from refold.cli import output
from refold.cli.entries import heading, origin_of, print_entry
from refold.cli.errors import FINE
from refold.cli.logs import LOG, as_json, opened_log
from refold.engine.log import Entry, read_entries
from refold.engine.log.recovery import follow

_POLL_SECONDS: Final = 0.2
