"""What passes between a run and a child, whichever runner runs it.

A request flows down to a child; its result flows up, checked, capped, and anchored in the parent's
log. Imports `log`, `state`, `ports` and the folders below them. Rules: CONTRACT.md §7.

    envelope      all that a subprocess child is told, as one JSON line
    reply         what a child hands back: one frame, checked and made an outcome
    anchor        what a parent reads of a child's log when it joins
    tree_digest   what a run and all children that it joined did, as one digest
    unfinished    what becomes of a child when its parent's run is resumed
    tokens        how a child in another process asks its parent for more tokens
"""
