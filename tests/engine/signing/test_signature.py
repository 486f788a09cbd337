"""A signature lies beside its log (CONTRACT.md §5.5)."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import LogDamaged, OutputRefused
from refold.engine.log.names import is_reserved, signature_of
from refold.engine.runners.recording import record
from refold.engine.signing.openssh import SigningKey
from refold.engine.signing.signature import read_log_signature, sign_log
from tests.support.signing import new_key


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
