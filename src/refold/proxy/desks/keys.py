"""Finds secret values in the traffic, and keeps them out of the log.

Nobody declares the secrets of a watched command, so they are found: credentials of requests, values
of variables and arguments with telling names, and texts that have the shape of well-known keys. The
first two become exact secrets, found in every form that `engine.secrets.redaction` knows; the last
are removed everywhere. The proxy's own address, which changes each time, becomes a fixed word.
Keys in a folder's key files, which a record leaves out, are found too: a command may print them.
Rules: CONTRACT.md §16.8.
"""

import base64
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from refold.engine.secrets import redaction
from refold.engine.secrets.redaction import Redaction, marker_of, plain_parts
from refold.engine.secrets.vault import Vault
from refold.engine.workspace.inside import LINK, held_at
from refold.engine.workspace.left_out import WITHOUT_GIT, folder_of, is_key
from refold.proxy.http.turns import OF_HOSTS

ADDRESS: Final = "refold.proxy"
"""The replacement for the proxy's host and port, and the word behind them."""
_PLACE: Final = f"host.{ADDRESS}"
"""The replacement for its host and port alone."""

_OWN: Final = {"address": ADDRESS, "place": _PLACE}
_LENGTH_MIN: Final = 8
"""Characters; a shorter value is a placeholder for a key that nobody needs."""
_SHORT_CHARS: Final = 2048
"""Of texts that are shorter and have no secret, many are remembered; of longer ones, the last."""
_SHORT_MAX: Final = 1024
_SHAPE: Final = "key"
"""The replacement for a text that has the shape of a key: `[redacted:key]`."""
_SHAPED_MAX: Final = 200
"""Of those, that are looked for in other forms, too."""

_SIGNED: Final = "aws4"
"""How schemes begin of which only a signature passes: another one each time."""
_HEADERS: Final = re.compile(r"(?:proxy-)?authorization|.*(?:key|token|secret|auth|password).*")
_COOKIES: Final = frozenset({"cookie", "set-cookie"})
_COOKIES_MAX: Final = 32
"""Of those that answers set: a server may set another one with each, for ever."""
_ACCOUNTS: Final = frozenset({"openai-organization", "openai-project", "x-goog-user-project"})
"""Headers that name an account: no key, and nobody else's business."""
_QUERY: Final = re.compile(r"(?i).*(?:key|token|secret|signature|password)|sig|auth|code")
_VARIABLES: Final = re.compile(
    r"(?i)(?!git_config_key_)(?:.*passw(?:or)?d(?:_.*)?"  # the name of a setting
    r"|(?:.*_)?(?:api)?(?:key|token|secret|credentials?|auth)(?:_.*)?"
    r"|.*(?:apikey|token|secret))"
)
_KEYS: Final = re.compile(r"(?i)[a-z][a-z0-9_]{0,99}(?:key|token|secret|password|passwd|auth)")
"""Which of them a replay sets because a record names them: whose values are keys, and no files."""
_OPTIONS: Final = re.compile(
    r"(?i)(?:.*[-_])?(?:api[-_]?)?(?:key|token|secret|passw(?:or)?d|credentials?|auth|bearer)"
)
_DRAWN: Final = re.compile(r"(?=(?:\D*\d){4})(?=(?:[^A-Za-z]*[A-Za-z]){4})[A-Za-z0-9]{20,}")
"""An argument that was drawn, and is not a word: letters and digits without a break."""

