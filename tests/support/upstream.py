"""A local upstream that plays the models behind programs which know nothing of Refold.

It listens on 127.0.0.1 and speaks chat completions, responses, messages and Gemini, plain and
streamed, by the rules of `fixtures/traffic` (`tests.support.traffic`): a request is answered by
what it says, so the order of parallel requests is of no matter.  It keeps what it received, counts
what is open, and misbehaves on demand (`Manner`).  A list of recorded answers, given in order, is
what `tests.support.model_server` is for.

By hand: `python -m tests.support.upstream` says what to export, and serves until Ctrl-C.
"""

import argparse
import contextlib
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.support.model_server import Listening
from tests.support.serving import Manner, Request, Server
from tests.support.traffic import Fixed, Refusal, Rule, all_traffic, question_of, rules_in

__all__ = ["PLACEHOLDER_KEY", "Manner", "Request", "Rule", "Upstream"]

PLACEHOLDER_KEY: Final = "sk-placeholder-4f1d"
"""What `environment` gives as a key; no log may contain it."""
WAIT_SECONDS: Final = 60.0
"""How long the waits of a test last before they fail."""
_FIXED: Final = {
    "GET /v1/models": {"object": "list", "data": [{"id": "gpt-5-mini", "object": "model"}]},
    "POST /v1/messages/count_tokens": {"input_tokens": 42},
    "POST /v1/embeddings": {
        "object": "list",
        "model": "text-embedding-3-small",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5, 0.125]}],
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    },
}
"""What else is answered, whatever the request says."""


