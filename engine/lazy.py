"""Names of a package that load on first use (PEP 562).

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from refold.engine.log.writer import LogWriter as LogWriter
    else:
        __getattr__, __dir__, __all__ = names(__name__, {"refold.engine.log.writer": "LogWriter"})

An import of a package must cost little: a child's start, pytest's and the command line's wait for
it. Type checkers, and tools that gather a program's files, read the imports; the table repeats
them for Python. Nothing here imports `typing`, which took half of the time of `import refold`.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FIELDS = "\n\n    Attributes:\n"
_FIELD = r'^    (\w+): [^\n]*\n(?:        [^\n]*\n|    \)[^\n]*\n)*    """(.*?)"""$'


def _with_fields(found: type, doc: str) -> str:
    """Return the docstring of a class with the docstrings of its fields, for `help`.

    Python keeps no such texts, and Sphinx finds them by itself.
    """
    if _FIELDS in doc:  # another package has this name as well
        return doc
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
    return f"{doc}{_FIELDS}" + "\n".join(lines) if lines else doc


def names(
    package: str, homes: "Mapping[str, str]", *defined: str
) -> "tuple[Callable[[str], object], Callable[[], list[str]], list[str]]":
    """Return a package's `__getattr__`, `__dir__` and `__all__`.

    Args:
        package: Its `__name__`.
        homes: The names that each module defines, separated by spaces.
        defined: The names that the package defines itself.
    """
    home = {name: module for module, listed in homes.items() for name in listed.split()}
    public = sorted((*home, *defined), key=lambda name: (name.islower(), name))
    members = vars(sys.modules[package])
    for name in home:
        members.pop(name, None)  # `importlib.reload` executes a package in its old globals

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        __import__(home[name])  # `importlib` would be another import at each start
        found = members[name] = getattr(sys.modules[home[name]], name)
        if isinstance(found, type) and (doc := found.__doc__) and "sphinx" not in sys.modules:
            found.__doc__ = _with_fields(found, doc)
        return found

    return load, lambda: sorted(public), public
