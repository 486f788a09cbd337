import pytest

from refold.engine.errors import ToolRefused, ToolUnknown
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
    assert len(registry) == 3
    assert "add" in registry
    assert "remove" not in registry
    assert registry.get("shout").effect == "changes"
    assert registry.get("add") is add


def test_two_tools_of_one_name_are_refused() -> None:
    """The same tool twice is one tool."""
    other = tool(name="add")(shout)

    assert len(Registry([add, add])) == 1
    with pytest.raises(ToolRefused, match="another tool has it"):
        Registry([add, other])


def test_an_unknown_name_is_refused_with_the_nearest_ones() -> None:
    """The nearest name stands first, then all others."""
    with pytest.raises(ToolUnknown) as refused:
        Registry([add, shout, read_file]).get("read_fil")

    assert refused.value.tool == "read_fil"
    assert refused.value.known == ("read_file", "add", "shout")


def test_a_choice_of_tools_is_never_more() -> None:
    """What a child may call is named out of what its parent has."""
    registry = Registry([add, shout])

    assert registry.only(["shout"]).names == ("shout",)
    with pytest.raises(ToolUnknown):
        registry.only(["read_file"])


def test_definitions_are_what_a_model_sees() -> None:
    """Case 102: sorted by name, so that requests do not depend on the order of a list."""
    assert Registry([shout, add]).definitions() == (
        ToolDefinition(name="add", description="Add.", parameters=add.parameters),
        ToolDefinition(name="shout", description="Shout.", parameters=tool(shout).parameters),
    )
