"""Names of a package that load on first use (PEP 562).

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from refold.engine.log.writer import LogWriter as LogWriter
    else:
        __getattr__, __dir__, __all__ = names(__name__)

An import of a package must cost little: a child's start, pytest's and the command line's wait for
it. Type checkers, and tools that gather a program's files, read the imports; `names` finds them in
the compiled code, where they stay because `TYPE_CHECKING` is a variable. Nothing here imports
`typing`, which took half of the time of `import refold`.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

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


def _homes_in(code: "CodeType") -> dict[str, str]:
    """Return the module of each name that the code below `TYPE_CHECKING` imports.

    `co_names` has the names of a code in the order of their first use: a module, then what is
    imported from it. Only modules have dots; each is imported once.
    """
    home, module = {}, ""
    for name in code.co_names[code.co_names.index("TYPE_CHECKING") + 1 :]:
        if "." in name:
            module = name
        elif not name.startswith("__"):
            home[name] = module
    return home


def names(
    package: str, *defined: str
) -> "tuple[Callable[[str], object], Callable[[], list[str]], list[str]]":
    """Return a package's `__getattr__`, `__dir__` and `__all__`; its module calls this.

    Args:
        package: Its `__name__`.
        defined: The names that the package defines itself.
    """
    home = _homes_in(sys._getframe(1).f_code)  # noqa: SLF001 - `inspect` would be another import
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
