"""The differences of two logs: structural, scope by scope, child by child.

Input: two logs. Output: their differences.  Nothing is executed.  Imports `run`, `observed`,
`index`, `difference` and `refold.engine`.  Rules: CONTRACT.md §13.

    diff              the diff
    calls             the calls of one log, scope by scope
    observed_calls    requests and tool calls of a watched command
    pairing           pairs the calls of two runs
    log_diff          the differences as values, plain data and text
    measured          values that tools and notes declare to vary between recordings
"""
