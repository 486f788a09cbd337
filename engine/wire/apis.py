"""Which interface a request speaks, and how to read it: the door to the readers.

To add one: modules like `wire.chat.request` and `wire.chat.answer`, a name in `exchange.ApiName`,
a line in each table here.  Pure.  Rules: CONTRACT.md §16.9.
"""

import base64
import re
from collections.abc import Callable
from typing import Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.wire.chat import answer as chat_answers
from refold.engine.wire.chat import request as chat
from refold.engine.wire.generate import answer as generate_answers
from refold.engine.wire.generate import request as generate
from refold.engine.wire.messages import answer as messages_answers
from refold.engine.wire.messages import request as messages
from refold.engine.wire.parts.exchange import PLACE, ApiName, Asked, Reader
from refold.engine.wire.parts.notation import held, read_json
from refold.engine.wire.parts.reading import OtherReader
from refold.engine.wire.parts.remembered import Remembered
from refold.engine.wire.parts.texts import text_of
from refold.engine.wire.responses import answer as responses_answers
from refold.engine.wire.responses import request as responses

_SUFFIXES: Final[dict[str, ApiName]] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    ":generateContent": "generate",
    ":streamGenerateContent": "generate",
}
_READ: Final[dict[ApiName, tuple[Callable[..., bool], Callable[..., Asked]]]] = {
    "chat": (chat.is_shaped, chat.asked),
    "responses": (responses.is_shaped, responses.asked),
    "messages": (messages.is_shaped, messages.asked),
    "generate": (generate.is_shaped, generate.asked),
}
_READERS: Final[dict[ApiName, Callable[..., Reader]]] = {
    "chat": chat_answers.reader,
    "responses": responses_answers.reader,
    "messages": messages_answers.reader,
    "generate": generate_answers.reader,
}
PROVIDERS: Final[dict[ApiName, str]] = {
    "chat": "openai",
    "responses": "openai",
    "messages": "anthropic",
    "generate": "google",
}
"""By whose prices an interface's models are priced."""
_DEPLOYMENT: Final = "/deployments/"
_OF_VERTEX: Final = re.compile(r"/publishers/anthropic/models/[^/]+:(rawPredict|streamRawPredict)$")
"""Where Vertex takes requests in Anthropic's format; other publishers have formats of their own."""
_OF_BEDROCK: Final = re.compile(r"/model/([^/]+)/invoke(?:-with-response-stream)?$")
_ESCAPED: Final = re.compile(r"%([2-7][0-9A-Fa-f])")
_NAMED: Final = re.compile(r"/([^/:]+):[A-Za-z]+$")
"""A path that ends in a model and what is asked of it, as Google's do."""
_VERSION: Final = "anthropic_version"
"""What Bedrock wants in bodies in Anthropic's format; other models there have other formats."""
NEWEST: Final = 2
"""What is read: 1: Google's paths, and marks of caching apart · 2: Bedrock's paths, too."""


def api_of(method: str, path: str) -> ApiName:
    """Return the interface that a request speaks, by the end of its path; only POST asks."""
    if method.upper() != "POST":
        return "other"
    plain = path.partition("?")[0].rstrip("/")
    if _OF_VERTEX.search(plain) or _OF_BEDROCK.search(plain):
        return "messages"
    return next((api for end, api in _SUFFIXES.items() if plain.endswith(end)), "other")


def read_request(
    method: str,
    path_and_query: str,
    body: bytes,
    remembered: Remembered | None = None,
    *,
    reads: int = NEWEST,
) -> Asked:
    """Return what a request asks; never raises.  What is `remembered` is not read again.

    What speaks none of the interfaces, or none as it should be, is `other`: {method, path, body},
    the body as a JSON object or list, else as text, else as {"base64": …}; null for none.
    `reads` says how much is read (`NEWEST`): logs that were begun with less go on with that.
    """
    api = api_of(method, path_and_query)
    path = path_and_query.partition("?")[0]
    is_of_bedrock = _OF_BEDROCK.search(path) is not None
    if (reads < 1 and _NAMED.search(path)) or (reads < NEWEST and is_of_bedrock):
        api = "other"
    if api != "other":
        found, lists = (remembered or Remembered(0)).object_in(body)
        is_shaped, read = _READ[api]
        is_one = found is not None and PLACE not in found and is_shaped(found, lists)
        if found is not None and is_one and (_VERSION in found or not is_of_bedrock):
            if reads and api == "messages" and messages.MARKS not in found:
                found, lists = messages.without_marks(found, lists)
            return _placed(read(found, lists), path_and_query)
    parameters = {"method": text_of(method), "path": path_and_query, "body": _body(body)}
    return Asked(api="other", model="", parameters=held(parameters))


def _placed(asked: Asked, path_and_query: str) -> Asked:
    """Return a request with its path, where the path says which deployment, or has a query."""
    path = path_and_query.partition("?")[0]
    model = asked.model
    if (named := _NAMED.search(path)) is not None:
        model = model or text_of(named[1].replace("%40", "@"))
    elif (named := _OF_BEDROCK.search(path)) is not None:
        model = model or _ESCAPED.sub(lambda found: chr(int(found[1], 16)), named[1])
    elif "?" not in path_and_query and _DEPLOYMENT not in path_and_query:
        return asked
    return attrs.evolve(
        asked, model=model, parameters={**asked.parameters, PLACE: held(path_and_query)}
    )


def _body(body: bytes) -> Json:
    if not body:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
    try:
        value = read_json(text)
    except ValueError:
        return text
    is_kept = isinstance(value, list) or (isinstance(value, dict) and value.keys() != {"base64"})
    return value if is_kept else text


def reader_of(asked: Asked, status: int, content_type: str) -> Reader:
    """Return what reads the answer to `asked` from its bytes, as they come."""
    if asked.api == "other":
        return OtherReader(status)
    return _READERS[asked.api](asked, status=status, content_type=content_type)
