"""A log's signature: a file beside it by which a key vouches for its run, length and head.

`audit.jsonl.sig` is an OpenSSH signature, followed by the line that is signed, so that anyone with
`ssh-keygen` can check it.  A head covers all lines above it and, through the heads of children that
parents hold, the logs below.  `ssh-keygen -Y` (PROTOCOL.sshsig) makes and judges it; keys may be
encrypted, in an agent, or hardware.  Rules: CONTRACT.md §5.5.
"""

import base64
import binascii
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import KeyRefused, LogMissing, OutputRefused, ProgramMissing
from refold.engine.log.descriptors import placed
from refold.engine.log.line import is_hash
from refold.engine.log.names import signature_of
from refold.engine.log.reader import open_log, read_entries
from refold.engine.plain_files import plain_file

NAMESPACE: Final = "refold"
"""The SSHSIG namespace: a signature made for another purpose is not one of a log."""
SIZE_MAX: Final = 64 * 1024
"""Bytes of a signature; real ones have at most 4 KiB."""
_SIGNERS_MAX: Final = 16 * 1024 * 1024
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----\n"
_END: Final = "-----END SSH SIGNATURE-----\n"
_KEY_AT: Final = 10
"""The place of the public key in a signature: behind `SSHSIG` and its version."""
_LINE: Final = re.compile(r'\s*((?:[^\s"]|"[^"]*")+)\s+(.*?\b(?:ssh|ecdsa|sk)-[\w@.-]+\s+(\S+).*)')
"""A line of allowed signers: the names, all behind them, and the key in base64."""
_EXPECTED: Final = 'NAME [namespaces="refold",valid-before="20271231"] KEYTYPE KEY'
_FINGERPRINT: Final = re.compile(r"SHA256:\S+")
_KEY: Final = "an OpenSSH key, such as one from `ssh-keygen -t ed25519`"
_SECONDS_MAX: Final = 60
_NEEDED: Final = "OpenSSH 8.2 or newer signs logs and checks signatures"


@attrs.frozen
class Signer:
    """An allowed signer whose key made a signature."""

    names: str
    """The principals, as the file has them."""
    refused: str = ""
    """Why the key does not count, in OpenSSH's words; empty if it does."""
    is_dated: bool = False
    """Whether the file limits when the key is valid."""


