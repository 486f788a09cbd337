"""Python as it is on other systems, on this one: what they lack is removed before anything runs.

It does not make this system another one: it finds what is used without a check that it exists.

    python -m tests.systems macos FOLDER     makes an environment; its Python is FOLDER/bin/python

`sitecustomize` does the removing; the environment also has the packages of the Python that made it.
"""

import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def environment(folder: Path, system: str) -> Path:
    """Make an environment in `folder` for `macos` or `windows`, and return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "packages.pth").write_text("\n".join([str(ROOT / "src"), *paths]) + "\n")
    code = Path(__file__).with_name("sitecustomize.py").read_text()
    (packages / "sitecustomize.py").write_text(code.replace('"macos"', f'"{system}"', 1))
    return folder / "bin" / "python"
