"""The scripts of `fixtures/foreign`: how each is started, and what it prints.

They know nothing of Refold: base URLs and keys come from the environment, and `Upstream` answers
them.  Each has a constant SYSTEM that says "briefly"; no rule of the traffic looks at that word, so
`changed_copy` gives a script that asks something else and is answered all the same.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Final

import attrs
import pytest

from tests.support.upstream import Upstream

FOREIGN: Final = Path(__file__).parents[2] / "fixtures/foreign"
NODE: Final = "node_agent.mjs"
CHANGED: Final = ("briefly", "at length")
"""The word of SYSTEM that `changed_copy` changes, and what to."""
DEADLINE_SECONDS: Final = 300.0
"""When a script that was started is killed."""
_INSTALL_SECONDS: Final = 300.0


@attrs.frozen(kw_only=True)
class Script:
    """One script, and what is true of it with the answers of `fixtures/traffic`."""

    name: str
    """The file below `fixtures/foreign`."""
    runner: tuple[str, ...] = (sys.executable,)
    packages: tuple[str, ...] = ()
    """What it imports; a test skips where one is missing."""
    output: str
    """All of its standard output."""
    rules: tuple[str, ...]
    """The rules that answer it, in the order of its requests; parallel ones by name."""

    def command(self, folder: Path = FOREIGN) -> list[str]:
        """Return the command that runs the script of that folder."""
        return [*self.runner, str(folder / self.name)]


SCRIPTS: Final = {
    script.name: script
    for script in (
        Script(
            name="openai_stream.py",
            packages=("openai",),
            output=(
                "Let me look both up.\n[get_weather Oslo]\n[get_weather Lisbon]\n"
                "Oslo lies at −4 °C under snow, Lisbon at 19 °C in the sun. "  # noqa: RUF001  # a real minus
                "Take a coat north, none south — and a café table in either. ☀\n"
            ),
            rules=("weather-asks", "weather-tells"),
        ),
        Script(
            name="anthropic_stream.py",
            packages=("anthropic",),
            output=(
                "I look for it.\n[find_book {'subject': 'lighthouses'}]\n"
                "[shelf_of {'number': 7714}]\n"
                "“A Keeper of Lights” is in: shelf 12-C, number 7714.\n"
            ),
            rules=("library-finds", "library-locates", "library-tells"),
        ),
        Script(
            name="pydantic_delegate.py",
            packages=("pydantic_ai",),
            output=(
                "Until ten it rains: breakfast at the fish hall. "
                "Then up Fløyen on foot, for the view.\nmodel requests: 2\n"
            ),
            rules=("trip-asks", "guide-food", "guide-walks", "trip-tells"),
        ),
        Script(
            name="agents_handoff.py",
            packages=("agents",),
            output=(
                "Billing specialist: You are right: 2041 was paid on 3 May and again on 4 May. "
                "The 18.50 € come back within five days.\n"
                "I look that one up, too.\n2042 is in order: paid once, on 9 May.\n"
            ),
            rules=(
                "triage-hands-over",
                "billing-looks",
                "billing-tells",
                "billing-looks-again",
                "billing-tells-again",
            ),
        ),
        Script(
            name=NODE,
            runner=("node",),
            output=(
                "[look_into shelf]\n[look_into fridge]\n"
                "Lentils with braised leeks, and a spoon of crème fraîche.\n"
            ),
            rules=("kitchen-looks", "kitchen-tells"),
        ),
        Script(
            name="curl_agent.sh",
            runner=("sh",),
            output=(
                "The Danube, from Regensburg and Passau to Budapest.\n"
                "The Rhine, on its way from Lake Constance to the North Sea.\n"
            ),
            rules=("rivers-vienna", "rivers-cologne"),
        ),
    )
}


def folder_of(script: Script, config: pytest.Config) -> Path:
    """Return a folder where the script can run; skips the test where something is missing.

    The packages of npm are installed once, below pytest's cache folder.
    """
    if missing := [name for name in script.packages if not importlib.util.find_spec(name)]:
        pytest.skip(f"not installed: {missing}")  # found, not imported: that takes seconds
    if script.runner[0] == "sh" and not shutil.which("curl"):
        pytest.skip("there is no curl here")
    return _installed(config) if script.name == NODE else FOREIGN


def changed_copy(script: Script, folder: Path, *, original: Path = FOREIGN) -> Path:
    """Copy the script into `folder`, with one word of SYSTEM changed, and return the folder.

    Packages that stand beside the script in `original` (`folder_of`) are there for the copy, too.
    """
    text = (FOREIGN / script.name).read_text()
    at = text.index("SYSTEM")
    (folder / script.name).write_text(text[:at] + text[at:].replace(*CHANGED, 1))
    if (original / "node_modules").is_dir():
        (folder / "node_modules").symlink_to(original / "node_modules")
    return folder


def environment(upstream: Upstream | None = None) -> dict[str, str]:
    """Return all that a script gets: where its programs are, and where the upstream is."""
    where = {"PATH": os.environ["PATH"]}
    return {**where, **upstream.environment()} if upstream else where


@contextlib.contextmanager
def start(
    script: Script, folder: Path, upstream: Upstream
) -> Generator[subprocess.Popen[str], None, None]:
    """Start the script against the upstream; its output and errors are pipes.

    It is killed when the block ends or the deadline comes, so that nothing waits for it for ever.
    """
    process = subprocess.Popen(
        script.command(folder),
        cwd=folder,
        env=environment(upstream),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    watchdog = threading.Timer(DEADLINE_SECONDS, process.kill)
    watchdog.start()
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        watchdog.cancel()
        watchdog.join()


def _installed(config: pytest.Config) -> Path:
    """Return a folder with the script and its packages, installed by whoever comes first."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node or npm is missing here")
    cache: pytest.Cache | None = getattr(config, "cache", None)  # not there without the plugin
    if cache is None:
        pytest.skip("npm installs below pytest's cache, which is switched off")
    folder = cache.mkdir("refold-node-agent")
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = (FOREIGN / "package.json").read_text()
        done = folder / ".installed"
        if not done.is_file() or done.read_text() != wanted:
            (folder / "package.json").write_text(wanted)
            _install(folder)
            done.write_text(wanted)
        shutil.copy(FOREIGN / NODE, folder)
    return folder


def _install(folder: Path) -> None:
    argv = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0"]
    try:
        subprocess.run(
            argv, cwd=folder, timeout=_INSTALL_SECONDS, check=True, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm install takes longer than {_INSTALL_SECONDS:.0f} s here")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm install does not work here: {error.stderr.strip()[-200:]}")
