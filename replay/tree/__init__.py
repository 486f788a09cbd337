"""The delegation tree of a log: who delegated what to whom, in which bounds, and how it ended.

Logs flow in, a run's and its children's; nodes and text flow out.  Nothing is executed.  Imports
`observed`, `index` and `refold.engine`.  Rules: CONTRACT.md §13.9, §16.5.

    delegation_tree    the tree of a run
    observed_tree      the tree of a watched command: its conversations
    standing           a tree whose runs without an end have their standing as status
    totals         sums over a tree
    file_uses          which files a watched command changed, and which conversation of it
    run_node           frozen values, one node a run
    log_walk           one log on its way into a tree: how far it was read
    tree_text          a tree as text
    amounts            requests and costs in words
    steady             texts of a watched run without what changes on every run
"""
