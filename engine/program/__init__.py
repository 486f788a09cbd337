"""What a program sees: `run`; and the program that is an agent.

Calls of agent code flow in and become requests to the kernel; outcomes flow back.  Imports
`kernel`, `ports` and what stands below; knows nothing of logs.  Rules: CONTRACT.md §9, §10.5.

    run      the face over the kernel, for asynchronous programs and for plain ones
    drawn    what a program gets without asking the world: random numbers, markers, remarks
    agent    the agent loop: a model, its tool calls, until it answers
"""
