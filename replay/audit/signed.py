"""Whether a log is authentic: signed, unchanged since, by a key that somebody trusts.

The signature beside a log and a file of allowed signers flow in; yes, no or unknown flows out, with
the reason.  Rules: CONTRACT.md §5.5.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import ExtraMissing
from refold.engine.log.names import signature_of
from refold.engine.log.reader import Entry

if TYPE_CHECKING:
    from refold.engine.signing.signature import LogSignature
    from refold.engine.signing.signers import AllowedSigner


@attrs.frozen(kw_only=True)
class SignatureReport(Document):
    """The state of a log's signature."""

    authentic: bool | None
    """`None`: unsigned, not signed to its end, or signed by an unknown key."""
    what: str
    """Why, in a few words."""
    entries: int = 0
    """How many entries are signed, from the first on."""
    key: str = ""
    """The key's fingerprint, as `ssh-keygen -l` prints it."""
    signer: str = ""
    """The names of the key in the file of allowed signers."""


UNSIGNED: SignatureReport = SignatureReport(authentic=None, what="not signed")


class SignatureCheck:
    """Judges the signature of one log, as its entries are read."""

    def __init__(self, path: Path, trust: Path | None) -> None:
        """Read the signature and the allowed signers.

        Raises:
            ExtraMissing: `trust` is given, and `cryptography` is not installed.
            SignersRefused: the file of allowed signers cannot be read.
        """
        self._signers: Sequence[AllowedSigner] | None = None
        if trust is not None:
            from refold.engine.signing.signers import read_signers  # noqa: PLC0415 - few ask

            self._signers = read_signers(trust)
        self._found: LogSignature | None = None
        self._verdict: SignatureReport | None = None
        self._last: Entry | None = None
        self.at = 0
        """The number of the last signed entry, from 1; 0 where nothing is signed."""
        if os.path.lexists(signature_of(path)):
            self._read(path, is_needed=trust is not None)

    def _read(self, path: Path, *, is_needed: bool) -> None:
        from refold.engine.signing.signature import read_log_signature  # noqa: PLC0415 - few logs have one

        try:
            self._found = read_log_signature(path)
            self.at = self._found.statement.entries if self._found else 0
        except ValueError as error:
            self._verdict = SignatureReport(authentic=False, what=str(error))
        except ExtraMissing:
            if is_needed:
                raise
            what = "signed, but not checked: cryptography is not installed"
            self._verdict = SignatureReport(authentic=None, what=what)

    def take(self, entry: Entry) -> None:
        """Take the last signed entry."""
        self._last = entry

    def report(self, run: str, entries: int) -> SignatureReport:
        """Return the verdict for a log of this run with so many sound entries."""
        if self._found is None:
            return self._verdict or UNSIGNED
        statement, key = self._found.statement, self._found.fingerprint
        found = SignatureReport(authentic=False, what="", entries=statement.entries, key=key)
        if statement.run != run:
            return attrs.evolve(
                found, what=f"the signature belongs to a different run, {statement.run!a:.40}"
            )
        if self._last is None:
            what = (
                f"{statement.entries} entries were signed, but only {entries} of them are "
                "present and intact"
            )
            return attrs.evolve(found, what=what)
        if self._last.hash != statement.head:
            what = f"entry {self._last.seq} differs from the signed one"
            return attrs.evolve(found, what=what)
        return self._judged(attrs.evolve(found, authentic=None), entries)

    def _judged(self, found: SignatureReport, entries: int) -> SignatureReport:
        """Return the verdict for a log of which the signature is true."""
        part = (
            f" up to entry {found.entries - 1} of {entries - 1}" if found.entries < entries else ""
        )
        if self._signers is None:
            what = f"signed{part} by {found.key}; --trust FILE names the owner of the key"
            return attrs.evolve(found, what=what)
        own = [each for each in self._signers if self._found and each.key == self._found.key]
        if not own:
            return attrs.evolve(found, what=f"unknown signer {found.key}")
        time = _time(self._last)
        signer = next((each for each in own if _is_valid(each, time)), None)
        found = attrs.evolve(found, signer=(signer or own[0]).names)
        ended = f"{time:%Y-%m-%d %H:%M} UTC" if time else "an unknown time"
        if signer is None:
            why = f"the key of {found.signer} is valid {own[0].dates}; by its log, the run ended"
            return attrs.evolve(found, authentic=False, what=f"{why} {ended}")
        dates = f", valid {signer.dates}; by its log, the run ended {ended}" if signer.dates else ""
        what = f"signed{part} by {found.signer} ({found.key}{dates})"
        return attrs.evolve(found, authentic=None if part else True, what=what)


def _is_valid(signer: "AllowedSigner", time: datetime | None) -> bool:
    return signer.is_valid_at(time) if time is not None else not signer.dates


def _time(entry: Entry | None) -> datetime | None:
    """Return when an entry was written, according to the log; `None` if not recorded."""
    wall_us: Any = entry.meta.get("wall_us") if entry is not None else None
    try:
        return datetime.fromtimestamp(wall_us / 1_000_000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
