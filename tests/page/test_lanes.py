"""Lanes: a bar for each call, on the clock of the root's first entry."""

from pathlib import Path

from refold.page.document import page


def test_each_call_is_a_bar_in_the_lane_of_its_run(survey_log: Path) -> None:
    lanes = page(survey_log).document["lanes"]

    root, child, *_ = lanes
    kinds = {bar[2] for bar in root["bars"]}
    assert (root["log"], child["log"]) == (0, 1)
    assert kinds >= {"tool", "child"}
    assert all(bar[5] >= bar[4] and bar[1] > bar[0] for bar in root["bars"])
    assert root["start_us"] == 0 <= child["start_us"] <= child["end_us"] <= root["end_us"]
    assert child["limit_us"] > child["start_us"]
