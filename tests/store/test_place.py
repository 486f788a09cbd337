"""An object store below a URL: nothing is replaced, and no secret is told (§4.8)."""

import base64
import sys
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import obstore
import pytest

from refold.engine.errors import (
    ExtraMissing,
    LogMissing,
    LogUnsupported,
    StoreDamaged,
    StoreFailed,
    UsageError,
)
from refold.store.place import ObjectStore, StoredRun, stored_run
from tests.support.loops import for_each, table


@pytest.mark.parametrize("endpoint", ["", "::::", "http://\u00e9"])
def test_a_setting_that_obstore_cannot_use_is_said(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It panics, which is no exception of Python's: a traceback was all that a person got."""
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_ENDPOINT", endpoint)

    with pytest.raises(StoreFailed, match="variable of the environment"):
        ObjectStore("s3://bucket/audits")


@for_each("text, url, name", table("""
    s3://bucket/audits            s3://bucket/audits  -
    s3://bucket/audits/           s3://bucket/audits  -
    s3://bucket/audits/a.1.jsonl  s3://bucket/audits  a.1.jsonl
    s3://bucket.jsonl             s3://bucket.jsonl   -
    file:///mnt/audits/a.jsonl    file:///mnt/audits  a.jsonl
"""))  # fmt: skip
def test_a_url_names_a_store_or_a_log_in_it(text: str, url: str, name: str) -> None:
    assert stored_run(text) == StoredRun(url, name)
    assert str(stored_run(text)) == text.rstrip("/")


@for_each(
    "text",
    [
        "s3://key:s3cr3t@bucket/audits",
        "s3://s3cr3t@bucket/audits",
        "az://account/container?sig=s3cr3t",
        "s3://bucket/audits#s3cr3t",
        "https://[s3cr3t",
    ],
)
def test_what_may_be_a_secret_is_refused_and_not_told(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        stored_run(text)

    assert "s3cr3t" not in str(refused.value)


def test_memory_is_no_store() -> None:
    """What would be pushed there would be lost."""
    with pytest.raises(UsageError, match="lost when the command ends"):
        stored_run("memory:///audits")


def test_an_object_is_made_once_and_never_replaced(url: str) -> None:
    place = ObjectStore(url, is_made=True)

    assert place.create("objects/a", b"one")
    assert not place.create("objects/a", b"two")
    assert place.get("objects/a", 3) == b"one"
    assert place.size("objects/a") == 3
    assert place.get("objects/b", 3) is None
    assert place.size("objects/b") is None
    assert list(place.names("objects")) == ["a"]
    assert list(place.names("nothing")) == []


def test_an_object_that_is_too_large_is_not_read(url: str) -> None:
    place = ObjectStore(url, is_made=True)
    place.create("objects/a", b"four")

    with pytest.raises(StoreDamaged, match="at most 3 bytes, found 4 bytes"):
        place.get("objects/a", 3)


def test_a_folder_is_a_store_once_something_was_pushed_there(url: str, tmp_path: Path) -> None:
    """A mistyped prefix is no empty store."""
    with pytest.raises(LogMissing, match="no runs are stored there"):
        ObjectStore(url)
    with pytest.raises(LogMissing, match="none: no such folder"):
        ObjectStore(f"{url}/none")
    (tmp_path / "store" / "file").touch()
    with pytest.raises(StoreFailed, match="file"):
        ObjectStore(f"{url}/file/below", is_made=True)

    ObjectStore(f"{url}/new one/below", is_made=True)
    assert (tmp_path / "store" / "new one" / "below").is_dir()
    ObjectStore(url, is_made=True)
    ObjectStore(url, is_made=True)
    ObjectStore(url)

    (tmp_path / "store" / "refold-store.json").write_bytes(b'{"format":2}')
    with pytest.raises(LogUnsupported, match="format"):
        ObjectStore(url)


@for_each("url, is_made", [("ftp://host/a", False), ("s4://bucket", True), ("http://host/a", True)])
def test_a_url_that_can_be_no_store_is_refused_with_those_that_can(
    url: str, *, is_made: bool
) -> None:
    """A push over HTTP ended as a bug in Refold: such a store cannot refuse to overwrite."""
    with pytest.raises(UsageError, match=f"{url}: expected the URL of a store: s3://BUCKET"):
        ObjectStore(url, is_made=is_made)


def test_what_a_store_says_is_one_line_without_queries(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query may sign a request, and the rest is a dump of internals."""
    place = ObjectStore(url, is_made=True)
    said = (
        "Generic S3 error: Error performing GET https://host/b/k?sig=s3cr3t in 2ms - Server "
        'returned: 403: <?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>\n\n'
        "Debug source:\nGeneric { s3cr3t }"
    )

    def refused(*_: object) -> None:
        raise obstore.exceptions.GenericError(said)

    monkeypatch.setattr(obstore, "head", refused)

    with pytest.raises(StoreFailed) as failed:
        place.size("objects/a")

    assert "s3cr3t" not in str(failed.value)
    assert "403 (AccessDenied)" in str(failed.value)
    assert "\n" not in str(failed.value)


def test_s3_is_sent_a_digest_to_check_and_asked_not_to_overwrite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With each object; the server refuses what does not fit."""
    seen: list[tuple[str, str | None]] = []
    objects: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            digest = base64.b64decode(self.headers["x-amz-checksum-sha256"]).hex()
            seen.append((digest, self.headers["If-None-Match"]))
            assert digest == sha256(content).hexdigest()
            is_there = self.path in objects
            objects.setdefault(self.path, content)  # before the answer: the next may come at once
            self._answer(412 if is_there else 200, b"")

        def do_GET(self) -> None:
            self._answer(200 if self.path in objects else 404, objects.get(self.path, b""))

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"x"')
            self.send_header("Last-Modified", "Sun, 22 Nov 2026 16:00:00 GMT")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        place = ObjectStore("s3://bucket/audits", is_made=True)
        assert place.create("objects/a", b"one")
        assert not place.create("objects/a", b"two")
        server.shutdown()

    assert objects["/bucket/audits/objects/a"] == b"one"
    assert {condition for _, condition in seen} == {"*"}


def test_without_obstore_the_extra_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(ExtraMissing, match=r"refold\[store\]"):
        ObjectStore(url)
