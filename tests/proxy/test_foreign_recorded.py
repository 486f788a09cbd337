"""Programs that know nothing of Refold are recorded as they are, and replayed with no upstream."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import refold
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from tests.support import foreign
from tests.support.foreign import SCRIPTS, Script
from tests.support.proxied import all_bytes
from tests.support.upstream import PLACEHOLDER_KEY, Upstream

QUICK: Final = "curl_agent.sh"
"""What the default run starts: other clients import for seconds, and README runs one."""
EACH = pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=name, marks=() if name == QUICK else pytest.mark.long)
        for name, script in SCRIPTS.items()
    ],
)
DEADLINE_SECONDS = 300.0


def refold_does(
    *arguments: str, folder: Path, upstream: Upstream | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `refold` as a stranger would."""
    return subprocess.run(
        [sys.executable, "-m", "refold", *arguments],
        cwd=folder,
        env=foreign.environment(upstream),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.mark.long
@EACH
def test_a_script_is_recorded_and_replayed(
    script: Script, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """It prints and asks what it does alone; then the same, with nobody to ask, and no key."""
    folder = foreign.folder_of(script, pytestconfig)
    log = tmp_path / "run.jsonl"
    command = ["--", *script.command(folder)]

    with Upstream() as upstream:
        recorded = refold_does(
            "record", "--log", str(log), *command, folder=folder, upstream=upstream
        )
        rules = [request.rule for request in upstream.received]
    replayed = refold_does("replay", str(log), *command, folder=folder)

    assert (recorded.returncode, recorded.stdout) == (0, script.output), recorded.stderr
    assert (replayed.returncode, replayed.stdout) == (0, script.output), replayed.stderr
    assert sorted(rules) == sorted(script.rules)
    report = refold.verify(log)
    assert (report.intact, report.complete) == (True, True)
    assert PLACEHOLDER_KEY.encode() not in all_bytes(tmp_path)
    assert _handed_over(delegation_tree(log)) == HANDED_OVER.get(script.name, [])


def _handed_over(node: RunNode) -> list[tuple[str, str, str]]:
    """Who opened which conversation below another: (tool, how, to whom)."""
    return [
        told
        for child in node.children
        for told in ([(child.tool, child.how, child.name)] if child.tool else [])
        + _handed_over(child)
    ]


HANDED_OVER: Final = {
    # It passes on single words, which name nothing: only the results show who asked whom.
    "pydantic_delegate.py": [("ask_guide", "result", f"conversation {at}") for at in (2, 3)],
    "agents_handoff.py": [
        ("transfer_to_billing_specialist", "handoff", "billing_specialist"),
    ],
}
"""Delegations that the trees of the scripts show."""


@pytest.mark.long  # README has such a one
@pytest.mark.parametrize("name", ["curl_agent.sh", "openai_stream.py"])
def test_a_changed_script_is_told_apart(
    name: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """One word of its system prompt: exit code 1, and the word is named."""
    script = SCRIPTS[name]
    folder = foreign.folder_of(script, pytestconfig)
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream:
        command = ["--", *script.command(folder)]
        recorded = refold_does(
            "record", "--log", str(log), *command, folder=folder, upstream=upstream
        )
    assert (recorded.returncode, recorded.stdout) == (0, script.output), recorded.stderr

    changed = foreign.changed_copy(script, tmp_path)
    words = ["replay", "--copy", "none", "--yes", "--json", str(log), "--"]
    replayed = refold_does(*words, *script.command(changed), folder=changed)

    assert replayed.returncode == 1, replayed.stderr
    report = json.loads(replayed.stdout)
    assert report["identical"] is False
    assert "at length" in json.dumps(report["divergences"][0])
