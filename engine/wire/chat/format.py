"""OpenAI chat completions: the row of this format.  Pure.  Rules: CONTRACT.md §16."""

import re
from typing import Final

from refold.engine.wire.chat import request, spelling
from refold.engine.wire.chat.answer import ChatSpeaker
from refold.engine.wire.parts.format import OPENAI, AskedPaths, WireFormat

FORMAT: Final = WireFormat(
    name=request.API,
    route=OPENAI,
    places=(AskedPaths(re.compile(r"/chat/completions\Z")),),
    conversation="messages",
    is_shaped=request.is_shaped,
    asked=request.asked,
    speaker=lambda _asked: ChatSpeaker(),
    body=spelling.body,
    events=spelling.events,
)
