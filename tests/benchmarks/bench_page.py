"""How the page shows a log of 300,000 entries, in Chromium: times, pauses while scrolling, memory.

Needs the extra `browser`, chromium and chromedriver.  Pauses go by the wall clock: where other work
keeps the processors busy, they are its pauses, too.
"""

import time
from pathlib import Path
from typing import Final

import attrs

from refold.engine.runners.recording import record
from refold.page.document import page
from refold.page.html import page_html
from tests.benchmarks import programs
from tests.support.browsing import Browser, started

ENTRIES: Final = 300_000

_WATCH: Final = """
const seen = window.seen = { there: false, first: 0, done: 0, gaps: [] };
const badge = () => document.querySelector('[data-answer=intact]')?.textContent ?? '';
let before = 0, turns = 0;
const turn = (now) => {
  if (!seen.there) {
    seen.there = badge().includes('checking') && document.querySelector('[role=treeitem]') !== null;
  } else if (!seen.first) {
    seen.first = now;
    document.querySelector('main .title button')?.click();
  } else {
    seen.gaps.push(now - before);
    const list = document.querySelector('.drawer .list');
    if (list) list.scrollTop = (list.scrollTop + 700 * ++turns) % list.scrollHeight;
    if (!seen.done && !badge().includes('checking')) { seen.done = now; seen.last = badge(); }
    if (seen.done && now > seen.done + 3000) return;
  }
  before = now;
  requestAnimationFrame(turn);
};
requestAnimationFrame(turn);
"""
"""Looks, frame by frame, at what a person would see, and scrolls without a pause.

The first screen is there when the frame after it begins: then it is painted.
"""


@attrs.frozen
class Shown:
    """What showing the log took."""

    first_seconds: float
    """Until the first screen, with the badge at "checking"."""
    done_seconds: float
    """Until the page had checked every line."""
    pause_seconds: float
    """The longest time between two frames, while scrolling, from the first screen on."""
    peak_bytes: int
    """Of the process that shows the page."""


def shown(folder: Path) -> Shown:
    """Record a log, show its page, and return what that took."""
    log, target = folder / "page.jsonl", folder / "page.html"
    record(programs.plain, ENTRIES // 2 - 1, log=log, tools=[programs.find], durability="fast")
    target.write_text(page_html(page(log)), encoding="utf-8")
    with started(folder / "profile") as browser:
        browser.driver.get("about:blank")
        browser.command("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        browser.driver.get(target.as_uri())
        deadline = time.monotonic() + 120
        while not (seen := browser.run("return window.seen"))["done"]:
            if time.monotonic() > deadline:
                raise TimeoutError(str(seen))
            time.sleep(0.5)
        time.sleep(3.5)
        seen = browser.run("return window.seen")
        assert seen["last"] == "intact", seen["last"]
        return Shown(
            seen["first"] / 1000, seen["done"] / 1000, max(seen["gaps"]) / 1000, _peak(browser)
        )


def _peak(browser: Browser) -> int:
    """Return the most that a renderer of this browser has held, shared pages included."""
    above = {browser.driver.service.process.pid}
    peaks = [0]
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        said = (
            dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            if (folder / "status").exists()
            else {}
        )
        if said and int(said["PPid"]) in above:
            above.add(int(folder.name))
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                peaks.append(int(said["VmHWM"].split()[0]) * 1024)
    return max(peaks)


def as_text(found: Shown) -> str:
    """Return a table for a terminal."""
    title = f"The page of {ENTRIES:,} entries in Chromium"
    rows = [
        ("first screen", f"{found.first_seconds:.1f} s", "3 s"),
        ("all lines checked", f"{found.done_seconds:.1f} s", "25 s"),
        ("longest pause while scrolling", f"{found.pause_seconds * 1000:.0f} ms", "100 ms"),
        ("peak memory", f"{found.peak_bytes / 1e6:,.0f} MB", "500 MB"),
    ]
    lines = [f"{name:36} {value:>10}   (goal at most {goal})" for name, value, goal in rows]
    return "\n".join([title, "-" * len(title), *lines])
