"""The benchmarks run: what nobody runs by chance breaks without a sound."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import attrs
import pytest

from tests.benchmarks import curves, peers, report
from tests.support.loops import for_each

_ROOT: Final = Path(__file__).parents[1]


@pytest.mark.long
@pytest.mark.parametrize("section", ["log", "watched", "goals"])
def test_a_section_prints_its_table(section: str) -> None:
    """In a process of its own, whose servers end with it; its figures are not looked at."""
    words = [sys.executable, "-m", "tests.benchmarks", section, "--rounds", "1"]

    done = subprocess.run(words, cwd=_ROOT, capture_output=True, text=True, check=True)

    assert " x " in done.stdout


_ABSENT: Final = attrs.evolve(peers.PEERS[2], packages=("no_such_package.of_a_peer",))


@pytest.mark.long
def test_peers_that_are_not_installed_are_left_out_by_name(tmp_path: Path) -> None:
    """The table, the JSON and, with matplotlib, the picture are made without any peer."""
    without = [*peers.PEERS[:2], _ABSENT]

    data = peers.measured(rounds=1, peers=without, words=["call"])
    report.write(tmp_path, "peers", peers.as_markdown(data), data, peers.draw)

    table = (tmp_path / "peers.md").read_text()
    assert f"Left out, because not installed: {_ABSENT.name}." in table
    assert "| Refold | `strict`: each entry synced |" in table
    assert json.loads((tmp_path / "plots" / "peers.json").read_text()) == data
    assert (tmp_path / "plots" / "peers.svg").exists() is (find_spec("matplotlib") is not None)


def test_the_tables_in_docs_are_those_of_their_json() -> None:
    """Both are written by one command, and the members are those that the page describes."""
    page = (_ROOT / "docs" / "performance.md").read_text()
    data = json.loads((_ROOT / "docs" / "plots" / "peers.json").read_text())

    assert peers.as_markdown(data) in page
    assert (_ROOT / "docs" / "plots" / "peers.svg").read_text().startswith("<?xml")
    assert {row["who"] for row in data["rows"]} == {peer.name for peer in peers.PEERS}
    members = {*data, *data["rows"][0]}
    assert [name for name in members if f"`{name}`" not in page] == []


def test_a_table_goes_between_its_marks_of_the_page_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("before\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nafter\n")

    report.write(tmp_path, "peers", "new", {"rows": []}, lambda _figure, _data: None)

    assert page.read_text() == "before\n<!-- peers: begin -->\nnew\n<!-- peers: end -->\nafter\n"
    with pytest.raises(RuntimeError, match="0 places for other"):
        report.write(tmp_path, "other", "new", {"rows": []}, lambda _figure, _data: None)


@pytest.mark.long
def test_a_curve_has_its_points_slopes_and_picture(tmp_path: Path) -> None:
    """Each point is measured in a process of its own; its figures are not looked at."""
    data = curves.measured(most=1_000, words=["one result"])
    report.write(tmp_path, "curves", curves.as_markdown(data), data, curves.draw)

    (curve,) = data["curves"]
    assert [point["size"] for point in curve["points"]] == [100, 1_000]
    assert "| record one result | 100 to 1,000 bytes |" in (tmp_path / "curves.md").read_text()
    assert json.loads((tmp_path / "plots" / "curves.json").read_text()) == data
    assert (tmp_path / "plots" / "curves.svg").exists() is (find_spec("matplotlib") is not None)


@for_each(
    "points, slope",
    [
        ([(1, 5.0)], None),
        ([(1, 5.0), (10, 50.0)], 1.0),
        ([(1, 9.0), (10, 1.0), (100, 100.0)], 2.0),
        ([(1, 0.0), (10, 1.0)], None),
    ],
)
def test_a_slope_is_the_exponent_of_the_last_step(
    points: list[tuple[int, float]], slope: float | None
) -> None:
    assert curves.slope(points) == slope


def test_the_curves_in_docs_are_those_of_their_json() -> None:
    """All of them, to their largest sizes; the members are those that the page describes."""
    page = (_ROOT / "docs" / "performance.md").read_text()
    data = json.loads((_ROOT / "docs" / "plots" / "curves.json").read_text())

    assert curves.as_markdown(data) in page
    assert (_ROOT / "docs" / "plots" / "curves.svg").read_text().startswith("<?xml")
    found = {each["name"]: [point["size"] for point in each["points"]] for each in data["curves"]}
    assert found == {name: [*each.sizes] for name, each in curves.CURVES.items()}
    members = {*data["curves"][0], *data["curves"][0]["points"][0]}
    assert [name for name in members if f"`{name}`" not in page] == []
