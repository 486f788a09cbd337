"""What tests of commands that run in a copy of their folder share."""

from collections.abc import Iterator
from typing import Any

import pytest

from refold.proxy.copies import placing
from refold.proxy.copies.sandbox import SandboxRefused, no_layers


@pytest.fixture(params=["here", pytest.param("elsewhere", marks=pytest.mark.long)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a sandbox if there is one here, and as on a system without."""
    if request.param == "here":
        try:
            no_layers()
        except SandboxRefused:
            return "elsewhere"
        return "sandbox"

    def none() -> bool:
        raise SandboxRefused("forbidden")

    monkeypatch.setattr(placing, "no_layers", none)
    return "elsewhere"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A provider to which clients are led."""
    from tests.proxy.desks.test_resuming import providing  # noqa: PLC0415 - few need it

    with providing() as found:
        monkeypatch.setenv("OPENAI_BASE_URL", found.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-placeholder-4f1d")
        yield found