_SHAPES: Final = (
    r"sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}",
    r"gh[pousr]_[A-Za-z0-9]{30,}",
    r"github_pat_[A-Za-z0-9_]{22,}",
    r"glpat-[A-Za-z0-9_-]{20,}",
    r"A[KS]IA[A-Z0-9]{16}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"gsk_[A-Za-z0-9]{20,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[A-Za-z0-9_-]{32,}",
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    (
        r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[\s\S]{1,8000}?"
        r"-----END [A-Z ]{0,20}PRIVATE KEY-----"
    ),
)
"""Shapes of well-known keys."""
_SHAPED: Final = rf"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt]))(?:{'|'.join(_SHAPES)})"
_PARTS: Final = ("ya29.", "eyJ", "PRIVATE KEY-----")
_HINTS: Final = (
    re.compile(
        r"_(?:(?<=gh[pousr]_)|(?<=hf_)|(?<=npm_)|(?<=gsk_)|(?<=k_(?:live|test)_)|(?<=github_pat_))"
    ),
    re.compile(r"-(?:(?<=sk-)|(?<=glpat-)|(?<=pypi-)|(?<=xox[abeoprs]-))(?=[A-Za-z0-9_-]{10})"),
    re.compile("A(?:KIA|SIA|Iza)"),
)
"""Every key of these shapes has one of these parts, or one of these hints, which are quick: `re`
jumps to the character that a hint begins with. A part of a text has no hint that the text lacks."""


class Secrets(Vault):
    """The secrets of one watched command."""

    def __init__(self, redaction: Redaction | None = None) -> None:
        self.generation = 0
        """Another number, when more is known to be secret."""
        self._address = ""
        self._shown: dict[bytes, bytes] = {}
        self._looked_for: tuple[str, ...] = ()
        self._shaped_left = _SHAPED_MAX
        self._variables: set[str] = set()
        self._cookies: list[str] = []
        super().__init__(redaction)

    def hide_address(self, base: str) -> None:
        """Use `ADDRESS` for the place of the proxy at `base` from now on."""
        there = base.partition("://")[2]
        place, _, word = there.partition("/")
        self._shown = {_PLACE.encode(): place.encode(), ADDRESS.encode(): there.encode()}
        port = place.rpartition(":")[2]
        here = rf"(?:127\.0\.0\.1|localhost)(?::|%3[Aa]){port}(?![0-9])"
        there = rf"(?:{OF_HOSTS})(?::|%3[Aa]){port}"
        self._address = rf"|(?P<address>{there}(?:/|%2[Ff]|\\+/){word})|(?P<place>{here})"
        self._looked_for = tuple(f"{colon}{port}" for colon in (":", "%3A", "%3a"))
        self._compile()

    def _compile(self) -> None:
        super()._compile()
        self.generation += 1

    def _finder_of(self, expression: str) -> "_Finder":
        found = "|".join(filter(None, (expression, _SHAPED)))
        parts = {part for value in self._known.values() for part in plain_parts(value)}
        sought = (*parts, *_PARTS, *self._looked_for)
        return _Finder(re.compile(found + self._address), sought, self._cookies)

    def scrubbed(self, value: Any) -> Any:
        """Return an event or JSON value without secrets; itself if it has none.

        A secret found by its shape is known from then on, so that it is found packed, too.
        """
        finder, names = self._sought
        met: dict[str, None] = {}

        def name_of(found: re.Match[str]) -> str:
            if found.lastindex is not None:
                return names[found.lastindex - 1]
            met[found[0]] = None
            return _SHAPE

        kept = redaction.scrubbed(value, finder, name_of) if finder else value
        for shaped in met:
            if self._shaped_left:
                self._shaped_left -= 1
                self._learn(_SHAPE, shaped)
        return kept

    def scrubbed_bytes(self, content: bytes) -> bytes:
        """Return bytes, text or not, without secrets."""
        text: str = self.scrubbed(content.decode(errors="surrogateescape"))
        return text.encode(errors="surrogateescape")

    def shown(self, content: bytes) -> bytes:
        """Return bytes of a record with the proxy's address as it is now."""
        for kept, now in self._shown.items():
            content = content.replace(kept, now)
        return content

    def shown_in(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers of a record with the proxy's address as it is now."""
        return {
            name: self.shown(value.encode("latin-1")).decode("latin-1")
            for name, value in headers.items()
        }

    def rules(self, volatile: Iterable[str] = ()) -> dict[str, Any]:
        """Return what `run.started` lists: names of variables and paths, never a value."""
        listed = super().rules(volatile)
        told = listed.get("redaction", {})
        names = sorted({*told.get("environment", ()), *self._variables})
        return {**listed, "redaction": {**told, "environment": names}} if names else listed

    # --- where they are found ------------------------------------------------------------

    def learn_environment(
        self,
        environment: Mapping[str, str] = os.environ,
        listed: Container[str] | None = None,
    ) -> None:
        """Make secrets of the values of variables with telling names, and of passwords in URLs.

        `run.started` lists these names; of them only `listed`, if given.
        """
        for name, value in environment.items():
            is_path = os.path.exists(value)  # noqa: PTH110 - takes what could be none, too
            if _VARIABLES.fullmatch(name) and not is_path:
                self._learn(name, value)
                if len(value.strip()) >= _LENGTH_MIN and (listed is None or name in listed):
                    self._variables.add(name)
            elif "://" in value:
                self.learn_url(value, name)

    def learn_key_files(self, here: Path) -> None:
        """Make secrets of what the key files of a folder hold, for a command may print them."""
        for text in key_files(here):
            found, urls = _keys_of(text)
            for name, value in found:
                self._learn(name, value)
            for url in urls:
                self.learn_url(url)

    def learn_command(self, command: Sequence[str]) -> None:
        """Make secrets of what arguments give as keys, by their names or by their looks."""
        before = ""
        for each in command:
            name, equals, value = each.partition("=")
            if equals and _is_secret_name(name.lstrip("-")):
                self._learn(name.lstrip("-"), value)
            elif before.startswith("-") and _OPTIONS.fullmatch(before.lstrip("-")):
                self._learn(before.lstrip("-"), each)
            self._learn_header_like(each)
            for url in re.findall(r"https?://\S+", each):
                self.learn_url(url)
            for drawn in _DRAWN.findall(each):
                self._learn("argument", drawn)
            before = each

    def learn_headers(self, headers: Iterable[tuple[str, str]]) -> None:
        """Make secrets of what headers authorise with, and of cookies."""
        for name, value in headers:
            if name in _COOKIES:
                for each in value.split(";"):
                    self._learn(name, each.partition("=")[2])
            elif name in _ACCOUNTS:
                self._learn(name, value)
            elif _HEADERS.fullmatch(name) and name != "idempotency-key":
                scheme, _, rest = value.partition(" ")
                if scheme.lower().startswith(_SIGNED):
                    continue
                self._learn(name, rest if rest and scheme.isalpha() else value)
                if scheme.lower() == "basic":
                    self._learn(name, _password_in(rest))

    def learn_cookie(self, value: str) -> None:
        """Look for a cookie that an answer sets, as it is, from now on.

        Nothing that was there before can hold it. If a request sends it back, it is a secret like
        any other.
        """
        cookie = value.partition(";")[0].partition("=")[2].strip()
        if len(cookie) >= _LENGTH_MIN and cookie not in self._cookies:
            self._cookies[:] = [*self._cookies, cookie][-_COOKIES_MAX:]

    def learn_url(self, url: str, name: str = "url") -> None:
        """Make secrets of the password of a URL, and of members of its query."""
        try:
            parts = urlsplit(url)
            password = parts.password
        except ValueError:
            return
        self._learn(name, unquote(password or ""))
        for key, value in parse_qsl(parts.query):
            if _QUERY.fullmatch(key):
                self._learn(key, value)

    def _learn_header_like(self, text: str) -> None:
        name, colon, value = text.partition(":")
        if colon and re.fullmatch(r"[A-Za-z-]+", name):
            self.learn_headers([(name.lower(), value.strip())])

    def _learn(self, name: str, value: str) -> None:
        if len(value.strip()) >= _LENGTH_MIN:
            self.learn(name, value.strip())


class _Finder:
    """Searches for all secrets at once, where a text may have one: that is quick to see."""

    def __init__(
        self, pattern: re.Pattern[str], sought: tuple[str, ...], cookies: Sequence[str]
    ) -> None:
        self._cookies = cookies  # as they are: more are met on the way
        self._pattern = pattern
        self._sought = sought
        self._clean = ""
        """The last long text without a secret or a part of one: a part of an answer is looked
        through at its seam, whole, and again as an entry."""
        self._short: set[str] = set()
        """Such short texts: a conversation repeats its words."""

    def search(self, text: str) -> object | None:
        """Return the first secret found, or `None`."""
        for cookie in self._cookies:
            if cookie in text:
                return cookie
        if text in self._short or self._clean.startswith(text) or self._clean.endswith(text):
            return None
        if any(map(text.__contains__, self._sought)) or any(hint.search(text) for hint in _HINTS):
            return self._pattern.search(text)
        if len(text) >= _SHORT_CHARS:
            self._clean = text
        else:
            if len(self._short) >= _SHORT_MAX:
                self._short.clear()
            self._short.add(text)
        return None

    def sub(self, stands_for: Callable[[re.Match[str]], str], text: str) -> str:
        """Return `text` with something else in their place."""
        for cookie in self._cookies:
            text = text.replace(cookie, marker_of("set-cookie"))
        return self._pattern.sub(
            lambda found: _OWN.get(found.lastgroup or "") or stands_for(found), text
        )


def is_key_name(name: str) -> bool:
    """Return whether a variable is called as those are whose value is a key, and nothing else."""
    return bool(_VARIABLES.fullmatch(name) and _KEYS.fullmatch(name))


def _is_secret_name(name: str) -> bool:
    return bool(_VARIABLES.fullmatch(name) or _OPTIONS.fullmatch(name))


def _password_in(basic: str) -> str:
    try:
        return base64.b64decode(basic).decode(errors="replace").partition(":")[2]
    except ValueError:
        return ""


VALUE_MIN: Final = 12
"""Characters of a value; a shorter one may be a word of any text."""
_FILE_MAX: Final = 1_000_000
"""Bytes of a key file; a larger one is not read."""
_LINE_MIN: Final = 40
"""Characters of a line of a PEM body that is found by itself."""
_SKIPPED: Final = frozenset({".git", *(name.rstrip("/") for name in WITHOUT_GIT)})
_PAIR: Final = re.compile(
    r"""(?<![\w.-])["']?(?P<name>[A-Za-z_][\w.-]*)["']?[ \t]*[=:][ \t]*"""
    r"""(?:"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|(?P<bare>[^\s"',{}\[]+))"""
)
"""`NAME=value`, `"name": "value"`, `//host/:_authToken=value`."""
_NETRC: Final = re.compile(r"\bpassword[ \t]+(\S+)")
_PGPASS: Final = re.compile(r"(?m)^[^:\n]+:[^:\n]+:[^:\n]+:[^:\n]+:(\S+)$")
_URL: Final = re.compile(r"https?://\S+")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----([\s\S]*?)-----END")


def _keys_of(content: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return names and values of secrets in the text of a key file, and URLs that may have one."""
    pairs = ((found["name"], found[found.lastgroup or ""]) for found in _PAIR.finditer(content))
    found = [(name, value) for name, value in pairs if _is_secret_name(name)]
    found += [("password", each) for each in (*_NETRC.findall(content), *_PGPASS.findall(content))]
    for body in _PEM.findall(content.replace("\\n", "\n")):
        lines = body.split()
        found += [("key", each) for each in ("\n".join(lines), "".join(lines))]
        found += [("key", line) for line in lines if len(line) >= _LINE_MIN]
    kept = dict.fromkeys((name, value) for name, value in found if len(value) >= VALUE_MIN)
    return list(kept), _URL.findall(content)


@lru_cache(maxsize=8)  # a test session asks for each of its tests
def key_files(here: Path) -> tuple[str, ...]:
    """Return the texts of files that look by their names as if they hold keys.

    They are those of the folder that a record made `here` has; of `here` alone if it has none, as
    in HOME.  Links are not followed; caches and installed packages are not searched.
    """
    top, _ = folder_of(here)
    return tuple(filter(None, map(_text_of, _paths(top or here, is_deep=top is not None))))


def _paths(top: Path, *, is_deep: bool) -> Iterator[Path]:
    for at, folders, files in os.walk(top):
        folders[:] = [each for each in folders if is_deep and each not in _SKIPPED]
        yield from (Path(at, each) for each in files if is_key(each))


def _text_of(path: Path) -> str:
    """Return the text of a file; empty if it is a link or a pipe, large, or not readable."""
    held = held_at(path.parent, path.name, _FILE_MAX)
    return "" if held is None or held.mode == LINK else held.content.decode(errors="replace")
