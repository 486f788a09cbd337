"""Prints the output of commands: safe lines on a terminal, or one JSON document.

Every text from a log, a file or an argument passes `safe` on its way to a terminal: only printable
characters are left, so no content can move the cursor, change the title or hide text, and styles
never come from content, since no markup is ever read. `NO_COLOR` is obeyed. Progress and complaints
go to standard error. Only a terminal loads `rich`, which takes longer than verifying a small log.
Rules: CONTRACT.md §14.
"""

import contextlib
import json
import os
import shlex
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from refold.cli.output import words
from refold.engine.encoding.document import Document

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Part = str | tuple[str, str]
"""A piece of a line: text, or text and its style."""

PROGRESS_SECONDS: Final = 1.0
"""A command that lasts longer shows its progress."""
_TICK_SECONDS: Final = 0.25
_COLUMNS: Final = 80
"""Cells of a line that is cut, if there is no terminal."""
_UNBOUND: Final = 1_000_000
"""Cells of a line if COLUMNS is 0."""
_CELL_MAX: Final = 36
"""Cells of a column of a table at most; a longer text moves what is behind it."""
_WRAPPED_MIN: Final = 20
"""Cells that a wrapped text has on a line, however far it is indented."""

LINES_MAX: Final = 200
"""Lines of an answer whose length has no bound of its own, unless all of it is asked for."""

STYLES: Final = {
    "completed": "green",
    "running": "cyan",
    "waits_for_you": "yellow",
    "broke_off": "yellow",
    "rejected": "yellow",
    "cancelled": "yellow",
}
"""By status; every other is red."""

_CAVEATS: Final = ("not ", "note: ", "ignored: ", "altered only", "cancelled ")
"""How lines of a report begin that limit it."""

_JSON: Final = "refold.json"
"""The place in click's context for `--json`, for a command and the functions that it calls."""

_settings = {"debug": False, "heard": True}


def set_debug(*, is_on: bool) -> None:
    """Remember whether faults of Refold itself show their traceback."""
    _settings["debug"] = is_on


def is_debug() -> bool:
    """Return whether they do."""
    return _settings["debug"]


def safe(text: object) -> str:
    r"""Return `text` on one line with every character that is not printable escaped, `\x1b`."""
    shown = with_urls(str(text))
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else _escaped(each) for each in shown)


