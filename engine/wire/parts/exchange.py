"""Values: a watched program's requests to a model.

Plain values shared by the wire formats (`wire.chat`, …), the observer that makes events of
exchanges, and the replay that matches requests. Pure. Rules: CONTRACT.md §16.
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
"""The format of requests that do not ask a model."""

NO_TOOLS: Final = ""

PLACE: Final = "$path"
"""The parameter with the path and query of a request, if these are significant."""

METHOD: Final = "$method"
"""The parameter with the method of a request that fetches an answer, or cancels it, by its id."""

LATER: Final = ("queued", "in_progress")
"""Stop reasons of an answer of which only the id has come: the program fetches it later."""

_STREAMS: Final = re.compile(r":stream|-with-response-stream\Z")
"""The parts of paths that request a stream: Google's, and Bedrock's."""
Framing = Literal["sse", "frames", "array"]
"""How the events of a stream are separated: `frames` are Bedrock's, `array` is a JSON array."""


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
    """The id of the answer that this request continues, if the interface keeps conversations on its
    server (`previous_response_id`), or that it fetches; also among `parameters`."""
    ids: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    """Ids in headers that identify the caller; not part of the request."""
    said: Series | None = attrs.field(default=None, eq=False, repr=False)
    """The messages, with values derived from them before; see `text_series`."""
    offered: Series | None = attrs.field(default=None, eq=False, repr=False)
    """The tools, likewise."""

    @property
    def streamed(self) -> bool:
        """Whether the answer is to come as a stream."""
        path, _, query = self.place.partition("?")
        is_of_path = _STREAMS.search(path) is not None
        is_of_query = self.is_fetch and "stream=true" in query.split("&")
        return is_of_path or is_of_query or self.parameters.get("stream") is True

    @property
    def is_fetch(self) -> bool:
        """Whether it asks for the answer to an earlier request, by the id in its path."""
        return METHOD in self.parameters or (self.api == OTHER and bool(self.follows))

    @property
    def place(self) -> str:
        """Its path and query, if significant; else empty."""
        place = self.parameters.get(PLACE)
        return place if isinstance(place, str) else ""

    def text_series(self) -> Series:
        """Return the messages as a series."""
        return _known(self.said, self.messages)

    def offered_series(self) -> Series:
        """Return the tools as a series."""
        return _known(self.offered, self.tools)

    def tools_digest(self) -> str:
        """Return the digest of the definitions offered; empty for none."""
        return self.offered_series().whole(_digest_of) if self.tools else NO_TOOLS

    def as_json(self) -> dict[str, Any]:
        """Return {api, model, messages, parameters, tools}: the matched and compared part."""
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
    """Its result, if the answer has it; else `None`."""
    error: str = ""
    """Why it failed; empty where it did not."""
