"""What the tests of the store share."""

from pathlib import Path

import pytest

from tests.support.stores import Traffic, folder_store, record_run


@pytest.fixture(autouse=True)
def _certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of stores find those of the machine: without any, it refuses to start."""
    monkeypatch.delenv("SSL_CERT_DIR")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A run with a child and a large text."""
    return record_run(tmp_path / "runs" / "audit.jsonl")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in the folder `store`."""
    return folder_store(tmp_path / "store")


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    """What is asked of stores."""
    return Traffic(monkeypatch)
