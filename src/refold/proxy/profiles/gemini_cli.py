"""Gemini CLI (tried: 0.61.0)."""

from typing import Final

from refold.engine.observed.profile import Profile
from refold.proxy.profiles.of_node import first_running

_WITH_A_KEY: Final = """
const given = process.env, flag = `--import=${import.meta.url}`;
if (given.GEMINI_CLI_NO_RELAUNCH) {
  const rest = (given.NODE_OPTIONS || "").replace(flag, "").trim();
  if (rest) given.NODE_OPTIONS = rest; else delete given.NODE_OPTIONS;
}
process.env = new Proxy(given, {get: (of, name) =>
  name === "GOOGLE_GEMINI_BASE_URL" && of.GEMINI_API_KEY
  && new Error().stack.includes("getAuthTypeFromEnv") ? undefined : of[name]});
"""
"""Without settings, the CLI takes a base URL for a gateway, which it then refuses with exit code
41; a settings file of the system must be root's. So the one function that asks how to log in
does not see the base URL if there is a key. Its second process removes the option again:
processes of the agent do not get it."""

PROFILE: Final = Profile(
    name="Gemini CLI",
    commands=("gemini", "@google/gemini-cli"),
    works_on_folder=True,
    appended=first_running(_WITH_A_KEY),
    asks_as=("GeminiCLI",),
    hands_over={"invoke_agent": ("agent_name",)},
    left_out=(
        r"<session_context>[\s\S]*?</session_context>",
        r"<loaded_context>[\s\S]*?</loaded_context>",  # what files called GEMINI.md say
    ),
    refusals=("Tool execution denied by policy|User denied execution",),
    asides=("You are a specialized Task Routing AI",),
    # `json` ends with counts of tools, in the order in which these ended.
    outputs={"stream-json": "lines", "format json": "lines", "-o json": "lines"},
    places=(
        r"user,system date Today's date is (\w+, \w+ \d{1,2}, \d{4}) ",
        # Named like the last part of the folder.
        r"user,system,result:run_shell_command id /\.gemini/tmp/([\w.-]+)",
        r"result:run_shell_command measure Process Group PGID: (\d+)",
        r"result:run_shell_command measure Background PIDs: (\d[\d, ]*)",
        # Results that were too long to be shown.
        r"result:run_shell_command id /tool-outputs/session-([0-9a-f-]{36})/",
        r"result:run_shell_command id /tool-outputs/session-[0-9a-f-]{36}/(\w+)\.txt",
        # Of what is printed as JSON.
        r'printed measure "(?:totalLatencyMs|totalDurationMs|durationMs|duration_ms)": ?(\d+)',
        r'printed id "session_id": ?"([0-9a-f-]{36})"',
        r'printed date "timestamp": ?"(\d{4}-\d\d-\d\dT[0-9:.]+Z)"',
        r'printed id "tool_id": ?"(\w+_\d{13}_\d+)"',
    ),
)
