"""How the values of a folder's entries look in a log; read strictly, for a log may be anyone's.

A form reads the JSON values that it writes, and refuses all others. Not by
`engine.encoding.strict`: lists have up to a million lines, and paths are other texts in a log.
Pure. Rules: CONTRACT.md §16.16.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import FolderRefused

LINES_MAX: Final = 1 << 20
"""Lines of a list."""


def _unchanged(value: Any) -> Any:
    return value


@attrs.frozen
class Form:
    """How values of one kind are read and written; a ValueError or TypeError refuses one."""

    read: Callable[[Any], Any] = _unchanged
    write: Callable[[Any], Any] = _unchanged


def exactly(kind: type) -> Form:
    """Return the form of values of a type of JSON."""

    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return Form(read)


def matching(pattern: str) -> Form:
    """Return the form of texts that a pattern fits."""
    fits = re.compile(pattern).fullmatch

    def read(value: Any) -> Any:
        if fits(value) is None:
            raise ValueError
        return value

    return Form(read)


def optional(form: Form) -> Form:
    """Return the form of values that may be null."""
    return Form(
        lambda value: None if value is None else form.read(value),
        lambda value: None if value is None else form.write(value),
    )


def listed(form: Form) -> Form:
    """Return the form of tuples, as arrays."""

    def read(value: Any) -> Any:
        return tuple(map(form.read, exactly(list).read(value)))

    return Form(read, lambda value: [form.write(each) for each in value])


def lines(form: Form) -> Form:
    """Return the form of tuples, as texts with a value in each line."""
    return Form(
        lambda text: tuple(map(form.read, json_lines(text))),
        lambda value: as_lines(map(form.write, value)),
    )


def row(kind: type[Any], *forms: Form, check: Callable[[Any], bool] = bool) -> Form:
    """Return the form of an attrs class, as an array of its first fields; `check` judges it."""
    names = [field.name for field in attrs.fields(kind)][: len(forms)]
    expected = f"[{', '.join(names)}]"

    def read(line: Any) -> Any:
        try:
            values = zip(forms, exactly(list).read(line), strict=True)
            made = kind(*(form.read(value) for form, value in values))
            if check(made):
                return made
        except (TypeError, ValueError):
            pass
        raise FolderRefused("the list", expected, f"{line!r:.300}")

    def write(value: Any) -> Any:
        return [form.write(getattr(value, name)) for name, form in zip(names, forms, strict=True)]

    return Form(read, write)


def members(kind: type[Any], **forms: Form) -> Form:
    """Return the form of an attrs class, as an object of these members."""

    def read(data: Any) -> Any:
        try:
            return kind(**{name: form.read(data[name]) for name, form in forms.items()})
        except (KeyError, TypeError, ValueError):
            raise FolderRefused(kind.__name__, ", ".join(forms), f"{data!r:.300}") from None

    def write(value: Any) -> Any:
        return {name: form.write(getattr(value, name)) for name, form in forms.items()}

    return Form(read, write)


TEXT: Final = exactly(str)
NUMBER: Final = exactly(int)


def as_lines(values: Iterable[Any]) -> str:
    """Return JSON values as a text, one a line."""
    return "".join(f"{encode(value).decode()}\n" for value in values)


def json_lines(text: str) -> Iterator[Any]:
    """Yield the values of a text with one a line.

    Raises:
        FolderRefused: there are too many, or one is not JSON.
        TypeError: it is not a text.
    """
    if (count := TEXT.read(text).count("\n")) > LINES_MAX:
        raise FolderRefused("the list", f"at most {LINES_MAX} entries", str(count))
    for line in text.split("\n"):
        if line:
            try:
                yield loads(line)
            except ValueError as error:
                raise FolderRefused("the list", "JSON in each line", str(error)) from None
