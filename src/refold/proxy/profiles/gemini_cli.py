"""Gemini CLI (tried: 0.61.0)."""

from typing import Final

from refold.engine.observed.profile import GIT_COMMITS, Profile

PROFILE: Final = Profile(
    name="Gemini CLI",
    commands=("gemini", "@google/gemini-cli"),
    hands_over={"invoke_agent": ("agent_name",)},
    left_out=(r"<session_context>[\s\S]*?</session_context>",),
    asides=("You are a specialized Task Routing AI",),
    # `json` ends with counts of tools, in the order in which these ended.
    outputs={"stream-json": "lines", "format json": "lines", "-o json": "lines"},
    volatile_texts=(
        r"Today's date is \w+, \w+ \d{1,2}, \d{4} ",
        r"/\.gemini/tmp/[\w.-]+",  # named like the last part of the folder
        r"Process Group PGID: \d+",
        r"/tool-outputs/session-[0-9a-f-]{36}/\w+\.txt",  # results that were too long to be shown
        GIT_COMMITS,
        # Of what is printed as JSON.
        r'"(totalLatencyMs|totalDurationMs|durationMs|duration_ms)": ?\d+',
        r'"session_id": ?"[0-9a-f-]{36}"',
        r'"timestamp": ?"\d{4}-\d\d-\d\dT[0-9:.]+Z"',
        r'"tool_id": ?"\w+_\d{13}_\d+"',
    ),
)