def safe_lines(text: str) -> str:
    """Return `text` with its newlines kept and every line made safe."""
    return "\n".join(safe(line.expandtabs()) for line in text.split("\n"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def status_style(status: str) -> str:
    """Return the style in which a status is shown."""
    return STYLES.get(status, "red")


def status(word: str, standing: str = "") -> tuple[str, str]:
    """Return a status as people read it, or its standing in words, in its style."""
    return standing or word.replace("_", " "), status_style(word)


def is_read() -> bool:
    """Return whether somebody still reads standard output."""
    return _settings["heard"]


def reader_left() -> None:
    """Drop all further output: a command ends with its own code, even without a reader."""
    _settings["heard"] = False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


_TERMINAL: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables with which rich may take a file for a terminal."""


def _console(*, err: bool = False) -> "Console | None":
    """Return the console of standard output or standard error; `None` if it is not a terminal."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not (stream.isatty() or any(map(os.environ.get, _TERMINAL))):
        return None
    from rich.console import Console  # noqa: PLC0415 - terminals only

    screen = Console(
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # without bold and dim, too
        file=stream, markup=False, highlight=False, emoji=False,
        width=_UNBOUND if os.environ.get("COLUMNS") == "0" else None,
    )  # fmt: skip
    screen.on_broken_pipe = reader_left  # type: ignore[method-assign]  # rich ends the process
    return screen if screen.is_terminal else None


def _print(*parts: Part, err: bool = False) -> None:
    """Print one line, with its styles on a terminal; a command continues without its reader."""
    if screen := _console(err=err):
        screen.print(_rich_text(parts), soft_wrap=True)
    elif stream := sys.stderr if err else sys.stdout:  # `None`: closed before Python started
        try:
            print(_plain(parts), file=stream, flush=True)
        except BrokenPipeError:
            reader_left()


def _plain(parts: tuple[Part, ...]) -> str:
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return "".join(safe(content) for content, _style in pairs)  # nonsense fails, as in `_rich_text`


def line(*parts: Part, cut: bool = False) -> None:
    """Print one line; with `cut`, no more of it than fits on the terminal, piped or not.

    Without a terminal, 80 characters, or COLUMNS.
    """
    if not cut:
        _print(*parts)
    elif screen := _console():
        text = _rich_text(parts)
        text.truncate(screen.width, overflow="ellipsis")
        screen.print(text, soft_wrap=True)
    else:
        plain, width = _plain(parts), _piped_width()
        _print(plain if len(plain) <= width else f"{plain[: width - 1]}…")


def _piped_width() -> int:
    """Return COLUMNS, of which 0 is no bound, else the width of the user's terminal, else 80."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal():
        return int(columns) or _UNBOUND
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    return _COLUMNS


def some(
    lines: Iterable[Sequence[Part]], most: int | None, left_out: int, thing: str, *, cut: bool
) -> None:
    """Print at most so many lines, the last of which counts what is left out.

    `left_out` things are not even among the lines. With `cut`, a line is cut unless it is one part,
    such as a path.
    """
    every = list(lines)
    shown = every if most is None else every[: most - 1]
    for parts in shown:
        line(*parts, cut=cut and len(parts) > 1)
    counts = {"line": len(every) - len(shown), thing: 0 if most is None else left_out}
    if left := [words.counted(count, name) for name, count in counts.items() if count]:
        line((f"left out: {' and '.join(left)}; to list everything, add --all", "yellow"))


def note(*parts: Part) -> None:
    """Say one line of an answer on standard error: standard output is somebody else's."""
    _print(*parts, err=True)


def note_lines(text: str, style: str = "") -> None:
    """Say several lines of an answer on standard error."""
    for each in text.split("\n"):
        note((each, style))


def wrapped(lead: Sequence[Part], *parts: Part, is_repeated: bool = True) -> None:
    """Print a text behind `lead`, whole: on a terminal over as many lines as it needs.

    Each of them begins with `lead`, or only the first.
    """
    if (screen := _console()) is None:
        line(*lead, *parts)
        return
    margin = _rich_text(tuple(lead))
    if not is_repeated and screen.width - margin.cell_len < _WRAPPED_MIN:  # all of it stands below
        line(*lead, cut=True)
        margin = _rich_text((" " * 4,))
    width = max(_WRAPPED_MIN, screen.width - margin.cell_len)
    for each in _rich_text(parts).wrap(screen, width):
        screen.print(margin + each, soft_wrap=True)
        if not is_repeated:
            margin = _rich_text((" " * margin.cell_len,))


def lines(text: str, style: str = "") -> None:
    """Print a text of several lines."""
    for each in text.split("\n"):
        line((each.expandtabs(), style))


def report(told: Iterable[str], style: str) -> None:
    """Print the lines of a report: the first in a style, and what was left out in yellow."""
    for at, each in enumerate(told):
        is_caveat = each.lstrip().startswith(_CAVEATS)
        look = style if at == 0 else "yellow" if is_caveat else ""
        for text in each.expandtabs().split("\n"):
            content = text.lstrip(" ")
            wrapped((text[: len(text) - len(content)],), (content, look))


def _rich_text(parts: tuple[Part, ...]) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - terminals only

    text = Text()
    for part in parts:
        content, style = (part, "") if isinstance(part, str) else part
        text.append(safe(content), style or None)
    return text


def table(
    rows: Sequence[Sequence[Part]],
    *,
    right: Collection[str] = (),
    is_cut: bool = False,
    wrap: bool = False,
) -> None:
    """Print rows, the first as heading, their columns aligned, those in `right` on the right.

    A column without content is left out. The last one may have several parts: it is cut on a
    terminal, with `is_cut` everywhere; with `wrap`, it is shown whole, over several lines.
    """
    is_cut = is_cut or _console() is not None  # elsewhere, the name at its end is whole
    last = len(rows[0]) - 1
    lengths = [[_width(_plain((part,))) for part in row[:last]] for row in rows]
    widths = {
        at: max(length for length in column if length <= _CELL_MAX)
        for at, column in enumerate(zip(*lengths, strict=True))
        if any(column[1:]) or len(rows) == 1
    }
    for number, row in enumerate(rows):
        style = "dim" if number == 0 else ""
        cells = [(part, style) if isinstance(part, str) else part for part in row]
        parts = list[Part]()
        for at, width in widths.items():
            gap = " " * (width - lengths[number][at])
            parts += [gap, cells[at], "  "] if rows[0][at] in right else [cells[at], gap, "  "]
        if wrap:
            wrapped(parts, *cells[last:], is_repeated=False)
        else:
            line(*parts, *cells[last:], cut=is_cut)


def _width(text: str) -> int:
    """Return the cells that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - few tables need it, and it is slow to load

    return cell_len(text)


def note_json(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001 - click calls it
    """Remember whether a command was given `--json`."""
    context.meta[_JSON] = is_asked


def is_json() -> bool:
    """Return whether the command that runs is to print one document."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_JSON))


def answer(
    value: Document | Mapping[str, Any], describe: Callable[[], object], code: int = 0
) -> int:
    """Print one document, if the command was given `--json`, else what `describe` prints.

    Returns `code`, which the command ends with.
    """
    if is_json():
        document(value)
    else:
        describe()
    return code


def document(value: Any) -> None:
    """Print one JSON document: pure ASCII, so that any terminal and any reader takes it."""
    told = value.as_json() if isinstance(value, Document) else value
    try:
        print(json_text(told))
    except BrokenPipeError:
        reader_left()


def json_text(value: Any) -> str:
    """Return `value` as indented JSON in ASCII."""
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")


def complain(message: str, *more: str) -> None:
    """Print on standard error why a command failed."""
    note(("refold: ", "bold red"), message)
    for each in more:
        note(each)


def hint(text: str) -> None:
    """Say something helpful on standard error."""
    note_lines(text, "dim")


_copies: Final[dict[str, str]] = {}
"""URLs of stores, by the folder of a copy of one of their runs."""


def note_copy(folder: Path, url: str) -> None:
    """Show files of this folder from now on as objects of a store."""
    _copies[str(folder)] = url


def folder_beside(path: Path) -> Path:
    """Return the folder for a new file beside this one; for a copy from a store, this one."""
    return Path() if str(path.parent) in _copies else path.parent


def with_urls(text: str) -> str:
    """Return a text in which copies of stored runs are named by their URLs."""
    for folder, url in _copies.items():
        text = text.replace(folder, url)
    return text


def shown_path(path: str | os.PathLike[str]) -> str:
    r"""Return a path as JSON can hold it: bytes that are not text become `\xff`."""
    text = os.fspath(path).encode(errors="surrogateescape").decode(errors="backslashreplace")
    return with_urls(text)


def command(verb: str, *words: str | os.PathLike[str]) -> str:
    """Return a command of Refold as it can be typed: quoted, with paths as people know them."""
    return shlex.join(["refold", verb, *map(shown_path, words)])


def stdout_kept() -> contextlib.AbstractContextManager[object]:
    """Send other output to standard error: a program's `print` is not part of our answer."""
    return contextlib.redirect_stdout(sys.stderr)


@contextlib.contextmanager
def marked_as_replay() -> Iterator[None]:
    """Mark diagnostics of re-executed program code, `replay=True`: they are repetitions."""
    structlog = sys.modules.get("structlog")
    if structlog is None:  # then nobody has configured it
        yield
        return
    with structlog.contextvars.bound_contextvars(replay=True):
        yield


# --- progress --------------------------------------------------------------------------------


@contextlib.contextmanager
def progress(text: str | Callable[[], str]) -> Iterator[None]:
    """Show progress on standard error, if it is a terminal, once it lasts for a second."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    say = text if callable(text) else lambda: str(text)
    thread = threading.Thread(target=_show_progress, args=(done, say), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show_progress(done: threading.Event, say: Callable[[], str]) -> None:
    if done.wait(PROGRESS_SECONDS):
        return
    if (screen := _console(err=True)) is None:
        return
    with screen.status(_rich_text((say(),))) as status:
        while not done.wait(_TICK_SECONDS):
            status.update(_rich_text((say(),)))
