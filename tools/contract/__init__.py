"""What a tool is: a function with a name, a schema, an effect class, and types that survive a log.

A function with annotations flows in; a tool flows out, whose arguments and results are read
strictly, by `engine.encoding.strict`.  Imports `refold.engine` alone.  Rules: CONTRACT.md §10.1 to
§10.4.

    tool_types    `tool`, `FunctionTool`, `DelegationTool`
    signature     what a function's signature and docstring say about a tool
    references    how another process finds a tool's function
    registry      the tools that a run may call
    policy        what each delegation tool grants its children: the table
    memory        what a stateless tool remembers for one run
"""
