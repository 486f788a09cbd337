"""The delegation tools, with one file and one row in `contract.policy` each.

Input: a model's payload, converted to `Delegation`s. Output: the children's outcomes as the tool's
result.  Imports `agents`, `files`, `contract` and `refold.engine`.  Rules: CONTRACT.md §10.4,
§10.7, §10.16, §10.17, §10.20.

    words                 the text about a child's outcome for the model
    shared                the frame of every call: check the arguments, note, start, join, answer
    forked_children       parts shared by the tools that pass on a session
    subagent              one fresh child for one task
    dispatch_subagent     one child, forked from the caller's session, on a registered prompt
    dispatch_subagents    many children at once, each with a plan
    subagent_dispatch     a task for a different agent, defined in a file
    spawn                 start a child and continue; fetch its result later
    saved_sessions        conversations of dispatched agents, read back from their logs
    shipped               the tools made of the rows

To add one: its file, its row in `contract.policy.POLICIES`, its maker in `shipped.MAKERS`, and its
example.  Agent files may then name it, and their runs get the tool from its maker.
`configuration.prepared_run` applies a project's configuration to it.
"""
