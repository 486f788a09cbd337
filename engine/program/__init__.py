"""The program's side: `run`; and the program that is an agent.

Input: calls of agent code, which become requests to the kernel. Output: outcomes. Imports `kernel`,
`ports` and the folders below them; knows nothing of logs. Rules: CONTRACT.md §9, §10.5.

    run      the awaited calls: tools, models, people, children; sync and async
    drawn    immediate values: times, random numbers, files, markers, remarks
    agent    the agent loop: a model, its tool calls, until it answers
"""
