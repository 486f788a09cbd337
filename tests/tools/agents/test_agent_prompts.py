"""Agents of files are prompts of the namespace `agents`, in another process too."""

from refold.engine.ports.programs import load
from refold.engine.session import Session
from refold.tools.agents.agent_files import NAMESPACE, AgentDef, agent_prompts

REVIEWER = AgentDef(id="reviewer", name="Reviewer", description="d", system_prompt="Pay $5, $x.")


def test_an_agent_is_a_prompt_with_its_text_to_the_letter() -> None:
    registry = agent_prompts([REVIEWER])

    factory = registry.resolve(NAMESPACE, "reviewer")
    assert factory is not None
    assert "Pay $5, $x." in factory(session=Session()).render().text
    assert registry.resolve(NAMESPACE, "other") is None


def test_another_process_makes_the_same() -> None:
    registry = agent_prompts([REVIEWER])
    assert registry.reference is not None

    again = load(registry.reference)

    factory = again.resolve(NAMESPACE, "reviewer")
    assert "Pay $5, $x." in factory(session=Session()).render().text
