"""What two logs say differently: structural, scope by scope, child by child.

Two logs flow in; their differences flow out.  Nothing is executed.  Imports `tree`, `observed`,
`index`, `difference` and `refold.engine`.  Rules: CONTRACT.md §13.

    diff              the diff
    calls             the calls of one log, scope by scope
    observed_calls    requests and tool calls of a watched command
    pairing           which call of one run answers which of another
    log_diff          the differences as values, plain data and text
    measured          what tools and notes declare to be otherwise in each recording
"""
