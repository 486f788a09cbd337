"""One wire format as one row, and the servers of providers.

Each format's folder has its row, and `wire.apis` the table.  Clients of one provider read different
variables; all of them lead to one route of the proxy, and a route serves several formats.  Pure.
Rules: CONTRACT.md §16.1, §16.6, §16.9, §16.10.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.wire.parts.exchange import Asked, Framing, ServedCall
from refold.engine.wire.parts.notation import text_of
from refold.engine.wire.parts.reading import Speaker
from refold.engine.wire.parts.series import Lists

Body = dict[str, Any]


SpelledEvent = tuple[str, dict[str, Any] | str]
"""The name of an event (empty: none), and its data."""

ID: Final = "refold-fork"
CREATED: Final = 0
"""The time of an answer that nobody gave."""
SERVER_ERROR: Final = 500
"""The default status of an error answer."""


_OF_OPENAI: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
"""By status: an error's type and code."""


def refused_as_openai(status: int, message: str) -> dict[str, Any]:
    """Return the body of a failure as OpenAI's servers spell it, and many that follow them."""
    usual = "server_error" if status >= SERVER_ERROR else "invalid_request_error"
    kind, code = _OF_OPENAI.get(status, (usual, None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def json_of(value: Json) -> str:
    """Return JSON text, members in their order."""
    return json.dumps(value, ensure_ascii=False)


def answer_text(answered: ModelAnswered) -> str:
    """Return the text of an answer."""
    content = (answered.message or {}).get("content") or ""
    return content if isinstance(content, str) else json_of(content)


def calls_in(answered: ModelAnswered) -> list[dict[str, Any]]:
    """Return the neutral tool calls of an answer."""
    return list((answered.message or {}).get("tool_calls") or ())


def arguments_in(call: dict[str, Any]) -> str:
    """Return a call's arguments as text; invalid JSON unchanged."""
    invalid = call.get("invalid")
    return invalid if isinstance(invalid, str) else json_of(call.get("arguments") or {})


@attrs.frozen
class Route:
    """One server, and how commands find it."""

    name: str
    """The first segment of paths at the proxy, and by whose prices answers are priced: `openai`."""
    variables: tuple[str, ...]
    """Those that clients read, the usual one first; none where no command is led here unasked."""
    upstream: str
    """The base URL that they would have used, without a slash at the end; empty if unknown."""
    key: str = ""
    """The variable that its clients want a key in, even where none is needed."""
    keys: tuple[str, ...] = ()
    """Other variables from which its clients take a key."""
    version: str = ""
    """What its clients put behind the base URL themselves: `/v1`."""
    unversioned: str = ""
    """How paths begin of clients that take the version for the base's."""
    regions: tuple[str, ...] = ()
    """The variables with the region of its server, which replaces `{}` in `upstream`."""

    def url_of(self, target: str) -> str:
        """Return where a request for `target`, path and query below this route, goes."""
        base, _, always = self.upstream.partition("?")
        path, _, query = target.partition("?")
        if (
            self.unversioned
            and path.startswith(self.unversioned)
            and not base.endswith(self.version)
        ):
            path = f"{self.version}{path}"
        if base in (_VERTEX, f"{_VERTEX}/v1") and (found := _LOCATION.match(path)) is not None:
            base = base.replace(_VERTEX, _vertex_in(found[1]))
        asks = "&".join(filter(None, (always, query)))
        return f"{base}{path}?{asks}" if asks else f"{base}{path}"

    def redirected(self, url: str, location: str) -> str:
        """Return where an answer of `url` leads to: on this route, if that is below its server."""
        base, found = urlsplit(self.upstream), urlsplit(urljoin(url, location))
        path = f"{base.path}/"
        same = (found.scheme, found.netloc) == (base.scheme, base.netloc)
        if same and found.path.startswith(path):
            below = found.path.removeprefix(path)
            return found._replace(scheme="", netloc="", path=f"/{self.name}/{below}").geturl()
        return found.geturl()


OPENAI: Final = Route(
    "openai",
    ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "https://api.openai.com/v1",
    key="OPENAI_API_KEY",
    keys=("OPENAI_ADMIN_KEY", "CODEX_API_KEY"),
)
ANTHROPIC: Final = Route(
    "anthropic",
    ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "https://api.anthropic.com",
    key="ANTHROPIC_API_KEY",
    keys=("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    version="/v1",
    unversioned="/messages",  # of the Vercel AI SDK and opencode
)
GOOGLE: Final = Route(
    "google",
    ("GOOGLE_GEMINI_BASE_URL",),
    "https://generativelanguage.googleapis.com",
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    version="/v1",
)
_VERTEX: Final = "https://aiplatform.googleapis.com"
"""Without a location; with one, the request's path has it."""
_LOCATION: Final = re.compile(r"(?:/v1[a-z0-9]*)?/projects/[^/]+/locations/([a-z0-9-]+)/")
# google-genai leaves project and location out of its paths, unless its base URL ends so.
GOOGLE_VERTEX: Final = Route(
    "aiplatform.googleapis.com", ("GOOGLE_VERTEX_BASE_URL",), _VERTEX, version="/v1"
)
ANTHROPIC_VERTEX: Final = Route("vertex", ("ANTHROPIC_VERTEX_BASE_URL",), f"{_VERTEX}/v1")
BEDROCK: Final = Route(
    "bedrock",
    ("ANTHROPIC_BEDROCK_BASE_URL",),
    "https://bedrock-runtime.{}.amazonaws.com",
    keys=("AWS_BEARER_TOKEN_BEDROCK",),
    regions=("AWS_REGION", "AWS_DEFAULT_REGION"),
)


def _vertex_in(location: str) -> str:
    """Return the server of Vertex in a location, as the clients of Google and Anthropic do."""
    if location == "global":
        return _VERTEX
    inside = f"aiplatform.{location}.rep" if location in ("us", "eu") else f"{location}-aiplatform"
    return f"https://{inside}.googleapis.com"


@attrs.frozen
class AskedPaths:
    """Paths at which a format is asked."""

    ends: re.Pattern[str]
    """The end of its paths; the group `model` is the model, if bodies do not have it, the group
    `id` the answer that is fetched."""
    method: str = "POST"
    needs: str = ""
    """The member that distinguishes such a body from a different format at the same path."""
    provider: str = ""
    """The provider whose prices apply, if not the format's first server."""
    escaped: re.Pattern[str] = re.compile("%(40)")
    """The characters escaped in a model's name; for Google's, only the one before a version."""

    def model_in(self, found: re.Match[str]) -> str | None:
        """Return the model that a path names; `None` where it names none."""
        model = found.groupdict().get("model")
        if model is None:
            return None
        return text_of(self.escaped.sub(lambda code: chr(int(code[1], 16)), model))


@attrs.frozen(kw_only=True)
class WireFormat:
    """One way in which models are asked and answer over HTTP."""

    name: str
    """As logs have it: the parameter `api` of a request."""
    route: Route
    """The provider: how its clients find it, and by whose prices its models are priced."""
    elsewhere: tuple[Route, ...] = ()
    """Other servers that speak it."""
    places: tuple[AskedPaths, ...]
    conversation: str = ""
    """The member of a request that repeats the conversation; empty where it is read anew."""
    is_shaped: Callable[[Body, Lists], bool]
    """Whether the members of a body that the format rests on have its shapes."""
    apart: Callable[[Body, Lists], tuple[Body, Lists]] = lambda body, lists: (body, lists)
    """Separates data that a client changes with each request: cache markers, ids."""
    asked: Callable[[Body, Lists], Asked]
    """Parses a body. Never raises."""
    speaker: Callable[[Asked], Speaker]
    """Reads an answer, whole or streamed."""
    framing: Callable[[str], Framing] = lambda _place: "sse"
    """How the events of a stream are separated, given the request's path and query."""
    body: Callable[[Asked, ModelAnswered], Body]
    """Spells an answer."""
    events: Callable[[Asked, ModelAnswered], Iterator[SpelledEvent]]
    """Spells an answer as the events of a stream."""
    served: Callable[[Any], Iterable[ServedCall]] = lambda _original: ()
    """Finds the tool calls that the server made itself, in an answer's `provider.<name>`."""
    refused: Callable[[int, str], Body] = refused_as_openai
    """Spells that a request failed, by status and message."""
