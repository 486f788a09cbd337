"""Runs a command of another program for several commands: their options, replay and fork.

Rules: CONTRACT.md §16.
"""

import shlex
import sys
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs
import click
from click.core import ParameterSource

from refold.cli.arguments.logs import LOG, OpenedLog, opened_log
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DIFFERS, FINE, NOT_COMPLETED, USAGE
from refold.cli.output.printed import PrintedFork
from refold.engine.errors import ExtraMissing
from refold.engine.log import read_entries
from refold.engine.observed.volatile import VolatileRules
from refold.replay.compare.diff import LogDiff, diff
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.report import GUARANTEE, NOTHING, ObservedReport, after

_COMMAND: Final = "refold.command"
_SHARED: Final = {"logs", "volatile", "is_all", "as_json"}
_OF_COMMANDS: Final = {
    "on_miss", "pace", "into", "upstreams", "volatile_texts", "profile", "printed",
}  # fmt: skip
"""Options of a replay: those of both kinds, and those that a command alone has."""
_SHOWN: Final = 8
"""Differences that are told in full."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class WithCommand(click.Command):
    """A command that takes another one behind `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put what stands behind `--` aside."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


def command_given() -> tuple[str, ...] | None:
    """Return the command behind `--`; `None` if there is no `--`.

    Raises:
        UsageError: nothing stands behind it.
    """
    given: tuple[str, ...] | None = click.get_current_context().meta.get(_COMMAND)
    if given == ():
        raise click.UsageError("no command behind --")
    return given


_WITH: Final = "With -- COMMAND: "
"""Begins the help of options that have no effect without one."""


def _help(begins: str, text: str) -> str:
    return begins + text if begins else text[0].upper() + text[1:]


def _upstream(begins: str) -> Decorator:
    return click.option(
        "--upstream", "upstreams", metavar="[NAME=]URL", multiple=True,
        help=_help(
            begins,
            "where requests go; by default where the base-URL variables say, else to the "
            "provider.  NAME is openai, anthropic, or the variable that another client reads.",
        ),
    )  # fmt: skip


def _volatile(begins: str) -> Decorator:
    return click.option(
        "--volatile", metavar="PATH", multiple=True,
        help=_help(begins, "a place of requests that is not compared: model:*/parameters/user."),
    )  # fmt: skip


def _volatile_text(begins: str) -> Decorator:
    return click.option(
        "--volatile-text", "volatile_texts", metavar="REGEX", multiple=True,
        help=_help(begins, "text that is another each time, such as a date in a prompt."),
    )  # fmt: skip


def _profile(begins: str) -> Decorator:
    return click.option(
        "--profile", metavar="NAME", default="",
        help=_help(
            begins,
            "what the command is known as (claude-code, codex, opencode, aider, gemini-cli), none, "
            "or FILE.py:NAME; by default, the command says.",
        ),
    )  # fmt: skip


def _printed(begins: str) -> Decorator:
    return click.option(
        "--output", "printed", type=click.Choice(["ignore", "lines", "exact"]), default=None,
        help=_help(
            begins,
            "how what the command prints is compared: not at all, its lines in any order, or as "
            "it is (default).",
        ),
    )  # fmt: skip


def record_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all commands have which run another one."""
    function = _printed("")(function)
    return _upstream("")(_volatile("")(_volatile_text("")(_profile("")(function))))


def fork_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same for a command that runs another one only if it is given."""
    return _upstream(_WITH)(_volatile(_WITH)(_volatile_text(_WITH)(_profile(_WITH)(function))))


def replay_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that a replay has where a command is given."""
    on_miss = click.option(
        "--on-miss", type=click.Choice(["fail", "live"]), default="fail",
        help=f"{_WITH}refuse a request to a model that was not recorded (default), or let "
        "it pass.",
    )  # fmt: skip
    pace = click.option(
        "--pace", type=click.Choice(["full", "recorded"]), default="full",
        help=f"{_WITH}serve models at full speed (default), or as slowly as they came.",
    )  # fmt: skip
    into = click.option(
        "--into", type=LOG, metavar="FILE",
        help=f"{_WITH}record what happens in a new log, too.",
    )  # fmt: skip
    function = _printed(_WITH)(function)
    return on_miss(pace(into(_upstream(_WITH)(_volatile_text(_WITH)(_profile(_WITH)(function))))))


def refuse_others() -> None:
    """Refuse options that would have no effect, with `-- COMMAND` or without.

    Raises:
        UsageError: one was given.
    """
    context = click.get_current_context()
    given = [
        param
        for param in context.command.params
        if context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    ]
    has_command = _COMMAND in context.meta
    for param in given:
        if param.name in _SHARED or has_command == (param.name in _OF_COMMANDS):
            continue
        why = "not for -- COMMAND" if has_command else "for -- COMMAND, and there is none"
        raise click.UsageError(f"{param.opts[0]} is {why}")


def rules_of(volatile: Sequence[str], texts: Sequence[str]) -> VolatileRules:
    """Return what is not compared."""
    return VolatileRules(volatile, texts)


def sessions() -> Any:
    """Return the module that records and replays commands.

    Raises:
        ExtraMissing: what it needs is not installed.
    """
    return proxy_module("sessions")


def proxy_module(name: str) -> Any:
    """Return a module of `refold.proxy`, all of which need the extra `proxy`.

    Raises:
        ExtraMissing: what it needs is not installed.
    """
    try:
        return import_module(f"refold.proxy.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("refold"):
            raise
        missing = error.name or "uvicorn"
    raise ExtraMissing(missing, "proxy")


def replay_foreign(
    log: Path,
    command: Sequence[str],
    *,
    rules: VolatileRules,
    is_all: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run a command against a record, and tell what it asks otherwise."""
    with opened_log(log) as opened:
        write = _to_stderr if as_json else None
        report: ObservedReport = sessions().replay_command(
            opened.path, command, rules=rules, write=write, **options
        )
        sys.stdout.flush()
        report = attrs.evolve(
            report,
            divergences=tuple(_placed(one, opened) for one in report.divergences),
            ignored=tuple(attrs.evolve(one, log=opened.shown(one.log)) for one in report.ignored),
        )
    if as_json:
        output.document({**report.as_json(), "log": output.shown_path(log)})
    else:
        _describe(report, is_all=is_all)
    if report.is_nothing:
        return USAGE
    return FINE if report.identical else DIFFERS


def _placed(divergence: Divergence, log: OpenedLog) -> Divergence:
    """Return a divergence whose log is named as it was given."""
    return attrs.evolve(divergence, log=log.shown(divergence.log))


def fork_foreign(log: Path, command: Sequence[str], *, as_json: bool, **options: Any) -> int:
    """Run a command again, answered from the record up to an entry, and tell what differs then."""
    with opened_log(log) as opened:
        write = _to_stderr if as_json else None
        forked = sessions().fork_command(opened.path, command, write=write, **options)
        sys.stdout.flush()
        found = diff(opened.path, forked.log)
        otherwise = [_placed(one, opened) for one in forked.otherwise]
    if otherwise:
        output.complain(f"up to entry {forked.at}, the command asks otherwise than it did")
    for one in otherwise:
        output.told_lines(str(one))
    if as_json:
        output.document(_fork_document(forked, found, log).as_json())
    else:
        _describe_fork(forked, found, log)
    if forked.otherwise:
        return DIFFERS
    return FINE if forked.ended.exit_code == 0 else NOT_COMPLETED


def _fork_document(forked: Any, found: LogDiff, log: Path) -> PrintedFork:
    return PrintedFork(
        origin=output.shown_path(log),
        at=forked.at,
        log=output.shown_path(forked.log),
        status=_status(forked),
        output=_output(forked.log),
        diff={**found.as_json(), "a": output.shown_path(log)},
    )


def _output(log: Path) -> Any:
    last = deque(read_entries(log, resolve=True), maxlen=1)
    return last[0].data.get("output")


def _status(forked: Any) -> str:
    return "completed" if forked.ended.exit_code == 0 else "failed"


def _describe_fork(forked: Any, found: LogDiff, log: Path) -> None:
    """Say on standard error what a fork came to: standard output is the command's."""
    status = _status(forked)
    served = words.counted(forked.served, "request")
    told = f"  forked from {log} at entry {forked.at}: {served} served, {forked.live} live"
    output.told((status, output.status_style(status)), told)
    output.told_lines(str(found))
    shown = shlex.quote(output.shown_path(forked.log))
    output.hint(f"1 log: {shown}; refold show {shown}")


def _to_stderr(content: bytes) -> None:
    sys.stderr.buffer.write(content)
    sys.stderr.buffer.flush()


def _describe(report: ObservedReport, *, is_all: bool) -> None:
    """Say on standard error how it went: standard output is the command's."""
    served = f"{report.served} of {words.counted(report.requests, 'recorded request')} served"
    talks = words.counted(report.conversations, "conversation")
    if report.identical and not report.is_nothing:
        output.told(("identical", "green"), f": {served}, in {talks}; requests sent: {report.live}")
    else:
        count = words.counted(len(report.divergences), "difference")
        count = NOTHING if report.is_nothing else count
        output.told((count, "bold red"), f": {served}, in {talks}; requests sent: {report.live}")
        shown = report.divergences if is_all else report.divergences[:_SHOWN]
        for divergence in shown:
            output.told()
            output.told_lines(f"{divergence}{after(divergence)}")
        if rest := len(report.divergences) - len(shown):
            output.told()
            output.told((f"{rest} more: --all shows each", "dim"))
        output.told()
    if report.profile:
        output.told((f"profile: {report.profile}", "dim"))
    for line in report.ignored_lines():
        output.told((line, "yellow"))
    for name, values in report.rules.items():
        output.told((f"not compared ({name}): {', '.join(values)}", "yellow"))
    for note in report.notes:
        output.told((f"note: {note}", "yellow"))
    output.told((f"guarantee: matched ({GUARANTEE})", "dim"))
