"""What the programs that Refold ships come with: their leaf tools, and their session.

Replaying their logs needs the types of the tools' results.  Delegation tools that Refold ships are
found by `refold.face`.
"""

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from refold.engine.log import read_entries
from refold.engine.ports import Tool

if TYPE_CHECKING:
    from refold.engine.session import Session


def tools_of(program: str, root: str | os.PathLike[str] = os.curdir) -> tuple[Tool, ...]:
    """Return the tools of a shipped program over the folder `root`; of any other, none.

    Raises:
        ToolRefused: `root` is no folder.
    """
    if program.startswith("survey"):
        from refold.cli.survey import survey_tools  # noqa: PLC0415 - one of several

        return survey_tools(root)
    if program == "agent":
        from refold.tools.files import file_tools  # noqa: PLC0415 - the same

        return file_tools(root)
    return ()


def session_of(log: Path) -> "Session | None":
    """Return what a shipped program's run had: a session with plans, or none."""
    second = next(itertools.islice(read_entries(log, torn_ok=True), 1, None), None)
    if second is None or second.kind != "session.seeded":
        return None
    from refold.tools.configured import planned  # noqa: PLC0415 - imports all tools

    return planned()
