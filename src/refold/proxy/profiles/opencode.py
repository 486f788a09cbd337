"""Opencode (tried: 1.18.33, with OpenAI and with Anthropic)."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="opencode",
    commands=("opencode", "opencode-ai"),
    works_on_folder=True,
    asks_as=("opencode/",),
    thread=("x-session-id",),
    above=("x-parent-session-id",),
    session=("x-parent-session-id", "x-session-id"),  # of what names no parent: the parent's
    hands_over={"task": ("description", "subagent_type")},
    asides=(r"You are a title generator\.",),  # whose first message is not the user's
    refusals=("The user (?:rejected permission|has specified a rule which prevents)",),
    unordered_lines=("glob", "grep"),
    outputs={"--format json": "lines"},
    places=(
        r'result:task id <task id=\\?"(ses_[0-9A-Za-z]+)',
        r"result:task id \b(ses_[0-9A-Za-z]{26})\b",  # of a subagent that failed
        r"result:bash,result:grep id tool-output/(tool_[0-9A-Za-z]+)",  # that were too long
        r"user,system date Today's date: ([A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4})",
        # Of what is printed as JSON.
        r'printed id "((?:ses|msg|prt)_[0-9A-Za-z]{26})"',
        r'printed measure "(?:timestamp|start|end)": ?(\d{13})',
    ),
)
