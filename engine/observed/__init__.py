"""Events from the exchange between models and programs that Refold does not run.

Input: requests and answers, as the proxy sees them. Output: events for a log. Nothing here opens a
socket. Imports `wire`, `recording` for the ends of a log, and the folders below them. Rules:
CONTRACT.md §16.

    observer             events of requests and answers
    threads              finds the conversation of a request
    openers              finds the tool call that opened a conversation
    links                tells which of these links are confirmed; names of delegating tools
    mcp, mcp_messages    events of the messages between MCP clients and servers
    binding              maps recorded values to current ones
    file_names           pairs files that two runs named by a time or an id
    volatile             values that are not compared, the order of results and notices, and the
                         equality of requests
    journal              the log of a watched command
    profile              settings for one agent program (`proxy.profiles` has some)
"""
