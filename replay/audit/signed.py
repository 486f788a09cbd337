"""Whether a log is authentic: signed, unchanged since, by a key that somebody trusts.

The signature beside a log and a file of allowed signers flow in; yes, no or unknown flows out, with
the reason.  Rules: CONTRACT.md §5.5.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import ProgramMissing
from refold.engine.log.names import signature_of
from refold.engine.log.reader import Entry

if TYPE_CHECKING:
    from refold.engine.signing.signature import LogSignature


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
        """Read the signature; `trust` is the file of allowed signers.

        Raises:
            ProgramMissing: `trust` is given, and `ssh-keygen` is missing or too old.
            KeyRefused: the file of allowed signers cannot be read.
        """
        self._trust = trust
        if trust is not None:
            from refold.engine.signing.signature import lines_of  # noqa: PLC0415 - few ask

            list(lines_of(trust))  # a wrong file is named though nothing is signed
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
        except ProgramMissing as error:
            if is_needed:
                raise
            what = f"signed, but not checked: {error}"
            self._verdict = SignatureReport(authentic=None, what=what)

    def take(self, entry: Entry) -> None:
        """Take the last signed entry."""
        self._last = entry

    def report(self, run: str, entries: int) -> SignatureReport:
        """Return the verdict for a log of this run with so many sound entries."""
        if self._found is None:
            return self._verdict or UNSIGNED
        statement, wrong = self._found.statement, ""
        if statement.run != run:
            wrong = f"the signature belongs to a different run, {statement.run!a:.40}"
        elif self._last is None:
            wrong = (
                f"{statement.entries} entries were signed, but only {entries} of them are "
                "present and intact"
            )
        elif self._last.hash != statement.head:
            wrong = f"entry {self._last.seq} differs from the signed one"
        found = SignatureReport(
            authentic=False if wrong else None,
            what=wrong,
            entries=statement.entries,
            key=self._found.fingerprint,
        )
        return found if wrong else self._judged(found, entries)

    def _judged(self, found: SignatureReport, entries: int) -> SignatureReport:
        """Return the verdict for a log of which the signature is true."""
        is_part = found.entries < entries
        part = f" up to entry {found.entries - 1} of {entries - 1}" if is_part else ""
        if self._trust is None or self._found is None:
            what = f"signed{part} by {found.key}; --trust FILE names the owner of the key"
            return attrs.evolve(found, what=what)
        from refold.engine.signing.signature import signer_of  # noqa: PLC0415 - few ask

        time = _time(self._last)
        message = self._found.statement.encoded()
        signer = signer_of(message, self._found.armor, self._trust, time)
        if signer is None:
            return attrs.evolve(found, what=f"unknown signer {found.key}")
        found = attrs.evolve(found, signer=signer.names)
        ended = f"by its log, the run ended {_shown(time)}"
        if signer.refused:
            what = f"the key of {signer.names} was not valid: {signer.refused}; {ended}"
            return attrs.evolve(found, authentic=False, what=what)
        dated = f", valid then; {ended}" if signer.is_dated else ""
        what = f"signed{part} by {signer.names} ({found.key}{dated})"
        return attrs.evolve(found, authentic=None if part else True, what=what)


def _shown(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC" if time else "at an unknown time"


def _time(entry: Entry | None) -> datetime | None:
    """Return when an entry was written, according to the log; `None` if not recorded."""
    wall_us: Any = entry.meta.get("wall_us") if entry is not None else None
    try:
        return datetime.fromtimestamp(wall_us / 1_000_000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
