"""Files of allowed signers, as ssh-keygen(1) describes them.  Rules: CONTRACT.md §5.5."""

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import SignersRefused
from refold.engine.plain_files import plain_file
from refold.engine.signing.sshsig import IS_KEY, NAMESPACE, Fields

_OPTION: Final = re.compile(r'([a-z-]+)(?:="([^"]*)")?(?:,|\Z)')
_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*")+')
_DATE: Final = re.compile(r"(\d{8})(\d{4}(?:\d\d)?)?(Z?)\Z")


@attrs.frozen
class AllowedSigner:
    """A line of a file of allowed signers."""

    names: str
    """Its principals."""
    key: bytes
    after: datetime | None = None
    """The key is valid from here on; `None`: always."""
    before: datetime | None = None

    def is_valid_at(self, time: datetime) -> bool:
        """Return whether the key was valid then."""
        is_late_enough = self.after is None or time >= self.after
        return is_late_enough and (self.before is None or time <= self.before)

    @property
    def dates(self) -> str:
        """When the key is valid, in words."""
        said = [("from", self.after), ("until", self.before)]
        return " ".join(f"{word} {time:%Y-%m-%d %H:%M} UTC" for word, time in said if time)


def read_signers(path: Path) -> tuple[AllowedSigner, ...]:
    """Return the allowed signers of a file, without those for other namespaces.

    Lines of certificate authorities are passed over: a log is signed by a key, never by a
    certificate.

    Raises:
        SignersRefused: the file cannot be read, or a line of it is not one.
    """
    try:
        lines = plain_file(path).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "not UTF-8"
        raise SignersRefused(str(path), 0, "a file of allowed signers", said) from None
    return tuple(_signers(path, lines))


def _signers(path: Path, lines: list[str]) -> Iterator[AllowedSigner]:
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            if (signer := _signer(line)) is not None:
                yield signer
        except (ValueError, binascii.Error) as error:
            expected = 'NAME [namespaces="refold",valid-before="20271231"] KEYTYPE KEY'
            raise SignersRefused(str(path), number, expected, str(error)) from None


def _signer(line: str) -> AllowedSigner | None:
    """Return the signer of a line; `None` if its key is not for logs."""
    words = _WORD.findall(line)
    if IS_KEY.match(words[0]):
        raise ValueError("a key without the signer's name before it")
    names, options = words[0].strip('"'), ""
    if len(words) > 1 and not IS_KEY.match(words[1]):
        options = words.pop(1)
    if not words[2:]:
        raise ValueError("a line without a key")
    given = _options(options)
    if "cert-authority" in given or NAMESPACE not in _listed(given.get("namespaces", NAMESPACE)):
        return None
    key = base64.b64decode(words[2], validate=True)
    if Fields(key).string() != words[1].encode():
        raise ValueError("the key is not of the type that the line names")
    return AllowedSigner(
        names, key, _time(given.get("valid-after")), _time(given.get("valid-before"))
    )


def _listed(names: str) -> list[str]:
    return [each.strip() for each in names.split(",")]


def _options(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    while text:
        found = _OPTION.match(text)
        if found is None or found[1] not in (
            "cert-authority", "namespaces", "valid-after", "valid-before",
        ):  # fmt: skip
            raise ValueError(f"unknown option {text!a:.40}")
        given[found[1]] = found[2] or ""
        text = text[found.end() :]
    return given


def _time(text: str | None) -> datetime | None:
    """Return a moment as ssh-keygen reads it: in local time, or with a `Z` in UTC."""
    if text is None:
        return None
    found = _DATE.match(text)
    if found is None:
        raise ValueError(
            f"not a date: {text!a:.40}; write YYYYMMDD or YYYYMMDDHHMM[SS], with Z for UTC"
        )
    day, clock, zone = found[1], found[2] or "", found[3]
    time = datetime.strptime(day + clock.ljust(6, "0"), "%Y%m%d%H%M%S")  # noqa: DTZ007 - below
    return time.replace(tzinfo=UTC) if zone else time.astimezone(UTC)
