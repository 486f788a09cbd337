"""What tests of commands that run in a copy of their folder share."""

import pytest

from refold.proxy.copies import placing
from refold.proxy.copies.sandbox import SandboxRefused, no_layers


@pytest.fixture(params=["sandbox", "elsewhere"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a sandbox, and as on a system without one."""
    if request.param == "elsewhere":

        def none() -> bool:
            raise SandboxRefused("forbidden")

        monkeypatch.setattr(placing, "no_layers", none)
        return "elsewhere"
    try:
        no_layers()
    except SandboxRefused as error:
        pytest.skip(f"no sandbox here: {error}")
    return "sandbox"
