"""Tools are known by their names, in their order."""

from refold.engine.recording.run_request import by_name
from refold.tools import tool


def test_tools_are_sorted_by_name() -> None:
    """Whatever the order in which they were passed."""

    @tool(effect="reads")
    def second() -> None:
        """Nothing."""

    @tool(effect="reads")
    def first() -> None:
        """Nothing."""

    assert list(by_name([second, first])) == ["first", "second"]
