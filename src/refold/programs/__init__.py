"""Programs that every installation has: the survey of `refold demo`, and some that misbehave.

A folder flows in; a summary flows out.  They are used as anybody's programs are, by name, on the
command line and from Python.  Imports the engine and the tools.

    survey     the programs
    parsing    their leaf tool, which reads Python source
    shipped    which leaf tools each shipped program comes with

To add one: a function in `survey`, its name below.
"""

import refold.engine.program.run  # noqa: F401 - it ships the agent
from refold.engine.ports.programs import SHIPPED, ship

__all__ = ["SHIPPED"]

ship(
    "refold.programs.survey",
    {
        "survey_tree": "7368dc1b5208edd24dca0d1b387b73ebd5bb2127e8293bfa898c5edfb1251904",
        "survey_package": "16c0afc27a585f53e843063106b3a1225fafdbbbeb3530ea4f2d16ed9d9a784c",
        "survey_with_faults": "5168ac08fa77790820ac8d9fdfeb1dbddee919e1091bda2c4e66430423224d51",
        "never_ends": "5905b7dd6b48ce29141546447aff4fef11170d171a1bfc45275f4ce9f89a69c4",
        "floods": "3c0aca8f232768feb311a613ba7e49594964df6f53d19b3396b39be150710887",
        "crashes": "76b23aa555d42ff27b54b498a457fdcd07537bfa66f36a3f0a36da342f9b375c",
    },
    unruly=("never_ends", "floods", "crashes"),
)
