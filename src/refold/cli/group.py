"""The commands of `refold`, by name; each is imported when it is used.

To add one: a module in `commands/` with a click command named `command`, a line in `GROUPS`, the
schema of its document in `cli.schema.documents`, its name in CONTRACT.md §14.1; `tests/cli/` fails
until all of them exist. `cli.output.exit_codes` handles errors. Rules: CONTRACT.md §14.
"""

import codecs
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from refold.cli.output.pages import page

GROUPS: Final = {
    "Record": {
        "demo": "Record a survey by subagents; show, verify and replay it.",
        "run": "Run an agent (AGENT.md) and record it, or check its file.",
        "record": "Record the model requests of any command.",
        "mcp-proxy": "Record an MCP server, or replay a recording of it.",
        "resume": "Continue a run that broke off or waits for a person.",
    },
    "Look": {
        "ls": "List recorded runs, sort them, compare them with one.",
        "show": "Show a run: its tree, its entries, its state.",
        "view": "Show runs in the browser, including running ones.",
        "files": "List, print or restore the folder of a recorded command.",
        "why": "Show the chain of causes of an entry.",
        "export": "Write a run as an HTML page, a trace, a table or one file.",
    },
    "Check": {
        "verify": "Check that logs are intact and complete; salvage valid parts.",
        "sign": "Sign logs with an OpenSSH key.",
        "replay": "Run a program again, recorded or live, and compare.",
        "diff": "Compare two recorded runs, scope by scope.",
    },
    "What if": {
        "fork": "Continue a run from any entry, with different results.",
        "explore": "Find orders of completion, or results, that change the output.",
    },
    "More": {
        "mcp": "Serve recorded runs to an agent, as an MCP server.",
        "rm": "Remove runs, with their children and large texts.",
        "push": "Copy runs to a shared store (S3 and others).",
        "pull": "Copy runs from a shared store.",
        "doctor": "Check whether a command can be recorded, without a model.",
        "schema": "Print the JSON schema of a document or an event.",
    },
}
"""Every command with its line in `refold --help`, by purpose."""

COMMANDS: Final = tuple(name for group in GROUPS.values() for name in group)

_MODULES: Final = {name: f"refold.cli.commands.{name.replace('-', '_')}" for name in COMMANDS}

READING: Final = (*GROUPS["Look"], "verify", "diff")
"""Commands that write no log and start no process; Windows has them, too (CONTRACT.md §14.18)."""

_EPILOG: Final = """
First steps:
  refold demo                     no key, model or network needed
  refold ls                       the runs in runs/
  refold show LOG                 the delegation tree
  refold show LOG --events        the entries, one per line
  refold replay LOG               does the program still do the same?

Exit codes:
  0  success                      4  an outcome is missing
  1  a difference was found       5  the root run did not complete
  2  usage                        70 an internal error in Refold
  3  log damaged or unsealed      130 interrupted
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
        if cmd_name == "help":
            return _help
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in READING:
            from refold.engine.log.descriptors import require_posix  # noqa: PLC0415 - not for --help

            require_posix(f"refold {cmd_name}")
        found: click.Command = import_module(_MODULES[cmd_name]).command
        if not gc.isenabled():  # then this process is the command's own
            gc.freeze()
            gc.enable()
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest."""
        if args and args[0] not in (*COMMANDS, "help") and not args[0].startswith("-"):
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        del ctx
        longest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{each:{longest}}", said) for each, said in commands.items()])

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


@click.command("help", add_help_option=False)
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def _help(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the page of a command: `refold help show`."""
    page = context.parent
    assert page is not None, "a command of the group"
    for name in names:
        if not isinstance(page.command, click.Group):
            raise click.UsageError(f"{page.command_path} does not have subcommands", page)
        found, command, _ = page.command.resolve_command(page, [name])
        assert command is not None, "else a usage error"
        page = click.Context(command, info_name=found, parent=page, **refold.context_settings)
    click.echo(page.get_help())


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog=page(_EPILOG),
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

    A run is written to a hash-chained log, FILE.jsonl, and its children to
    FILE.1.jsonl, FILE.2.jsonl and so on.  A command that reads a LOG also
    accepts a packed one, FILE.refold.
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
