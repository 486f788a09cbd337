"""Volatile rules of tools hold for MCP servers, too (CONTRACT.md §16.7, §16.11)."""

import pytest

from refold.engine.observed.mcp_messages import McpRequest
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.mcp.rules import compared_key


def key(rules: VolatileRules, name: str = "echo", **arguments: object) -> str:
    """Return what a call is compared by."""
    return compared_key(McpRequest(name, arguments, {}), rules)


def test_nothing_is_ignored_by_default() -> None:
    """Calls differ by any argument."""
    assert key(VolatileRules(), at=1) != key(VolatileRules(), at=2)


@pytest.mark.parametrize("path", ["tool:echo/arguments/at", "tool:*/arguments/at"])
def test_a_place_that_is_volatile_is_not_compared(path: str) -> None:
    """Of the tools that the rule names; all others are."""
    rules = VolatileRules((path,))

    assert key(rules, at=1, text="a") == key(rules, at=2, text="a")
    assert key(rules, at=1, text="a") != key(rules, at=1, text="b")
    assert (key(rules, "other", at=1) == key(rules, "other", at=2)) is ("*" in path)


def test_other_requests_are_named_by_their_method() -> None:
    """`tool:mcp.*`: a method may have a slash in it."""
    rules = VolatileRules(("tool:mcp.*/arguments/cursor",))

    assert key(rules, "mcp.tools/list", cursor=1) == key(rules, "mcp.tools/list", cursor=2)


def test_a_text_that_is_volatile_is_the_same_wherever_it_stands() -> None:
    """In lists and objects, too."""
    rules = VolatileRules((), (r"\d{4}-\d\d-\d\d",))

    one, other = (key(rules, a=[{"b": f"on {day}"}]) for day in ("2026-11-21", "2025-01-02"))

    assert one == other
