"""Snapshots of watched runs hold what changes silently, and nothing that changes each time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from refold.replay.run.steady import Steady
from refold.replay.testing.snapshot import delegation_text, log_text
from tests.support.loops import for_each
from tests.support.watched import record, says, system, talk, user

TOOL: Final = {"type": "function", "name": "walk"}
RULES: Final = {"folders": {"folder": "/home/ann/proj", "home": "/home/ann"}}


@for_each(
    "text, shown",
    [
        ("Today's date is 2026-11-23.", "Today's date is <date>."),
        ("at 2026-11-23T10:15:03.5Z exactly", "at <date> exactly"),
        ("Today is Monday, November 23, 2026 (local)", "Today is <date> (local)"),
        ("Date:   Mon Nov 23 15:47:11 2026 +0000", "Date:   <date> +0000"),
        ("Mon Nov 23 2026", "<date>"),
        ("took until 10:15:03", "took until <time>"),
        ("cc_version=2.1.197.d55; cc_entrypoint=cli", "cc_version=<version>; cc_entrypoint=cli"),
        ("Linux 6.18.44-fc-v669", "Linux <version>"),
        ("id 0b9ff3c2-5f1e-4f0b-9a3e-0123456789ab.", "id <id>."),
        ("in /home/ann/proj/a.txt and /home/ann/b", "in /<folder>/a.txt and /<home>/b"),
        ("/home/ann/proj-old and 12 apples, 3.5 kg", "/<home>/proj-old and 12 apples, 3.5 kg"),
        ("May 5 of them, and 1234-56-789", "May 5 of them, and 1234-56-789"),
    ],
)
def test_what_changes_each_time_is_left_out(text: str, shown: str) -> None:
    """By its form wherever it stands; folders by their names in the recording."""
    assert Steady(RULES).text(text) == shown


def run(path: Path, prompt: str, day: str, **more: Any) -> Path:
    """Record a command that asks one thing, on some day."""
    said = system(f"{prompt} Today's date is {day}."), user(f"Plan {day} in Bergen."), says("Go.")
    given: dict[str, Any] = {"model": "gpt-5-2026-01-02", "tools": [TOOL], **more}
    return record(path / f"{len(list(path.iterdir()))}.jsonl", talk(*said, **given))


@pytest.mark.parametrize("text_of", [delegation_text, log_text])
def test_another_day_is_the_same_snapshot_and_another_prompt_model_or_tool_is_not(
    text_of: Callable[[Path], str], tmp_path: Path
) -> None:
    """Dates are left out, but not of a model's name."""
    one = text_of(run(tmp_path, "You plan.", "2026-11-23"))
    others = [
        text_of(run(tmp_path, "You plan well.", "2026-11-23")),
        text_of(run(tmp_path, "You plan.", "2026-11-23", model="gpt-5-2026-01-03")),
        text_of(run(tmp_path, "You plan.", "2026-11-23", tools=[{**TOOL, "name": "sail"}])),
    ]

    assert one == text_of(run(tmp_path, "You plan.", "2026-11-24"))
    assert "2026-11" not in one
    assert "gpt-5-2026-01-02" in one
    if text_of is delegation_text:
        assert "tools offered: walk" in one
    assert len({one, *others}) == 1 + len(others)


@for_each(
    "tools",
    [
        [{"type": "function", "function": {"name": "walk"}}, {"type": "web_search"}],
        [{"type": "function", "name": "walk"}, {"type": "web_search"}],
        [{"functionDeclarations": [{"name": "walk"}, {"name": "web_search"}]}],
    ],
)
def test_tools_are_named_in_the_shape_of_any_provider(tools: list[Any], tmp_path: Path) -> None:
    text = delegation_text(run(tmp_path, "You plan.", "2026-11-23", tools=tools))

    assert "tools offered: walk, web_search\n" in text
