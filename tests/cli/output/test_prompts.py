"""`refold show --turn` (CONTRACT.md §14.10)."""

from collections.abc import Callable

from click.testing import Result

from tests.support.fixtures import LOGS

Invoke = Callable[..., Result]


def test_a_turn_is_printed_with_what_changed(invoke: Invoke) -> None:
    log = LOGS / "watched.jsonl"

    last = invoke("show", log, "--turn", "-1").stdout
    first = invoke("show", log, "--turn", "2", "--against", "2").stdout
    failed = invoke("show", log, "--turn", "1", "--agent", "hiker").stdout

    assert "turn 2 of 2 · gpt-5 · entry 23 · 3 kept, 3 added, 0 dropped since turn 1" in last
    assert "+     the fish hall\n" in last
    assert "      calls weather" in last
    assert "answered in entry 25" in last
    assert "6 kept, 0 added, 1 dropped since turn 2" in first
    assert "no answer: error: http_429" in failed


def test_a_turn_that_the_agent_lacks_is_refused(invoke: Invoke) -> None:
    log = LOGS / "watched.jsonl"

    assert (
        "the agent cook has 1 turn" in invoke("show", log, "--turn", "2", "--agent", "cook").stderr
    )
    assert "--turn 0" in invoke("show", log, "--turn", "0").stderr
    assert "need --turn" in invoke("show", log, "--agent", "cook").stderr
