"""The runners that every root has, and those that it was given."""

from collections.abc import Mapping

from refold.engine.errors import UsageError
from refold.engine.ports.ports import ChildRunner
from refold.engine.runners.in_process import InProcess
from refold.engine.runners.in_subprocess import InSubprocess
from refold.engine.runners.on_ray import RayRunner


def default_runners() -> dict[str, ChildRunner]:
    """Return the runners that every root has, by name."""
    runners: list[ChildRunner] = [InProcess(), InSubprocess(), RayRunner()]
    return {runner.name: runner for runner in runners}


def known_runners(runner: str, runners: Mapping[str, ChildRunner] | None) -> dict[str, ChildRunner]:
    """Return those given and those that every root has, by name.

    Raises:
        UsageError: none has the name `runner`.
    """
    known = {**default_runners(), **(runners or {})}
    if runner not in known:
        raise UsageError(f"no runner is named {runner!r}; known: {', '.join(sorted(known))}")
    return known
