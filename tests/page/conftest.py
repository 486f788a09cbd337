"""What the tests of the page share: recorded runs, a browser, the pages of the runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from refold.engine.models.scripted import FunctionModel
from refold.engine.runners.recording import record
from tests.cli.conftest import sources, survey_log
from tests.support.browsing import Browser, exported, started
from tests.support.shown_runs import (
    HOSTILE,
    MODEL,
    desk,
    hostile,
    late_for_5,
    order_status,
    refuses,
)

__all__ = ["sources", "survey_log"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return one browser for all tests of the page."""
    with started(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="session")
def desk_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with 77 subagents, of which 2 failed; not to be changed."""
    log = tmp_path_factory.mktemp("desk") / "desk.jsonl"
    assert record(desk, 77, log=log, tools=[order_status], model=MODEL).ok
    return log


@pytest.fixture(scope="session")
def desk_page(desk_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of that run."""
    return exported(desk_log, tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def diff_page(desk_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of that run beside one of 70 orders whose fifth answer is another."""
    folder = tmp_path_factory.mktemp("diff")
    other = FunctionModel(late_for_5, "clerk")
    ran = record(desk, 70, log=folder / "other.jsonl", tools=[order_status], model=other)
    assert ran.ok
    return exported(desk_log, folder, ran.log)


@pytest.fixture(scope="session")
def hostile_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that says what is hostile wherever it can; not to be changed."""
    log = tmp_path_factory.mktemp("hostile") / "hostile.jsonl"
    model = FunctionModel(lambda _request: HOSTILE, "clerk")
    assert record(hostile, HOSTILE, log=log, tools=[refuses], model=model).ok
    return log


@pytest.fixture(scope="session")
def hostile_page(hostile_log: Path) -> Path:
    """Return the page of that run."""
    return exported(hostile_log, hostile_log.parent)
