"""Keys and files of allowed signers, made for a test by ssh-keygen."""

import subprocess
from pathlib import Path

KINDS = ("ed25519", "rsa", "ecdsa")


def new_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Write a new private key to `path`, and its public key to `<path>.pub`."""
    words = ("-q", "-t", kind, "-N", passphrase, "-C", "", "-f", path)
    subprocess.run(["ssh-keygen", *map(str, words)], check=True, capture_output=True)
    return path


def allowed(path: Path, *signers: tuple[str, Path], options: str = "") -> Path:
    """Write a file of allowed signers: names and the keys that `new_key` made."""
    lines = [
        " ".join(filter(None, [name, options, key.with_name(f"{key.name}.pub").read_text()]))
        for name, key in signers
    ]
    path.write_text("".join(lines))
    return path
