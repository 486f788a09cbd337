"""Commands that move, serve and remove runs, and help to begin.

mcp           an MCP server that reads runs, or offers subagents
rm            remove runs
push          copy runs to a store
pull          copy runs from a store
doctor        whether a command can be recorded
schema        the form of documents
"""
