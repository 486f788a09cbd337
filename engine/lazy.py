"""Names of a package that load on first use, told in one table.

An import of a package must cost nothing: a child's start, pytest's and the command line's wait for
it.  Beside the table stands a block `if TYPE_CHECKING:` with the same names, each `as` itself: type
checkers read it and nothing runs it.  `tests/engine/test_lazy.py` holds the two to each other.
"""

import sys
from collections.abc import Mapping
from importlib import import_module


def lazily(package: str, homes: Mapping[str, str], *defined: str) -> None:
    """Give a package its `__getattr__`, `__dir__` and `__all__`.

    Args:
        package: its `__name__`.
        homes: names, with spaces between, by the module that holds them; modules below `refold`.
        defined: names that the package itself defines.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}
    members = vars(sys.modules[package])

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = members[name] = getattr(import_module(f"refold.{home[name]}"), name)
        return found

    public = sorted((*home, *defined), key=lambda name: (name.islower(), name))
    members.update(__getattr__=load, __dir__=lambda: sorted(public), __all__=public)
