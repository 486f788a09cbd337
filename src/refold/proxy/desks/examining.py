"""The log side of `refold doctor`: answers everything itself, with one short text, and counts.

No request leaves.  Rules: CONTRACT.md §16.15.
"""

from collections import Counter
from typing import Any, Final

from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.apis import read_request
from refold.engine.wire.parts.exchange import OTHER
from refold.engine.wire.parts.kept_answers import pieces
from refold.engine.wire.spelling import can_spell, spelled
from refold.proxy.http.turns import Incoming, Serve

SAID: Final = "This is a test."
_MODELS: Final = {"object": "list", "data": [{"id": "a-model", "object": "model"}]}


class Examining:
    """Answers every request of one command."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, str, str, str]] = Counter()
        """How often each was asked: route, method, path, and the format that it was read as."""

    def begin(self, incoming: Incoming) -> Serve:
        """Answer in the format of the request; what no format reads gets 404."""
        asked = read_request(incoming.method, incoming.target, incoming.body)
        path = incoming.target.partition("?")[0]
        self.seen[incoming.route, incoming.method, path, asked.api] += 1
        if can_spell(asked):
            message = {"role": "assistant", "content": SAID}
            usage = Usage(input_tokens=1, output_tokens=1, requests=1)
            part: dict[str, Any] = spelled(asked, ModelAnswered("ok", message, usage, "stop", None))
            headers = {"content-type": str(part["headers"]["content-type"])}
            return Serve(status=200, headers=headers, pieces=pieces([part]))
        is_list = incoming.method == "GET" and path.endswith("/models")
        body = _MODELS if is_list else {"error": {"message": "not here", "type": "refold"}}
        return Serve.json(200 if is_list else 404, body)

    def models(self) -> int:
        """Return how many requests to a model were read."""
        return sum(count for (*_, api), count in self.seen.items() if api != OTHER)
