"""An object store below a URL: objects are made or read, and never replaced.

Exceptions of `obstore` become errors of ours, without secrets of a URL. Credentials come from the
environment, as `obstore` takes them, and are never seen here. Rules: CONTRACT.md §4.8.
"""

import contextlib
import datetime as dt
import re
import stat
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import attrs

from refold.engine.errors import (
    ExtraMissing,
    LogMissing,
    LogUnsupported,
    StoreDamaged,
    StoreFailed,
    UsageError,
)
from refold.engine.log.names import SUFFIX
from refold.engine.values import Value

_MARK: Final = "refold-store.json"
"""The object that marks a store of runs, in this form."""
_FORMAT: Final = b'{"format":1}'
_RETRIES: Final = {"max_retries": 5, "retry_timeout": dt.timedelta(seconds=60)}
_CODE: Final = re.compile(r"<Code>(\w{1,80})</Code>")
_QUERY: Final = re.compile(r"\?\S*")
_EXPECTED: Final = (
    "expected the URL of a store: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://…, file:///FOLDER"
)
_TOLD: Final = 300
"""Characters of a store's message that are shown."""


@attrs.frozen
class StoredRun(Value):
    """A run in a store, or the whole store; as a path it is its URL."""

    url: str
    """Of the store."""
    name: str = ""
    """Of a log, `audit.jsonl`; empty for the store."""

    def __fspath__(self) -> str:
        return f"{self.url}/{self.name}" if self.name else self.url

    __str__ = __fspath__


def stored_run(text: str) -> StoredRun:
    """Return the object of a URL: a log, if its last part ends in `.jsonl`, else a store.

    Raises:
        UsageError: it holds what may be a secret, or names no place that lasts.
    """
    try:
        parts = urlsplit(text)
    except ValueError:
        raise UsageError(_EXPECTED) from None
    if parts.query or parts.fragment or "@" in parts.netloc:  # not told: it may be a secret
        raise UsageError(
            "the URL of a store cannot have a user, password, query or fragment; "
            "credentials are read from the environment, for example from "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if parts.scheme == "memory":
        raise UsageError(f"{text}: objects stored there are lost when the command ends")
    url, _, name = text.rstrip("/").rpartition("/")
    is_log = name.endswith(SUFFIX) and not url.endswith("/")
    return StoredRun(url, name) if is_log else StoredRun(text.rstrip("/"))


class ObjectStore:
    """An object store below a URL.  Threads may share it."""

    def __init__(self, url: str, *, is_made: bool = False) -> None:
        """Open the store at `url`; with `is_made`, runs may be stored there from now on.

        Raises:
            ExtraMissing: `obstore` is not installed.
            LogMissing: no runs are stored there.
            LogUnsupported: they are stored in a form that this version does not know.
            StoreFailed: it cannot be reached, or it overwrites.
            UsageError: not the URL of a store.
        """
        self.url = stored_run(url).url
        with ExtraMissing.of("store"):
            self._obstore: Any = import_module("obstore")
        try:
            scheme = self._obstore.parse_scheme(self.url)
        except (self._obstore.exceptions.BaseError, ValueError):
            scheme = ""
        if not scheme or (is_made and scheme == "http"):  # which can only be read, or overwritten
            raise UsageError(f"{self.url}: {_EXPECTED}")
        with self._asking():
            if self.url.startswith("file:"):
                folder = Path(unquote(urlsplit(self.url).path))
                if is_made:
                    folder.mkdir(parents=True, exist_ok=True)
                elif not folder.exists():
                    raise LogMissing(self.url, "no such folder")
            # Only S3 checks what it is sent against a digest of our own.
            more = {"checksum_algorithm": "SHA256"} if scheme == "s3" else {}
            self._store = self._obstore.store.from_url(self.url, retry_config=_RETRIES, **more)
        if is_made:
            self._mark()
        mark = self.get(_MARK, len(_FORMAT) * 10)
        if mark is None:
            raise LogMissing(self.url, "no runs are stored there")
        if mark != _FORMAT:
            raise LogUnsupported(self.url, f"a store of runs, {_FORMAT.decode()}", f"{mark!a:.80}")

    def _mark(self) -> None:
        """Mark a store of runs, and check that objects in it are not overwritten.

        Some servers that speak S3 ignore `If-None-Match`, and then a second writer would win.
        """
        if self.create(_MARK, _FORMAT) and self.create(_MARK, _FORMAT):
            raise StoreFailed(self.url, "it overwrites objects even if it is asked not to")

    def create(self, name: str, content: bytes) -> bool:
        """Make an object; return whether it was made: false where there is one.

        Raises:
            StoreFailed: the store did not take it.
        """
        with self._asking():
            try:
                self._obstore.put(self._store, name, content, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
        return True

    def get(self, name: str, bytes_max: int) -> bytes | None:
        """Return an object; `None` for none.

        Raises:
            StoreDamaged: it has more bytes than it may have, and they are not read; or it is not a
                regular file of a folder.
            StoreFailed: the store did not give it.
        """
        self._check_file(name)
        with self._asking():
            try:
                found = self._obstore.get(self._store, name)
            except FileNotFoundError:
                return None
            if (size := found.meta["size"]) <= bytes_max:
                return bytes(found.bytes())
        raise StoreDamaged(f"{self.url}/{name}", f"at most {bytes_max} bytes", f"{size} bytes")

    def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; `None` for none.

        Raises:
            StoreFailed: the store did not answer.
        """
        self._check_file(name)
        with self._asking():
            try:
                return int(self._obstore.head(self._store, name)["size"])
            except FileNotFoundError:
                return None

    def _check_file(self, name: str) -> None:
        """Refuse a pipe in a folder that is a store: who opens one waits for ever.

        Raises:
            StoreDamaged: not a regular file.
        """
        if not self.url.startswith("file:"):
            return
        with contextlib.suppress(OSError, ValueError):  # the store says what it is then
            mode = Path(unquote(urlsplit(self.url).path), name).stat().st_mode
            if not stat.S_ISREG(mode):
                raise StoreDamaged(f"{self.url}/{name}", "a file", stat.filemode(mode))

    def names(self, folder: str) -> Iterator[str]:
        """Yield the names of the objects below a folder, without it; in no order.

        Raises:
            StoreFailed: the store did not list them.
        """
        with self._asking():
            for some in self._obstore.list(self._store, folder, chunk_size=1000):
                for each in some:
                    yield each["path"].removeprefix(f"{folder}/")

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn the store's exceptions into errors of ours."""
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            raise StoreFailed(self.url, _one_line(str(error))) from None
        except BaseException as error:  # a panic of Rust's is no Exception, and cannot be imported
            if type(error).__name__ != "PanicException":
                raise
            why = (
                "a variable of the environment has a value that obstore cannot use (AWS_ENDPOINT?)"
            )
            raise StoreFailed(self.url, f"{why}: {_one_line(str(error))}") from None


def _one_line(said: str) -> str:
    """Return a store's message in one line, without queries: they may sign a request."""
    first = " ".join(said.partition("Debug source")[0].partition("<?xml")[0].split())
    code = _CODE.search(said)
    return _QUERY.sub("?…", first[:_TOLD]).rstrip(": ") + (f" ({code[1]})" if code else "")
