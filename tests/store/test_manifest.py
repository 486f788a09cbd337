"""What a stored run consists of; nothing of a manifest that is read is trusted (§4.8)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import (
    LogDamaged,
    LogMissing,
    LogNameRefused,
    LogUnsupported,
    RefoldError,
    StoreDamaged,
)
from refold.store.manifest import HEADS, PIECE, RunFiles, head_in, manifest_in, manifest_of, runs_in
from refold.store.place import ObjectStore
from tests.support.loops import half
from tests.support.stores import content_of, pulled, pushed, record_run

Document = dict[str, Any]


def test_a_manifest_is_read_as_it_was_written(log: Path, url: str, tmp_path: Path) -> None:
    """And the same run makes the same bytes."""
    record_run(log.with_name("audit-2.jsonl"), 2)  # a neighbour, no child
    made = manifest_of(log, RunFiles(log.parent))

    pushed(log, url)

    assert (tmp_path / "store" / "runs" / "audit.json").read_bytes() == made.encoded()
    assert manifest_in(ObjectStore(url), "audit.jsonl") == made
    names = [file.name for file in made.files]
    assert names[:2] == ["audit.jsonl", "audit.1.jsonl"]
    assert len(names) == 3
    assert made.size == sum((log.parent / name).stat().st_size for name in names)
    assert list(runs_in(ObjectStore(url))) == ["audit.jsonl"]


def test_links_are_no_files_of_a_run(log: Path, tmp_path: Path) -> None:
    """What they point at is nobody's; nor is what has no blob's name among the large texts."""
    before = manifest_of(log, RunFiles(log.parent))
    (tmp_path / "elsewhere").write_bytes(b"{}\n")
    log.with_name("audit.2.jsonl").symlink_to(tmp_path / "elsewhere")
    blobs = log.with_name("audit.blobs")
    (blobs / "ab").mkdir()
    (blobs / "ab" / ("ab" * 32)).symlink_to(tmp_path / "elsewhere")
    (blobs / "ab" / "notes.txt").write_bytes(b"mine")

    assert manifest_of(log, RunFiles(log.parent)) == before


def test_nothing_behind_a_linked_folder_of_blobs_is_of_a_run(log: Path, tmp_path: Path) -> None:
    elsewhere = log.with_name("audit.blobs").rename(tmp_path / "elsewhere")
    log.with_name("audit.blobs").symlink_to(elsewhere)

    assert not any("blobs" in name for name in RunFiles(log.parent).of(log))
    with pytest.raises(LogDamaged, match="blob"):
        manifest_of(log, RunFiles(log.parent))


def _named(name: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["files"][1]["name"] = name

    return change


def _sized(size: object, pieces: int) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["files"][1] |= {"size": size, "pieces": ["0" * 64] * pieces}

    return change


_HOSTILE: dict[str, Callable[[Document], object]] = {
    "climbs": _named("../audit.1.jsonl"),
    "climbs out of the blobs": _named("audit.blobs/../../x"),
    "absolute": _named("/etc/passwd"),
    "another run's": _named("other.1.jsonl"),
    "another run's torn tail": _named("other.jsonl.torn-1-01234567"),
    "hidden": _named(".bashrc"),
    "no log": _named("audit.sh"),
    "a folder": _named("audit.blobs"),
    "a NUL": _named("audit.1.jsonl\0"),
    "a blob's name that is none": _named("audit.blobs/ab/" + "cd" * 32),
    "twice": _named("audit.jsonl"),
    "no text as name": lambda document: document["files"][1].update(name=5),
    "huge": _sized(2**62, 1),
    "a size below 0": _sized(-5, 0),
    "a size that is a truth value": _sized(size=True, pieces=1),
    "too few pieces": _sized(PIECE + 1, 1),
    "too many pieces": _sized(PIECE, 2),
    "a piece that is a path": lambda document: document["files"][0].update(pieces=["../../x"]),
    "a piece in capitals": lambda document: document["files"][0].update(pieces=["A" * 64]),
    "no head": lambda document: document.update(head="../heads"),
    "a number of entries that is none": lambda document: document.update(entries="2"),
    "no files": lambda document: document.update(files=[]),
    "a member more": lambda document: document.update(more=1),
    "a file's member more": lambda document: document["files"][0].update(mode=0o4755),
    "another format": lambda document: document.update(format=0),
    "a format that is none": lambda document: document.update(format="1"),
    "another run": lambda document: document["files"][0].update(name="other.jsonl"),
}


@pytest.mark.parametrize("what", half(_HOSTILE))
def test_a_hostile_manifest_is_refused_and_nothing_is_made_of_it(
    what: str, log: Path, url: str, tmp_path: Path
) -> None:
    pushed(log, url)
    path = tmp_path / "store" / "runs" / "audit.json"
    document = json.loads(path.read_bytes())
    _HOSTILE[what](document)
    path.write_bytes(json.dumps(document, separators=(",", ":")).encode())
    before = content_of(tmp_path)

    with pytest.raises(StoreDamaged, match=r"store/runs/audit\.json: expected .*, found"):
        pulled(url, log.name, tmp_path / "got")

    assert content_of(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[]", b"null", b"[" * 100_000, b"{}"])
def test_what_is_no_manifest_is_damage(content: bytes, log: Path, url: str, tmp_path: Path) -> None:
    pushed(log, url)
    (tmp_path / "store" / "runs" / "audit.json").write_bytes(content)

    with pytest.raises(StoreDamaged, match="the manifest of a run, found none"):
        manifest_in(ObjectStore(url), log.name)


def test_a_manifest_of_a_newer_form_says_so(log: Path, url: str, tmp_path: Path) -> None:
    pushed(log, url)
    (tmp_path / "store" / "runs" / "audit.json").write_bytes(b'{"format":2}')

    with pytest.raises(LogUnsupported, match="format 2"):
        manifest_in(ObjectStore(url), log.name)


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("none.jsonl", LogMissing),
        ("../audit.jsonl", LogNameRefused),
        ("a/b.jsonl", LogNameRefused),
        (".hidden.jsonl", LogNameRefused),
        ("line\nbreak.jsonl", LogNameRefused),
    ],
)
def test_a_run_that_is_not_there(
    name: str, refusal: type[RefoldError], log: Path, url: str
) -> None:
    """Or that can be in no store."""
    pushed(log, url)

    with pytest.raises(refusal):
        manifest_in(ObjectStore(url), name)


@pytest.mark.parametrize("head", [b"g" * 64, b"\xff" * 64, b"0" * 63])
def test_what_is_kept_as_head_and_is_none_is_damage(
    head: bytes, log: Path, url: str, tmp_path: Path
) -> None:
    pushed(log, url, heads=url)
    assert list(runs_in(ObjectStore(url), HEADS)) == ["audit.jsonl"]
    (tmp_path / "store" / "heads" / "audit.json").write_bytes(b'{"head":"%b"}' % head)

    with pytest.raises(StoreDamaged, match="a head"):
        head_in(ObjectStore(url), log.name)
    with pytest.raises(LogMissing, match="its head was not stored"):
        head_in(ObjectStore(url), "other.jsonl")
