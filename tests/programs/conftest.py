"""The small source tree, and a log of its survey, that tests of the command line have, too."""

from tests.cli.conftest import sources, survey_log

__all__ = ["sources", "survey_log"]
