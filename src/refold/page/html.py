"""The page as one file: the document, the logs and the assets in it, nothing from elsewhere.

Content is hostile: the document and the logs are base64, the policy allows the one
script and the one style that are named by their hashes.  Rules: CONTRACT.md §14.16.
"""

import base64
import functools
import gzip
import hashlib
import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from refold.engine.errors import UsageError
from refold.engine.log.reader import open_log
from refold.page.document import Page

_BLOCK_MAX: Final = 2**18
"""Characters of base64 in one element; a browser would hold one long text several times."""
_LOG_MAX: Final = 2**30
"""Bytes of one log; a file of more has a hole, or would be no page that opens."""
_ENTRY: Final = "app"
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./([\w/]+)\.js";$', re.MULTILINE)
_BESIDE: Final = re.compile(r"/\*\*.*?\*/ ?|^\s*//[^\n]*|^\t+", re.DOTALL | re.MULTILINE)
"""What a browser does not need: comments, and the spaces that begin a line."""
_VENDORED: Final = re.compile(r"export\{([^}]*)\};\s*(//# sourceMappingURL=\S*)?\s*$")
"""The end of a module that is not ours: all that it exports."""
_EXPORT: Final = re.compile(r"^export ((?:async )?function\*? |const |class )(\w+)", re.MULTILINE)


def page_html(made: Page) -> str:
    """Return a page as the text of one file.

    Raises:
        UsageError: its logs hold more than a browser could.
    """
    for path in made.logs.values():
        if (size := path.stat().st_size) > _LOG_MAX:
            raise UsageError(
                f"{path}: the log has {size} bytes, but a page can contain at most "
                f"{_LOG_MAX}; if the log is damaged, see `refold verify`"
            )
    packed = [("log", name, _content(path)) for name, path in made.logs.items()]
    packed += [("blob", name, content) for name, content in made.blobs.items()]
    text = json.dumps(made.document, separators=(",", ":")).encode()
    parts = [(name, made.part(name)) for name in ("links", "states")]
    packed += [("part", name, json.dumps(part).encode()) for name, part in parts]
    logs = [_gzipped(f'data-{what}="{escape(name)}"', content) for what, name, content in packed]
    document = _gzipped('id="page"', text, block_max=len(text) * 2)
    return shell(document, "\n".join(logs), title=made.document["title"], connect="'none'")


def shell(document: str, logs: str = "", *, title: str, connect: str) -> str:
    """Return index.html with its style and script in place, and the blocks that these read.

    The script comes before the logs: it shows the document while the browser still reads them.
    """
    parts = {
        "csp": escape(policy(connect)),
        "title": escape(title),
        "style": _asset("style.css"),
        "document": document,
        "script": bundled(),
        "logs": logs,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("index.html"))


def policy(connect: str) -> str:
    """Return the page's permissions: its one script, its one style, requests to `connect`."""
    return (
        f"default-src 'none'; script-src {_hash(bundled())}; "
        f"style-src {_hash(_asset('style.css'))}; img-src data: blob:; connect-src {connect}; "
        "base-uri 'none'; form-action 'none'"
    )


@functools.cache
def bundled() -> str:
    """Return the modules as one script: each in a scope of its own, after its imports."""
    done: dict[str, str] = {}
    _bundle(_ENTRY, done)
    return "\n".join(['"use strict";', *done.values()])


def _bundle(name: str, done: dict[str, str]) -> None:
    text = _asset(f"{name}.js")
    for _, needed in _IMPORT.findall(text):
        if needed not in done:
            _bundle(needed, done)
    if vendored := _VENDORED.search(text):
        pairs = (each.split(" as ") for each in vendored[1].split(","))
        names = ", ".join(f"{known}: {own}" for own, known in pairs)
        done[name] = _scoped(name, text[: vendored.start()], names)
        return
    text = _BESIDE.sub("", text)
    body = _IMPORT.sub(
        lambda f: f"const {{{f[1].replace(' as ', ': ')}}} = {_variable(f[2])};", text
    )
    names = ", ".join(found[1] for found in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1\2", body)
    # The first one may await: no function around it.
    done[name] = body if name == _ENTRY else _scoped(name, body, names)


def _variable(module: str) -> str:
    return f"module_{module.replace('/', '_')}"


def _scoped(module: str, body: str, names: str) -> str:
    return f"const {_variable(module)} = (() => {{\n{body}\nreturn {{{names}}};\n}})();"


@functools.cache
def _asset(name: str) -> str:
    return (files("refold.page") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _gzipped(attribute: str, content: bytes, *, block_max: int = _BLOCK_MAX) -> str:
    """Return blocks of base64, each decodable alone, which the page lets go of one by one."""
    packed = base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
    opening = f'<script type="application/octet-stream+gzip" {attribute}>'
    parts = range(0, len(packed), block_max)
    return "\n".join(f"{opening}{packed[at : at + block_max]}</script>" for at in parts)


def _content(log: Path) -> bytes:
    with open_log(log) as file:
        return file.read()
