"""The tree says below each run why it did not complete, and stays readable however deep it is."""

import pytest

from refold.cli.trees import print_tree, run_name
from refold.engine.outcome import Fault, Truncated
from refold.replay.tree import RunNode


def test_what_went_wrong_stands_below_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    flood = RunNode(
        name="floods",
        number=1,
        status="limit",
        brief="print",
        error=Fault(code="stream_bytes", message="too much"),
        truncated=Truncated(kept_bytes=1000, seen_bytes=2000, sha256=""),
        log_state="missing",
        is_joined=False,
    )

    print_tree(RunNode(name="root", status="completed", children=(flood,)))

    assert capsys.readouterr().out.splitlines() == [
        "completed root",
        "└─ limit     floods 1  print",
        "      stream_bytes: too much",
        "      its outcome was never joined",
        "      its log is missing",
        "      output cut: 1 kB of 2 kB kept",
    ]


def test_a_watched_command_is_shown_as_a_shell_takes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And tokens only where an answer told them."""
    talk = RunNode(name="desk", status="completed", requests=2, log_state="none")
    command = ["python", "agent.py", "two words"]

    print_tree(
        RunNode(
            name="agent.py",
            status="completed",
            guarantee="matched",
            input={"command": command},
            children=(talk,),
        )
    )

    assert [line[3:] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "command   python agent.py 'two words'",
        "completed desk",
        "   2 requests",
    ]


def test_a_rejected_start_is_a_leaf_without_a_duration(capsys: pytest.CaptureFixture[str]) -> None:
    leaf = RunNode(
        name="", status="rejected", duration_ms=0, error=Fault(code="max_depth", message="m")
    )

    print_tree(RunNode(name="root", status="completed", duration_ms=1500, children=(leaf, leaf)))

    assert capsys.readouterr().out.splitlines() == [
        "completed root  1.5 s",
        "├─ rejected  (never started)",
        "│     max_depth: m",
        "└─ rejected  (never started)",
        "      max_depth: m",
    ]


def test_a_very_deep_tree_is_not_indented_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    node = RunNode(name="leaf", status="completed")
    for _ in range(100):
        node = RunNode(name="run", status="completed", children=(node,))

    print_tree(node)

    said = capsys.readouterr().out.splitlines()
    assert len(said) == 101
    assert max(map(len, said)) < 80


def test_an_agent_is_named_by_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    lead = RunNode(name="agent", status="completed", input={"agent": {"name": "lead"}})

    print_tree(lead)

    assert capsys.readouterr().out == "completed lead (agent)\n"
    assert run_name("other", {"agent": {"name": "lead"}}) == "other"
    assert [run_name("agent", odd) for odd in (None, {}, {"agent": 1}, {"agent": {"name": 1}})] == [
        "agent"
    ] * 4
