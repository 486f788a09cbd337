"""Names of a package that load on first use, told in one table.

An import of a package must cost nothing: a child's start, pytest's and the command line's wait for
it.  Beside the table stands a block `if TYPE_CHECKING:` with the same names, each `as` itself: type
checkers read it and nothing runs it.  `tests/engine/test_lazy.py` holds the two to each other.
"""

import sys
from collections.abc import Mapping
from importlib import import_module

_FIELD = r'^    (\w+): [^\n]*\n(?:        [^\n]*\n|    \)[^\n]*\n)*    """(.*?)"""$'


def _with_fields(found: type) -> str:
    """Return the docstring of a class with what stands below its fields, for `help`.

    Python keeps no such texts, and Sphinx finds them by itself.
    """
    import re  # noqa: PLC0415 - whoever loads a name has loaded it; `refold --version` has not

    told: dict[str, str] = {}
    for each in found.__mro__[:-1]:
        file = getattr(sys.modules[each.__module__], "__file__", None)
        if file is None or not each.__module__.startswith("refold."):
            continue
        with open(file, encoding="utf-8") as source:  # noqa: PTH123 - as light as can be
            _, _, after = source.read().partition(f"\nclass {each.__name__}")
        body = re.split(r"\n(?=[^\s)])", after, maxsplit=1)[0]
        for name, text in re.findall(_FIELD, body, re.MULTILINE | re.DOTALL):
            told.setdefault(name, " ".join(text.split()))
    lines = [f"        {name}: {text}" for name, text in told.items() if not name.startswith("_")]
    return (
        "\n".join([f"{found.__doc__}\n\n    Attributes:", *lines]) if lines else str(found.__doc__)
    )


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
        if isinstance(found, type) and found.__doc__ and "sphinx" not in sys.modules:
            found.__doc__ = _with_fields(found)
        return found

    public = sorted((*home, *defined), key=lambda name: (name.islower(), name))
    members.update(__getattr__=load, __dir__=lambda: sorted(public), __all__=public)
