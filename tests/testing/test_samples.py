"""What several recordings of a test have in common (CONTRACT.md §13.10)."""

import re
from typing import Final

import pytest

from tests.support.suites import Suite

pytest_plugins = ["pytester"]

SAMPLED: Final = """
from agent import dig, digger, search
import refold

async def often(run, limits):
    for limit in range(run.random().randint(*limits)):
        await run.delegate(refold.Delegation(program=digger, input="gold", brief=f"Dig {limit}."))

def test_dig(refold_run, delegation_snapshot):
    recording = refold_run(often, LIMITS, tools=[search])
    assert recording == delegation_snapshot(words=False)
"""


@pytest.mark.long
def test_samples_say_what_recordings_have_in_common(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later recording holds if it has each agent as often as one of them had."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # or syrupy has no report of its own
    suite = Suite(pytester)
    again = "--refold-record=all"
    suite.write(test_it=SAMPLED.replace("LIMITS", "[1, 9]"))
    said = suite.run(again, "--refold-samples=12", "--snapshot-update").stdout.str()
    assert re.search(r"test_dig: → \d to \d × digger: completed", said)
    (path,) = (suite.folder / "__snapshots__").rglob("*.delegation.txt")
    text = path.read_text("utf-8")
    assert text.startswith("of 12 recordings:\n1 × often: completed\n")
    suite.passes()

    suite.write(test_it=SAMPLED.replace("LIMITS", "[3, 4]"))
    suite.passes(again)
    suite.write(test_it=SAMPLED.replace("LIMITS", "[15, 15]"))
    assert "15 × digger" in suite.fails(again)
    assert suite.run("--refold-samples=2").ret == pytest.ExitCode.USAGE_ERROR
