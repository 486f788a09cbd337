"""The requests of programs, and the interfaces to tools, models, runners, people and clocks.

Protocols, and the plain values that cross them; implementations are above, or the caller's. Imports
`secrets`, `events`, `encoding` and `errors`. Rules: CONTRACT.md §7 to §11.

    ports         the protocols and their values, such as a child's task
    effects       requests of a program: a call, a model's answer, a child, a person's answer
    people        questions and approvals
    offers        a log's description of a run's tools
    program_types the types of a program's input and output
    programs      programs found by object, by module or file, or by a name that somebody ships
    executed      how many tool calls were executed while a program was run again
    clock         a clock that stands still, for tests
"""
