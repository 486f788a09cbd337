"""OpenSSH's signatures, held against `ssh-keygen` itself (CONTRACT.md §5.5)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from refold.engine.signing.keys import SigningKey
from refold.engine.signing.sshsig import is_signed, read_signature
from tests.support.signing import KINDS, allowed, new_key

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


def _ssh_keygen(*words: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = ["ssh-keygen", *map(str, words)]
    return subprocess.run(command, input=given, capture_output=True, check=False)


@needs_ssh
@pytest.mark.parametrize("kind", KINDS)
def test_ssh_keygen_accepts_our_signatures_and_we_accept_its(tmp_path: Path, kind: str) -> None:
    key = new_key(tmp_path / "key", kind)
    signers = allowed(tmp_path / "allowed", ("ann", key))
    (tmp_path / "own.sig").write_text(SigningKey(key).sign(b"text\n"))
    (tmp_path / "text").write_bytes(b"text\n")

    verified = _ssh_keygen(
        *("-Y", "verify", "-n", "refold", "-f", signers, "-I", "ann", "-s", tmp_path / "own.sig"),
        given=b"text\n",
    )
    signed = _ssh_keygen("-Y", "sign", "-n", "refold", "-f", key, tmp_path / "text")
    theirs = read_signature((tmp_path / "text.sig").read_text())

    assert (verified.returncode, signed.returncode) == (0, 0), verified.stderr + signed.stderr
    assert is_signed(theirs, b"text\n")
    assert theirs.key == SigningKey(key).public


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_text_or_signature_is_not_accepted(tmp_path: Path, kind: str) -> None:
    key = SigningKey(new_key(tmp_path / "key", kind))
    signature = read_signature(key.sign(b"text\n"))
    other = read_signature(key.sign(b"other\n"))

    assert is_signed(signature, b"text\n")
    assert not is_signed(signature, b"text")
    assert not is_signed(other, b"text\n")


@pytest.mark.parametrize("place", range(0, 400, 17))
def test_any_changed_character_of_a_signature_is_noticed(tmp_path: Path, place: int) -> None:
    """Or it is not a signature any more; never a traceback."""
    text = SigningKey(new_key(tmp_path / "key")).sign(b"text\n")
    place %= len(text) - 1
    changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]

    try:
        found = read_signature(changed)
    except ValueError:
        return
    same = read_signature(text)
    assert not is_signed(found, b"text\n") or found == same, "the end of the last line is padding"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not an OpenSSH signature"),
        ("-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n", "damaged"),
        ("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n", "damaged"),
        ("-----BEGIN SSH SIGNATURE-----\n" + "A" * 100_000, "not an OpenSSH signature"),
    ],
)
def test_what_is_not_a_signature_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_signature(text)


@needs_ssh
def test_a_signature_for_another_purpose_is_refused(tmp_path: Path) -> None:
    key = new_key(tmp_path / "key")
    (tmp_path / "text").write_bytes(b"text\n")
    _ssh_keygen("-Y", "sign", "-n", "git", "-f", key, tmp_path / "text")

    with pytest.raises(ValueError, match="a signature for 'git', not for 'refold'"):
        read_signature((tmp_path / "text.sig").read_text())
