"""Diagnostics go to standard error, as JSON where it is no terminal, at the level asked for."""

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from refold.cli.output.diagnostics import configure


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_one_json_object_a_line_and_nothing_below_the_level(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info")

    structlog.get_logger().debug("unseen")
    structlog.get_logger().info("delegation", status="completed", text="\x1b[2J")

    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    event = json.loads(line)
    assert line.isprintable()
    assert (event["event"], event["level"], event["status"]) == ("delegation", "info", "completed")


def test_by_default_only_warnings_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning")

    structlog.get_logger().info("delegation")
    structlog.get_logger().warning("odd")

    assert len(capsys.readouterr().err.splitlines()) == 1


def test_they_go_where_standard_error_is_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program may go on after a command, as tests do, with the command's stream closed."""
    with monkeypatch.context() as within:
        within.setattr("sys.stderr", io.StringIO())
        configure("warning")
        sys.stderr.close()

    structlog.get_logger().warning("odd")

    assert "odd" in capsys.readouterr().err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_a_terminal_is_sent_is_made_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, not as JSON; what is no text stays as it is."""
    monkeypatch.setattr("sys.stderr", _Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    configure("warning")

    structlog.get_logger().warning("odd", text="\x1b[2J", count=3)

    assert isinstance(sys.stderr, _Terminal)
    said = sys.stderr.getvalue()
    assert "odd" in said
    assert "count=3" in said
    assert r"\x1b[2J" in said
    assert "\x1b[2J" not in said
