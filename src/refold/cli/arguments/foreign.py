"""Options of the commands that run a command of another program, and where its proxy is.

Rules: CONTRACT.md §16.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
from click.core import ParameterSource

from refold.cli.arguments.logs import LOG, Decorator, as_one, limit_option
from refold.cli.arguments.paths import UserPath
from refold.engine.errors import ExtraMissing

if TYPE_CHECKING:
    from refold.engine.observed.volatile import VolatileRules

_COMMAND: Final = "refold.command"


class WithCommand(click.Command):
    """A command that takes a program, or another command behind `--`.

    Its help has their options in two groups. `shared` names the parameters that both have.
    """

    def __init__(self, *args: Any, shared: Collection[str] = (), **given: Any) -> None:
        super().__init__(*args, **given)
        self.shared = {"log", "logs", "as_json", *shared}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups: of both, of programs, and of commands if it has any."""
        if not any(isinstance(param, OfCommands) for param in self.params):
            super().format_options(ctx, formatter)
            return
        titles = ("Options", "With a program", "With -- COMMAND")
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for param in self.get_params(ctx):
            if (row := param.get_help_record(ctx)) is None:
                continue
            is_shared = param.name in self.shared or "--help" in param.opts
            title = titles[2 if isinstance(param, OfCommands) else not is_shared]
            groups[title].append(row)
        for title, rows in groups.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the arguments after `--` aside."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


def command_given() -> tuple[str, ...] | None:
    """Return the command after `--`; `None` if there is no `--`.

    Raises:
        UsageError: nothing follows it.
    """
    given: tuple[str, ...] | None = click.get_current_context().meta.get(_COMMAND)
    if given == ():
        raise click.UsageError("expected a command after --")
    return given


class OfCommands(click.Option):
    """An option that has no effect without `-- COMMAND`."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Refuse a missing command."""
        if self.name in opts and _COMMAND not in ctx.meta:
            raise click.UsageError(f"{self.opts[0]} needs -- COMMAND")
        return super().handle_parse_result(ctx, opts, args)


_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--on-miss": {
        "type": click.Choice(["fail", "live", "recorded"]), "default": "fail",
        "help": "Refuse model requests that were not recorded (default), send them, or answer a "
        "changed request as it was recorded, to list all changes.",
    },
    "--pace": {
        "type": click.Choice(["full", "recorded"]), "default": "full",
        "help": "Answer immediately (default), or after the recorded delays.",
    },
    "--into": {"type": LOG, "metavar": "FILE", "help": "Also record this run in a new log."},
    "--upstream": {
        "metavar": "[NAME=]URL", "multiple": True,
        "help": "Server to send requests to; by default the one in the base-URL variables, or the "
        "provider's own.  NAME is openai, anthropic, or the variable that the client reads.",
    },
    "--volatile": {
        "metavar": "RULE", "multiple": True,
        "help": "Do not compare a part of requests, model:*/parameters/user; text that matches, "
        "text:REGEX; files at the end, file:GLOB; or the order of adjacent user messages that "
        "begin like order:REGEX.",
    },
    "--profile": {
        "metavar": "NAME", "default": "",
        "help": "The profile of the command: claude-code, codex, opencode, aider, gemini-cli, "
        "google-adk, langgraph, none, or FILE.py:NAME; by default, detected.",
    },
    "--output": {
        "type": click.Choice(["ignore", "words", "lines", "exact"]),
        "help": "Compare the command's output: not at all, as words or lines in any order, or "
        "exactly (default).",
    },
    "--files": {
        "type": click.Choice(["recorded", "today", "in-place"]), "default": None,
        "help": "Run on the recorded files, use every edit since, or run in the current folder, "
        "with your own files; by default in a copy, with edits of the program under test.",
    },
    "--keep": {
        "type": UserPath(path_type=Path), "metavar": "DIR",
        "help": "Keep the copy as this new folder.",
    },
    "--network": {"is_flag": True, "help": "Let the sandbox use this machine's network."},
    "--hooks": {"is_flag": True, "help": "Install your repository's git hooks in the copy."},
    "--keep-content": {
        "is_flag": True,
        "help": "Store all files, even those that are in the git repository.",
    },
    "--retry": {
        "metavar": "AGENT", "default": "",
        "help": "Send this subagent's requests again, and keep the rest; a name or scope from "
        "`refold show`.",
    },
    "--apply": {
        "is_flag": True,
        "help": "At the end, write the changed files into your folder, if it has not changed since "
        "the recording.",
    },
    "--yes": {"is_flag": True, "help": "Do not ask before running a log of unknown origin."},
}  # fmt: skip
_COPY: Final = ("--files", "--keep", "--network", "--hooks")
_SHARED: Final = ("--upstream", "--volatile", "--profile")


