"""The program's side: `run`; and the program that is an agent.

Calls of agent code flow in and become requests to the kernel; outcomes flow back. Imports `kernel`,
`ports` and the folders below them; knows nothing of logs. Rules: CONTRACT.md §9, §10.5.

    run      what a program awaits: tools, models, people, children; both faces
    drawn    what it is given at once: times, random numbers, files, markers, remarks
    agent    the agent loop: a model, its tool calls, until it answers
"""
