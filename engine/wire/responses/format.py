"""OpenAI responses: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from typing import Final

from refold.engine.wire.parts.format import OPENAI, AskedPaths, WireFormat
from refold.engine.wire.responses import request, spelling
from refold.engine.wire.responses.answer import ResponsesSpeaker, served

_ONE: Final = r"/responses/(?P<id>resp_[^/]+)"

FORMAT: Final = WireFormat(
    name=request.API,
    route=OPENAI,
    places=(
        AskedPaths(re.compile(r"/responses\Z")),
        AskedPaths(re.compile(rf"{_ONE}\Z"), method="GET"),
        AskedPaths(re.compile(rf"{_ONE}/cancel\Z")),
    ),
    conversation="input",
    is_shaped=request.is_shaped,
    asked=request.asked,
    speaker=lambda _asked: ResponsesSpeaker(),
    body=spelling.body,
    events=spelling.events,
    served=served,
)
