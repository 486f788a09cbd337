"""Values: what a watched program asks of a model.

Plain values between the three: the wire formats (`wire.chat`, …), the observer that makes events of
exchanges, and the replay that matches requests.  Pure.  Rules: CONTRACT.md §16.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.wire.parts.notation import held, is_offer, is_text
from refold.engine.wire.parts.series import Lists, Series, series_in

OTHER: Final = "other"
"""What stands for the format of all that went through and asks no model."""

NO_TOOLS: Final = ""

PLACE: Final = "$path"
"""The parameter that holds the path and query of a request, where these say something too."""

_STREAMS: Final = re.compile(r":stream|-with-response-stream\Z")
"""How paths say that an answer is streamed: Google's, and Bedrock's."""
Framing = Literal["sse", "frames", "array"]
"""How the events of a stream are told apart: `frames` are Bedrock's, `array` is a JSON array."""


@attrs.frozen(kw_only=True)
class Asked:
    """One request, in the neutral shape of messages (CONTRACT.md §11), nothing of it lost.

    Two requests are equal exactly when they ask the same: what differs only in notation (a text,
    or a list of one text block) is equal, everything else is not.
    """

    api: str
    """The name of a format (`wire.apis`), or `OTHER`."""
    model: str
    """As the request names it; empty where it names none."""
    messages: tuple[dict[str, Any], ...] = ()
    """System prompt first: {role, content, tool_calls, tool_call_id, is_error, provider}."""
    parameters: dict[str, Json] = attrs.field(factory=dict)
    """All other members of the body: temperature, stream, tool_choice, …; of `other`, {method,
    path, body}."""
    tools: tuple[Json, ...] = ()
    """Tool definitions offered, as the request has them."""
    follows: str = ""
    """The id of the answer that this request goes on from, where the interface keeps
    conversations on its server (`previous_response_id`); also among `parameters`."""
    ids: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    """Ids by which headers say who asks: no part of what is asked."""
    said: Series | None = attrs.field(default=None, eq=False, repr=False)
    """The messages, with what was made of them before; see `said_series`."""
    offered: Series | None = attrs.field(default=None, eq=False, repr=False)
    """The tools, likewise."""

    @property
    def streamed(self) -> bool:
        """Whether the answer is to come as a stream."""
        is_of_path = _STREAMS.search(self.place.partition("?")[0]) is not None
        return is_of_path or self.parameters.get("stream") is True

    @property
    def place(self) -> str:
        """Its path and query, where these say something too; else empty."""
        place = self.parameters.get(PLACE)
        return place if isinstance(place, str) else ""

    def said_series(self) -> Series:
        """Return the messages as a series."""
        return _known(self.said, self.messages)

    def offered_series(self) -> Series:
        """Return the tools as a series."""
        return _known(self.offered, self.tools)

    def tools_digest(self) -> str:
        """Return the digest of the definitions offered; empty for none."""
        return self.offered_series().whole(_digest_of) if self.tools else NO_TOOLS

    def as_json(self) -> dict[str, Any]:
        """Return {api, model, messages, parameters, tools}: what is matched, and compared."""
        return {
            "api": self.api,
            "model": self.model,
            "messages": list(self.messages),
            "parameters": self.parameters,
            "tools": list(self.tools),
        }

    def asking(self, value: Mapping[str, Any]) -> "Asked":
        """Return a request that asks something else: a value as `as_json` gives it."""
        return attrs.evolve(
            self,
            model=value["model"],
            messages=tuple(value["messages"]),
            parameters=value["parameters"],
            tools=tuple(value["tools"]),
            said=None,
            offered=None,
        )


def _known(series: Series | None, values: tuple[Any, ...]) -> Series:
    """Return the series of these values: the one that is known, unless it is of others."""
    found = list(values)
    return series if series is not None and series.values == found else Series(found)


def _digest_of(tools: list[Json]) -> str:
    return digest.of_value(digest.VALUE, tools)


def asked_with(
    api: str, rest: dict[str, Any], said: Series, lists: Lists, *, follows: str = ""
) -> Asked:
    """Return a request with these messages: `rest` are all other members, which this uses up.

    `lists` are lists among its members, some of whose items may have been read before.
    """
    tools = rest.pop("tools") if "tools" in rest and is_offer(rest["tools"]) else None
    offered = series_in(lists, "tools", tools or []).each(held)
    return Asked(
        api=api,
        model=rest.pop("model") if rest.get("model") and is_text(rest["model"]) else "",
        messages=tuple(said.values),
        parameters=held(rest),
        tools=tuple(offered.values),
        follows=follows,
        said=said,
        offered=offered,
    )


@attrs.frozen
class ServedCall:
    """A tool call that the server of a model made itself, while it answered."""

    name: str
    arguments: dict[str, Json]
    result: Json
    """What came of it, as far as the answer says; `None` for nothing."""
    error: str = ""
    """Why it failed; empty where it did not."""
