"""Gemini CLI."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="Gemini CLI",
    commands=("gemini", "@google/gemini-cli"),
    upstreams=("GOOGLE_GEMINI_BASE_URL=https://generativelanguage.googleapis.com",),
    left_out=(r"<session_context>[\s\S]*?</session_context>",),
)
