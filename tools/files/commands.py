"""Two tools that change the world and must be requested: `write_file` and `run_command`.

Both are confined to one folder. A file is written below it atomically and never through a symbolic
link. A command runs in it if its name is on the list, without a shell, in its own process group,
which is killed when the call ends. This limits accidents but is not a sandbox: an allowed command
has all rights of the user.  Rules: CONTRACT.md §10.19.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import attrs

from refold.engine.encoding.hints import Keywords
from refold.engine.encoding.parameters import texts
from refold.engine.errors import LimitRefused, ToolError, ToolRefused
from refold.engine.ports.ports import CancelSignal, Reference
from refold.engine.process.bounded import run_bounded
from refold.engine.process.bounds import Bounds, Captured
from refold.engine.process.start import child_environment
from refold.tools.contract.tool_types import FunctionTool
from refold.tools.files.rooted import Root, checked_root, kind_of

NAMES: Final = ("run_command", "write_file")
FILE_BYTES_MAX: Final = 1024 * 1024
"""Of a written file."""
OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Kept of each stream of a command."""
_Path = Annotated[str, "relative to the root folder, with / between names"]
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.frozen(kw_only=True)
class WrittenFile:
    """A written file."""

    path: str
    size_bytes: int
    created: bool
    """Whether the file is new."""


@attrs.frozen(kw_only=True)
class CommandResult:
    """A command's exit and output."""

    status: str
    """`exited`, or why it was ended: `timed_out`, `signalled`, `memory`."""
    code: int | None
    """Its exit code; `None` where a signal ended it."""
    stdout: str
    """Invalid UTF-8 becomes U+FFFD; a long text keeps its beginning and end."""
    stderr: str
    truncated: bool = False
    """Whether the middle of either is missing."""


def write_file_tool(root: str | os.PathLike[str]) -> FunctionTool[..., WrittenFile]:
    """Return `write_file` below the folder `root`.

    Raises:
        ToolRefused: `root` is not a folder.
    """
    top = Root(checked_root(root, "write_file"), "write_file")

    def write_file(
        path: _Path, content: Annotated[str, "the whole text of the file"]
    ) -> WrittenFile:
        """Write a text file, new or instead of the one there is; folders above it are made."""
        data = content.encode()
        said = f"{path:.99}: {len(data)} bytes; {FILE_BYTES_MAX} allowed"
        top.require(len(data) <= FILE_BYTES_MAX, said, code="too_large")
        above, _, name = path.rstrip("/").rpartition("/")
        top.require(name not in ("", ".", ".."), f"{path!r:.99} names no file", code="not_a_file")
        with top.folder(above, make=True) as folder:
            created = _replaced(top, folder, name, path, data)
        return WrittenFile(path=path, size_bytes=len(data), created=created)

    return FunctionTool(
        write_file,
        effect="changes",
        reference=Reference(__name__, "write_file_tool", {"root": os.fspath(root)}),
    )


def run_command_tool(
    root: str | os.PathLike[str],
    *,
    allow: Iterable[str],
    environment: Iterable[str] = (),
    timeout_seconds: float = 120,
) -> FunctionTool[..., CommandResult]:
    """Return `run_command` in the folder `root`.

    Args:
        root: The working directory of every command.
        allow: Program names, looked up on `PATH`; paths are refused.
        environment: Variables passed to commands, in addition to a few harmless ones.
        timeout_seconds: Wall time of one command.

    Raises:
        ToolRefused: `root` is not a folder, or `allow` is empty.
        LimitRefused: `timeout_seconds` is not a positive number.
    """
    top = checked_root(root, "run_command")
    allowed, variables = texts({*texts(allow, "allow")}, "allow"), texts(environment, "environment")
    if not allowed or any("/" in name or not name for name in allowed):
        raise ToolRefused("run_command", "allow", f"expected names of programs, found {allowed!r}")
    if type(timeout_seconds) not in (int, float) or not timeout_seconds > 0:
        raise LimitRefused("timeout_seconds", "a positive number of seconds", repr(timeout_seconds))
    bounds = Bounds(deadline_seconds=timeout_seconds, stream_bytes=OUTPUT_BYTES_MAX)
    arguments = {
        "root": os.fspath(root),
        "allow": list(allowed),
        "environment": list(variables),
        "timeout_seconds": timeout_seconds,
    }

    def run_command(
        command: Annotated[
            list[str], Keywords(minItems=1), "the program's name, then its arguments"
        ],
    ) -> CommandResult:
        """Run a program, without a shell, and wait for it."""
        if not command:
            why = "/command: expected the program's name, found an empty list"
            raise ToolError("run_command", why, "arguments")
        name = command[0]
        if name not in allowed:
            known = ", ".join(allowed)
            raise ToolError("run_command", f"{name!r} is not allowed; there are: {known}", "denied")
        environment = _plainly_found(child_environment(variables))
        argv = [_found(name, environment), *command[1:]]
        ended = run_bounded(
            argv, env=environment, cwd=top, request=b"", bounds=bounds, cancel=CancelSignal()
        )
        if ended.how == "spawn_failed":
            raise ToolError("run_command", f"{argv[0]}: {ended.error}", "spawn_failed")
        return CommandResult(
            status=ended.how,
            code=ended.code,
            stdout=_output_text(ended.stdout),
            stderr=_output_text(ended.stderr),
            truncated=ended.stdout.truncated or ended.stderr.truncated,
        )

    return FunctionTool(
        run_command,
        effect="changes",
        description=f"Run a program, without a shell, and wait for it: {', '.join(allowed)}.",
        reference=Reference(__name__, "run_command_tool", arguments),
    )


# --- write_file ----------------------------------------------------------------------------------


def _replaced(root: Root, folder: int, name: str, path: str, data: bytes) -> bool:
    """Write `data` beside and move it into place; return whether nothing was there."""
    found = None
    with root.explained(path), suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    there = kind_of(found) if found is not None else None
    root.require(there in ("file", None), f"{path} is a {there}, no file", code="not_a_file")
    temporary = f".{name[:100]}.{secrets.token_hex(4)}"
    try:
        with os.fdopen(os.open(temporary, _NEW, 0o644, dir_fd=folder), "wb") as file:
            file.write(data)
            if found is not None:  # a script stays executable, a private file private
                os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode) & 0o777)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise ToolError(root.tool, f"{path}: {error.strerror}", "not_writable") from None
    return there is None


# --- run_command ---------------------------------------------------------------------------------


def _plainly_found(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables whose `PATH` has no empty and no relative entry.

    These mean the working folder, here and for programs that the program starts: the root, in which
    a model may have written a file called `git`.
    """
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    plain = os.pathsep.join(each for each in entries if Path(each).is_absolute())
    return {**environment, "PATH": plain}


def _found(name: str, environment: Mapping[str, str]) -> str:
    found = shutil.which(name, path=environment["PATH"])
    if found is None:
        raise ToolError("run_command", f"{name}: there is no such program on PATH", "not_found")
    return found


def _output_text(captured: Captured) -> str:
    head, tail = captured.kept[: captured.head_bytes], captured.kept[captured.head_bytes :]
    missing = captured.seen_bytes - len(captured.kept)
    between = f"\n[{missing} bytes are missing here]\n" if captured.truncated else ""
    return f"{head.decode(errors='replace')}{between}{tail.decode(errors='replace')}"
