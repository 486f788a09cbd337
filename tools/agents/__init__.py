"""Who does the work: agents of files, their prompts and plans, and profiles of spawned agents.

Files and sections of text flow in; inputs of the agent program, rendered prompts and plans flow
out.  Imports `contract`, `files` and `refold.engine`.  Rules: CONTRACT.md §10.5, §10.6, §10.18,
§10.20.

    agent_files      `AGENT.md`: front matter and a system prompt; a folder of them; as prompts
    prompts          sections of text and tools, found by name, rendered with values
    plans            an objective, its steps, and the tools that keep them up to date
    profiles         which prompt, tools and models a spawned agent has
"""
