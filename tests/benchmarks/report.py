"""What a measurement leaves: a table in Markdown, JSON, and a picture, all in one folder."""

import datetime as dt
import importlib.metadata
import json
import os
import platform
import re
import sysconfig
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Draw = Callable[[Any, Any], None]
"""Draws data on a figure of matplotlib."""


def about(packages: Iterable[str] = (), *, build: str = "") -> dict[str, Any]:
    """Return when and on what kind of machine this is measured, without names and paths."""
    optimised = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    said = "built with --enable-optimizations" if optimised else "its configuration names no PGO"
    names = ["refold", "orjson", *packages]
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": {"cores": os.cpu_count(), "kind": platform.machine()},
        "python": {"version": platform.python_version(), "build": build or said},
        "versions": {name: importlib.metadata.version(name) for name in names},
    }


def in_words(data: dict[str, Any]) -> str:
    """Return the same as a paragraph."""
    python, versions = data["python"], data["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"Measured on {data['date']}, {data['machine']['cores']} cores "
        f"({data['machine']['kind']}), Python {python['version']} ({python['build']}). "
        f"Versions: {listed}."
    )


def write(folder: Path, name: str, markdown: str, data: dict[str, Any], draw: Draw) -> None:
    """Write `plots/NAME.json` and `plots/NAME.svg`, and the table.

    The table goes between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of `performance.md`,
    or into `NAME.md` if the folder has no such page.  Without matplotlib there is no picture.
    """
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    (plots / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if find_spec("matplotlib"):
        _picture(plots / f"{name}.svg", data, draw)
    page = folder / "performance.md"
    if not page.exists():
        (folder / f"{name}.md").write_text(markdown + "\n", encoding="utf-8")
        return
    block = rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)"
    text = page.read_text(encoding="utf-8")
    found, count = re.subn(block, lambda at: f"{at[1]}{markdown}\n{at[2]}", text, flags=re.DOTALL)
    if count != 1:
        raise RuntimeError(f"{page} has {count} places for {name}; expected 1")
    page.write_text(found, encoding="utf-8")


def _picture(path: Path, data: dict[str, Any], draw: Draw) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - of the group `bench`
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": "refold", "font.size": 8, "svg.fonttype": "none"}):
        figure = Figure(layout="constrained", facecolor="white")
        draw(figure, data)
        figure.savefig(path, metadata={"Date": None})


def time_text(micros: float) -> str:
    """Return a time in its best unit, with two or three figures."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if micros >= size:
            return (
                f"{micros / size:.3g} {unit}"
                if micros < 1000 * size
                else f"{micros / size:,.0f} {unit}"
            )
    return f"{micros:.3g} µs"
