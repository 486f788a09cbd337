"""The runners that every root has, and those that it was given."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from refold.engine.errors import UsageError
from refold.engine.ports.ports import ChildRunner

RUNNERS: Final = {
    "in-process": "in_process:InProcess",
    "subprocess": "in_subprocess:InSubprocess",
    "ray": "on_ray:RayRunner",
}
"""The runners that every root has, by name: module of this folder, and class."""


class Runners(Mapping[str, ChildRunner]):
    """Runners by name: those given, and those that every root has, which load on first use."""

    def __init__(self, given: Mapping[str, ChildRunner] | None = None) -> None:
        """Take the given ones; they may replace the others."""
        self._loaded = dict(given or {})

    def __getitem__(self, name: str) -> ChildRunner:
        if name not in self._loaded:
            module, _, maker = RUNNERS[name].partition(":")
            self._loaded[name] = getattr(import_module(f"{__package__}.{module}"), maker)()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**RUNNERS, **self._loaded})

    def __len__(self) -> int:
        return len({*self})

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in RUNNERS


def known_runners(runner: str, runners: Mapping[str, ChildRunner] | None) -> Runners:
    """Return those given and those that every root has, by name.

    Raises:
        UsageError: none has the name `runner`.
    """
    known = Runners(runners)
    if runner not in known:
        raise UsageError(f"no runner is named {runner!r}; known: {', '.join(sorted(known))}")
    return known
