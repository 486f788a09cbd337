"""A log names a run's tools with all that a model was shown (CONTRACT.md §10.13)."""

from refold.engine.ports.offers import offer_of
from refold.engine.ports.ports import Tool
from refold.tools.contract.tool_types import DelegationTool, tool


@tool(effect="reads")
def search(query: str) -> list[str]:
    """Find something."""
    return [query]


def test_an_offer_holds_what_a_model_is_shown() -> None:
    """So that a replay asks the same without the tool."""
    offer = offer_of(search)

    assert list(offer) == ["name", "description", "effect", "schema", "digest", "typed"]
    assert (offer["name"], offer["description"]) == ("search", "Find something.")
    assert (offer["effect"], offer["schema"]) == ("reads", search.parameters)


def test_the_digest_changes_with_each_part_that_it_covers() -> None:
    """§10.13: name, description, parameters, effect class."""

    def other(query: str, limit: int = 3) -> list[str]:
        """Find something."""
        return [query] * limit

    variants: list[Tool] = [
        search,
        tool(effect="pure")(search.__wrapped__),
        tool(effect="reads", name="find")(search.__wrapped__),
        tool(effect="reads", description="Look.")(search.__wrapped__),
        tool(effect="reads", name="search")(other),
    ]

    digests = {offer_of(each)["digest"] for each in variants}

    assert len(digests) == len(variants)
    assert offer_of(tool(effect="reads")(search.__wrapped__))["digest"] in digests


def test_a_delegation_tool_is_offered_as_one() -> None:
    """Replay has to know that it is program code."""

    async def handler(run: object, arguments: dict[str, object], /) -> object:
        return (run, arguments)

    ask = DelegationTool(name="ask", description="", parameters={}, handler=handler)

    assert offer_of(ask)["delegates"] is True
    assert "delegates" not in offer_of(search)
