"""How another process finds a tool's function again: by module or file, and name.

Only what can be found is referred to: the name is looked up here and now, so that a reference
never leads to something else.  Loading one is `engine.ports.programs`.  Rules: CONTRACT.md §10.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from refold.engine.errors import ProgramNotFound
from refold.engine.ports.ports import Reference
from refold.engine.ports.programs import reference_of


def place_of(function: Callable[..., Any]) -> tuple[Reference, Any] | None:
    """Return the reference to `function`, and the object at that place: perhaps a tool.

    `None` if an import cannot reach it: closures, lambdas, bound methods, partials.
    """
    if isinstance(function, partial) or getattr(function, "__self__", None) is not None:
        return None
    try:
        reference = reference_of(function)
    except ProgramNotFound:
        return None
    found: Any = sys.modules.get(function.__module__)
    for part in reference.name.split("."):
        found = getattr(found, part, None)
    return reference, found
