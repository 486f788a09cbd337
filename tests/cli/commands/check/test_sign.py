"""`refold sign`, and what carries a signature (CONTRACT.md §5.5)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.engine.log.lock import lock
from refold.engine.log.names import signature_of
from refold.engine.log.pack import opened, pack
from refold.store.pull import pull
from refold.store.push import push
from tests.support.signing import allowed, new_key

Invoke = Callable[..., Result]


@pytest.fixture
def folder(survey_log: Path, tmp_path: Path) -> Path:
    """Return a folder with a run, a key and who it belongs to."""
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    allowed(tmp_path / "allowed", ("ann", new_key(tmp_path / "key")))
    return tmp_path


def test_a_signed_log_is_authentic(folder: Path, invoke: Invoke) -> None:
    log = folder / "runs" / "survey.jsonl"

    signed = invoke("sign", log, "--key", folder / "key")
    verified = invoke("verify", log, "--trust", folder / "allowed")

    assert (signed.exit_code, verified.exit_code) == (0, 0), signed.output + verified.output
    assert f"{signature_of(log)}  " in signed.stdout
    assert "authentic  yes  signed by ann (SHA256:" in verified.stdout


def test_logs_of_children_that_a_shell_names_too_are_signed_by_their_roots(
    folder: Path, invoke: Invoke
) -> None:
    logs = (folder / "runs").glob("*.jsonl")

    done = invoke("sign", *logs, "--key", folder / "key")

    assert done.exit_code == 0, done.output
    assert [path.name for path in folder.rglob("*.sig")] == ["survey.jsonl.sig"]


def test_the_document_of_verify_has_the_signature(folder: Path, invoke: Invoke) -> None:
    log = folder / "runs" / "survey.jsonl"
    signed = json.loads(invoke("sign", log, "--key", folder / "key", "--json").stdout)

    found = json.loads(invoke("verify", log, "--trust", folder / "allowed", "--json").stdout)

    root, *below = found["logs"]
    assert found["authentic"] is True
    assert root["signature"]["key"] == signed["key"]
    assert root["signature"]["entries"] == signed["signed"][0]["entries"] == root["entries"]
    assert all(each["authentic"] and each["signature"] is None for each in below)


def test_trust_asks_for_a_signature_of_every_log(folder: Path, invoke: Invoke) -> None:
    log = folder / "runs" / "survey.jsonl"
    alone = invoke("verify", log, "--trust", folder / "allowed")
    many = invoke("verify", log.parent, "--trust", folder / "allowed")
    invoke("sign", log, "--key", folder / "key")
    signed = invoke("verify", log.parent, "--trust", folder / "allowed")

    assert (alone.exit_code, many.exit_code, signed.exit_code) == (3, 3, 0), signed.output
    assert "authentic  -    not signed" in alone.stdout
    assert "0 root logs intact, complete and authentic, 1 not" in many.stdout
    assert "1 root log intact, complete and authentic" in signed.stdout


def test_a_damaged_log_a_child_a_pack_and_a_running_one_are_not_signed(
    folder: Path, invoke: Invoke
) -> None:
    runs, key = folder / "runs", folder / "key"
    packed = pack(runs / "survey.jsonl", folder / "a.refold")
    child = invoke("sign", runs / "survey.1.jsonl", "--key", key)
    archive = invoke("sign", packed, "--key", key)
    with (runs / "survey.jsonl").open("rb+") as file:
        lock(file.fileno(), runs / "survey.jsonl")
        running = invoke("sign", runs / "survey.jsonl", "--key", key)
    log = runs / "survey.jsonl"
    log.write_bytes(log.read_bytes().replace(b"completed", b"complated", 1))
    damaged = invoke("sign", log, "--key", key)

    assert [each.exit_code for each in (child, archive, damaged)] == [2, 2, 3]
    assert running.exit_code == 2, running.output
    assert not [*folder.rglob("*.sig")]


def test_packs_and_stores_carry_the_signature_and_rm_removes_it(
    folder: Path, invoke: Invoke
) -> None:
    log, trust = folder / "runs" / "survey.jsonl", folder / "allowed"
    invoke("sign", log, "--key", folder / "key")
    (folder / "store").mkdir()

    packed = invoke("verify", pack(log, folder / "a.refold"), "--trust", trust)
    with opened(folder / "a.refold") as top:
        unpacked = signature_of(top).read_bytes()
    url = f"file://{folder / 'store'}"
    (pushed,) = push([log], url)
    (pulled,) = pull(url, ["survey.jsonl"], folder / "pulled")
    moved = invoke("verify", folder / "pulled" / "survey.jsonl", "--trust", trust)
    stored = invoke("verify", f"{url}/survey.jsonl", "--trust", trust)
    removed = invoke("rm", log)

    assert pushed
    assert pulled
    assert [each.exit_code for each in (packed, moved, stored, removed)] == [0] * 4, moved.output
    assert unpacked == (folder / "pulled" / "survey.jsonl.sig").read_bytes()
    assert not signature_of(log).exists()
