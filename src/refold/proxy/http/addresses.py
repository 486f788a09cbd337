"""Leads the addresses of a server through the proxy, and back.

Answers name places at their server: of uploads, results, operations, next pages. The program gets
these as places at the proxy, else its next request would bypass the proxy. In its requests they
are the server's again. Pure. Rules: CONTRACT.md §16.1.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

Headers = tuple[tuple[str, str], ...]

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of an answer that is searched for addresses."""
_MEMBER: Final = rb'(?i:"[\w.-]{0,64}(?:url|uri|href|link|next|location|endpoint)"\s{0,8}:\s{0,8}")'
"""The name of a member that holds an address; texts of models stay as they are."""
_END: Final = rb"(?=[/\\?#\"]|\Z)"
_BY_REDIRECT: Final = "location"
"""The header that each route leads by itself."""


class Addresses:
    """The addresses of one server, as it says them and as the program is told them."""

    def __init__(self, url: str, target: str, here: str) -> None:
        """Take a request's URL at the server, its path below the route, and the route's URL here.

        `target` is the end of `url`; if the proxy changed it, nothing is led.
        """
        path = target.partition("?")[0]
        whole = url.partition("?")[0]
        base = whole.removesuffix(path) if path and whole.endswith(path) else ""
        self._theirs, self._here = _spelled(base), _spelled(here)
        server = re.match(r"https?://[^/?#]+", url)
        self._server = server[0].encode() if server is not None else b""
        ways = b"|".join(re.escape(each) for each in dict.fromkeys(self._theirs))
        self._found = re.compile(rb"(%b)(%b)%b" % (_MEMBER, ways, _END)) if base else None

    def asked(self, content: bytes) -> bytes:
        """Return a JSON body of a request with the server's addresses, where a text begins so."""
        if self._found is not None:
            for here, theirs in zip(self._here, self._theirs, strict=True):
                content = content.replace(b'"' + here, b'"' + theirs)
        return content

    def answered(self, content: bytes) -> bytes:
        """Return a JSON body with the proxy's addresses, in members that hold addresses."""
        if self._found is None:
            return content
        by_spelling = dict(zip(self._theirs, self._here, strict=True))
        return self._found.sub(lambda found: found[1] + by_spelling[found[2]], content)

    def headers(
        self, given: Iterable[tuple[str, str]], redirected: Callable[[str], str]
    ) -> Headers:
        """Return an answer's headers with the proxy's addresses."""
        theirs, here = (each[0].decode("latin-1") for each in (self._theirs, self._here))

        def value_of(name: str, value: str) -> str:
            if name == _BY_REDIRECT:
                return redirected(value)
            is_below = self._found is not None and value.startswith(theirs)
            rest = value.removeprefix(theirs)
            return here + rest if is_below and rest[:1] in ("", "/", "?", "#") else value

        return tuple((name, value_of(name, value)) for name, value in given)

    def past(self, content: bytes) -> str:
        """Return an address in a JSON body that leads past the proxy; empty for none."""
        if not self._server:
            return ""
        ways = b"|".join(map(re.escape, _spelled(self._server.decode("latin-1"))))
        found = re.search(rb"%b((?:%b)[/?#\\][^\"?#]{0,200})" % (_MEMBER, ways), content)
        return found[1].decode("latin-1").replace("\\/", "/") if found is not None else ""


def _spelled(url: str) -> tuple[bytes, bytes]:
    """Return the spellings of an address in JSON."""
    return url.encode("latin-1"), url.replace("/", "\\/").encode("latin-1")
