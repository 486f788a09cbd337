"""OpenSSH signatures of texts (PROTOCOL.sshsig): their wire format, and whether a key made one.

Ed25519, ECDSA and RSA keys; `cryptography` does the arithmetic and is imported on first use.
Rules: CONTRACT.md §5.5.
"""

import base64
import binascii
import hashlib
import re
from importlib import import_module
from typing import Any, Final

import attrs

from refold.engine.errors import ExtraMissing

NAMESPACE: Final = "refold"
"""The SSHSIG namespace: a signature made for another purpose is not one of a log."""
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_MAGIC: Final = b"SSHSIG"
_VERSION: Final = 1
_HASHES: Final = ("sha512", "sha256")
CURVES: Final = {
    "ecdsa-sha2-nistp256": 256,
    "ecdsa-sha2-nistp384": 384,
    "ecdsa-sha2-nistp521": 512,
}
"""Key types of ECDSA, each with the bits of the hash that it signs."""
_RSA_HASHES: Final = {"rsa-sha2-512": 512, "rsa-sha2-256": 256}
IS_KEY: Final = re.compile(r"(ssh|ecdsa|sk)-[\w@.-]+\Z")
"""The names of key types."""
SIZE_MAX: Final = 64 * 1024
"""Bytes of a key's file or of a signature; real ones have at most 4 KiB."""


@attrs.frozen
class Signature:
    """The content of an armored signature."""

    key: bytes
    """The public key, in OpenSSH's wire format."""
    hash_name: str
    raw: bytes
    """The algorithm and the signature itself."""


def fingerprint(key: bytes) -> str:
    """Return a public key's fingerprint, as `ssh-keygen -l` prints it: `SHA256:…`."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


# --- the wire format ---------------------------------------------------------------------


def _string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def mpint(number: int) -> bytes:
    """Return a number of at least 0 in SSH's wire format."""
    return _string(number.to_bytes(number.bit_length() // 8 + 1, "big"))


class Fields:
    """Reads strings of SSH's wire format one after the other."""

    def __init__(self, content: bytes) -> None:
        self.rest = content

    def number(self) -> int:
        """Return the next number of 32 bits.

        Raises:
            ValueError: nothing follows.
        """
        return int.from_bytes(self._next(4), "big")

    def string(self) -> bytes:
        """Return the next string.

        Raises:
            ValueError: it is cut short.
        """
        return self._next(self.number())

    def _next(self, size: int) -> bytes:
        if len(self.rest) < size:
            raise ValueError("cut short")
        content, self.rest = self.rest[:size], self.rest[size:]
        return content


def body(content: bytes, magic: bytes) -> Fields:
    """Return the fields after the magic bytes."""
    if not content.startswith(magic):
        raise ValueError(f"not {magic.rstrip(bytes(1)).decode()}")
    return Fields(content.removeprefix(magic))


def signed_bytes(message: bytes, hash_name: str) -> bytes:
    """Return the bytes that are signed for a message."""
    hashed = hashlib.new(hash_name, message).digest()
    return _MAGIC + b"".join(
        _string(each) for each in (NAMESPACE.encode(), b"", hash_name.encode(), hashed)
    )


def armored(public: bytes, algorithm: bytes, raw: bytes) -> str:
    """Return a signature of `signed_bytes(message, "sha512")` as text."""
    fields = public, NAMESPACE.encode(), b"", b"sha512", _string(algorithm) + _string(raw)
    content = _MAGIC + _VERSION.to_bytes(4, "big") + b"".join(map(_string, fields))
    text = base64.b64encode(content).decode()
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return "\n".join([_BEGIN, *lines, _END, ""])


# --- checking ----------------------------------------------------------------------------


def read_signature(text: str) -> Signature:
    """Return the content of an armored signature; text after it is ignored.

    Raises:
        ValueError: it is not a signature, or was made for a different purpose.
    """
    begin, _, rest = text.partition("\n")
    armored, end, _ = rest.partition(_END)
    if begin.strip() != _BEGIN or not end or len(armored) > SIZE_MAX:
        raise ValueError("not an OpenSSH signature")
    try:
        content = base64.b64decode("".join(armored.split()), validate=True)
        fields = body(content, _MAGIC)
        version, key, namespace, _, hash_name, raw = (
            fields.number(), *(fields.string() for _ in range(5)),
        )  # fmt: skip
    except (ValueError, binascii.Error):
        raise ValueError("a damaged OpenSSH signature") from None
    if version != _VERSION or hash_name.decode("latin-1") not in _HASHES or fields.rest:
        raise ValueError("an OpenSSH signature in an unknown format")
    if namespace != NAMESPACE.encode():
        found = namespace.decode("latin-1")
        raise ValueError(f"a signature for {found!a:.40}, not for {NAMESPACE!r}")
    return Signature(key, hash_name.decode(), raw)


def is_signed(signature: Signature, message: bytes) -> bool:
    """Return whether the signature's own key signed the message.

    Raises:
        ExtraMissing: `cryptography` is not installed.
    """
    exceptions = cryptography("exceptions")
    load = cryptography("hazmat.primitives.serialization").load_ssh_public_key
    try:
        kind = Fields(signature.key).string().decode("latin-1")
        key = load(kind.encode() + b" " + base64.b64encode(signature.key))
        fields = Fields(signature.raw)
        algorithm, raw = fields.string().decode("latin-1"), fields.string()
        signed = signed_bytes(message, signature.hash_name)
        if kind == algorithm == "ssh-ed25519":
            key.verify(raw, signed)
        elif kind == "ssh-rsa" and algorithm in _RSA_HASHES:
            key.verify(raw, signed, *rsa(_RSA_HASHES[algorithm]))
        elif kind in CURVES and kind == algorithm:
            numbers = Fields(raw)
            pair = [int.from_bytes(numbers.string(), "big") for _ in "rs"]
            encode = cryptography("hazmat.primitives.asymmetric.utils").encode_dss_signature
            key.verify(encode(*pair), signed, ecdsa(CURVES[kind]))
        else:
            return False
    except (exceptions.InvalidSignature, exceptions.UnsupportedAlgorithm, ValueError):
        return False
    return True


# --- cryptography ------------------------------------------------------------------------


def rsa(bits: int) -> tuple[Any, Any]:
    """Return the padding and the hash of an RSA signature."""
    padding = cryptography("hazmat.primitives.asymmetric.padding")
    return padding.PKCS1v15(), _hash(bits)


def ecdsa(bits: int) -> Any:
    """Return the algorithm of an ECDSA signature."""
    return cryptography("hazmat.primitives.asymmetric.ec").ECDSA(_hash(bits))


def _hash(bits: int) -> Any:
    return getattr(cryptography("hazmat.primitives.hashes"), f"SHA{bits}")()


def cryptography(name: str) -> Any:
    """Return a module of `cryptography`.

    Raises:
        ExtraMissing: it is not installed.
    """
    try:
        return import_module(f"cryptography.{name}")
    except ImportError:
        raise ExtraMissing("cryptography", "sign") from None