@attrs.frozen(kw_only=True)
class Foreign:
    """Options for recording or comparing the command of another program."""

    upstream: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    profile: str = ""
    output: str | None = None
    files: str | None = None
    keep: Path | None = None
    network: bool = False
    hooks: bool = False

    def copying(self) -> Any:
        """Return where a command runs again, as `proxy.copies.placing` takes it."""
        is_in_place = self.files == "in-place"
        if is_in_place and (self.keep or self.network or self.hooks):
            raise click.UsageError(
                "--keep, --network and --hooks need a copy: omit --files in-place"
            )
        made = proxy_module("copies.placing").Copying
        return made(
            in_place=is_in_place, files="" if is_in_place else self.files or "", keep=self.keep,
            has_network=self.network, has_hooks=self.hooks,
            ignored=tuple(split_rules(self.volatile)["file"]),
        )  # fmt: skip

    def passed(self) -> dict[str, Any]:
        """Return them as keyword arguments of `proxy.sessions`."""
        return {
            "upstreams": self.upstream,
            "rules": rules_of(self.volatile),
            "profile": self.profile,
            **({"output": self.output} if self.output else {}),
        }


def _foreign(kind: type[click.Option], *names: str) -> Decorator:
    """Return what adds options of a kind; a command gets them as `foreign`."""
    options = (click.option(name, cls=kind, **_OPTIONS[name]) for name in names)
    return as_one("foreign", Foreign, *options)


record_options: Final = _foreign(click.Option, *_SHARED, "--output")
fork_options: Final = _foreign(OfCommands, *_SHARED, *_COPY, "--retry")
replay_options: Final = _foreign(
    OfCommands,
    "--on-miss",
    "--pace",
    "--upstream",
    "--profile",
    "--output",
    *_COPY,
)
resume_options: Final = _foreign(
    OfCommands, "--on-miss", "--into", *_SHARED, "--output", *_COPY, "--keep-content", "--apply",
    "--yes",
)  # fmt: skip
explore_options: Final = _foreign(OfCommands, *_SHARED[1:], "--network")
"""Options of commands that run another one, always or if it is given."""


_CAPS: Final = ("max_cost_usd", "max_requests", "max_tokens", "max_subagents", "timeout",
    "each_cost_usd", "each_requests", "each_tokens")  # fmt: skip


def caps_of(limits: dict[str, float]) -> Any:
    """Return the caps of a command, `proxy.desks.caps.Caps`; `None` for none.

    `limits` go before those of `refold.yaml`.

    Raises:
        ConfigRefused: `refold.yaml` cannot be read, or has other caps.
        ExtraMissing: a cap on cost needs the extra `prices`.
    """
    from refold.tools.configuration.config import load_config  # noqa: PLC0415 - for this alone

    known = load_config(Path()).record | limits
    return proxy_module("desks.caps").Caps(**known) if known else None


def limits_option(kind: type[click.Option] = click.Option) -> Decorator:
    """Return the option that caps the spending of a watched command."""
    return limit_option(
        _CAPS, "Refuse requests from there on: max_cost_usd (extra `prices`), max_requests, "
        "max_tokens (of input and output), max_subagents, timeout (seconds; it also stops the "
        "command); for each subagent: each_cost_usd, each_requests, each_tokens.", kind,
    )  # fmt: skip


def refuse_with_command() -> None:
    """Refuse options that would have no effect with `-- COMMAND`: all but its own and shared ones.

    Raises:
        UsageError: one was given.
    """
    own = click.get_current_context().command
    assert isinstance(own, WithCommand), "only those call it"
    shared = {*own.shared, *(each.name for each in own.params if isinstance(each, OfCommands))}
    refuse_options({each.name for each in own.params} - shared, "-- COMMAND")


def refuse_options(names: Container[str | None], other: str) -> None:
    """Refuse options, by the names of their parameters, that have no effect with `other`.

    Raises:
        UsageError: one was given.
    """
    context = click.get_current_context()
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[0]} cannot be used with {other}")


def split_rules(volatile: Sequence[str]) -> dict[str, list[str]]:
    """Return the rules of `--volatile` by what they name: `text`, `order`, `file`, or `part`."""
    found: dict[str, list[str]] = {"text": [], "order": [], "file": [], "part": []}
    for rule in volatile:
        kind, colon, value = rule.partition(":")
        is_part = not colon or kind not in found or kind == "part"
        found["part" if is_part else kind].append(rule if is_part else value)
    return found


def rules_of(volatile: Sequence[str]) -> "VolatileRules":
    """Return the rules for values that are not compared."""
    from refold.engine.observed.volatile import VolatileRules  # noqa: PLC0415 - for commands alone

    rules = split_rules(volatile)
    return VolatileRules(rules["part"], rules["text"], rules["order"])


def parts_of(volatile: Sequence[str]) -> list[str]:
    """Return the rules of `--volatile` for a program, which can only name parts.

    Raises:
        UsageError: another rule was given.
    """
    rules = split_rules(volatile)
    if rules["part"] != [*volatile]:
        raise click.UsageError("--volatile text:, order: and file: need -- COMMAND")
    return rules["part"]


def sessions() -> Any:
    """Return the module that records and replays commands.

    Raises:
        ExtraMissing: a required package is not installed.
    """
    return proxy_module("sessions")


def proxy_module(name: str) -> Any:
    """Return a module of `refold.proxy`, all of which need the extra `proxy`.

    Raises:
        ExtraMissing: a required package is not installed.
    """
    try:
        return import_module(f"refold.proxy.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("refold"):
            raise
        missing = error.name or "uvicorn"
    raise ExtraMissing(missing, "proxy")
