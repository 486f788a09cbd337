"""The exchange between a run and a child, the same for every runner.

A request flows down to a child; its result flows up, checked, capped, and anchored in the parent's
log. Imports `log`, `state`, `ports` and the folders below them. Rules: CONTRACT.md §7.

    envelope      the complete request to a subprocess child, as one JSON line
    reply         a child's reply: one frame, checked and converted to an outcome
    anchor        the parent's check of a child's log when it joins
    tree_digest   one digest of a run and all children that it joined
    unfinished    handling of a child when its parent's run is resumed
    tokens        how a child in another process asks its parent for more tokens
"""
