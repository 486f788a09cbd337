"""Diagnostics go to standard error, as JSON where it is no terminal, at the level asked for."""

import json
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
