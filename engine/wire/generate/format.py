"""Gemini generateContent: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from typing import Final

from refold.engine.wire.generate import request, spelling
from refold.engine.wire.generate.answer import GenerateSpeaker, served
from refold.engine.wire.parts.format import GOOGLE, GOOGLE_VERTEX, AskedPaths, WireFormat

FORMAT: Final = WireFormat(
    name=request.API,
    route=GOOGLE,
    elsewhere=(GOOGLE_VERTEX,),
    places=(
        AskedPaths(
            re.compile(r"(?:/(?P<model>[^/:]+))?:(generateContent|streamGenerateContent)\Z"),
        ),
    ),
    is_shaped=request.is_shaped,
    apart=request.without_ids,
    asked=request.asked,
    speaker=GenerateSpeaker,
    body=spelling.body,
    events=spelling.events,
    served=served,
    framing=lambda place: "sse" if "alt=sse" in place.partition("?")[2] else "array",
    refused=spelling.refused,
)
