"""Options of the commands that run a command of another program, and where its proxy is.

Rules: CONTRACT.md §16.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from refold.cli.arguments.logs import LOG
from refold.engine.errors import ExtraMissing

if TYPE_CHECKING:
    from refold.engine.observed.volatile import VolatileRules

_COMMAND: Final = "refold.command"
_SHARED: Final = {"logs", "volatile", "is_all", "as_json"}
_OF_COMMANDS: Final = {
    "on_miss", "pace", "into", "upstreams", "volatile_texts", "unordered", "profile", "printed",
}  # fmt: skip
"""Options of a replay: those of both kinds, and those that a command alone has."""

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


def _unordered(begins: str) -> Decorator:
    return click.option(
        "--unordered", metavar="REGEX", multiple=True,
        help=_help(
            begins,
            "how messages of a user begin that a program puts down as they come, such as reports "
            "of parallel agents: beside each other, they may stand in any order.",
        ),
    )  # fmt: skip


def _profile(begins: str) -> Decorator:
    return click.option(
        "--profile", metavar="NAME", default="",
        help=_help(
            begins,
            "what the command is known as (claude-code, codex, opencode, aider, gemini-cli, "
            "google-adk, langgraph), none, or FILE.py:NAME; by default, the command says.",
        ),
    )  # fmt: skip


def _printed(begins: str) -> Decorator:
    return click.option(
        "--output", "printed", default=None,
        type=click.Choice(["ignore", "words", "lines", "exact"]),
        help=_help(
            begins,
            "how what the command prints is compared: not at all, its words or its lines in any "
            "order, or as it is (default).",
        ),
    )  # fmt: skip


def record_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all commands have which run another one."""
    function = _unordered("")(_profile("")(_printed("")(function)))
    return _upstream("")(_volatile("")(_volatile_text("")(function)))


def fork_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same for a command that runs another one only if it is given."""
    function = _unordered(_WITH)(_profile(_WITH)(function))
    return _upstream(_WITH)(_volatile(_WITH)(_volatile_text(_WITH)(function)))


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
    function = _unordered(_WITH)(_profile(_WITH)(_printed(_WITH)(function)))
    return on_miss(pace(into(_upstream(_WITH)(_volatile_text(_WITH)(function)))))


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


def rules_of(
    volatile: Sequence[str], texts: Sequence[str], unordered: Sequence[str] = ()
) -> "VolatileRules":
    """Return what is not compared."""
    from refold.engine.observed.volatile import VolatileRules  # noqa: PLC0415 - for commands alone

    return VolatileRules(volatile, texts, unordered)


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
