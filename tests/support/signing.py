"""Keys and files of allowed signers, made for a test."""

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

KINDS = ("ed25519", "rsa", "nistp256", "nistp384", "nistp521")


def _private(kind: str) -> Any:
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    curves: dict[str, Any] = {
        "nistp256": ec.SECP256R1(),
        "nistp384": ec.SECP384R1(),
        "nistp521": ec.SECP521R1(),
    }
    return ec.generate_private_key(curves[kind])


def new_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Write a new private key to `path`, and its public key to `<path>.pub`."""
    private = _private(kind)
    how = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, how))
    path.chmod(0o600)
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_name(f"{path.name}.pub").write_bytes(public + b"\n")
    return path


def allowed(path: Path, *signers: tuple[str, Path], options: str = "") -> Path:
    """Write a file of allowed signers: names and the keys that `new_key` made."""
    lines = [
        " ".join(filter(None, [name, options, key.with_name(f"{key.name}.pub").read_text()]))
        for name, key in signers
    ]
    path.write_text("".join(lines))
    return path
