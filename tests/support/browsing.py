"""A real browser that shows a page from disk: what a person would do, and read."""

import base64
import contextlib
import functools
import gzip
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER: Final = shutil.which("chromedriver")
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_SECONDS: Final = 60


class Browser:
    """One browser for many tests; every page gets a fresh document."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, place: str = "", *, width: int = 1280, dark: bool = False) -> None:
        """Show a page from disk, with the network off.

        In `place`, `log=3` is the fourth log of the page, whatever its id.
        """
        place = re.sub(r"(?<=\blog=)(\d+)(?!\w)", lambda found: ids(page)[int(found[1])], place)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.command("Network.enable")
        self.command(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=0,
            uploadThroughput=0,
        )
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(f"{page.as_uri()}{place}")
        self.until(lambda: self.all(".top"))

    def visit(self, url: str) -> None:
        """Show what a server on loopback sends."""
        self.command(
            "Network.emulateNetworkConditions",
            offline=False,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(url)

    def command(self, name: str, **arguments: Any) -> Any:
        """Give a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page; return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[Any]:
        """Return the elements that a selector names."""
        return list(self.driver.find_elements("css selector", selector))

    def text(self, selector: str) -> str:
        """Return what a person reads there; of several, one a line."""
        return "\n".join(self.texts(selector))

    def texts(self, selector: str) -> list[str]:
        """Return what a person reads in each, all at one moment: the page may draw them anew."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
        found: list[str] = self.run(script, selector)
        return found

    def click(self, selector: str, number: int = 0) -> None:
        """Click an element that a selector names, the first unless told, when it is there."""
        self.until(lambda: self._clicked(selector, number), selector)

    def _clicked(self, selector: str, number: int) -> bool:
        from selenium.common.exceptions import StaleElementReferenceException  # noqa: PLC0415 - an extra

        # It is not there yet, or was just drawn anew.
        with contextlib.suppress(IndexError, StaleElementReferenceException):
            self.all(selector)[number].click()
            return True
        return False

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        from selenium.webdriver import ActionChains  # noqa: PLC0415 - an extra

        for key in keys:  # an element that is just being hidden would refuse keys sent to it
            ActionChains(self.driver).send_keys(key).perform()

    def until(self, holds: Callable[[], Any], what: str = "") -> Any:
        """Wait for a condition; its value."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := holds()):
            if time.monotonic() > deadline:
                pytest.fail(f"not within {WAIT_SECONDS} s: {what or holds}\n{self.text('body')}")
        return found

    def settled(self, script: str) -> Any:
        """Return what a script returns, once it returns the same two frames later."""
        frames = (
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )
        seen: list[Any] = []

        def rests() -> bool:
            seen.append(self.run(script))
            self.driver.execute_async_script(frames)
            return len(seen) > 2 and seen[-1] == seen[-2]

        self.until(rests, script)
        return seen[-1]

    def reads(self, selector: str, words: str) -> None:
        """Wait until these words stand there."""
        self.until(lambda: words in self.text(selector), f"{words!r} in {selector}")

    def complaints(self) -> list[str]:
        """Return what the console says of faults, refusals of the policy included."""
        return [each["message"] for each in self.driver.get_log("browser")]


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """Start a browser; skip with a reason where there is none."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs the extra `browser`")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415 - an extra

    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def ids(page: Path) -> list[str]:
    """Return the ids of the logs in an exported page, the root's first."""
    found = re.search(r'id="page">([^<]*)<', page.read_text(encoding="utf-8"))
    assert found is not None
    document = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return [log["id"] for log in document["logs"]]


@functools.cache
def exported(log: Path, out: Path, other: Path | None = None) -> Path:
    """Return the page of a log, or of two, made once."""
    from refold.page.document import page  # noqa: PLC0415 - not for other tests
    from refold.page.html import page_html  # noqa: PLC0415 - the same

    target = out / f"{log.stem}.html"
    target.write_text(page_html(page(log, other=other)), encoding="utf-8")
    return target
