"""The user's own modules in a process that re-executes one log after the other.

They are removed after each log and executed again for the next, so no state stays in them. They are
found and compiled once, because code does not change. Installed modules stay loaded. Rules:
CONTRACT.md §14.13.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from refold.engine.loop.loop import is_librarys


class OwnModules:
    """Forgets the modules of the user's own, and finds them again when they are imported."""

    def __init__(self) -> None:
        self._staying: dict[str, ModuleType] = {}
        self._found: dict[str, tuple[_CompiledOnce, list[str] | None]] = {}
        sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Let them be imported anew.

        Only those are looked at that came since: there are hundreds that stay.
        """
        for name, module in list(sys.modules.items()):
            if self._staying.get(name) is module:
                continue
            if _is_own(name, module):
                self._remember(name, getattr(module, "__spec__", None))
                del sys.modules[name]
            else:
                self._staying[name] = module

    def _remember(self, name: str, spec: Any) -> None:
        loader = getattr(spec, "loader", None)
        if type(loader) is SourceFileLoader and spec.name == name:
            found = _CompiledOnce(name, loader.path)
            self._found[name] = found, spec.submodule_search_locations

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is imported that was forgotten here; `None` of any other."""
        if name not in self._found:
            return None
        loader, places = self._found[name]
        return importlib.util.spec_from_file_location(
            name,
            loader.path,
            loader=loader,
            submodule_search_locations=None if places is None else list(places),
        )


class _CompiledOnce(SourceFileLoader):
    """Reads and compiles a module once, however often it is executed."""

    _code: CodeType | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        if self._code is None:
            self._code = super().get_code(fullname)
        return self._code


def _is_own(name: str, module: object) -> bool:
    file = getattr(module, "__file__", None)
    is_refolds = name.partition(".")[0] in ("refold", "__main__")
    return bool(file) and not is_refolds and not is_librarys(str(file))
