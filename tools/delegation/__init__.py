"""The delegation tools: one file a tool, one row each in `contract.policy`.

A model's payload flows in and becomes `Delegation`s; outcomes of children flow back as the tool's
result.  Imports `agents`, `files`, `contract` and `refold.engine`.  Rules: CONTRACT.md §10.4,
§10.7, §10.16, §10.17, §10.20.

    words                 from a child's outcome to what a model is told of it
    shared                what every delegation tool shares: start, join, notes
    forked_children       what those share that hand on a session
    subagent              one fresh child for one task
    dispatch_subagent     one child, forked from the caller's session, on a registered prompt
    dispatch_subagents    many children at once, each with a plan
    subagent_dispatch     a task for another agent that a file defines
    spawn                 start a child and go on; ask for its result later
    saved_sessions        conversations of dispatched agents, read back from their logs
    shipped               the tools made of the rows

To add one: its file, its row in `contract.policy.POLICIES`, its maker in `shipped.MAKERS`, and its
example.  Agent files may name it then, and a run of one has it as its maker makes it; what a
project's configuration changes about it, if anything, stands in `configuration.prepared_run`.
"""
