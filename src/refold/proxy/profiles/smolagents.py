"""smolagents (tried: 1.26.0): scripts that use it."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="smolagents",
    libraries=("smolagents",),
    output="lines",  # the managed agents of one step print in threads of their own
    places=(
        r"printed measure \[Step \d+: Duration (\d+\.\d+) seconds",
        r"user,assistant id 'id': '([\w-]+)'",  # the model gets its calls as text
    ),
)
