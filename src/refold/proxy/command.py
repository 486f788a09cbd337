"""Runs a command to its end: its environment, its output, and its exit code.

The command has this process's standard input and error, and is in its process group. Its standard
output passes through, and its beginning is kept; if standard output is a terminal, the command gets
one, too. In a replay, a Python traceback over a refused request is folded into one line, for the
report shows the difference. Which signals it is sent is `proxy.signals`'s. Rules: CONTRACT.md
§16.2.
"""

import contextlib
import functools
import os
import select
import signal
import stat
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

import attrs

from refold.engine.errors import UsageError
from refold.engine.process.bounds import BY_SIGNAL
from refold.proxy.signals import Signals, waited
from refold.replay.observed.explaining import REFUSAL

KEPT_BYTES: Final = 1024 * 1024
"""Of standard output."""

INTERRUPTED: Final = BY_SIGNAL + signal.SIGINT
_READ_BYTES: Final = 64 * 1024
_LEFT_BYTES: Final = 1024 * 1024
"""The size of a pipe: read after the command's end while others still have its output open."""
_LEFT_MS: Final = 50
"""The time for a terminal to hand over the output of a command that has ended."""
_MARGIN_BYTES: Final = 16 * 1024
"""Kept beyond `KEPT_BYTES`, so that a secret that lies across its end is found."""

Size = tuple[int, int]
"""Columns and rows of a terminal."""
Starter = Callable[[Sequence[str], Mapping[str, str], int, int | None], "subprocess.Popen[bytes]"]
"""Starts a command with these variables, standard output and error (`None`: this process's own);
raises OSError, ValueError."""


def started(
    command: Sequence[str], variables: Mapping[str, str], output: int, errors: int | None
) -> "subprocess.Popen[bytes]":
    """Start a command in this process's folder.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    return subprocess.Popen(list(command), env=dict(variables), stdout=output, stderr=errors)


@attrs.frozen(kw_only=True)
class CommandEnd:
    """The end of a command."""

    exit_code: int
    """As in a shell: 128 and the number of the signal that ended it."""
    printed: bytes
    """The beginning of its output: of `KEPT_BYTES`, and some more."""
    printed_bytes: int
    """Of all that it printed."""
    complained: bytes = b""
    """The beginning of its standard error, if that was kept."""
    timed_out: bool = False
    """Whether it was asked to end, since its time was over."""
    interrupted: bool = False
    """Whether a signal reached Refold meanwhile: the command may end well without its work done."""
    lost: str = ""
    """Why not all of it could be passed on; empty where it was, or where its reader had left."""

    @property
    def code(self) -> int:
        """The exit code of Refold: the command's, but not 0 if it was interrupted."""
        return self.exit_code or (INTERRUPTED if self.interrupted else 0)

    def failure(self) -> str:
        """Return how it failed, with its last words; empty if it did not."""
        if not self.exit_code:
            return ""
        text = (self.complained or self.printed).decode(errors="replace").strip()
        words = f"its last line: {text.splitlines()[-1]}" if text else "see its standard error"
        return f"the command itself failed (exit code {self.exit_code}); {words}"


def terminal_here() -> Size | None:
    """Return the size of the terminal that is standard output; `None` if it is not one."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return (size.columns or 80, size.lines or 24)


def is_typed_at() -> bool:
    """Return whether standard input is a terminal."""
    return stat.S_ISCHR(_input_mode()) and os.isatty(sys.stdin.fileno())


def is_fed() -> bool:
    """Return whether standard input is a pipe or a file, which no log has the content of."""
    return stat.S_ISFIFO(_input_mode()) or stat.S_ISREG(_input_mode())


def may_have_input() -> bool:
    """Return whether standard input may have something to read: it is open, and not at its end."""
    try:
        number = sys.stdin.fileno()
        if stat.S_ISREG(_input_mode()):
            return os.lseek(number, 0, os.SEEK_CUR) < os.fstat(number).st_size
        poll = select.poll()
        poll.register(number, select.POLLIN)
        is_null = stat.S_ISCHR(_input_mode()) and not os.isatty(number)
        return not is_null and not any(found == select.POLLHUP for _, found in poll.poll(0))
    except (OSError, ValueError, AttributeError):
        return False


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Give commands within the block an empty standard input, and drop their standard error."""
    kept = {number: os.dup(number) for number in (0, 2)}
    try:
        with open(os.devnull, "r+b") as null:  # noqa: PTH123 - a descriptor
            for number in kept:
                os.dup2(null.fileno(), number)
        yield
    finally:
        for number, before in kept.items():
            os.dup2(before, number)
            os.close(before)


