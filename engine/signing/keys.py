"""Private keys that sign, from OpenSSH's files.  Rules: CONTRACT.md §5.5."""

import base64
import binascii
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from refold.engine.errors import ExtraMissing, KeyRefused
from refold.engine.plain_files import plain_file
from refold.engine.signing.sshsig import (
    CURVES,
    IS_KEY,
    SIZE_MAX,
    Fields,
    armored,
    body,
    cryptography,
    ecdsa,
    mpint,
    rsa,
    signed_bytes,
)

_OPENSSH: Final = b"openssh-key-v1\0"
_PRIVATE: Final = re.compile(
    r"-----BEGIN OPENSSH PRIVATE KEY-----\s(.*?)\s-----END OPENSSH PRIVATE KEY-----", re.DOTALL
)
_KEY_TYPES: Final = ("ssh-ed25519", "ssh-rsa", *CURVES)


class SigningKey:
    """A private key from a file."""

    def __init__(self, path: Path, passphrase: Callable[[], str] | None = None) -> None:
        """Read the key; `passphrase` is asked for if it is encrypted.

        Raises:
            ExtraMissing: `cryptography` is not installed.
            KeyRefused: the file is missing, or holds no private key that can sign here.
        """
        serialization = cryptography("hazmat.primitives.serialization")
        content = _key_file(path)
        kind, cipher = _kind_of(path, content)
        if kind not in _KEY_TYPES:
            is_hardware = kind.startswith("sk-")
            why = "hardware keys are not supported" if is_hardware else "this type is not supported"
            raise KeyRefused(str(path), f"one of {', '.join(_KEY_TYPES)}", f"{kind}: {why}")
        secret = None
        if cipher != "none":
            if passphrase is None:
                found = "an encrypted key, and no terminal to ask for its passphrase"
                raise KeyRefused(str(path), "a key without a passphrase", found)
            secret = passphrase().encode()
        try:
            self._private: Any = serialization.load_ssh_private_key(content, secret)
        except (ValueError, TypeError) as error:
            expected = "an undamaged key and the right passphrase" if secret else "a whole key"
            raise KeyRefused(str(path), expected, str(error).splitlines()[0]) from None
        except ImportError:
            raise ExtraMissing("bcrypt", "sign") from None
        formats = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        self._kind = kind
        self.public = base64.b64decode(self._private.public_key().public_bytes(*formats).split()[1])

    def sign(self, message: bytes) -> str:
        """Return an armored signature of a message, with a line feed at its end."""
        return armored(self.public, *self._raw(signed_bytes(message, "sha512")))

    def _raw(self, signed: bytes) -> tuple[bytes, bytes]:
        """Return the algorithm's name and the bytes of its signature."""
        if self._kind == "ssh-ed25519":
            return b"ssh-ed25519", self._private.sign(signed)
        if self._kind == "ssh-rsa":
            return b"rsa-sha2-512", self._private.sign(signed, *rsa(512))
        r, s = cryptography("hazmat.primitives.asymmetric.utils").decode_dss_signature(
            self._private.sign(signed, ecdsa(CURVES[self._kind]))
        )
        return self._kind.encode(), mpint(r) + mpint(s)


def _key_file(path: Path) -> bytes:
    try:
        with plain_file(path).open("rb") as file:
            return file.read(SIZE_MAX)
    except OSError as error:
        raise KeyRefused(str(path), "a private key file", error.strerror or str(error)) from None


def _kind_of(path: Path, content: bytes) -> tuple[str, str]:
    """Return a private key's type and cipher; both are unencrypted in its file."""
    expected = "an OpenSSH private key, such as one from `ssh-keygen -t ed25519`"
    text = content.decode("latin-1")
    if IS_KEY.match(text.split(maxsplit=1)[0] if text.strip() else ""):
        found = "a public key: pass the private key file; keys in an agent are not supported"
        raise KeyRefused(str(path), expected, found)
    armored = _PRIVATE.search(text)
    try:
        fields = body(base64.b64decode(armored[1]) if armored else b"", _OPENSSH)
        cipher, _, _ = (fields.string() for _ in range(3))
        fields.number()  # of keys: one
        public = fields.string()
        return Fields(public).string().decode("latin-1"), cipher.decode("latin-1")
    except (ValueError, binascii.Error) as error:
        raise KeyRefused(str(path), expected, str(error)) from None
