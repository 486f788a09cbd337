"""Gemini CLI (tried: 0.61.0)."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="Gemini CLI",
    commands=("gemini", "@google/gemini-cli"),
    hands_over={"invoke_agent": ("agent_name",)},
    left_out=(r"<session_context>[\s\S]*?</session_context>",),
    asides=("You are a specialized Task Routing AI",),
    volatile_texts=(
        r"Today's date is \w+, \w+ \d{1,2}, \d{4} ",
        r"/\.gemini/tmp/[\w.-]+",  # named like the last part of the folder
        r"Process Group PGID: \d+",
    ),
)