class SigningKey:
    """A key that signs: a private key, or a public one whose private key an agent has."""

    def __init__(self, path: Path) -> None:
        """Find the key; without a terminal, sign a trial text, so that a bad key is found now.

        Raises:
            KeyRefused: the file is missing, or holds no key that can sign here.
            ProgramMissing: `ssh-keygen` is missing or too old.
        """
        self._path = path
        try:
            place = plain_file(path)
        except OSError as error:
            raise KeyRefused(str(path), _KEY, error.strerror or str(error)) from None
        done = _asked("-l", "-f", str(place))
        found = _FINGERPRINT.search(done.stdout.decode(errors="replace"))
        if done.returncode or found is None:
            raise KeyRefused(str(path), _KEY, _why(done))
        self.fingerprint = found[0]
        """As `ssh-keygen -l` prints it."""
        if not _has_terminal():
            self.sign(b"")

    def sign(self, message: bytes) -> str:
        """Return the armored signature of a message; OpenSSH asks for a passphrase if needed.

        Raises:
            KeyRefused: the key does not sign.
        """
        words = ("-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(self._path))
        done = _asked(*words, given=message, seconds=None)
        if done.returncode:
            raise KeyRefused(str(self._path), "a key that signs", _why(done))
        return done.stdout.decode()


def armor_in(text: str) -> str:
    """Return the armored signature at the beginning of a text.

    Raises:
        ValueError: the text does not begin with one.
    """
    if not text.startswith(_BEGIN) or _END not in text or len(text) > SIZE_MAX:
        raise ValueError("not an OpenSSH signature")
    return text[: text.index(_END) + len(_END)]


def fingerprint_of(message: bytes, armor: str) -> str:
    """Return the fingerprint of the key that signed a message.

    Raises:
        ProgramMissing: `ssh-keygen` is missing or too old.
        ValueError: it is not a signature of this message.
    """
    with _placed(armor) as place:
        done = _asked("-Y", "check-novalidate", "-n", NAMESPACE, "-s", place, given=message)
    found = _FINGERPRINT.search(done.stdout.decode(errors="replace"))
    if done.returncode or found is None:
        raise ValueError(f"a signature that does not match the line below it: {_why(done)}")
    return found[0]


def signer_of(message: bytes, armor: str, trust: Path, at: datetime | None) -> Signer | None:
    """Return the allowed signer who signed a message; `None`: nobody in the file did.

    `at` is the time at which the key has to be valid; `None`: unknown, then a key with dates is
    refused.

    Raises:
        ProgramMissing: `ssh-keygen` is missing or too old.
        KeyRefused: the file cannot be read, or a line of it has no key.
    """
    key, refused = _key_in(armor), None
    with _placed(armor) as signature:
        for number, (names, rest, held) in lines_of(trust):
            if held != key:
                continue
            is_dated = "valid-" in rest.partition(" ")[0]
            when = [f"-Overify-time={at.astimezone():%Y%m%d%H%M%S}"] if at and is_dated else []
            with _placed(f"{NAMESPACE} {rest}\n") as line:
                words = ("verify", "-n", NAMESPACE, "-I", NAMESPACE, "-f", line, "-s", signature)
                done = _asked("-Y", *words, *when, given=message)
            why = _why(done)
            if "bad options" in why:
                raise KeyRefused(str(trust), _EXPECTED, why, number)
            if is_dated and at is None:
                why = "its dates are limited, and the time of the run is unknown"
            elif not done.returncode:
                return Signer(names, is_dated=is_dated)
            elif not re.search("expired|not yet valid", why):
                continue  # for another purpose, or of an authority
            refused = refused or Signer(names, why, is_dated)
    return refused


def lines_of(trust: Path) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """Yield the number, and names, rest and key, of each line of a file of allowed signers.

    Raises:
        KeyRefused: the file cannot be read, or a line of it has no key.
    """
    try:
        with plain_file(trust).open("rb") as file:
            lines = file.read(_SIGNERS_MAX).decode("utf-8").splitlines()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "not UTF-8"
        raise KeyRefused(str(trust), "a file of allowed signers", said) from None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (found := _LINE.fullmatch(line)) is None:
            raise KeyRefused(str(trust), _EXPECTED, "no name, or no key behind it", number)
        yield number, (found[1].strip('"'), found[2], found[3])


def _key_in(armor: str) -> str:
    """Return the public key of a signature, in base64, as files of allowed signers have it."""
    try:
        content = base64.b64decode(armor[len(_BEGIN) : -len(_END)])
    except binascii.Error:
        return ""
    size = int.from_bytes(content[_KEY_AT : _KEY_AT + 4], "big")
    return base64.b64encode(content[_KEY_AT + 4 : _KEY_AT + 4 + size]).decode()


@contextmanager
def _placed(text: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".refold") as file:
        file.write(text)
        file.flush()
        yield file.name


def _asked(
    *words: str, given: bytes = b"", seconds: float | None = _SECONDS_MAX
) -> "subprocess.CompletedProcess[bytes]":
    """Run ssh-keygen in this language of errors."""
    command, variables = ["ssh-keygen", *words], {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, input=given, env=variables, capture_output=True, check=False, timeout=seconds
        )
    except OSError as error:
        raise ProgramMissing("ssh-keygen", _NEEDED, error.strerror or str(error)) from None
    except subprocess.TimeoutExpired:
        raise ProgramMissing("ssh-keygen", _NEEDED, f"no answer in {seconds} s") from None
    if done.returncode and re.search(rb"(?:unknown|illegal|invalid) option", done.stderr):
        raise ProgramMissing("ssh-keygen", _NEEDED, _why(done))
    return done


def _why(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Return the first reason that ssh-keygen gives, without the name of a temporary file."""
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    said = [line for line in lines if not line.startswith("@")]  # a box of letters
    reason = re.sub(r"^(?:\S*\.refold(?::\d+)?|Enter passphrase): ", "", said[0]) if said else ""
    return reason or f"ssh-keygen exited with {done.returncode}"


def _has_terminal() -> bool:
    """Return whether ssh-keygen can ask somebody for a passphrase."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except (OSError, AttributeError):
        return False
    return True


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
