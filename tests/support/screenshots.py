"""Takes the screenshots of docs/viewer.md: `python -m tests.support.screenshots`.

Runs of `tests.support.shown_runs` are recorded, exported and shown in a real browser; what each
picture shows stands in `SHOTS`.  Needs the extra `browser`.
"""

import base64
import sys
import tempfile
from pathlib import Path
from typing import Final

import attrs

from refold.engine.models.scripted import FunctionModel
from refold.engine.runners.recording import record
from tests.support.browsing import Browser, exported, started
from tests.support.shown_runs import MODEL, desk, late_for_5, order_status

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
_ORDERS: Final = 25


@attrs.frozen
class Shot:
    """One picture."""

    name: str
    place: str
    """The end of the page's address."""
    words: str
    """What has to stand there before it is taken."""
    of: str = "run"
    dark: bool = False


SHOTS: Final = (
    Shot("run", "", "clerk"),
    Shot("run-dark", "", "clerk", dark=True),
    Shot("failed", "#agent=0%2F23%231&turn=0&step=0&log=23&seq=2", "Led to"),
    Shot("search", "#text=warehouse", "places"),
    Shot("comparison", "", "late", of="comparison"),
)


def main(folder: Path = IMAGES) -> None:
    """Take each picture."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        here = Path(made)
        one, other = here / "monday.jsonl", here / "tuesday.jsonl"
        record(desk, _ORDERS, log=one, tools=[order_status], model=MODEL)
        late = FunctionModel(late_for_5, "clerk")
        record(desk, _ORDERS, log=other, tools=[order_status], model=late)
        pages = {"comparison": exported(other, here, one).rename(here / "both.html")}
        pages["run"] = exported(one, here)
        with started(here / "profile") as browser:
            for shot in SHOTS:
                _take(browser, shot, pages[shot.of], folder / f"{shot.name}.png")


def _take(browser: Browser, shot: Shot, page: Path, target: Path) -> None:
    browser.open(page, shot.place, dark=shot.dark)
    browser.reads("body", shot.words)
    top = browser.settled("return scrollY")
    clip = {"x": 0, "y": top, "width": 1280, "height": 720, "scale": 1}
    taken = browser.command("Page.captureScreenshot", format="png", clip=clip)
    target.write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