def _input_mode() -> int:
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return 0


def run_command(
    command: Sequence[str],
    variables: Mapping[str, str],
    signals: Signals,
    *,
    write: Callable[[bytes], None] | None = None,
    terminal: Size | None = None,
    follows: bool = False,
    keeps_errors: bool = False,
    folds_errors: bool = False,
    start: Starter = started,
    timeout: float | None = None,
) -> CommandEnd:
    """Run a command with `variables` added to this environment, and wait for its end.

    `write` gets the output; by default it goes to standard output. With `terminal`, its standard
    output is one of that size, and, if it `follows`, of that which ours has now. Children of the
    command that continue after its end are not waited for, and their output is not read. If it
    `keeps_errors`, standard error passes through here, too; else it is ours. If it
    `folds_errors`, a traceback over a refused request is one line. After `timeout` seconds the
    command is asked to end, and killed if it does not.

    Raises:
        UsageError: it cannot be started.
    """
    ours, its = _terminal(terminal) if terminal else os.pipe()
    heard, said = None, None
    if folds_errors and sys.stderr is not None and sys.stderr.isatty():
        heard, said = _terminal(terminal or (80, 24))
    elif keeps_errors or folds_errors:
        heard, said = os.pipe()
    passed_on = functools.partial(_passed_on, sys.stderr)
    folded = FoldedTracebacks(passed_on)
    with contextlib.ExitStack() as held:
        for end in filter(None, (ours, heard)):
            held.enter_context(open(end, "rb", 0))  # noqa: PTH123 - a descriptor
        with contextlib.ExitStack() as given:
            for end in filter(None, (its, said)):
                given.enter_context(open(end, "wb", 0))  # noqa: PTH123 - a descriptor
            try:
                environment = {**os.environ, **variables}
                begin = functools.partial(start, command, environment, its, said)
                process = held.enter_context(signals.going_to(begin))
            except (OSError, ValueError) as error:
                in_copy = start is not started
                raise UsageError(_why_not(command[0], error, in_copy=in_copy)) from None
        output = _Output(ours, write or functools.partial(_passed_on, sys.stdout))
        errors = None
        if heard is not None:
            errors = _Output(heard, folded if folds_errors else passed_on)
            held.enter_context(errors.drained())
        resized = _resized(ours, terminal) if follows and terminal else contextlib.nullcontext()
        with output.drained(), resized:
            code, timed_out = waited(process, timeout)
    folded.close()
    ended = output.ended(code if code >= 0 else BY_SIGNAL - code)
    complained = errors.ended(0).printed if errors else b""
    return attrs.evolve(ended, complained=complained, timed_out=timed_out, interrupted=signals.came)


@contextlib.contextmanager
def _resized(ours: int, size: Size) -> Iterator[None]:
    """Give a terminal the size of this process's terminal, after each change.

    The command learns of a change from its controlling terminal, which is ours: it may look before
    the new size is there, so it gets the signal once more.
    """
    last = [size]

    def came(*_: object) -> None:
        found = terminal_here()
        if found is not None and found != last[0]:
            last[0] = found
            termios.tcsetwinsize(ours, found[::-1])
            os.killpg(0, signal.SIGWINCH)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGWINCH, came)
    try:
        came()  # it may have changed since it was asked for
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _terminal(size: Size) -> tuple[int, int]:
    """Return both ends of a terminal that passes bytes on unchanged."""
    ours, its = os.openpty()
    termios.tcsetwinsize(its, size[::-1])
    settings = termios.tcgetattr(its)
    settings[1] &= ~termios.OPOST  # the terminal behind ours makes line ends
    termios.tcsetattr(its, termios.TCSANOW, settings)
    return ours, its


