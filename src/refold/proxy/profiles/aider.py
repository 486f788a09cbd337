"""Aider."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="aider",
    commands=("aider", "aider-chat"),
    asks_as=("Act as an expert software developer\\.",),
    left_out=(r"\n# \*SEARCH/REPLACE block\* Rules:[\s\S]*",),
    asides=(r"You are an expert software engineer that generates concise, ",),
    asks_last=True,
    # It tells the model of each commit that it makes.
    places=(
        r"user,assistant commit with git hash ([0-9a-f]{7,12})",
        r"printed commit Commit ([0-9a-f]{7,12}) ",
    ),
)
