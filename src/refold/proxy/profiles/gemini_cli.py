"""Gemini CLI."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="Gemini CLI",
    commands=("gemini", "@google/gemini-cli"),
    left_out=(r"<session_context>[\s\S]*?</session_context>",),
)
