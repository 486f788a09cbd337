"""The same laws against a server that speaks S3, by the real command, killed (CONTRACT.md §4.8)."""

import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import obstore
import pytest

from refold.engine.errors import LogUnsupported, RunExists, StoreDamaged
from refold.replay.bulk.bulk import find_logs
from tests.support.stores import content_of, pulled, pushed, record_run

pytestmark = pytest.mark.long

_MOMENTS: Final = 50
_KILLED: Final = """
import os, signal, sys, threading
import obstore
moment, when, *words = sys.argv[1:]
left, lock = [int(moment)], threading.Lock()

def counted(call):
    def asked(*arguments, **options):
        with lock:
            left[0] -= 1
            is_last = left[0] == 0
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = call(*arguments, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return asked

for name in ("put", "get", "head"):
    setattr(obstore, name, counted(getattr(obstore, name)))
from refold.cli import main
main(words)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of S3 on loopback."""
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    found: Any = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    found.start()
    host, port = found.get_host_and_port()
    yield f"http://{host}:{port}"
    found.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket, with credentials in the environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    for call, path in (("POST", "moto-api/reset"), ("PUT", "audits"), ("PUT", "elsewhere")):
        request = urllib.request.Request(f"{server}/{path}", method=call)
        urllib.request.urlopen(request).close()
    return "s3://audits/a b/ä"


def _objects(url: str) -> dict[str, bytes]:
    store = import_module("obstore.store").from_url(url)
    names = [each["path"] for some in obstore.list(store) for each in some]
    return {name: bytes(obstore.get(store, name).bytes()) for name in names}


def _killed(moment: int, when: str, *words: object) -> bool:
    """Run the command; return whether it was killed at that request, or ended before."""
    arguments = [str(each) for each in (moment, when, *words)]
    command = [sys.executable, "-c", _KILLED, *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env=dict(os.environ))
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


def test_a_push_killed_at_any_moment_and_repeated_leaves_the_same_bytes(
    bucket: str, tmp_path: Path
) -> None:
    """Fifty moments of a push of four runs, with their heads; one text in two pieces."""
    runs = tmp_path / "runs"
    for number in range(3):
        record_run(runs / f"run-{'abc'[number]}.jsonl", number, text="0123456789" * 5_000)
    record_run(runs / "large.jsonl", 6, text="0123456789" * 500_000)
    chance = random.Random(17)
    assert not _killed(0, "", "push", runs, bucket, "--heads", "s3://elsewhere/0")
    whole, heads = _objects(bucket), _objects("s3://elsewhere/0")
    assert len(heads) == 5

    deaths = 0
    for each in range(_MOMENTS):
        url, kept = f"s3://audits/again-{each}", f"s3://elsewhere/again-{each}"
        words = ("push", runs, url, "--heads", kept)
        deaths += _killed(chance.randrange(1, 34), chance.choice(["before", "after"]), *words)
        for name in _objects(url):
            if name.startswith("runs/"):
                run = name.removeprefix("runs/").removesuffix(".json") + ".jsonl"
                pulled(url, run, tmp_path / f"seen-{each}", heads=kept)
        assert [pushed(log, url, heads=kept) for log in find_logs([runs])]
        assert _objects(url) == whole
        assert _objects(kept) == heads
    assert deaths > _MOMENTS // 2


def test_a_pull_killed_at_any_moment_and_repeated_has_the_same_bytes(
    bucket: str, tmp_path: Path
) -> None:
    """Twelve moments; what is seen meanwhile is whole."""
    log = record_run(tmp_path / "runs" / "large.jsonl", 6, text="0123456789" * 900_000)
    pushed(log, bucket)

    for moment in range(1, 13):
        folder = tmp_path / f"got-{moment}"
        is_dead = _killed(moment, "after", "pull", bucket, "--to", folder)
        assert not (is_dead and (folder / log.name).exists())
        assert not _killed(0, "", "pull", bucket, "--to", folder)
        assert content_of(folder) == content_of(log.parent)


def test_memory_is_flat_in_the_size_of_a_run(bucket: str, tmp_path: Path) -> None:
    """A file of 32 pieces, and one of 128: there and back."""
    peaks = []
    for count in (32, 128):
        log = record_run(tmp_path / str(count) / "large.jsonl")
        with log.with_name("large.jsonl.torn-1-01234567").open("wb") as file:
            for number in range(count):
                file.write(number.to_bytes(4, "big") * (1024 * 1024))
        words = (log, f"{bucket}/{count}", tmp_path / f"{count}-got")
        peaks.append([_peak("push", *words[:2]), _peak("pull", words[1], "--to", words[2])])
        assert content_of(words[2]) == content_of(log.parent)

    small, large = peaks
    assert all(after < 1.3 * before for before, after in zip(small, large, strict=True)), peaks


def _peak(*words: object) -> int:
    """Return the peak of the memory of a command, in kB."""
    code = (
        "import re, sys\nfrom pathlib import Path\nfrom refold.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, check=True, env=dict(os.environ))
    return int(done.stdout.split()[-1])


def test_a_second_writer_is_refused(bucket: str, tmp_path: Path) -> None:
    pushed(record_run(tmp_path / "runs" / "audit.jsonl"), bucket)
    before = _objects(bucket)

    with pytest.raises(RunExists):
        pushed(record_run(tmp_path / "others" / "audit.jsonl", 2), bucket)

    runs = {name: content for name, content in _objects(bucket).items() if "runs/" in name}
    assert runs == {name: content for name, content in before.items() if "runs/" in name}


def test_each_byte_that_is_changed_in_the_bucket_is_found(bucket: str, tmp_path: Path) -> None:
    """In the mark of the store, in manifests and in pieces."""
    heads = "s3://elsewhere/heads"
    pushed(record_run(tmp_path / "runs" / "audit.jsonl"), bucket, heads=heads)
    store = import_module("obstore.store").from_url(bucket)
    chance = random.Random(17)

    for name, content in _objects(bucket).items():
        for number in range(5):
            at = chance.randrange(len(content))
            changed = content[:at] + bytes([content[at] ^ (1 << number)]) + content[at + 1 :]
            obstore.put(store, name, changed, mode="overwrite")
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            with pytest.raises((StoreDamaged, LogUnsupported)):
                pulled(bucket, "audit.jsonl", folder, heads=heads)
            assert not (folder / "audit.jsonl").exists()
        obstore.put(store, name, content, mode="overwrite")
