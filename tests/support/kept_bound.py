"""What the kept log holds of a command that was recorded before values were bound (§16.17).

`fixtures/logs/0.1.0-noted/bound.jsonl` has a profile whose patterns hold anywhere, folders, and no
`rules.noted`.  Recorded once, by hand: `python -m tests.support.kept_bound FILE`.
"""

import sys
from pathlib import Path
from typing import Final

from refold.engine.observed.profile import Profile
from tests.support.watched import Exchange, record, result, says, system, talk, user

_PROFILE: Final = Profile(name="old", volatile_texts=(r"duration_ms: \d+",))
_WAS: Final = {"folder": "/home/ann/proj", "home": "/home/ann"}
NOW: Final = {"folder": "/srv/copy", "home": "/home/bob", "tmp": "/tmp"}


def exchanges(folder: str, duration: int) -> list[Exchange]:
    """Return what the command asks in a folder."""
    read = says("", ("c1", "Read", {"path": f"{folder}/conf.txt"}))
    told = result("c1", f"in {folder}-old: duration_ms: {duration}")
    return talk(system(f"You work in {folder}."), user("Go."), read, told, says("Done."))


if __name__ == "__main__":
    path = Path(sys.argv[1])
    record(path, exchanges(_WAS["folder"], 500), profile=_PROFILE, folders=_WAS, noted=None)
