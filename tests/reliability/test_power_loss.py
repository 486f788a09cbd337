"""Power that fails (CONTRACT.md §4.4, §4.5): what was synced is there, byte for byte.

A disk on which only synced bytes are sure: of the rest, each sector of 512 bytes may have been
written or not, and the file may end anywhere between.  Images are drawn with a seed that a failure
shows; each is read as a log.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from refold.engine.errors import LogDamaged
from refold.engine.events.events import NoteAdded, ToolCalled, ToolReturned
from refold.engine.log.reader import scan
from refold.engine.log.salvaging import prefix_of
from refold.engine.log.writer import LogWriter, SystemDisk
from refold.engine.ports.ports import Durability
from tests.support.started import STARTED

SECTOR = 512


class Notebook(SystemDisk):
    """A disk that notes, after each write, how many bytes there are and how many are synced."""

    def __init__(self) -> None:
        self.size = 0
        self.synced = 0
        self.moments: list[tuple[int, int]] = []

    def write(self, descriptor: int, content: bytes, /) -> int:
        taken = SystemDisk.write(descriptor, content)
        self.size += taken
        self.moments.append((self.size, self.synced))
        return taken

    def sync(self, descriptor: int, /) -> None:
        SystemDisk.sync(descriptor)
        self.synced = self.size


@attrs.frozen
class Written:
    """A log as it was written, and every moment at which the power may have failed."""

    content: bytes
    ends: list[int]
    """Where each entry ends."""
    moments: list[tuple[int, int]]

    def whole(self, size: int) -> int:
        """Return how many entries lie in the first `size` bytes."""
        return sum(1 for end in self.ends if end <= size)


def _written(folder: Path, durability: Durability) -> Written:
    """Write entries of 0.3 to 3 kB, with a barrier now and then."""
    disk, path, draw = Notebook(), folder / f"{durability}.jsonl", random.Random(0)
    with LogWriter.create(path, STARTED, durability=durability, disk=disk) as log:
        for turn in range(20):
            log.append(ToolCalled("t", {"text": "a" * draw.randrange(3_000)}, "reads"), f"0#{turn}")
            if turn % 7 == 0:
                log.barrier()
            log.append(ToolReturned("ok", "b" * draw.randrange(900)), f"0#{turn}")
            log.append(NoteAdded("n" * draw.randrange(100)), f"0/1#{turn}")
    content = path.read_bytes()
    ends, at = [], 0
    for line in content.splitlines(keepends=True):
        at += len(line)
        ends.append(at)
    return Written(content, ends, disk.moments)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[Durability, Written]:
    folder = tmp_path_factory.mktemp("power")
    return {mode: _written(folder, mode) for mode in ("group", "strict")}


def _image(log: Written, draw: random.Random) -> tuple[bytes, int]:
    """Return what a disk may hold after the power failed, and how much of it was synced."""
    size, synced = draw.choice(log.moments)
    end = draw.choice([size, synced, draw.randint(synced, size)])
    image = bytearray(log.content[:end])
    loss = draw.choice([0.0, 0.1, 0.5, 1.0])
    at = synced
    while at < end:
        after = min(end, (at // SECTOR + 1) * SECTOR)
        if draw.random() < loss:
            image[at:after] = bytes(after - at)
        at = after
    return bytes(image), synced


def _images(log: Written, count: int, seed: int) -> Iterator[tuple[int, bytes, int]]:
    for number in range(count):
        yield number, *_image(log, random.Random(f"{seed}/{number}"))


def _check(log: Written, folder: Path, mode: Durability, count: int, seed: int) -> None:
    path = folder / "image.jsonl"
    for number, image, synced in _images(log, count, seed):
        path.write_bytes(image)
        found = scan(path)

        where = (mode, seed, number)
        assert found.entries >= log.whole(synced), where
        assert image[: found.offset] == log.content[: found.offset], where
        assert (found.torn or found.damage) is not None or found.offset == len(image), where
        if mode == "strict":
            assert found.damage is None, where  # at most one entry is not synced


@pytest.mark.parametrize("mode", ["group", "strict"])
def test_no_synced_entry_is_lost(
    written: dict[Durability, Written], tmp_path: Path, mode: Durability
) -> None:
    """600 images: what was synced is read, and nothing is read that was not written."""
    _check(written[mode], tmp_path, mode, 300, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["group", "strict"])
def test_no_synced_entry_is_lost_in_many_more(
    written: dict[Durability, Written], tmp_path: Path, mode: Durability
) -> None:
    """20,000 images, of another seed."""
    _check(written[mode], tmp_path, mode, 10_000, seed=2)


@pytest.mark.parametrize("mode", ["group", "strict"])
def test_the_writer_goes_on_where_the_disk_stopped(
    written: dict[Durability, Written], tmp_path: Path, mode: Durability
) -> None:
    """What was torn is cut off and kept; a hole with sound lines behind it is left to a salvage."""
    log = written[mode]
    for number, image, synced in _images(log, 150, seed=3):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(image)
        kept = log.whole(synced)
        try:
            resumed = LogWriter.resume(path, durability="fast")
        except LogDamaged:
            assert mode == "group" or not kept  # without one whole entry there is no run to go on
            assert prefix_of(path).entries >= kept
            continue
        with resumed.writer as writer:
            writer.append(NoteAdded("after"))

        assert scan(path).entries > kept
        if resumed.cut is not None:
            assert resumed.cut.kept.read_bytes() == image[resumed.cut.offset :]
