"""The page as one file: nothing from elsewhere, and content that is text."""

import base64
import gzip
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
from refold.page.html import bundled, page_html
from tests.support.child_programs import works

HOSTILE = "</script><script>alert(1)</script>{{title}}"


def test_the_page_is_at_most_100_kib() -> None:
    """Without its logs: many are kept, one with each run."""
    assets = Path(html.__file__).with_name("assets")

    assert sum(path.stat().st_size for path in assets.iterdir()) <= 100 * 1024


def test_the_logs_in_the_file_are_the_bytes_on_disk(tmp_path: Path) -> None:
    log = record(works, HOSTILE, log=tmp_path / "a.jsonl").log

    found = re.search(r'data-log="[0-9a-f]{16}">([^<]*)<', page_html(page(log)))

    assert found is not None
    assert gzip.decompress(base64.b64decode(found[1])) == log.read_bytes()


def test_a_large_log_lies_in_several_elements_each_decodable_alone(tmp_path: Path) -> None:
    noise = base64.b64encode(random.Random(1).randbytes(450_000)).decode()
    log = record(
        works,
        [noise[at : at + 30_000] for at in range(0, 600_000, 30_000)],
        log=tmp_path / "a.jsonl",
    ).log

    found = re.findall(r'data-log="[0-9a-f]{16}">([^<]*)<', page_html(page(log)))

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
    assert document["tree"]["input"] == HOSTILE
    assert "alert(1)</script>" not in text


def test_nothing_is_asked_of_elsewhere(tmp_path: Path) -> None:
    """The policy names one script and one style by their hashes, and allows no connection."""
    text = page_html(page(record(works, 1, log=tmp_path / "a.jsonl").log))

    assert "default-src &#x27;none&#x27;" in text
    assert "connect-src &#x27;none&#x27;" in text
    assert not re.search(r"""(?:src|href)=["'](?!#)""", text)


def test_modules_become_one_script_that_ends_none_of_its_own() -> None:
    script = bundled()

    assert 'document.getElementById("page")' in script.rpartition("const module_")[2]
    assert not re.search(r"^(?:import|export)\b", script, re.MULTILINE)
    assert "</script" not in script.lower()
