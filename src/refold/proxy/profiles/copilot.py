"""GitHub Copilot CLI (tried: 1.0.102), with a provider of the user's own."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="GitHub Copilot CLI",
    commands=("copilot", "@github/copilot"),
    works_on_folder=True,
    asks_as=("You are the GitHub Copilot CLI,", "As a sub-agent, complete your parent's task "),
    upstreams=("COPILOT_PROVIDER_BASE_URL",),
    hands_over={"task": ("name", "description", "agent_type")},
    left_out=(r"<current_datetime>[^<]*</current_datetime>",),
    output="letters",  # it prints answers of parallel agents as these come, a few letters each
    places=(
        r"result:bash measure <shellId: (\d+) ",  # counted over all agents
        r"printed text \(model: [\w.-]+\) [^\n]{0,200}?( \d+s|)\n",  # of a subagent that took long
    ),
)
