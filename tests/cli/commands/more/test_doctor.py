"""`refold doctor`: whether a command would be recorded, with no model (CONTRACT.md §16.15)."""

import sys

import pytest

from tests.cli.commands.record.test_record import ASKS, UPGRADES
from tests.cli.conftest import Invoke


def test_a_command_that_asks_a_model_would_be_recorded(invoke: Invoke) -> None:
    """What it asked is told, by method and path, and what was not read."""
    lists = ASKS.replace('"POST", base.path + "/chat/completions"', '"GET", base.path + "/models"')
    done = invoke("doctor", "--", sys.executable, "-c", f"{lists}\n{ASKS}")

    assert (done.exit_code, done.stdout) == (0, "200\n200\n")
    assert "POST /chat/completions (openai): read as chat, 1×" in done.stderr
    assert "GET /models (openai): not read, 1×" in done.stderr
    assert "OPENAI_BASE_URL" in done.stderr


@pytest.mark.parametrize(
    ("code", "says"),
    [("", "nothing connected"), (UPGRADES, "a WebSocket was refused at /responses")],
)
def test_one_that_asks_none_would_not(code: str, says: str, invoke: Invoke) -> None:
    """And is told how it would."""
    done = invoke("doctor", "--", sys.executable, "-c", code)

    assert done.exit_code == 1
    assert "no model request arrived" in done.stderr
    assert says in done.stderr


def test_one_that_failed_to_start_is_quoted(invoke: Invoke) -> None:
    """Its error is to be looked at, and not where its requests went."""
    script = "echo hello; printf 'Invalid auth method.\\n\\n' >&2; exit 41"
    done = invoke("doctor", "--", "sh", "-c", script)

    assert (done.exit_code, done.stdout) == (1, "hello\n")
    assert done.stderr.startswith("Invalid auth method.\n\n")
    assert (
        "the command itself failed (exit code 41); its last line: Invalid auth method.\n"
        in done.stderr
    )
    assert "nothing connected" not in done.stderr
