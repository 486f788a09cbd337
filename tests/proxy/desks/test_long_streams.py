"""Memory does not grow with a stream, neither where it is recorded nor where it is replayed."""

import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import attrs
import pytest

from tests.support.traffic import Rule
from tests.support.upstream import Upstream

GROWTH_KIB = 40 * 1024
READER = """
    import hashlib, http.client, json, os, urllib.parse
    base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    def peak():
        with open(f"/proc/{os.getppid()}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    def read(text):
        connection = http.client.HTTPConnection(base.netloc, timeout=300)
        body = json.dumps({"model": "m", "stream": True, "messages": [
            {"role": "system", "content": "the weather desk"}, {"role": "user", "content": text}]})
        headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
        connection.request("POST", base.path + "/chat/completions", body, headers)
        response, digest, size = connection.getresponse(), hashlib.sha256(), 0
        while content := response.read1():
            digest.update(content)
            size += len(content)
        return size, digest.hexdigest()
    read("Hello, a short one")
    before = peak()
    print(*read("Hello, flood"), flush=True)
    open("growth", "w").write(str(peak() - before))
"""


def measured(folder: Path, *arguments: str, upstream: Upstream | None = None) -> tuple[str, int]:
    """Run `refold` around the reader; return what that printed, and refold's growth in KiB."""
    where = upstream.environment() if upstream else {}
    done = subprocess.run(
        [sys.executable, "-m", "refold", *arguments, "--", sys.executable, "reader.py"],
        cwd=folder,
        env={**{each: os.environ[each] for each in ("PATH", "XDG_STATE_HOME")}, **where},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, int((folder / "growth").read_text())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory")
@pytest.mark.long
@pytest.mark.parametrize("megabytes", [24, 100])
def test_a_long_stream_takes_no_memory(megabytes: int, tmp_path: Path) -> None:
    """Of either; all of it is there, byte by byte."""
    (tmp_path / "reader.py").write_text(textwrap.dedent(READER))
    with Upstream() as upstream:
        upstream.use("weather", flood_mb=megabytes)
        upstream.rules.insert(0, _short(upstream))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        arguments = "record", "--workspace", "none", "--log", "run.jsonl"  # growth is a file there
        first, recording = measured(tmp_path, *arguments, upstream=upstream)
        took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    second, replaying = measured(tmp_path, "replay", "run.jsonl")

    assert first == second
    assert int(first.split()[0]) > megabytes * 1_000_000
    assert max(recording, replaying) < GROWTH_KIB
    assert took < 20 + 3 * megabytes


def _short(upstream: Upstream) -> Rule:
    """Return the rule that answers the first request without a flood."""
    greeting = next(rule for rule in upstream.rules if rule.name == "weather-greets")
    return attrs.evolve(greeting, name="short", when={"user": "short"}, manner={})
