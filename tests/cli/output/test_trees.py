"""The tree says below each run why it did not complete, and stays readable however deep it is."""

import re

import pytest

from refold.cli.output.trees import print_tree, run_name
from refold.engine.events.outcome import Fault, Truncated, Usage
from refold.replay.run.run_node import RunNode


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
        "      it was not joined",
        "      its log is missing",
        "      output cut: 1 kB of 2 kB kept",
    ]


@pytest.mark.parametrize("status", ["unfinished", "broke_off", "waits_for_you"])
def test_a_child_that_its_parent_may_have_waited_for_was_not_left(
    status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    child = RunNode(name="kid", number=1, status=status, is_joined=False)

    print_tree(RunNode(name="root", status=status, children=(child,)))

    assert "not joined" not in capsys.readouterr().out


@pytest.mark.parametrize("details", [True, False])
def test_a_run_that_asks_another_model_than_its_caller_is_shown_with_it(
    details: bool,  # noqa: FBT001 - of the test
    capsys: pytest.CaptureFixture[str],
) -> None:
    same = RunNode(name="same", number=1, status="completed", models=("m:a",), requests=1)
    other = RunNode(name="other", number=2, status="completed", models=("m:b",), requests=1)
    root = RunNode(
        name="root", status="completed", models=("m:a",), requests=2, children=(same, other)
    )

    print_tree(root, details=details)

    lines = capsys.readouterr().out.splitlines()
    told = [line.partition("model")[2].strip() for line in lines if "model" in line]
    if details:
        assert told == ["m:a, 2 requests", "m:a, 1 request", "m:b, 1 request"]
    else:
        assert told == ["m:a", "m:b"]


def test_tokens_of_all_below_stand_beside_a_run_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    below, own = Usage(input_tokens=10), Usage(input_tokens=5)
    child = RunNode(name="child", status="completed", models=("m:a",), requests=1, usage=below)
    for spent in (own, Usage()):
        print_tree(
            RunNode(
                name="root", status="completed", models=("m:a",), requests=1, children=(child,),
                usage=below.plus(spent), own_usage=spent,
            ),
            details=True,
        )  # fmt: skip

    said = capsys.readouterr().out
    assert "1 request, 5 tokens, cost \u2013; with its subagents: 15 tokens, cost \u2013" in said
    assert "1 request; with its subagents: 10 tokens, cost \u2013" in said
    assert said.count("with its subagents") == 2


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


def test_a_brief_that_is_a_prompt_with_its_documents_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wherever it is printed to; so is what a failed run said."""
    said = Fault(code="raised", message="no " * 50_000)
    child = RunNode(name="a", number=1, status="failed", brief="read " * 50_000, error=said)

    print_tree(RunNode(name="root", status="completed", children=(child,)))

    _, brief, message = capsys.readouterr().out.splitlines()
    assert brief.startswith("└─ failed    a 1  read read")
    assert brief.endswith("…")
    assert message.endswith("…")
    assert len(brief) < 700
    assert len(message) < 2100


def test_the_path_of_a_log_is_never_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal it can be copied, however long it is."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    node = RunNode(name="root", status="completed", log=f"{'a' * 60}.jsonl", entries=3)

    print_tree(node, details=True)

    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert f"log       {'a' * 60}.jsonl, 3 entries" in shown


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


def test_another_runs_log_in_a_childs_place_is_named_in_plain_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_tree(RunNode(name="child", status="completed", log_state="foreign"))

    assert "its log is another run's" in capsys.readouterr().out
