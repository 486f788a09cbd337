"""What a tool is: a function with a name, a schema, an effect class, and types that survive a log.

A function with annotations flows in; a tool flows out, whose arguments and results are read
strictly.  Imports `refold.engine` alone.  Rules: CONTRACT.md §10.1 to §10.3.

    tool_types    `tool`, `FunctionTool`, `DelegationTool`
    signature     what a function's signature and docstring say about a tool
    shapes        which types a tool may use, and the JSON schema of each
    strict        reads JSON values back as typed values, and coerces nothing
    hints         what type hints say, once resolved
    references    how another process finds a tool's function
    registry      the tools that a run may call
    memory        what a stateless tool remembers for one run
"""
