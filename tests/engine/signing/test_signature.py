"""A signature lies beside its log (CONTRACT.md §5.5)."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import KeyRefused, LogDamaged, OutputRefused, ProgramMissing
from refold.engine.log.names import is_reserved, signature_of
from refold.engine.runners.recording import record
from refold.engine.signing.signature import (
    Signer,
    SigningKey,
    armor_in,
    fingerprint_of,
    read_log_signature,
    sign_log,
    signer_of,
)
from tests.support.loops import for_each, some
from tests.support.signing import KINDS, allowed, new_key


async def _nothing(_run: Any, _input: Any) -> None: ...


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return record(_nothing, log=tmp_path / "a.jsonl").log


def test_a_signature_says_run_length_and_head(log: Path, tmp_path: Path) -> None:
    key = SigningKey(new_key(tmp_path / "key"))

    said = sign_log(log, key)
    found = read_log_signature(log)

    assert found is not None
    assert (found.statement, found.fingerprint) == (said, key.fingerprint)
    assert said.entries == len(log.read_bytes().splitlines())
    assert said.head in log.read_text().splitlines()[-1]
    assert signature_of(log).stat().st_mode & 0o077 == 0
    assert is_reserved(signature_of(log)), "no report is written over it"


def test_signing_again_replaces_our_signature_and_nothing_else(log: Path, tmp_path: Path) -> None:
    first, second = (SigningKey(new_key(tmp_path / name)) for name in ("a", "b"))
    sign_log(log, first)
    sign_log(log, second)
    found = read_log_signature(log)
    signature_of(log).write_text("mine")

    assert found is not None
    assert found.fingerprint == second.fingerprint
    with pytest.raises(OutputRefused, match="not the signature of a log"):
        sign_log(log, first)
    assert signature_of(log).read_text() == "mine"


def test_a_log_that_does_not_verify_is_not_signed(log: Path, tmp_path: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"_nothing"', b'"_nathing"'))

    with pytest.raises(LogDamaged):
        sign_log(log, SigningKey(new_key(tmp_path / "key")))
    assert not signature_of(log).exists()


@pytest.mark.parametrize("line", ["", "{}", '{"run":"a","entries":0,"head":"b"}', "[]", "x"])
def test_a_signature_without_its_line_is_none(log: Path, tmp_path: Path, line: str) -> None:
    sign_log(log, SigningKey(new_key(tmp_path / "key")))
    place = signature_of(log)
    armor = place.read_text().splitlines()[:-1]
    place.write_text("\n".join([*armor, line, ""]))

    with pytest.raises(ValueError, match="the line that the signature signs is missing"):
        read_log_signature(log)


TEXT = b"text\n"
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("keys") / "key")


@pytest.fixture(scope="module")
def armor(key: Path) -> str:
    return SigningKey(key).sign(TEXT)


@pytest.mark.parametrize("kind", some(1, KINDS))
def test_a_signature_names_its_key_and_its_signer(tmp_path: Path, kind: str) -> None:
    """For each type of key."""
    path = new_key(tmp_path / "key", kind)
    signing = SigningKey(path)
    text = signing.sign(TEXT)

    assert armor_in(f"{text}more\n") == text
    assert fingerprint_of(TEXT, text) == signing.fingerprint
    assert signer_of(TEXT, text, allowed(tmp_path / "a", ("ann", path)), NOW) == Signer("ann")
    with pytest.raises(ValueError, match="does not match"):
        fingerprint_of(b"text", text)


def test_any_changed_character_of_a_signature_is_noticed(armor: str) -> None:
    """Or only its padding or line ends changed."""
    for place in range(0, len(armor), 7):
        other = "A" if armor[place] != "A" else "B"
        changed = armor[:place] + other + armor[place + 1 :]
        try:
            found = fingerprint_of(TEXT, armor_in(changed))
        except ValueError:
            continue
        pytest.fail(f"{found} signed {changed}")


@for_each("text", ["", "x" * 100, "-----BEGIN SSH SIGNATURE-----\n" + "A" * 100_000])
def test_what_is_not_a_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an OpenSSH signature"):
        armor_in(text)


def test_a_signature_for_another_purpose_is_refused(key: Path) -> None:
    words = ["ssh-keygen", "-Y", "sign", "-q", "-n", "git", "-f", str(key)]
    text = subprocess.run(words, input=TEXT, capture_output=True, check=True).stdout.decode()

    with pytest.raises(ValueError, match="namespace does not match"):
        fingerprint_of(TEXT, text)


def test_lines_for_other_purposes_and_of_authorities_are_passed_over(
    key: Path, armor: str, tmp_path: Path
) -> None:
    public = key.with_name("key.pub").read_text().strip()
    other = new_key(tmp_path / "other").with_name("other.pub").read_text().strip()
    file = tmp_path / "allowed"
    lines = [
        "# people", "", f"zoe {other}", f'git@x namespaces="git,file" {public}',
        f"ca@x cert-authority {public}",
    ]  # fmt: skip
    file.write_text("\n".join(lines))
    none = signer_of(TEXT, armor, file, NOW)
    eve = f'"*@x,eve y" namespaces="git,refold",valid-before="20300101Z" {public} a comment'
    file.write_text("\n".join([*lines, eve]))

    assert none is None
    assert signer_of(TEXT, armor, file, NOW) == Signer("*@x,eve y", is_dated=True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ('valid-before="20200101Z"', "expired"),
        ('valid-after="29990101Z"', "not yet valid"),
        ('valid-before="20260701115959Z"', "expired"),
        ('valid-after="20260701120001Z"', "not yet valid"),
        ('valid-after="20260701115959Z",valid-before="20260701120001Z"', ""),
    ],
)
def test_a_key_counts_at_the_time_of_the_run(
    key: Path, armor: str, tmp_path: Path, options: str, why: str
) -> None:
    """To the second, wherever the clock stands; without a time, none with dates counts."""
    file = allowed(tmp_path / "allowed", ("ann", key), options=options)

    found, unknown = (signer_of(TEXT, armor, file, time) for time in (NOW, None))

    assert found is not None
    assert unknown is not None
    assert (found.names, found.is_dated, bool(found.refused)) == ("ann", True, bool(why))
    assert why in found.refused
    assert "unknown" in unknown.refused


@for_each(
    "line, found",
    [
        ("ann", "no name, or no key"),
        ("ann ssh-ed25519", "no name, or no key"),
        ("ssh-ed25519 AAAA ann@host", "no name, or no key"),
        ("ann forever {key}", "unknown key option"),
        ('ann valid-after="soon" {key}', "valid-after"),
    ],
)
def test_a_line_that_is_none_is_refused_by_its_number(
    key: Path, armor: str, tmp_path: Path, line: str, found: str
) -> None:
    public = key.with_name("key.pub").read_text().strip()
    (tmp_path / "allowed").write_text(f"# people\n{line.format(key=public)}\n")

    with pytest.raises(KeyRefused, match=found) as refused:
        signer_of(TEXT, armor, tmp_path / "allowed", NOW)
    assert refused.value.line == 2


@for_each("content", [None, "", "ssh-ed25519 AAAA me", "-----BEGIN KEY-----\n"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)

    with pytest.raises(KeyRefused, match="expected an OpenSSH key"):
        SigningKey(tmp_path / "key")


def test_of_a_key_that_others_may_read_the_reason_is_given(tmp_path: Path) -> None:
    """OpenSSH begins it with a box of `@`."""
    key = new_key(tmp_path / "key")
    key.chmod(0o644)

    with pytest.raises(KeyRefused, match="are too open"):
        SigningKey(key)


@pytest.mark.long
def test_a_key_in_an_agent_signs_and_one_that_is_locked_is_refused(tmp_path: Path) -> None:
    """Without a terminal, before anything is recorded."""
    key = new_key(tmp_path / "key", passphrase="open sesame")
    code = """if True:
        import sys
        from pathlib import Path
        from refold.engine.errors import KeyRefused
        from refold.engine.signing.signature import SigningKey, fingerprint_of
        try:
            found = SigningKey(Path(sys.argv[1]))
        except KeyRefused as error:
            print(f"refused: {error}")
        else:
            print(fingerprint_of(b"t", found.sign(b"t")) == found.fingerprint)
        """
    command = [sys.executable, "-c", code]

    def said(words: list[str]) -> str:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=True, start_new_session=True
        )
        return done.stdout.decode()

    plain = new_key(tmp_path / "plain")
    agent = 'ssh-add -q "$0" && mv "$0" "$0.away" && exec "$@"'
    added = ["ssh-agent", "sh", "-c", agent, str(plain), *command, f"{plain}.pub"]

    assert "passphrase" in said([*command, str(key)])
    assert said(added).strip() == "True"


def test_without_openssh_the_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("key")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ProgramMissing, match="ssh-keygen"):
        SigningKey(tmp_path / "key")
