"""Files of allowed signers (CONTRACT.md §5.5)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from refold.engine.errors import SignersRefused
from refold.engine.signing.keys import SigningKey
from refold.engine.signing.signers import read_signers
from tests.support.signing import allowed, new_key


def test_lines_for_other_purposes_and_of_authorities_are_passed_over(tmp_path: Path) -> None:
    key = new_key(tmp_path / "key")
    public = (tmp_path / "key.pub").read_text().strip()
    (tmp_path / "allowed").write_text(
        f'# people\n\n"ann,bob c" {public} a comment\n'
        f'git@x namespaces="git,file" {public}\n'
        f"ca@x cert-authority {public}\n"
        f'eve namespaces="git, refold",valid-before="20300101Z" {public}\n'
    )

    found = read_signers(tmp_path / "allowed")

    assert [each.names for each in found] == ["ann,bob c", "eve"]
    assert found[1].dates == "until 2030-01-01 00:00 UTC"
    assert found[1].is_valid_at(datetime(2029, 12, 31, tzinfo=UTC))
    assert not found[1].is_valid_at(datetime(2030, 1, 2, tzinfo=UTC))
    assert {each.key for each in found} == {SigningKey(key).public}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ann", "a line without a key"),
        ("ann ssh-ed25519", "a line without a key"),
        ("ssh-ed25519 AAAA ann@host", "a key without the signer's name before it"),
        ("ann ssh-ed25519 %%%", "base64|Only base64|Incorrect padding|Non-base64"),
        ("ann ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIA==", "not of the type"),
        ("ann forever ssh-rsa AAAA", "unknown option 'forever'"),
        ('ann valid-after="soon" ssh-rsa AAAAB3NzaC1yc2E=', "not a date: 'soon'"),
        ('ann valid-after="20261301" ssh-rsa AAAAB3NzaC1yc2E=', "does not match|unconverted"),
    ],
)
def test_a_line_that_is_none_is_refused_by_its_number(
    tmp_path: Path, line: str, found: str
) -> None:
    (tmp_path / "allowed").write_text(f"# people\n{line}\n")

    with pytest.raises(SignersRefused, match=found) as refused:
        read_signers(tmp_path / "allowed")
    assert refused.value.line == 2


def test_dates_without_a_z_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for ssh-keygen."""
    import time  # noqa: PLC0415 - tzset

    monkeypatch.setenv("TZ", "XXX-3")
    time.tzset()
    try:
        key = new_key(tmp_path / "key")
        file = allowed(tmp_path / "allowed", ("ann", key), options='valid-after="202607010300"')
        (signer,) = read_signers(file)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert signer.after == datetime(2026, 7, 1, 0, 0, tzinfo=UTC)
