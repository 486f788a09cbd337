"""What the tests of the page share: a recorded survey."""

from tests.cli.conftest import sources, survey_log

__all__ = ["sources", "survey_log"]
