"""The log of a watched command: named as such, sealed, without secrets (§16.2, §16.8)."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.engine.errors import LogExists, LogPoisoned
from refold.engine.events.events import ModelAsked, NoteAdded
from refold.engine.log.reader import read_entries
from refold.engine.observed.journal import ObservedLog
from refold.engine.secrets.redaction import Redaction
from refold.engine.secrets.vault import Vault


def _log(path: Path, vault: Vault | None = None) -> ObservedLog:
    given = {"command": ["python", "agent.py"]}
    return ObservedLog(path, program="agent.py", input=given, vault=vault or Vault())


def test_the_first_entry_names_the_guarantee(tmp_path: Path) -> None:
    """Who reads the log knows what a replay of it is worth."""
    with _log(tmp_path / "a.jsonl") as log:
        log.seal("completed", "done", {"exit_code": 0})

    first = next(read_entries(log.path)).data

    assert first["guarantee"] == "matched"
    assert first["input"] == {"command": ["python", "agent.py"]}


def test_a_sealed_log_verifies(tmp_path: Path) -> None:
    """Intact and complete, with its digests; what has no answer is in doubt."""
    with _log(tmp_path / "a.jsonl") as log:
        asked = log.append(ModelAsked("m", "", 0, [], {"api": "chat"}), "0/1#1")
        log.append(NoteAdded("hello"), cause=asked)
        log.seal("failed", "error", {"exit_code": 1})

    verification = refold.verify(log.path)

    assert (verification.intact, verification.complete) == (True, True)
    assert [entry.data for entry in read_entries(log.path)][-1]["in_doubt"] == ["0/1#1"]
    assert refold.state(log.path).status == "failed"


def test_a_log_without_an_end_is_intact(tmp_path: Path) -> None:
    """As far as the command came."""
    with _log(tmp_path / "a.jsonl") as log:
        log.append(NoteAdded("hello"))

    verification = refold.verify(log.path)

    assert (verification.intact, verification.complete) == (True, False)


def test_no_secret_is_written(tmp_path: Path) -> None:
    """Neither in the first entry nor in the last, nor between; also of one met on the way."""
    vault = Vault(Redaction(secrets=["hunter2hunter2"]))
    given = {"command": ["agent", "--password=hunter2hunter2"]}
    with ObservedLog(tmp_path / "a.jsonl", program="agent", input=given, vault=vault) as log:
        log.append(NoteAdded("it is hunter2hunter2"))
        vault.learn("authorization", "sk-abcdefgh")
        log.append(NoteAdded("and sk-abcdefgh"))
        log.seal("completed", "done", {"stdout": "hunter2hunter2 sk-abcdefgh"})

    text = log.path.read_text()

    assert "hunter2" not in text
    assert "sk-abcdefgh" not in text
    assert "[redacted:authorization]" in text
    assert refold.verify(log.path).intact


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    """Whatever stands in it."""
    (tmp_path / "a.jsonl").write_text("mine")

    with pytest.raises(LogExists):
        _log(tmp_path / "a.jsonl")


class _Elsewhere:
    """Syncs when it is told to, as a thread that takes its time."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[None]] = []

    async def __call__(self, sync: Callable[[], None]) -> None:
        """Wait to be told, and sync."""
        told = asyncio.get_running_loop().create_future()
        self.asked.append(told)
        await told
        sync()


async def _steps() -> None:
    for _ in range(9):
        await asyncio.sleep(0)


@given(st.lists(st.sampled_from(["append", "wait", "leave", "disk"]), max_size=30))
def test_who_waits_for_the_disk_goes_on_when_its_entries_are_on_it(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """Not before; one sync is under way at a time, and those who leave take it from nobody."""
    path = tmp_path_factory.mktemp("logs") / "a.jsonl"

    async def walk() -> None:
        elsewhere, synced = _Elsewhere(), 0
        waiting: list[tuple[asyncio.Task[None], int]] = []
        asked_at: list[int] = []
        with _log(path) as log:
            for step in [*steps, *["disk"] * 3]:
                if step == "append":
                    log.append(NoteAdded("hello"))
                elif step == "wait":
                    waiting.append((asyncio.create_task(log.synced(elsewhere)), log.entries))
                elif step == "leave" and waiting:
                    waiting.pop()[0].cancel()
                elif step == "disk" and len(asked_at) > synced:
                    elsewhere.asked[synced].set_result(None)
                    synced += 1
                await _steps()
                asked_at += [log.entries] * (len(elsewhere.asked) - len(asked_at))
                assert len(elsewhere.asked) - synced <= 1
                on_disk = max([1, *asked_at[:synced]])
                assert [task.done() for task, _ in waiting] == [at <= on_disk for _, at in waiting]
            for task, _ in waiting:
                await task

    asyncio.run(walk())


def test_a_sync_that_fails_fails_all_who_wait_for_it(tmp_path: Path) -> None:
    """And nothing is written any more."""

    async def fails(_sync: Callable[[], None]) -> None:
        await asyncio.sleep(0)
        raise OSError(errno.EIO, "Input/output error")

    async def walk(log: ObservedLog) -> list[BaseException | None]:
        log.append(NoteAdded("hello"))
        return await asyncio.gather(*[log.synced(fails) for _ in range(3)], return_exceptions=True)

    with _log(tmp_path / "a.jsonl") as log:
        assert [type(each) for each in asyncio.run(walk(log))] == [LogPoisoned] * 3
        with pytest.raises(LogPoisoned):
            log.append(NoteAdded("more"))
        with pytest.raises(LogPoisoned):
            log.sync()

    assert refold.verify(log.path).intact
