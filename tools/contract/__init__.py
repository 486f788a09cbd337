"""The definition of a tool: a function with a name, a schema, an effect class and types.

Input: an annotated function. Output: a tool, whose arguments and results `engine.encoding.strict`
reads without coercion, so that a log preserves them. Imports only `refold.engine`.  Rules:
CONTRACT.md §10.1 to §10.4.

    tool_types    `tool`, `FunctionTool`, `DelegationTool`; how another process finds a function
    signature     a tool's parameters from a function's signature and docstring
    registry      the tools that a run may call
    policy        the table of the shipped delegation tools
    options       the options that all delegation tools have
"""
