"""Codex (tried: 0.171.0), which does not read OPENAI_BASE_URL."""

from typing import Final

from refold.engine.observed.profile import Profile

_RUNS: Final = ",".join(
    f"result:{name}" for name in ("exec_command", "write_stdin", "shell", "shell_command", "exec")
)
"""Tools that run commands."""
_META: Final = "internal_chat_message_metadata_passthrough"

_ONE_COMMAND: Final = (
    r'Script completed\nWall time \S{1,9} seconds\nOutput:\n\{"chunk_id":"\w{1,9}",'
    r'"wall_time_seconds":[0-9.e-]+,"exit_code":-?[1-9]'
)
"""The output of a script that runs one command which fails, and prints its exit code."""

PROFILE: Final = Profile(
    name="Codex",
    commands=("codex", "@openai/codex"),
    works_on_folder=True,
    asks_as=("codex_",),
    arguments=("-c", 'openai_base_url="{openai}"'),
    thread=("x-codex-turn-metadata/thread_id", "thread-id"),
    above=("x-codex-turn-metadata/parent_thread_id", "x-codex-parent-thread-id"),
    agent=("x-codex-turn-metadata/agent_name",),
    session=("x-codex-turn-metadata/session_id", "session-id"),
    hands_over={"spawn_agent": ("task_name",)},
    left_out=(
        r"<environment_context>[\s\S]*?</environment_context>",
        r"# AGENTS\.md instructions for [\s\S]*?</INSTRUCTIONS>",
    ),
    failures=(
        r"(collab spawn|exec_command|write_stdin|apply_patch verification) failed: ",
        r"Script failed\n|unsupported call: |failed to parse function arguments: |aborted by user",
        r"Wall time: \S{1,9} seconds\nProcess exited with code -?[1-9]",
        r"Chunk ID: \w{1,9}\nWall time: \S{1,9} seconds\nProcess exited with code -?[1-9]",
        _ONE_COMMAND,
    ),
    volatile=(
        "model:*/parameters/client_metadata",
        f"model:*/messages/*/provider/responses/{_META}",
        f"model:*/messages/*/provider/responses/*/{_META}",
        "model:*/messages/*/provider/responses/id",
        "model:*/messages/*/provider/responses/*/id",
    ),
    outputs={"--json": "lines"},
    places=(
        r"user,system date <current_date>(\d{4}-\d\d-\d\d)</current_date>",
        rf"{_RUNS} measure Wall time:? (\d+\.\d+) seconds",
        rf'{_RUNS} measure "wall_time_seconds": ?([0-9.]+(?:e-?[0-9]+)?)',
        rf'{_RUNS} id "chunk_id": ?"([0-9a-f]+)"',
        rf"{_RUNS} id Chunk ID: ([0-9a-f]+)",
        # Another one in a folder with a longer name, of what stands beside it.
        rf'{_RUNS} measure "original_token_count": ?(\d+)',
        rf"{_RUNS} measure [Oo]riginal token count: (\d+)",
        # Of what is printed as JSON.
        r'printed id "(?:thread_id|sender_thread_id)": ?"([0-9a-f-]{36})"',
        r'printed id [\[,]"([0-9a-f-]{36})"',
    ),
    unordered=(r"Message Type: (FINAL_ANSWER|MESSAGE)\n",),  # of agents that end together
)
