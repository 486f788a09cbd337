"""Text of a configuration file as values, and on which line each member stands.

YAML is composed once more for the lines; TOML has no such reader, so its lines are looked for: the
members of inline tables count as their table.  What the values mean is
`tools.configuration.config`.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from refold.engine.errors import ConfigRefused

TABLE: Final = ("tool", "refold")
"""Where the configuration stands in a `pyproject.toml`."""

Lines = Mapping[str, int]
"""By dotted member, `tools.spawn.enabled`; 1-based."""


def values_of(file: Path) -> tuple[Any, Lines]:
    """Return what a YAML file, or the table of a TOML file, holds, and its lines.

    Raises:
        ConfigRefused: it cannot be read, or a member stands there twice.
    """
    return _toml(file) if file.suffix == ".toml" else _yaml(file)


def _content_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigRefused(str(file), 0, "", f"cannot be read: {error}") from None


def _yaml(file: Path) -> tuple[Any, Lines]:
    text = _content_of(file)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) or str(error)
        raise ConfigRefused(str(file), mark.line + 1 if mark else 0, "", f"YAML: {why}") from None
    lines = noted(file, node) if node is not None else {}
    return {} if values is None else values, lines


def noted(
    file: Path, node: yaml.Node, pointer: str = "", lines: dict[str, int] | None = None
) -> Lines:
    """Return on which line each member begins.

    Raises:
        ConfigRefused: one stands there twice; YAML would take the last.
    """
    found = {} if lines is None else lines
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            noted(file, item, f"{pointer}[{at}]", found)
    if not isinstance(node, yaml.MappingNode):
        return found
    for key, value in node.value:
        member = f"{pointer}.{key.value}" if pointer else str(key.value)
        line = key.start_mark.line + 1
        if member in found:
            raise ConfigRefused(str(file), line, member, f"stands on line {found[member]} already")
        found[member] = line
        noted(file, value, member, found)
    return found


def _toml(file: Path) -> tuple[Any, Lines]:
    text = _content_of(file)
    try:
        values: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ConfigRefused(str(file), int(line[1]) if line else 0, "", f"TOML: {error}") from None
    for name in TABLE:
        values = values.get(name, {}) if isinstance(values, dict) else values
    return values, _toml_lines(text)


def _toml_lines(text: str) -> Lines:
    """Return where members stand; those of inline tables are missing, and count as their table."""
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
