"""The package names its models lazily."""

import subprocess
import sys

import pytest

import refold.engine.models as package


def test_every_public_name_is_there() -> None:
    """What `dir` lists can be had, and nothing else is made up."""
    for name in dir(package):
        assert getattr(package, name).__module__.startswith(
            ("refold.engine.models.", "refold.engine.ports.")
        )
    with pytest.raises(AttributeError, match="Nothing"):
        _ = package.Nothing  # type: ignore[attr-defined]


def test_no_sdk_is_imported_before_a_request() -> None:
    """Making adapters loads neither SDK, nor any HTTP client."""
    code = (
        "import sys; from refold.engine.models import *; "
        "AnthropicModel('m'); OpenAICompatibleModel('m'); model_from('openai:m'); "
        "sys.exit(bool({'openai', 'anthropic', 'httpx', 'httpx2'} & sys.modules.keys()))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
