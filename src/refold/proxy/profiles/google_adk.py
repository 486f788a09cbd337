"""Google ADK (tried: 2.13.0), and scripts that name it."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="Google ADK",
    commands=("adk",),
    libraries=("google.adk",),
    asks_as=(r".*\bgoogle-adk/",),
    # Events of parallel agents are told to the next one in the order in which they came.
    unordered=("For context: below is a transcript of what another agent did, quoted between ",),
)
