"""The values of a settings file, each with its line.

A `Setting` is one value and its place. Reading it returns the expected type or raises an error with
the place. YAML is composed a second time to get the lines. TOML has no such reader, so its lines
are searched: members of inline tables have their table's line. The values are interpreted in
`tools.configuration.config` and `tools.agents.agent_files`.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import yaml

from refold.engine.encoding.canonical import Json, check
from refold.engine.encoding.strict import suggestion
from refold.engine.errors import ConfigRefused, NotCanonical, UsageError
from refold.engine.plain_files import plain_file

TABLE: Final = ("tool", "refold")
"""The path of the configuration table in a `pyproject.toml`."""

T = TypeVar("T")
Lines = Mapping[str, int]
"""By dotted member, `tools.spawn.enabled`; 1-based."""


@attrs.frozen
class Setting:
    """One value of a settings file, and its place; raises `ConfigRefused` for wrong types."""

    file: Path
    pointer: str
    """Dotted, `tools.spawn.enabled`; empty for all that the file holds."""
    value: Any
    lines: Lines = attrs.field(factory=dict, repr=False)

    @property
    def line(self) -> int:
        """The line of the member, or of its nearest known parent; 0 if unknown."""
        pointer = self.pointer
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition(".")[0]
        return self.lines.get(pointer, 0)

    def at(self, name: str, value: Any = None) -> "Setting":
        """Return a member below this one."""
        pointer = f"{self.pointer}.{name}" if self.pointer else name
        return attrs.evolve(self, pointer=pointer, value=value)

    def refused(self, why: str) -> ConfigRefused:
        """Return an error with the place and the reason `why`."""
        return ConfigRefused(str(self.file), self.line, self.pointer, why)

    def expected(self, what: str) -> ConfigRefused:
        """Return the error of a value of another type."""
        return self.refused(f"expected {what}, found {self.value!r:.60}")

    def accepted(self, make: Callable[[], T], before: str = "") -> T:
        """Return what `make` gives; its refusal is one of this value, with `before` in front."""
        try:
            return make()
        except (UsageError, NotCanonical) as error:
            raise self.refused(f"{before}{error}") from None

    def _of(self, kind: type[T], what: str) -> T:
        if type(self.value) is not kind:
            raise self.expected(what)
        return self.value

    def text(self) -> str:
        """Return the value, a text."""
        return self._of(str, "text")

    def flag(self) -> bool:
        """Return the value, true or false."""
        return self._of(bool, "true or false")

    def texts(self, expected: str = "a list of strings") -> tuple[str, ...]:
        """Return the value, a list of texts."""
        if not all(isinstance(one, str) for one in self._of(list, expected)):
            raise self.expected(expected)
        return tuple(self.value)

    def plain(self) -> dict[str, Json]:
        """Return the value, an object of JSON."""
        found = {name: member.value for name, member in self.members().items()}
        self.accepted(lambda: check(found), "expected JSON: ")
        return found

    def members(self) -> dict[str, "Setting"]:
        """Return the members of an object by name; a missing value counts as an empty object."""
        if self.value is not None and type(self.value) is not dict:
            raise self.expected("an object")
        found = {name: self.at(str(name), each) for name, each in (self.value or {}).items()}
        for name, member in found.items():
            if not isinstance(name, str):
                raise member.refused(f"expected a name that is text, found {name!r}")
        return found

    def fields(self, **read: "Callable[[Setting], Any]") -> dict[str, Any]:
        """Return the members of an object by name, each as `read` has it; others are refused."""
        found = self.members()
        for name, member in found.items():
            member.check_known(name, read, "is unknown")
        return {name: read[name](member) for name, member in found.items()}

    def check_known(self, name: str, names: Iterable[str], why: str) -> None:
        """Refuse a name that is not in `names`; the error lists the nearest and all names."""
        if name and name not in names:
            raise self.refused(f"{name!r} {why}{suggestion(name, names)}")


def values_of(file: Path) -> tuple[Any, Lines]:
    """Return the content of a YAML file, or of the table of a TOML file, and its lines.

    Raises:
        ConfigRefused: the file cannot be read, or has a duplicate member.
    """
    return _toml(file) if file.suffix == ".toml" else _yaml(file)


def _content_of(file: Path) -> str:
    try:
        return plain_file(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigRefused(str(file), 0, "", f"cannot be read: {why}") from None


def _yaml(file: Path) -> tuple[Any, Lines]:
    try:
        values, lines = yaml_of(file, _content_of(file))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) or str(error)
        raise ConfigRefused(str(file), mark.line + 1 if mark else 0, "", f"YAML: {why}") from None
    return {} if values is None else values, lines


def yaml_of(file: Path, text: str) -> tuple[Any, Lines]:
    """Return the content of a YAML text, and its lines.

    Raises:
        ConfigRefused: a member occurs twice; YAML itself would take the last.
        RecursionError: the nesting is too deep.
        yaml.YAMLError: the text is not YAML.
    """
    lines: dict[str, int] = {}
    _note(file, yaml.compose(text), "", lines)
    return yaml.safe_load(text), lines


def _note(file: Path, node: yaml.Node | None, pointer: str, lines: dict[str, int]) -> None:
    """Add on which line each member begins."""
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            _note(file, item, f"{pointer}[{at}]", lines)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        member = f"{pointer}.{key.value}" if pointer else str(key.value)
        line = key.start_mark.line + 1
        if member in lines:
            raise ConfigRefused(str(file), line, member, f"already set on line {lines[member]}")
        lines[member] = line
        _note(file, value, member, lines)


def _toml(file: Path) -> tuple[Any, Lines]:
    text = _content_of(file)
    try:
        values: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ConfigRefused(str(file), int(line[1]) if line else 0, "", f"TOML: {error}") from None
    for name in TABLE:
        if isinstance(values, dict):
            near = get_close_matches(name, values, 1, cutoff=0.8)
            if near and near[0] != name and name == TABLE[-1]:
                raise ConfigRefused(str(file), 0, f"tool.{near[0]}", "expected [tool.refold]")
            values = values.get(name, {})
    return values, _toml_lines(text)


def _toml_lines(text: str) -> Lines:
    """Return the lines of members, without inline tables' members, which count as their table."""
    lines: dict[str, int] = {}
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if header := re.fullmatch(r"\[([^\[\]]+)\]\s*(?:#.*)?", stripped):
            table = _dotted(header[1])
            found = table
        elif key := re.match(r"([\w\"'.-]+)\s*=", stripped):
            found = [*table, *_dotted(key[1])]
        else:
            continue
        if tuple(found[:2]) == TABLE and len(found) > len(TABLE):
            lines.setdefault(".".join(found[2:]), number)
    return lines


def _dotted(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in text.split(".")]
