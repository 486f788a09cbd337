"""Scripts that stream what LangGraph does (tried: 1.2.22): agents of LangChain, too."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="LangGraph",
    libraries=("stream_mode", "streamMode"),
    # Results are streamed as tools end, which run on threads: a script prints them in that order.
    output="words",
)
