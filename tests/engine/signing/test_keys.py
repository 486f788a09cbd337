"""Keys that sign, and those that cannot (CONTRACT.md §5.5)."""

from pathlib import Path

import pytest

from refold.engine.errors import KeyRefused
from refold.engine.signing.keys import SigningKey
from tests.support.signing import new_key


def test_an_encrypted_key_needs_its_passphrase(tmp_path: Path) -> None:
    key = new_key(tmp_path / "key", passphrase="open sesame")

    assert SigningKey(key, lambda: "open sesame").sign(b"text")
    with pytest.raises(KeyRefused, match="no terminal to ask for its passphrase"):
        SigningKey(key)
    with pytest.raises(KeyRefused, match="the right passphrase"):
        SigningKey(key, lambda: "sesame")


_HARDWARE = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAHgAAABpzay1zc2gtZWQyNTUxOUBv\n"
    "cGVuc3NoLmNvbQ==\n-----END OPENSSH PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "No such file"),
        ("", "not openssh-key-v1"),
        ("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n", "not openssh-key-v1"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== me", "keys in an agent are not supported"),
        ("sk-ssh-ed25519@openssh.com AAAA me", "keys in an agent are not supported"),
        (_HARDWARE, "hardware keys are not supported"),
        (_HARDWARE.replace("sk-", "xx-"), "not openssh-key-v1|not supported|cut short"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_by_name(
    tmp_path: Path, content: str | None, found: str
) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)

    with pytest.raises(KeyRefused, match=found):
        SigningKey(tmp_path / "key")
