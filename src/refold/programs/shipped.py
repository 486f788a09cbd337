"""Lists the leaf tools that each shipped program comes with.

Replaying their logs needs the types of the tools' results.  Delegation tools that Refold ships, and
an empty session for a run that had one, are found by `refold.api`.
"""

import os

from refold.engine.ports.ports import Tool


def tools_of(program: str, root: str | os.PathLike[str] = os.curdir) -> tuple[Tool, ...]:
    """Return the tools of a shipped program over the folder `root`; of any other, none.

    Raises:
        ToolRefused: `root` is not a folder.
    """
    if program.startswith("survey"):
        from refold.programs.survey import survey_tools  # noqa: PLC0415 - one of several

        return survey_tools(root)
    if program in ("agent", "client_calls"):
        from refold.tools.files.file_tools import file_tools  # noqa: PLC0415 - the same

        return file_tools(root)
    return ()
