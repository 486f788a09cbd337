"""Modules of the user's own are executed anew for each log, and compiled once (CONTRACT §14.13)."""

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import json, sys
from pathlib import Path
from refold.replay.bulk.processes import OwnModules

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
own = OwnModules()
seen = []
for number in range(3):
    import own_package.inner, json
    seen.append(own_package.inner.counted[0])
    own_package.inner.counted[0] += 1
    assert Path(own_package.inner.__file__) == folder / "own_package" / "inner.py"
    vars(json)["left"] = number
    own.forget()
    assert not [name for name in sys.modules if name.startswith("own_package")]
    if number == 1:
        (folder / "own_package" / "inner.py").write_text("counted = [7]")
assert json.left == 2 and sys.modules["json"] is json
sys.modules["json"] = type(sys)("json")
sys.modules["json"].__file__ = str(folder / "json.py")
own.forget()
import json
print(seen, json.loads("1"))
"""


def test_own_modules_are_executed_anew_and_compiled_once(tmp_path: Path) -> None:
    """What they kept is gone, the code is the same even if the file is not; libraries stay."""
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("counted = [0]")

    command = [sys.executable, "-c", _SCRIPT, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert done.stdout == "[0, 0, 0] 1\n"
