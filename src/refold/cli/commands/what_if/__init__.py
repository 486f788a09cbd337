"""Commands that change a recorded run, and run it again.

fork             continue from an entry, with other results
explore          other orders of completion, other results one at a time, or answers that fail
"""
