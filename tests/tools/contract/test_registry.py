import pytest

from refold.engine.errors import ToolRefused
from refold.engine.ports.ports import ToolDefinition
from refold.tools.contract.registry import Registry
from refold.tools.contract.tool_types import tool


@tool(effect="reads")
def read_file(path: str) -> str:
    """Read."""
    return path


@tool(effect="pure")
def add(left: int, right: int) -> int:
    """Add."""
    return left + right


def shout(text: str) -> str:
    """Shout."""
    return text.upper()


def test_tools_stand_in_the_order_of_their_names() -> None:
    """Whatever the order they were given in; plain functions become tools."""
    registry = Registry([shout, read_file, add])

    assert [each.name for each in registry] == ["add", "read_file", "shout"]
    assert registry.names == ("add", "read_file", "shout")
    assert "add" in registry
    assert "remove" not in registry
    assert [each.effect for each in registry] == ["pure", "reads", "changes"]


def test_two_tools_of_one_name_are_refused() -> None:
    """The same tool twice is one tool."""
    other = tool(name="add")(shout)

    assert [*Registry([add, add])] == [add]
    with pytest.raises(ToolRefused, match="another tool has this name"):
        Registry([add, other])


def test_definitions_are_what_a_model_sees() -> None:
    """Case 102: sorted by name, so that requests do not depend on the order of a list."""
    assert tuple(map(ToolDefinition.of, Registry([shout, add]))) == (
        ToolDefinition(name="add", description="Add.", parameters=add.parameters),
        ToolDefinition(name="shout", description="Shout.", parameters=tool(shout).parameters),
    )
