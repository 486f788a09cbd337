"""Claude Code, also as its SDKs start it (tried: 2.1.197; claude-agent-sdk 0.2.187)."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="Claude Code",
    commands=("claude", "@anthropic-ai/claude-code"),
    works_on_folder=True,
    libraries=("claude_agent_sdk", "@anthropic-ai/claude-agent-sdk"),
    asks_as=("claude-cli/", r"Bun/[\d.]+$"),  # the latter looks first whether the server is there
    # It asks when its MCP servers have answered, or after the 30 s that it gives to one: else it
    # asks at once, and which tools it offers hangs on how long they take to start.
    variables={"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "30000"},
    thread=("x-claude-code-agent-id",),  # a subagent's; the main conversation has none
    session=("x-claude-code-session-id",),
    hands_over={
        "Agent": ("name", "description", "subagent_type"),
        "Task": ("name", "description", "subagent_type"),
    },
    left_out=(
        r"<system-reminder>[\s\S]*?</system-reminder>",
        r"x-anthropic-billing-header:[^\n]*?cc_entrypoint=[^;]*;(?: cc_\w+=[^;]*;)*",
    ),
    asides=(r"You are [^.]{1,99}\.\s?Generate a concise, sentence-case title",),  # also late ones
    refusals=(
        r"Claude requested permissions to |The user doesn't want to ",
        r"Permission (?:to|for) [\s\S]{1,999}? has been denied",
    ),
    unordered_lines=("Glob", "Grep"),
    outputs={"stream-json": "lines"},
    places=(
        # Of two that start in an empty HOME, each draws one, or the second finds that of the first.
        r'parameters measure "device_id":"([0-9a-f]{64})"',
        # The version with a digest of the first message's beginning, where the folder stands.
        r"system text cc_version=\d+\.\d+\.\d+\.([0-9a-f]{3});",
        r"result:Agent,result:Task id agentId: ([0-9a-f]{17})",
        r"result:Agent,result:Task id SendMessage with to: '([0-9a-f]{17})'",
        r"result:Agent,result:Task measure duration_ms: (\d+)",
        r"result:Agent,result:Task measure subagent_tokens: (\d+)",
        # Of agents and commands in the background.
        r"user id <task-id>([0-9a-z]+)</task-id>",
        r"user measure <duration_ms>(\d+)</duration_ms>",
        r"user,result:Agent,result:Task,result:Bash id tasks/([0-9a-z]+)\.output",
        r"result:Bash id in background with ID: ([0-9a-z]+)",
        r"user,system date Today's date is (\d{4}-\d\d-\d\d)",
        # Of the machine.
        r"system text - Shell: (\w+)",
        r"system text - OS Version: (\w+ [\w.-]+)",
        # Named by the prompt and two random words.
        r"user,system id \.claude/plans/([a-z0-9-]+)\.md",
        # Results that are too long to be shown, by the tools that have such.
        r"result:Bash,result:Grep,result:WebFetch id tool-results/([0-9a-z]+)\.txt",
        # Of what is printed as JSON.
        r'printed measure "(?:duration|duration_api|ttft|ttft_stream|time_to_request)_ms": ?(\d+)',
        r'printed measure "totalDurationMs": ?(\d+)',
        r'printed measure "end_time": ?(\d+)',
        r'printed date "timestamp": ?"(\d{4}-\d\d-\d\dT[0-9:.]+Z)"',
        r'printed id "(?:session_id|uuid|task_id|agentId)": ?"([0-9a-f-]{17,36})"',
    ),
)
