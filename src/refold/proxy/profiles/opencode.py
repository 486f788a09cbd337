"""Opencode (tried: 1.18.33, with OpenAI and with Anthropic)."""

from typing import Final

from refold.engine.observed.profile import GIT_COMMITS, Profile

PROFILE: Final = Profile(
    name="opencode",
    commands=("opencode", "opencode-ai"),
    asks_as=("opencode/",),
    thread=("x-session-id",),
    above=("x-parent-session-id",),
    session=("x-parent-session-id", "x-session-id"),  # of what names no parent: the parent's
    hands_over={"task": ("description", "subagent_type")},
    volatile=("model:*/parameters/prompt_cache_key",),
    unordered_lines=("glob", "grep"),
    outputs={"--format json": "lines"},
    volatile_texts=(
        r'<task id=\\?"ses_[0-9A-Za-z]+\\?"',
        r"\bses_[0-9A-Za-z]{26}\b",  # of a subagent that failed
        r"tool-output/tool_[0-9A-Za-z]+",  # of results that were too long
        GIT_COMMITS,
        # Of what is printed as JSON.
        r'"(ses|msg|prt)_[0-9A-Za-z]{26}"',
        r'"(timestamp|start|end)": ?\d{13}',
        r"Today's date: [A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4}",
    ),
)
