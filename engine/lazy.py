"""Names of a package that load on first use, declared by ordinary imports in a block.

    with lazily(__name__):
        from refold.engine.log.writer import LogWriter as LogWriter

An import of a package must cost nothing: a child's start, pytest's and the command line's wait for
it. So such a block imports nothing: which name comes from where is noted, and looked up when
somebody asks for the name. Type checkers, and tools that gather a program's files, read the block
as ordinary imports. Nothing here imports `typing`, which took half of the time of `import refold`.
"""

import _thread  # as `threading`, which nobody may need
import builtins
import sys

_FIELD = r'^    (\w+): [^\n]*\n(?:        [^\n]*\n|    \)[^\n]*\n)*    """(.*?)"""$'


def _with_fields(found: type) -> str:
    """Return the docstring of a class with the docstrings of its fields, for `help`.

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


_lock = _thread.allocate_lock()
_blocks: dict[int, dict[str, str]] = {}
"""By the identity of a package's globals, while its block is read: the module of each name."""
_import = builtins.__import__
"""What imports otherwise."""


class _Empty:
    """Stands for a module that is not imported yet."""

    def __getattr__(self, _name: str) -> None: ...


def _noted(
    name: str,
    members: dict[str, object] | None = None,
    scope: dict[str, object] | None = None,
    names: tuple[str, ...] | None = (),
    level: int = 0,
) -> object:
    """Replace `__import__`: note the names of a block, and import everything else."""
    home = _blocks.get(id(members))
    if home is None:  # another thread imports something, or a finaliser
        return _import(name, members, scope, names, level)
    home.update(dict.fromkeys(names or (), name))
    return _Empty()


class lazily:  # noqa: N801 - it is said as a word: `with lazily(__name__)`
    """Gives a package its `__getattr__`, `__dir__` and `__all__`, by the imports of its block."""

    def __init__(self, package: str, *defined: str) -> None:
        """Take the package's `__name__`, and names that it defines itself."""
        self._package = package
        self._members = vars(sys.modules[package])
        self._home: dict[str, str] = {}
        self._defined = defined

    def __enter__(self) -> None:
        global _import  # noqa: PLW0603 - there is one `__import__` for all packages
        with _lock:
            if not _blocks:
                _import = builtins.__import__
                builtins.__import__ = _noted  # type: ignore[assignment]  # its own are builtins
            _blocks[id(self._members)] = self._home

    def __exit__(self, *_: object) -> None:
        with _lock:
            del _blocks[id(self._members)]
            if not _blocks:
                builtins.__import__ = _import
        for name in self._home:
            del self._members[name]
        public = sorted((*self._home, *self._defined), key=lambda name: (name.islower(), name))
        self._members.update(__getattr__=self._load, __dir__=lambda: sorted(public), __all__=public)

    def _load(self, name: str) -> object:
        if name not in self._home:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        __import__(self._home[name])  # `importlib` would be another import at each start
        found = self._members[name] = getattr(sys.modules[self._home[name]], name)
        if isinstance(found, type) and found.__doc__ and "sphinx" not in sys.modules:
            found.__doc__ = _with_fields(found)
        return found
