"""Make an environment for another system: `python -m tests.systems macos FOLDER`."""

import sys
from pathlib import Path

from tests.systems import environment

environment(Path(sys.argv[2]).absolute(), sys.argv[1])
