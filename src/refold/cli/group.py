"""The commands of `refold`, by name; each is imported when it is used.

To add one: a module in its folder of `commands/`, with a click command named `command`, a line in
`GROUPS`, the schema of its document in `cli.schema.documents`, its name in CONTRACT.md §14.1;
`tests/cli/` fails until all of them exist. `cli.output.exit_codes` handles errors. Rules:
CONTRACT.md §14.
"""

import codecs
import contextlib
import gc
import inspect
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click

GROUPS: Final = {
    "Record": {
        "demo": "a survey by subagents",
        "record": "a command's requests",
        "run": "an agent (AGENT.md)",
        "mcp-proxy": "an MCP server",
        "resume": "continue a run",
    },
    "Inspect": {
        "ls": "list, search, sort",
        "show": "a tree, entries, states",
        "view": "runs in the browser",
        "files": "a command's folder",
        "why": "the causes of an entry",
        "export": "a page, trace or table",
    },
    "Check": {
        "verify": "are logs intact?",
        "sign": "with an OpenSSH key",
        "replay": "run again and compare",
        "diff": "compare two runs",
    },
    "What if": {
        "fork": "with other results",
        "explore": "in another order",
    },
    "More": {
        "mcp": "serve runs to an agent",
        "rm": "remove runs",
        "push": "copy runs to a store",
        "pull": "copy from a store",
        "doctor": "test without a model",
        "schema": "of a document",
    },
}
"""Every command with its words on the first page, by purpose: its folder in `commands/`."""

COMMANDS: Final = tuple(name for group in GROUPS.values() for name in group)

_MODULES: Final = {
    name: f"refold.cli.commands.{title.lower().replace(' ', '_')}.{name.replace('-', '_')}"
    for title, group in GROUPS.items()
    for name in group
}

READING: Final = (*GROUPS["Inspect"], "verify", "diff")
"""Commands that write no log and start no process; Windows has them, too (CONTRACT.md §14.18)."""

_LAST: Final = """
First steps: refold demo, refold ls, refold show LOG, refold replay LOG
Options:     --version  --log-level debug|info|warning|error  -h, --help
Exit codes:  0 success, 1 different, 2 usage, 3 damaged or unsealed, 4 result
             missing, 5 run not completed, 70 error in Refold, 130 interrupted
"""


class Commands(click.Group):
    """A group that imports a command when it is used, and ends with the exit code it means."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the help page."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in READING:
            from refold.engine.log.descriptors import require_posix  # noqa: PLC0415 - not for --help

            require_posix(f"refold {cmd_name}")
        found: click.Command = import_module(_MODULES[cmd_name]).command
        _keep_lines(found)
        if not gc.isenabled():  # then this process is the command's own
            gc.freeze()
            gc.enable()
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415 - most commands are known

            near = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.7)
            advice = f"did you mean {near[0]}?" if near else f"known: {', '.join(COMMANDS)}"
            raise click.UsageError(f"unknown command {args[0]!r}; {advice}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; where its reader has left, it ends with its own code all the same."""
        code = super().invoke(ctx)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            from refold.cli.output.output import reader_left  # noqa: PLC0415 - rarely

            reader_left()
        return code

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first page, one screen, without importing the commands."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        formatter.write_paragraph()
        for title, commands in GROUPS.items():
            cells = [f"{name:<11}{text:<25}" for name, text in commands.items()]
            for at in range(0, len(cells), 2):
                row = "".join(cells[at : at + 2]).rstrip()
                formatter.write(f"{title if at == 0 else '':<9}{row}\n")
        formatter.write(_LAST)

    def main(self, args: Sequence[str] | None = None, **options: Any) -> NoReturn:  # type: ignore[override]  # click declares two overloads; ours never returns
        """Run, and exit with the code that CONTRACT.md §14 gives."""
        _have_standard_streams()
        _never_fail_to_print()
        options["standalone_mode"] = False
        try:
            code = super().main(args, **options)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - each has its code
            from refold.cli.output.exit_codes import report_error  # noqa: PLC0415 - not for help pages

            code = report_error(error)
        sys.exit(code if isinstance(code, int) else 0)


_AS_WRITTEN: Final = "\b\n"
"""What click reads as: do not fill this paragraph."""
_TITLE: Final = re.compile(r"^[A-Z][\w ]*:$", re.MULTILINE)


def _keep_lines(command: click.Command) -> None:
    """Move a docstring from its first title on, `Examples:`, below the options, line by line."""
    text = inspect.cleandoc(command.help or "")
    if title := _TITLE.search(text):
        blocks = text[title.start() :].split("\n\n")
        command.help = text[: title.start()].rstrip()
        command.epilog = "\n\n".join(f"{_AS_WRITTEN}{block}" for block in blocks)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(package_name="refold", message="refold %(version)s")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Print log messages from this level on: JSON lines, unless it is a terminal.",
)
@click.pass_context
def refold(context: click.Context, log_level: str | None) -> int:
    """Record agent runs to log files, replay them for audit, compare them.

    LOG is a log, a packed log, a folder of runs, @last, or a URL in a store.
    """
    from refold.cli.output import output  # noqa: PLC0415 - not for help pages

    output.set_debug(is_on=log_level == "debug")
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    elif log_level is not None:
        from refold.cli.output.diagnostics import configure  # noqa: PLC0415 - a fifth of a replay

        configure(log_level)
    return 0


def _have_standard_streams() -> None:
    """Let those lead nowhere that were closed: else the next file to be opened, a log, is one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the lowest descriptor that is free is its own
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


_IN_ASCII: Final = {
    "…": "...", "·": "-", "→": "->", "×": "x", "─": "-", "│": "|", "├": "|", "└": "`", "—": "-",
}  # fmt: skip


def _shown(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the replacement for a character that the encoding lacks."""
    if isinstance(error, UnicodeEncodeError) and error.object[error.start] in _IN_ASCII:
        return _IN_ASCII[error.object[error.start]], error.start + 1
    return codecs.backslashreplace_errors(error)


def _never_fail_to_print() -> None:
    """A terminal that cannot show a character gets one like it, else its escape, not an error."""
    codecs.register_error("refold", _shown)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="refold")  # type: ignore[union-attr]  # a text stream, unless someone replaced it
