"""Claude Code, also as its SDKs start it (tried: 2.1.197; claude-agent-sdk 0.2.187)."""

from typing import Final

from refold.engine.observed.profile import GIT_COMMITS, Profile

PROFILE: Final = Profile(
    name="Claude Code",
    commands=("claude", "@anthropic-ai/claude-code"),
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
    volatile=("model:*/parameters/metadata/user_id",),  # {device_id, account_uuid, session_id}
    unordered_lines=("Glob", "Grep"),
    outputs={"stream-json": "lines"},
    volatile_texts=(
        # The version with a digest of the first message's beginning, where the folder stands.
        r"cc_version=\d+\.\d+\.\d+\.[0-9a-f]{3};",
        r"agentId: [0-9a-f]{17}",
        r"SendMessage with to: '[0-9a-f]{17}'",
        r"duration_ms: \d+",
        # Of agents and commands in the background.
        r"<task-id>[0-9a-z]+</task-id>",
        r"<duration_ms>\d+</duration_ms>",
        r"tasks/[0-9a-z]+\.output",
        r"in background with ID: [0-9a-z]+",
        r"Today's date is \d{4}-\d\d-\d\d",
        # Of the machine.
        r"- Shell: \w+",
        r"- OS Version: \w+ [\w.-]+",
        # Named by the prompt and two random words.
        r"\.claude/plans/[a-z0-9-]+\.md",
        # A hash has the time of its commit: of the newest one in the system prompt, of a new one.
        r"Recent commits:\n[0-9a-f]{7,40}\b",
        GIT_COMMITS,
        # Of what is printed as JSON.
        r'"(duration|duration_api|ttft|ttft_stream|time_to_request)_ms": ?\d+',
        r'"totalDurationMs": ?\d+',
        r'"end_time": ?\d+',
        r'"timestamp": ?"\d{4}-\d\d-\d\dT[0-9:.]+Z"',
        r'"(session_id|uuid|task_id|agentId)": ?"[0-9a-f-]{17,36}"',
        # Session ids in paths of the scratchpad and the transcript, results too long to be shown.
        r"tool-results/[0-9a-z]+\.txt",
        r"/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(/|\.jsonl)",
    ),
)
