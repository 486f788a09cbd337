"""Commands that write a log, or continue one.

demo          a survey, recorded, shown, verified, replayed
run           an agent that a file defines
record        a command of another program
mcp_proxy     an MCP server
resume        a run that broke off or waits
"""
