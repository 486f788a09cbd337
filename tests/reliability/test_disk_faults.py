"""A disk that fails at any call (CONTRACT.md §4.4): what stays is what was acknowledged.

One scripted run, and each call that its writer makes of the disk fails in turn: once or from then
on, with an error, with a part written, or by death of the process in the middle of it.
"""

import errno
from pathlib import Path
from typing import Final

import attrs
import pytest

from refold.engine.errors import LogPoisoned
from refold.engine.events.events import NoteAdded, RunFinished, ToolCalled, ToolReturned
from refold.engine.log.reader import Scan, scan
from refold.engine.log.writer import LogWriter, SystemDisk
from refold.engine.ports.ports import Durability
from tests.support.started import STARTED

ENTRIES: Final = 14
FAULTS: Final = ("ENOSPC", "EIO", "a part", "a part, then ENOSPC", "nothing", "death")


class Death(BaseException):
    """The process ends here: nothing of it runs any more."""


class FailingDisk(SystemDisk):
    """Fails at call number `at`, from 0; with `is_sticky`, at all later ones too."""

    def __init__(self, fault: str, at: int, path: Path, *, is_sticky: bool) -> None:
        self._fault, self._at, self._path, self._is_sticky = fault, at, path, is_sticky
        self.calls = 0
        self.content = b""
        """Of the file at the death of the process."""

    def write(self, descriptor: int, content: bytes, /) -> int:
        if not self._is_due():
            return SystemDisk.write(descriptor, content)
        if self._fault == "nothing":
            return 0
        if "part" in self._fault or self._fault == "death":
            taken = SystemDisk.write(descriptor, content[: max(1, len(content) // 2)])
            if self._fault == "a part":
                return taken
            if self._fault == "death":
                self._die()
        raise self._error()

    def sync(self, descriptor: int, /) -> None:
        if not self._is_due() or self._fault in ("a part", "nothing"):
            SystemDisk.sync(descriptor)
        elif self._fault == "death":
            self._die()
        else:
            raise self._error()

    def _is_due(self) -> bool:
        self.calls += 1
        return self.calls - 1 == self._at or (self._is_sticky and self.calls > self._at)

    def _die(self) -> None:
        self.content = self._path.read_bytes()
        raise Death

    def _error(self) -> OSError:
        code = errno.EIO if self._fault == "EIO" else errno.ENOSPC
        return OSError(code, self._fault)


@attrs.define
class Ended:
    """How far a run came."""

    acknowledged: int = 0
    durable: int = 0
    """Entries that `durable_seq` had told of."""
    error: LogPoisoned | None = None
    is_dead: bool = False


def _run(path: Path, disk: SystemDisk, durability: Durability) -> Ended:
    """Write the scripted run; after a failure, see that nothing is appended any more."""
    ended = Ended()
    try:
        log = LogWriter.create(path, STARTED, durability=durability, disk=disk)
        ended.acknowledged = 1
        try:
            for turn in range(1, 5):
                for event in (
                    ToolCalled("t", {"n": turn}, "changes"),
                    ToolReturned("ok", "r" * turn),
                    NoteAdded("n", turn),
                ):
                    log.append(event, f"0#{turn}")
                    ended.acknowledged += 1
                log.barrier()
                ended.durable = log.durable_seq + 1
            log.append(RunFinished("completed", "done"))
            ended.acknowledged += 1
        except LogPoisoned as error:
            ended.error = error
            with pytest.raises(LogPoisoned):
                log.append(NoteAdded("again"))
        finally:
            log.close()
    except LogPoisoned as error:
        ended.error = error
    except Death:
        ended.is_dead = True
    return ended


def _calls(tmp_path: Path, durability: Durability) -> int:
    path = tmp_path / "counted.jsonl"
    disk = FailingDisk("EIO", -1, path, is_sticky=False)
    assert _run(path, disk, durability).acknowledged == ENTRIES
    assert scan(path).sealed
    return disk.calls


def _check(ended: Ended, found: Scan, where: object) -> None:
    assert found.damage is None, where
    assert found.entries >= ended.acknowledged, where
    assert found.entries <= ended.acknowledged + 1, where  # written, and not synced: not told of
    assert found.entries >= ended.durable, where
    if ended.error is not None:
        assert found.torn is None, where  # a writer that lives takes its half line off
        assert -1 <= ended.error.durable_seq < found.entries, where


@pytest.mark.parametrize("durability", ["fast", "group", "strict"])
@pytest.mark.parametrize("is_sticky", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("fault", FAULTS)
def test_at_every_call_the_acknowledged_entries_stay(
    tmp_path: Path, fault: str, durability: Durability, *, is_sticky: bool
) -> None:
    """Case 55: whichever write or sync fails, and however: no entry lost, halved or made up."""
    for at in range(_calls(tmp_path, durability)):
        path = tmp_path / f"{at}.jsonl"
        disk = FailingDisk(fault, at, path, is_sticky=is_sticky)

        ended = _run(path, disk, durability)

        where = (fault, durability, is_sticky, at)
        if ended.is_dead:
            path.write_bytes(disk.content)  # as the process left it, without what it did dying
        assert ended.is_dead is (fault == "death"), where
        is_told = ended.error is not None
        assert is_told or ended.is_dead or ended.acknowledged == ENTRIES, where
        assert is_told or fault in ("death", "a part", "nothing"), where
        if path.exists():
            _check(ended, scan(path), where)
        else:
            assert ended.acknowledged == 0, where
