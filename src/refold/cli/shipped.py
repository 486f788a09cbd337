"""The leaf tools of the programs that Refold ships: replaying their logs needs the results' types.

Delegation tools that Refold ships are found by `refold.face`.
"""

import os

from refold.engine.ports import Tool


def tools_of(program: str, root: str | os.PathLike[str]) -> tuple[Tool, ...]:
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