def _why_not(name: str, error: Exception, *, in_copy: bool) -> str:
    file = name.partition(":")[0]
    if in_copy and isinstance(error, FileNotFoundError) and Path(name).exists():
        return (
            f"{name}: not in the copy of the recorded folder, where the command would run: start "
            "it from that folder, which lends files that git ignores, or pass --copy none"
        )
    if file.endswith(".py") and isinstance(error, FileNotFoundError | PermissionError):
        return f"{name}: {error.strerror}; to run a script, use -- python {file}"
    if isinstance(error, FileNotFoundError) and "/" not in name:
        return f"{name}: command not found"
    return f"{name}: {getattr(error, 'strerror', None) or error}"


class _Output:
    """Passes output on, and keeps its beginning."""

    def __init__(self, descriptor: int, write: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._write = write
        self._kept = bytearray()
        self._bytes = 0
        self._lost = ""

    @contextlib.contextmanager
    def drained(self) -> Iterator[None]:
        """Read until the block ends, and then the rest."""
        stop, stopping = os.pipe()
        thread = threading.Thread(target=self._drain, args=(stop,), name="refold-output")
        thread.start()
        try:
            yield
        finally:
            os.close(stopping)
            thread.join()
            os.close(stop)

    def _drain(self, stop: int) -> None:
        poll = select.poll()
        for each in (self._descriptor, stop):
            poll.register(each, select.POLLIN)
        try:
            while stop not in (ready := {number for number, _ in poll.poll()}):
                if self._descriptor in ready and not self._took():
                    return
            poll.unregister(stop)
            until = self._bytes + _LEFT_BYTES
            while self._bytes < until and poll.poll(_LEFT_MS) and self._took():
                pass
        except OSError as error:  # nobody reads any more: the command is to learn it, as it would
            self._lost = "" if isinstance(error, BrokenPipeError) else str(error.strerror or error)
            self._refuse()

    def _took(self) -> bool:
        try:
            content = os.read(self._descriptor, _READ_BYTES)
        except OSError:  # how a terminal ends
            return False
        self._bytes += len(content)
        self._kept += content[: KEPT_BYTES + _MARGIN_BYTES - len(self._kept)]
        if content:
            self._write(content)
        return bool(content)

    def _refuse(self) -> None:
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), self._descriptor, inheritable=False)

    def ended(self, code: int) -> CommandEnd:
        """Return all of it, with the exit code."""
        return CommandEnd(
            exit_code=code, printed=bytes(self._kept), printed_bytes=self._bytes, lost=self._lost
        )


def _passed_on(stream: TextIO, content: bytes) -> None:
    """Write to a stream of ours at once; raises OSError where nobody reads it any more."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # no file, as in some tests
        stream.buffer.write(content)
        return
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:  # whoever shares it does not wait, which holds for this end, too
            room = select.poll()
            room.register(descriptor, select.POLLOUT)
            room.poll()


_BEGINS: Final = b"Traceback (most recent call last):"
_CONTINUES: Final = (
    b" ", b"\n", b"\r\n", b"Traceback ", b"During handling of the above", b"The above exception",
)  # fmt: skip
"""Beginnings of lines between two exceptions of one traceback."""


class FoldedTracebacks:
    """Passes bytes on, by lines; a traceback is held until its end shows its subject."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._line = b""
        self._held = list[bytes]()

    def __call__(self, content: bytes) -> None:
        """Take some output."""
        *lines, self._line = (self._line + content).split(b"\n")
        for line in lines:
            self._take(line + b"\n")
        if self._line and not self._held and not _BEGINS.startswith(self._line[: len(_BEGINS)]):
            self._write(self._line)  # a prompt, or the progress of something
            self._line = b""

    def close(self) -> None:
        """Pass on what is held: nothing follows."""
        if self._held and self._line:
            self._held.append(self._line)
        elif self._line:
            self._write(self._line)
        self._line = b""
        self._flush()

    def _take(self, line: bytes) -> None:
        if self._held and not line.startswith(_CONTINUES):
            last = next(each for each in reversed(self._held) if each.strip())
            if not last.startswith((b" ", b"Traceback ", *_CONTINUES[4:])):  # an exception's line
                self._flush()
        if self._held or line.startswith(_BEGINS):
            self._held.append(line)
        else:
            self._write(line)

    def _flush(self) -> None:
        block = b"".join(self._held)
        if REFUSAL.encode() in block:
            said = [each for each in self._held if each[:1].strip() and b":" in each]
            name = said[-1].partition(b":")[0].rpartition(b".")[2]
            block = b"the command then failed: " + name + b"\n"
        self._held = []
        if block:
            self._write(block)
