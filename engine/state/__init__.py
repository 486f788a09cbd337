"""State as a fold over events: `fold` over a log, `Fold` while one is being written.

Values in `state.values`, transition rules in `state.rules`, the fold that they change in
`state.folding`, JSON and digest in `state.digests`.
The rules are CONTRACT.md §6.1.
"""

from refold.engine.state.digests import STATE_VERSION, state_digest, state_json
from refold.engine.state.folding import EntryLike, Fold, evolve, fold
from refold.engine.state.values import (
    ChildState,
    Conversation,
    Left,
    LimitCount,
    OpenCall,
    RunState,
    Seal,
    ToolCount,
    Turn,
)

__all__ = [
    "STATE_VERSION",
    "ChildState",
    "Conversation",
    "EntryLike",
    "Fold",
    "Left",
    "LimitCount",
    "OpenCall",
    "RunState",
    "Seal",
    "ToolCount",
    "Turn",
    "evolve",
    "fold",
    "state_digest",
    "state_json",
]
