"""Writes the log of a watched command: one chain, one digest, one seal (CONTRACT.md §16.2).

This module writes files. The observer chooses the entries; `engine.log` handles lines and files.
Secrets are removed from each event before it is written. Calls come from one thread at a time.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.events import codec
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import (
    EffectCancelled,
    ModelAnswered,
    Recorded,
    RunFinished,
    RunStarted,
)
from refold.engine.events.limits import CEILINGS
from refold.engine.events.outcome import Fault, Priced
from refold.engine.log.writer import LogWriter
from refold.engine.recording.bookends import nonce, sealed, versions
from refold.engine.secrets.vault import Vault
from refold.engine.state.folding import Fold


class ObservedLog:
    """The log of one watched command, from `run.started` to `run.finished`."""

    def __init__(
        self,
        path: Path,
        *,
        program: str,
        input: Json,  # noqa: A002 - the word of §1
        vault: Vault,
        rules: Mapping[str, Any] | None = None,
        origin: dict[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        meta: Mapping[str, int | str] | None = None,
    ) -> None:
        """Make the log and write its first line.

        Raises:
            LogExists: there is one; it is never overwritten.
            LogNameRefused: the path cannot be a root's.
            LogPoisoned: the first line could not be written.
        """
        self.path = path
        self.vault = vault
        self._fold = Fold()
        self._digest = DataDigest()
        self._priced = Priced()
        self._syncing: asyncio.Future[None] | None = None
        started = vault.scrubbed(
            attrs.evolve(
                _started(program, input, {**vault.rules(), **(rules or {})}, origin),
                labels=dict(labels or {}) or None,
            )
        )
        self._writer = LogWriter.create(path, started, meta=meta)
        self._took(started, "run.started", None, 0)

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self._writer.head

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self._writer.entries

    def append(self, event: Recorded, call: str | None = None, cause: int | None = None) -> int:
        """Write one entry; return its seq.

        Raises:
            LogPoisoned: it could not be written, now or earlier.
            NotCanonical: the event cannot be held exactly.
        """
        event = self.vault.scrubbed(event)
        seq = self._writer.append(event, call, 0 if cause is None else cause)
        self._took(event, codec.kind_of(event), call, seq)
        return seq

    def _took(self, event: Recorded, kind: str, call: str | None, seq: int) -> None:
        self._digest.add(kind, call, self._writer.last_data)
        self._fold.apply(event, call, seq)
        if isinstance(event, ModelAnswered):
            self._priced = self._priced.plus(Priced.of(event.usage, event.message))
        elif isinstance(event, EffectCancelled) and event.kind == "model":
            self._priced = self._priced.plus(Priced(unpriced=1))

    def sync(self) -> None:
        """Return when all entries are on disk, as the durability mode promises."""
        self._writer.barrier()

    async def synced(self, run: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """Return when all entries so far are on disk, as `sync`; those that wait share one sync.

        `run` calls a function on another thread. Entries may be appended meanwhile.
        """
        seq = self.entries - 1
        while self._syncing is not None and self._writer.durable_seq < seq:
            await asyncio.wait((self._syncing,))
        if self._writer.durable_seq < seq:
            self._syncing = asyncio.ensure_future(self._synced(run))
            await asyncio.shield(self._syncing)  # who is cancelled leaves it to the others

    async def _synced(self, run: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        try:
            with self._writer.syncing() as sync:
                await run(sync)
        finally:
            self._syncing = None

    def seal(
        self, status: str, reason: str, output: Json = None, error: Fault | None = None
    ) -> None:
        """Write `run.finished` and close the log; unanswered calls are in doubt."""
        open_calls = sorted(self._fold.open.items(), key=lambda item: item[1][2])
        in_doubt = [call for call, _ in open_calls]
        finished = self.vault.scrubbed(RunFinished(status, reason, output, error, in_doubt))
        entries = self._writer.entries
        finished = sealed(finished, entries=entries, digest=self._digest, fold=self._fold)
        known = {f"priced_{name}": value for name, value in attrs.asdict(self._priced).items()}
        self._writer.append(finished, meta=known if self._priced.unpriced else None)
        self._writer.close()

    def discard(self) -> None:
        """Remove the log: nothing happened."""
        self._writer.discard()

    def close(self) -> None:
        """Let go of the log without an end."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _started(
    program: str, given: Json, rules: dict[str, Any], origin: dict[str, Any] | None
) -> RunStarted:
    seed = os.urandom(16).hex()
    run_id = digest.of_bytes(digest.IDENTITY, f"{seed}\0{program}".encode())[:16]
    return RunStarted(
        program=program,
        input=given,
        depth=0,
        limits=CEILINGS.as_json(),
        seed=seed,
        tools=[],
        versions=versions(),
        fingerprint={},
        rules=rules,
        path="",
        guarantee="matched",
        run_id=run_id,
        root_id=run_id,
        nonce=nonce(),
        origin=origin,
    )
