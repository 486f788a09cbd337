"""The nodes of a tree that have no end, with their standing as status.

`replay.index.standing` defines the words, and looks at a log. Nothing is written here. Rules:
CONTRACT.md §14.10.
"""

from pathlib import Path
from typing import Final

import attrs

from refold.replay.index.standing import RUNNING, STANDINGS, WORDS, stood
from refold.replay.run.run_node import UNFINISHED, RunNode

_UNKNOWN: Final = frozenset({"missing", "damaged", "foreign"})
"""States of a log that may have an end which cannot be read."""


def with_standing(tree: RunNode) -> RunNode:
    """Return a tree in which runs without an end have their standing as status.

    A run of which the log is missing, damaged or another run's stays `unfinished`.  A line that is
    just being written is not a torn tail.
    """
    return _stood(tree, tree, "")


def _stood(node: RunNode, root: RunNode, above: str) -> RunNode:
    status, log_state, told = node.status, node.log_state, ""
    if status == UNFINISHED and log_state not in _UNKNOWN:
        is_asked = above in ("", *STANDINGS)  # else nobody takes an answer
        status, told = stood(
            Path(node.log) if node.log else None, node.question if is_asked else None
        )
        if above == RUNNING or (node.scope and root.status == RUNNING):
            status, told = RUNNING, WORDS[RUNNING]
    if status == RUNNING and log_state == "torn":
        log_state = "read"
    found = attrs.evolve(node, status=status, standing=told, log_state=log_state)
    above, root = status, found if node is root else root
    children = tuple(_stood(child, root, above) for child in node.children)
    return attrs.evolve(found, children=children)
