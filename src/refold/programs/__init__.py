"""Programs that every installation has: the survey of `refold demo`, and some that misbehave.

A folder flows in; a summary flows out.  They are used as anybody's programs are, by name, on the
command line and from Python.  Imports the engine and the tools.

    survey          the programs, and their leaf tool, which reads Python source
    client_calls    the program of `refold mcp --delegate`
    shipped         which leaf tools each shipped program comes with

To add one: a function in `survey`, its name below.
"""

import refold.engine.program.run  # noqa: F401 - it ships the agent
from refold.engine.ports.programs import SHIPPED, ship

__all__ = ["SHIPPED"]

ship(
    "refold.programs.survey",
    ["survey_tree", "survey_package", "survey_with_faults", "never_ends", "floods", "crashes"],
    unruly=("never_ends", "floods", "crashes"),
)
ship("refold.programs.client_calls", ["client_calls"])