class Upstream(Listening):
    """The server; a context manager.  After its end nothing listens, and no thread is left."""

    def __init__(
        self,
        traffic: Iterable[Path | Rule] | None = None,
        *,
        manner: Manner | None = None,
        port: int = 0,
    ) -> None:
        given = all_traffic() if traffic is None else list(traffic)
        self.rules: list[Rule] = [
            rule
            for each in given
            for rule in ([each] if isinstance(each, Rule) else rules_in([each]))
        ]
        self.manner: Manner = manner or Manner()
        """Of all answers; may be set at any time.  A rule's own goes before it (`use`)."""
        self.received: list[Request] = []
        """Every request, in order of arrival."""
        self.hung_up = 0
        """Answers whose reader left before their end."""
        self.open_now = 0
        """Requests that are being answered."""
        self.open_most = 0
        """The most that ever were at once."""
        self._refused: Counter[tuple[str, bytes]] = Counter()
        self._changed = threading.Condition()
        self._released = threading.Event()
        self._closing = threading.Event()
        self._http = Server(self, port)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def anthropic_url(self) -> str:
        """What ANTHROPIC_BASE_URL is to be."""
        return self.url

    def environment(self) -> dict[str, str]:
        """Return the variables that lead an unmodified program here."""
        return {
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": PLACEHOLDER_KEY,
            "ANTHROPIC_BASE_URL": self.anthropic_url,
            "ANTHROPIC_API_KEY": PLACEHOLDER_KEY,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": PLACEHOLDER_KEY,
        }

    def lead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lead clients here, for the rest of a test."""
        for name, value in self.environment().items():
            monkeypatch.setenv(name, value)

    def use(self, prefix: str, **manner: Any) -> None:
        """Let the answers of all rules whose name begins with `prefix` have this `Manner`.

        Raises:
            LookupError: no rule has such a name.
        """
        Manner(**manner)  # a misspelt member is found here and not in a thread
        if not any(rule.name.startswith(prefix) for rule in self.rules):
            raise LookupError(f"no rule {prefix}*: {[rule.name for rule in self.rules]}")
        self.rules = [
            attrs.evolve(rule, manner={**rule.manner, **manner})
            if rule.name.startswith(prefix)
            else rule
            for rule in self.rules
        ]

    # --- what tests wait for -------------------------------------------------------------------

    def release(self) -> None:
        """Let held answers begin, and hold none from now on."""
        self._released.set()

    def wait_for_open(self, count: int) -> None:
        """Return when that many requests are open at once."""
        self._wait(lambda: self.open_now >= count, f"{count} open requests")

    def wait_for_received(self, count: int) -> None:
        """Return when that many requests have come."""
        self._wait(lambda: len(self.received) >= count, f"{count} requests")

    def wait_for_hung_up(self, count: int = 1) -> None:
        """Return when the readers of that many answers have left."""
        self._wait(lambda: self.hung_up >= count, f"{count} readers to leave")

    def wait_until_idle(self) -> None:
        """Return when no request is open."""
        self._wait(lambda: self.open_now == 0, "no open request")

    def _wait(self, reached: Callable[[], bool], what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(reached, WAIT_SECONDS):
                found = f"{self.open_now} open, {len(self.received)} received"
                raise TimeoutError(f"waited for {what}: {found}, {self.hung_up} left early")

    # --- what the handlers ask -----------------------------------------------------------------

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Count a request as open."""
        self._count(open_now=1)
        try:
            yield
        except ConnectionError:
            self._count(hung_up=int(not self._closing.is_set()))
            raise
        finally:
            self._count(open_now=-1)

    def _count(self, *, open_now: int = 0, hung_up: int = 0) -> None:
        with self._changed:
            self.open_now += open_now
            self.open_most = max(self.open_most, self.open_now)
            self.hung_up += hung_up
            self._changed.notify_all()

    def answer_to(self, request: Request) -> tuple[Rule, Manner, int]:
        """Keep the request; return what answers it, how, and its place among all."""
        with self._changed:
            rule = self._rule_for(request)
            self.received.append(attrs.evolve(request, rule=rule.name))
            self._changed.notify_all()
            return rule, attrs.evolve(self.manner, **rule.manner), len(self.received)

    def _rule_for(self, request: Request) -> Rule:
        place = f"{request.method} {request.path.partition('?')[0]}"
        if not {"authorization", "x-api-key", "x-goog-api-key"} & set(request.headers):
            return _refused(401, "no key in the request")
        if place in _FIXED:
            return Rule(name=place, then=Fixed(body=_FIXED[place]))
        if request.method != "POST" or not request.api:
            return _refused(404, f"nothing answers {place}")
        try:
            question = question_of(request.api, request.told)
        except (AttributeError, KeyError, TypeError) as error:
            return _refused(400, f"a malformed body: {error!r}")
        for rule in self.rules:
            if rule.fits(question) and not self._is_used_up(rule, request):
                return rule
        return _refused(400, f"no rule of the traffic fits {question}")

    def _is_used_up(self, rule: Rule, request: Request) -> bool:
        if not isinstance(rule.then, Refusal) or rule.then.times is None:
            return False
        place = (rule.name, request.raw)
        self._refused[place] += 1
        return self._refused[place] > rule.then.times

    def released(self, seconds: float) -> bool:
        """Return whether held answers may begin; wait at most that long for it."""
        return self._released.wait(seconds)

    def pause(self, seconds: float) -> None:
        """Wait, unless all ends."""
        self._closing.wait(seconds)

    # --- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """End all connections and stop listening; more than once is fine."""
        if not self._closing.is_set():
            self._closing.set()
            self._released.set()
            self._http.shutdown()
            self._http.end_connections()
            self._http.server_close()
            self._thread.join()


def _refused(status: int, message: str) -> Rule:
    return Rule(name="", then=Refusal(status=status, message=message))


# --- by hand -----------------------------------------------------------------------------------


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.upstream",
        description="Play the models of fixtures/traffic until Ctrl-C.",
    )
    parser.add_argument("--port", type=int, default=0, help="default: any that is free")
    parser.add_argument("--drip", type=float, default=0.0, metavar="SECONDS", help="between events")
    parser.add_argument("--cut", type=int, metavar="N", help="break streams after N events")
    parser.add_argument("--flood", type=int, default=0, metavar="MB", help="text in each stream")
    parser.add_argument("--gzip", action="store_true", help="compress answers")
    parser.add_argument("traffic", nargs="*", type=Path, help="files of rules; default: all")
    return parser.parse_args()


def main() -> None:
    """Serve until Ctrl-C, or SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):  # shells start background jobs with SIGINT off
        signal.signal(number, signal.default_int_handler)
    given = _arguments()
    manner = Manner(
        drip_seconds=given.drip, cut_after=given.cut, flood_mb=given.flood, gzip=given.gzip
    )
    with Upstream(given.traffic or None, manner=manner, port=given.port) as upstream:
        for name, value in upstream.environment().items():
            print(f"export {name}={value}", flush=True)  # noqa: T201  # that is its output
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        print(f"\n{len(upstream.received)} requests", flush=True)  # noqa: T201  # the same


if __name__ == "__main__":
    main()
