"""Holds the values of secrets while a run is recorded, and applies the rules to them.

A shell file: it reads the environment.  One vault serves a root run and its children in this
process; a subprocess child is given the values over its pipe, which is in no log.  What reads a
value makes it an exact secret from then on.  The rules are CONTRACT.md §3.9.
"""

import os
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.secret import put
from refold.engine.errors import UsageError
from refold.engine.secrets.redaction import (
    LENGTH_MIN,
    Finder,
    Redaction,
    check_pointer,
    expression_of,
    scrubbed,
)

KEY_LENGTH_MIN: Final = 16
"""Characters of a model's key; shorter ones are placeholders that local servers take: `EMPTY`."""


_UNNAMED: Final = "\0"
"""Ends the key of a value without a name, so that nobody's `secret-1` takes its place."""


class Vault:
    """The secrets and rules of one tree of runs."""

    def __init__(
        self,
        redaction: Redaction | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        volatile: Iterable[str] = (),
        key_variables: Iterable[str] = (),
    ) -> None:
        """Take what `record` was given, and the names of the variables that hold models' keys.

        Raises:
            UsageError: a secret is too short, or a volatile path is invalid.
        """
        self.redaction = redaction or Redaction()
        self.volatile = checked_volatile(volatile)
        self._given = dict(secrets or {})
        self._passed: dict[str, str] = {}
        self.key_variables = tuple(sorted(key_variables))
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        for number, value in enumerate(self.redaction.secrets, 1):
            self._check(f"secrets[{number - 1}]", value)
            self._known[f"secret-{number}{_UNNAMED}"] = value
        for name, value in self._given.items():
            self._check(f"secrets[{name!r}]", value)
            self._known[name] = value
        for name in self.redaction.environment:
            if value := os.environ.get(name, ""):
                self._check(name, value)
                self._known[name] = value
        for name in self.key_variables:
            if len(value := os.environ.get(name, "")) >= KEY_LENGTH_MIN:
                self._known.setdefault(name, value)
        self._compile()

    @staticmethod
    def _check(name: str, value: str) -> None:
        if len(value) < LENGTH_MIN:
            raise UsageError(_too_short(name))

    def _compile(self) -> None:
        expression, names = expression_of(self._known)
        finder = self._finder_of(expression)
        # One value: a thread that searches never has the names of another expression.
        self._sought = finder, tuple(name.rstrip(_UNNAMED) for name in names)
        rules = self.redaction
        self.is_active = bool(finder or rules.paths or rules.tools)

    def _finder_of(self, expression: str) -> Finder | None:
        """Return the function that searches for secrets by their shapes; `None` for nothing."""
        return re.compile(expression) if expression else None

    def value(self, name: str) -> str | None:
        """Return the value of a secret: as it was given, or the variable's; `None` if neither.

        From now on it is removed from everything that comes back.
        """
        value = self._given.get(name) or self._passed.get(name) or os.environ.get(name)
        if value is None:
            return None
        if len(value) >= LENGTH_MIN:
            self.learn(name, value)  # beside what the variable was before: that stays secret
        return value

    def learn(self, name: str, value: str) -> None:
        """Add a value found on its way as an exact secret; `name` is in its marker."""
        with self._lock:
            if value not in self._known.values():
                self._known[self._free(name)] = value
                self._compile()

    def _free(self, name: str) -> str:
        """Return a key under which a value replaces no other; `name` is in its marker."""
        while name in self._known:
            name += _UNNAMED
        return name

    def revealed(
        self, arguments: dict[str, Json], handles: Iterable[tuple[str, str]]
    ) -> tuple[dict[str, Json], str]:
        """Return arguments with values in the place of handles; or why that cannot be."""
        for pointer, name in handles:
            value = self.value(name)
            if value is None:
                advice = f"set the variable, or record(secrets={{{name!r}: …}})"
                return arguments, f"no value for the secret {name}: {advice}"
            if len(value) < LENGTH_MIN:
                return arguments, _too_short(name)
            arguments = put(arguments, pointer, value)
        return arguments, ""

    def scrubbed(self, value: Any) -> Any:
        """Return an event or JSON value without exact secrets; itself if it has none."""
        finder, names = self._sought
        if finder is None:
            return value
        return scrubbed(value, finder, lambda found: names[(found.lastindex or 0) - 1])

    def rules(self, volatile: Iterable[str] = ()) -> dict[str, Any]:
        """Return the lists for `run.started`: names and paths, never a value.

        `volatile` are the paths that the run's tools declare, in addition to this vault's.
        """
        told = self.redaction.as_json()
        variables = sorted({*self.redaction.environment, *self.key_variables})
        if variables:
            told["environment"] = variables
        if self._given:
            told["names"] = sorted(self._given)
        listed: dict[str, Any] = {"redaction": told} if told else {}
        paths = sorted({*self.volatile, *volatile})
        return listed | ({"volatile": paths} if paths else {})

    def hand_over(self, values: Mapping[str, str], named: Iterable[str]) -> None:
        """Take the values that another process had; `named` are those that `record` was given."""
        self._known.update(values)
        self._given = {name: values[name] for name in named}
        self._passed = dict(values)
        self._compile()

    def packed(self) -> dict[str, Json]:
        """Return all of it for a child in a process of its own; holds the values."""
        return attrs.asdict(self.redaction) | {
            "given": {**self._known, **self._given},
            "named": sorted(self._given),
            "keys": list(self.key_variables),
            "volatile": list(self.volatile),
        }


def _too_short(name: str) -> str:
    return (
        f"the secret {name} is shorter than {LENGTH_MIN} characters, so it would match almost "
        "any text"
    )


def vault_of(
    rules: Mapping[str, Any],
    secrets: Mapping[str, str] | None = None,
    *,
    key_variables: Iterable[str] = (),
) -> Vault:
    """Return a vault under the rules that a log lists: for a run that continues it.

    Exact values are in no log: those that were given by value have to be given again.
    """
    told = rules.get("redaction", {})
    redaction = Redaction(
        environment=[name for name in told.get("environment", ()) if name not in key_variables],
        paths=told.get("paths", {}),
        tools=told.get("tools", ()),
    )
    volatile = rules.get("volatile", ())
    return Vault(redaction, secrets=secrets, volatile=volatile, key_variables=key_variables)


def unpacked(packed: Mapping[str, Any]) -> Vault:
    """Return the vault that `packed` was made of; the environment here differs."""
    rules = Redaction(**{name: packed[name] for name in attrs.fields_dict(Redaction)})
    made = Vault(rules, volatile=packed["volatile"], key_variables=packed["keys"])
    made.hand_over(packed["given"], packed["named"])
    return made


def checked_volatile(paths: Iterable[str]) -> tuple[str, ...]:
    """Return volatile paths if they are some: `tool:fetch/arguments/ts`, `run/output/ts`.

    Raises:
        UsageError: a value is invalid.
    """
    if isinstance(paths, str):
        raise UsageError("volatile=…: expected a list of paths, found a single string")
    for path in paths:
        kind, slash, pointer = path.partition("/")
        if not (kind == "run" or kind.startswith(("tool:", "model:", "child:"))):
            raise UsageError(
                f"volatile path {path!r}: expected tool:NAME/…, model:NAME/…, child:NAME/… or run/…"
            )
        check_pointer(slash + pointer, f"volatile path {path!r}")
    return tuple(paths)
