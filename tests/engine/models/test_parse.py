"""Models named on the command line."""

import sys
from pathlib import Path

import pytest

from refold.engine.errors import ExtraMissing, ModelNotFound, ScriptRefused
from refold.engine.models import AnthropicModel, OpenAICompatibleModel, model_from
from refold.engine.ports.ports import ModelRequest
from tests.support.loops import for_each


def test_a_provider_and_a_name_make_a_model() -> None:
    """Everything after the first colon is the name; the base URL is the adapter's."""
    local = model_from("openai:llama3:8b", "http://127.0.0.1:1/v1")
    remote = model_from("anthropic:large-1")

    assert isinstance(local, OpenAICompatibleModel)
    assert local.name == "openai:llama3:8b"
    assert (local.reference.arguments or {})["base_url"] == "http://127.0.0.1:1/v1"
    assert isinstance(remote, AnthropicModel)
    assert remote.name == "anthropic:large-1"


def test_a_file_makes_a_scripted_model(tmp_path: Path) -> None:
    """The name in the log is `scripted`: where the file lay says nothing of the run."""
    path = tmp_path / "replies.json"
    path.write_text('["Moon."]')

    model = model_from(f"scripted:{path}")

    asked = ModelRequest(messages=({"role": "user", "content": "Tides?"},))
    assert model.name == "scripted"
    assert model.complete(asked).message["content"] == "Moon."


@for_each("spec", ["", "openai", "openai:", "gpt-4o", "mistral:large"])
def test_another_form_is_refused(spec: str) -> None:
    """The error says which forms there are."""
    with pytest.raises(
        ModelNotFound, match=r"openai:NAME.* pydantic:PROVIDER:NAME, or scripted:FILE"
    ):
        model_from(spec)


def test_a_script_has_no_server(tmp_path: Path) -> None:
    """A base URL beside it is a mistake, and a missing file another."""
    with pytest.raises(ModelNotFound, match="no base URL"):
        model_from("scripted:replies.json", "http://127.0.0.1:1")
    with pytest.raises(ScriptRefused):
        model_from(f"scripted:{tmp_path / 'none.yaml'}")


@for_each("spec", ["openai:m", "anthropic:m", "pydantic:test:m", "scripted:x"])
def test_a_server_has_a_scheme(spec: str) -> None:
    with pytest.raises(ModelNotFound, match=r"'localhost:8000': expected http://… or https://…"):
        model_from(spec, "localhost:8000")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_missing_sdk_is_refused_at_once(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the command line, before a log is begun."""
    monkeypatch.setitem(sys.modules, provider, None)

    with pytest.raises(ExtraMissing, match=f"pip install 'refold\\[{provider}\\]'"):
        model_from(f"{provider}:m")
