"""Anthropic messages: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from typing import Final

from refold.engine.wire.messages import request, spelling
from refold.engine.wire.messages.answer import MessagesSpeaker, served
from refold.engine.wire.parts.format import (
    ANTHROPIC,
    ANTHROPIC_VERTEX,
    BEDROCK,
    AskedPaths,
    WireFormat,
)

_OF_VERTEX: Final = AskedPaths(
    re.compile(r"/publishers/anthropic/models/(?P<model>[^/]+):(rawPredict|streamRawPredict)\Z"),
)
"""Other publishers at Vertex have formats of their own."""
_FRAMED: Final = "/invoke-with-response-stream"
_OF_BEDROCK: Final = AskedPaths(
    re.compile(r"/model/(?P<model>[^/]+)/invoke(-with-response-stream)?\Z"),
    needs="anthropic_version",
    provider="aws",
    escaped=re.compile(r"%([2-7][0-9A-Fa-f])"),
)
"""Other models at Bedrock have other formats, and bodies without that member."""

FORMAT: Final = WireFormat(
    name=request.API,
    route=ANTHROPIC,
    elsewhere=(ANTHROPIC_VERTEX, BEDROCK),
    places=(AskedPaths(re.compile(r"/messages\Z")), _OF_VERTEX, _OF_BEDROCK),
    conversation="messages",
    is_shaped=request.is_shaped,
    apart=request.without_marks,
    asked=request.asked,
    speaker=lambda _asked: MessagesSpeaker(),
    body=spelling.body,
    events=spelling.events,
    served=served,
    framing=lambda place: "frames" if place.partition("?")[0].endswith(_FRAMED) else "sse",
    refused=spelling.refused,
)
