"""A log's signature: a file beside it by which a key vouches for its run, length and head.

`audit.jsonl.sig` is an OpenSSH signature, followed by the line that is signed, so that anyone with
`ssh-keygen` can check it.  A head covers all lines above it and, through the heads of children that
parents hold, the logs below.  Rules: CONTRACT.md §5.5.
"""

from pathlib import Path
from typing import Any

import attrs

from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import LogMissing, OutputRefused
from refold.engine.log.descriptors import placed
from refold.engine.log.line import is_hash
from refold.engine.log.names import signature_of
from refold.engine.log.reader import open_log, read_entries
from refold.engine.signing.openssh import SIZE_MAX, SigningKey, armor_in, fingerprint_of


@attrs.frozen
class Statement:
    """The signed statement about a log."""

    run: str
    """The run's id."""
    entries: int
    """How many entries were signed, from the first on."""
    head: str
    """Hash of the last of them."""

    def encoded(self) -> bytes:
        """Return the line that is signed: canonical JSON, and a line feed."""
        return encode(attrs.asdict(self)) + b"\n"


@attrs.frozen
class LogSignature:
    """A valid signature by its own key, and its statement about the log."""

    statement: Statement
    armor: str
    """The signature itself, in OpenSSH's form."""
    fingerprint: str
    """The key's, as `ssh-keygen -l` prints it."""


def sign_log(path: Path, key: SigningKey) -> Statement:
    """Sign all entries of the log at `path`; replace an earlier signature of ours.

    Raises:
        KeyRefused: the key does not sign.
        LogDamaged: the chain does not verify.
        LogMissing: the log does not exist.
        LogUnsupported: it was written by a newer version.
        OutputRefused: a different kind of file has the signature's name.
        OSError: the signature could not be written.
    """
    run, entries, head = "", 0, ""
    for entry in read_entries(path):
        run = run or str(entry.data.get("run_id", ""))
        entries, head = entry.seq + 1, entry.hash
    statement = Statement(run, entries, head)
    place, message = signature_of(path), statement.encoded()
    try:
        armor_in(_text(place))
    except LogMissing:
        pass
    except ValueError:
        raise OutputRefused(
            str(place), "this file is not the signature of a log: remove it"
        ) from None
    with placed(place, replaces=True) as file:
        file.write(key.sign(message).encode() + message)
    return statement


def read_log_signature(path: Path) -> LogSignature | None:
    """Return the signature of the log at `path`, or `None`.

    Raises:
        ProgramMissing: `ssh-keygen` is missing or too old.
        ValueError: the file is not a signature, or its key did not sign its statement.
    """
    try:
        text = _text(signature_of(path))
    except LogMissing:
        return None
    armor, line = armor_in(text), text.splitlines()[-1]
    statement = _statement(line)
    if statement is None or statement.encoded() != f"{line}\n".encode():
        raise ValueError("the line that the signature signs is missing")
    return LogSignature(statement, armor, fingerprint_of(statement.encoded(), armor))


def _text(place: Path) -> str:
    with open_log(place) as file:
        return file.read(SIZE_MAX).decode("latin-1")


def _statement(line: str) -> Statement | None:
    try:
        row: Any = loads(line.encode("latin-1"))
        found = Statement(row["run"], row["entries"], row["head"])
    except (ValueError, KeyError, TypeError):
        return None
    is_run = isinstance(row["run"], str) and is_hash(row["head"])
    return found if is_run and type(row["entries"]) is int and found.entries > 0 else None
