"""The page as one file: nothing from elsewhere, and content that is text."""

import base64
import gzip
import hashlib
import json
import os
import random
import re
from pathlib import Path

import pytest

from refold.engine.errors import UsageError
from refold.engine.runners.recording import record
from refold.page import html
from refold.page.document import page
from refold.page.html import bundled, page_html, shell
from tests.support.child_programs import works

HOSTILE = "</script><script>alert(1)</script>{{title}}"


def test_the_page_is_at_most_200_kib() -> None:
    """Without its logs: many are kept, one with each run."""
    assert len(shell("", title="", connect="'none'")) <= 200 * 1024


_ASSETS = Path(html.__file__).with_name("assets")


def test_our_assets_are_at_most_160_kb() -> None:
    """As they are in the package; types are in no page."""
    files = [path for path in _ASSETS.iterdir() if path.suffix in (".js", ".css", ".html")]

    assert sum(path.stat().st_size for path in files) <= 160_000


_VENDORED = _ASSETS / "vendor"


def test_what_is_not_ours_is_what_its_readme_names() -> None:
    """Unchanged, with its licence beside it."""
    rows = re.findall(
        r"^\| `(\w+)\.js` .*`([0-9a-f]{64})`", (_VENDORED / "README.md").read_text(), re.MULTILINE
    )

    assert {f"{name}.js" for name, _ in rows} == {path.name for path in _VENDORED.glob("*.js")}
    for name, digest in rows:
        assert hashlib.sha256((_VENDORED / f"{name}.js").read_bytes()).hexdigest() == digest
        assert "Permission is hereby granted" in (_VENDORED / f"{name}.LICENSE").read_text()


def test_the_logs_in_the_file_are_the_bytes_on_disk(tmp_path: Path) -> None:
    log = record(works, HOSTILE, log=tmp_path / "a.jsonl").log

    found = re.search(r'data-log="0">([^<]*)<', page_html(page(log)))

    assert found is not None
    assert gzip.decompress(base64.b64decode(found[1])) == log.read_bytes()


def test_a_large_log_lies_in_several_elements_each_decodable_alone(tmp_path: Path) -> None:
    noise = base64.b64encode(random.Random(1).randbytes(450_000)).decode()
    log = record(
        works,
        [noise[at : at + 30_000] for at in range(0, 600_000, 30_000)],
        log=tmp_path / "a.jsonl",
    ).log

    found = re.findall(r'data-log="0">([^<]*)<', page_html(page(log)))

    assert len(found) > 1
    assert gzip.decompress(b"".join(map(base64.b64decode, found))) == log.read_bytes()


def test_a_log_with_a_hole_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """All of it would be read into memory, and no browser opens such a page."""
    log = record(works, 1, log=tmp_path / "a.jsonl").log
    os.truncate(log, 2**38)

    with pytest.raises(UsageError, match="verify"):
        page_html(page(log))


def test_what_a_log_says_is_no_markup(tmp_path: Path) -> None:
    """Whatever stands in the log, it is base64; and no placeholder either."""
    text = page_html(page(record(works, HOSTILE, log=tmp_path / "a.jsonl").log))

    blocks = re.findall(r'id="page">([A-Za-z0-9+/=]*)</script>', text)
    assert len(blocks) == 1
    document = json.loads(gzip.decompress(base64.b64decode(blocks[0])))
    assert document["agents"][0]["told"] == HOSTILE
    assert "alert(1)</script>" not in text


def test_nothing_is_asked_of_elsewhere(tmp_path: Path) -> None:
    """The policy names one script and one style by their hashes, and allows no connection."""
    text = page_html(page(record(works, 1, log=tmp_path / "a.jsonl").log))

    assert "default-src &#x27;none&#x27;" in text
    assert "connect-src &#x27;none&#x27;" in text
    beside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["']([^#]{5})""", beside) == ["data:"]


def test_modules_become_one_script_that_ends_none_of_its_own() -> None:
    script = bundled()

    assert 'document.getElementById("page")' in script.rpartition("\n})();\n")[2]
    assert not re.search(r"^(?:import|export)\b", script, re.MULTILINE)
    assert "</script" not in script.lower()
