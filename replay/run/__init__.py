"""A run as people see it: its agents, who delegated what to whom, how each ended, and their sums.

Logs flow in, a run's and its children's; one model of them flows out, and text of it.  Nothing is
executed.  Imports `observed`, `index` and `refold.engine`.  Rules: CONTRACT.md §13.9, §16.5.

    opened_run      the model of a run and its agents, which everything that shows it reads
    program         reads the log of a run on the kernel
    watched         reads the log of a watched command: its conversations, and their files
    reading         reads a log of either kind: how far, and what its agents did
    run_node        frozen values, one node an agent
    turns           what an agent did: requests with what the model saw, and steps
    tree_text       the agents as text
    amounts         requests and costs in words
    steady          texts of a watched run without what changes on every run
"""
