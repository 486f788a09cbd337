"""`python -m refold` is the `refold` command."""

import os
import sys

from refold.cli import main

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109 - it holds text
        # `-m` puts the working directory first: an `orjson.py` there would be executed in the place
        # of ours.  A command that imports a program from there finds it all the same (§14.9).
        del sys.path[0]
    main()
