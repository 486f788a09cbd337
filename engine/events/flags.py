"""Rules of scheduling that came within one engine version, each with a flag in `run.started`.

A log is re-executed by the rules that its flags name; where a flag is missing, by the rule that
held before it. So older logs replay as before, and new ones by the better rules of today. No rule
has come since version 1.0. Rules: CONTRACT.md §15.1.

To add one: a field whose default is the old rule, its value in `NOW`, a sentence in §15.1. Code
asks `loop.flags` for it.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import attrs

from refold.engine.values import Value

ENGINE_VERSION: Final = 2
"""Of the rules by which the kernel schedules; 1 was before version 1.0."""


@attrs.frozen(kw_only=True)
class Flags(Value):
    """The rules that one run follows; a default is the rule of a log without the flag."""

    def as_json(self) -> dict[str, Any]:
        """Return `run.started.versions.flags`."""
        return {name: getattr(self, name) for name in attrs.fields_dict(type(self))}

    @classmethod
    def of_log(cls, versions: Mapping[str, Any]) -> Self:
        """Return the rules of a log by its `versions`; `unknown` lists the unknown ones."""
        recorded = versions["flags"]
        return cls(**{name: recorded[name] for name in attrs.fields_dict(cls) if name in recorded})

    @classmethod
    def unknown(cls, versions: Mapping[str, Any]) -> list[str]:
        """Return what this release does not know of a log's flags: a later one made it."""
        recorded = versions.get("flags")
        if not isinstance(recorded, Mapping):
            return [f"{recorded!a:.40}"]
        types = {name: type(value) for name, value in cls().as_json().items()}
        return sorted(
            f"{name}={flag!a:.40}"
            for name, flag in recorded.items()
            if type(flag) is not types.get(name)
        )


NOW: Final = Flags()
"""The rules of runs that are recorded now."""
