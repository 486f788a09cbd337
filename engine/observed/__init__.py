"""Programs that Refold does not run: what passes between them and their models, as events.

Requests and answers flow in, as the proxy sees them pass; events flow out to a log.  Nothing here
opens a socket.  Imports `wire`, `recording` for the ends of a log, and what stands below.
Rules: CONTRACT.md §16.

    observer             events of requests and answers
    threads              which conversation a request belongs to
    openers              which tool call opened a conversation
    order                in which order results and notices are compared
    delegations          names of tools that hand work over
    mcp, mcp_messages    what passes between MCP clients and servers, as events
    binding              which values of a recording are which of now, and what is the same
    volatile             what is not compared, and when two requests are the same
    journal              the log of a watched command
    profile              what is known of one agent program (`proxy.profiles` has some)
"""
