"""Options of the commands that run a command of another program, and where its proxy is.

Rules: CONTRACT.md §16.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
from click.core import ParameterSource

from refold.cli.arguments.logs import LOG, Decorator, as_one
from refold.cli.arguments.paths import UserPath
from refold.engine.errors import ExtraMissing

if TYPE_CHECKING:
    from refold.engine.observed.volatile import VolatileRules

_COMMAND: Final = "refold.command"
_WITH: Final = "With -- COMMAND: "
"""Begins the help of options that have no effect without one."""


class WithCommand(click.Command):
    """A command that takes another one behind `--`."""

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


class _OfCommands(click.Option):
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
        "help": "refuse model requests that were not recorded (default), send them, or answer a "
        "changed request as it was recorded, to list all changes.",
    },
    "--pace": {
        "type": click.Choice(["full", "recorded"]), "default": "full",
        "help": "answer immediately (default), or after the recorded delays.",
    },
    "--into": {"type": LOG, "metavar": "FILE", "help": "also record this run in a new log."},
    "--upstream": {
        "metavar": "[NAME=]URL", "multiple": True,
        "help": "server to send requests to; by default the one in the base-URL variables, or the "
        "provider's own.  NAME is openai, anthropic, or the variable that the client reads.",
    },
    "--volatile": {
        "metavar": "PATH", "multiple": True,
        "help": "ignore this part of requests, such as model:*/parameters/user.",
    },
    "--volatile-text": {
        "metavar": "REGEX", "multiple": True,
        "help": "ignore text that matches, such as a date in a prompt.",
    },
    "--unordered": {
        "metavar": "REGEX", "multiple": True,
        "help": "allow any order of adjacent user messages that begin like this, such as "
        "reports of parallel agents.",
    },
    "--profile": {
        "metavar": "NAME", "default": "",
        "help": "the profile of the command: claude-code, codex, opencode, aider, gemini-cli, "
        "google-adk, langgraph, none, or FILE.py:NAME; by default, detected.",
    },
    "--output": {
        "type": click.Choice(["ignore", "words", "lines", "exact"]),
        "help": "compare the command's output: not at all, as words or lines in any order, or "
        "exactly (default).",
    },
    "--in-place": {
        "is_flag": True,
        "help": "run in the current folder, with your own files, instead of a copy.",
    },
    "--files": {
        "type": click.Choice(["recorded", "today"]), "default": None,
        "help": "run on the recorded files, or use every edit since; by default, edits of the "
        "program under test are used.",
    },
    "--keep": {
        "type": UserPath(path_type=Path), "metavar": "DIR",
        "help": "keep the copy as this new folder.",
    },
    "--volatile-file": {
        "metavar": "GLOB", "multiple": True,
        "help": "ignore these files at the end, such as 'logs/*'.",
    },
    "--network": {"is_flag": True, "help": "let the sandbox use this machine's network."},
    "--hooks": {"is_flag": True, "help": "install your repository's git hooks in the copy."},
    "--keep-content": {
        "is_flag": True,
        "help": "store all files, even those that are in the git repository.",
    },
    "--retry": {
        "metavar": "AGENT", "default": "",
        "help": "send this subagent's requests again, and keep the rest; a name or scope from "
        "`refold show`.",
    },
    "--apply": {
        "is_flag": True,
        "help": "at the end, write the changed files into your folder, if it has not changed since "
        "the recording.",
    },
    "--yes": {"is_flag": True, "help": "do not ask before running a log of unknown origin."},
}  # fmt: skip
_COPY: Final = ("--in-place", "--files", "--keep", "--network", "--hooks")
_SHARED: Final = ("--upstream", "--volatile", "--volatile-text", "--unordered", "--profile")


@attrs.frozen(kw_only=True)
class Foreign:
    """Options for recording or comparing the command of another program."""

    upstream: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    volatile_text: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    profile: str = ""
    output: str | None = None
    in_place: bool = False
    files: str | None = None
    keep: Path | None = None
    network: bool = False
    hooks: bool = False
    volatile_file: tuple[str, ...] = ()

    def copying(self) -> Any:
        """Return where a command runs again, as `proxy.copies.placing` takes it."""
        if self.in_place and (self.files or self.keep or self.network or self.hooks):
            options = "--files, --keep, --network and --hooks"
            raise click.UsageError(f"{options} need a copy: omit --in-place")
        made = proxy_module("copies.placing").Copying
        return made(
            in_place=self.in_place, files=self.files or "", keep=self.keep,
            has_network=self.network, has_hooks=self.hooks, ignored=self.volatile_file,
        )  # fmt: skip

    def passed(self) -> dict[str, Any]:
        """Return them as keyword arguments of `proxy.sessions`."""
        return {
            "upstreams": self.upstream,
            "rules": rules_of(self.volatile, self.volatile_text, self.unordered),
            "profile": self.profile,
            **({"output": self.output} if self.output else {}),
        }


def _foreign(begins: str, *names: str) -> Decorator:
    """Return what adds options, whose help begins so; a command gets them as `foreign`."""
    kind = _OfCommands if begins else click.Option

    def option(name: str) -> Decorator:
        text = _OPTIONS[name]["help"]
        text = begins + text if begins else text[0].upper() + text[1:]
        return click.option(name, cls=kind, **{**_OPTIONS[name], "help": text})

    return as_one("foreign", Foreign, *map(option, names))


record_options: Final = _foreign("", *_SHARED, "--output")
fork_options: Final = _foreign(_WITH, *_SHARED, *_COPY, "--retry")
replay_options: Final = _foreign(
    _WITH,
    *("--on-miss", "--pace", "--upstream", *_SHARED[2:], "--output"),
    *("--volatile-file", *_COPY),
)
resume_options: Final = _foreign(
    _WITH, "--on-miss", "--into", *_SHARED, "--output", *_COPY, "--keep-content", "--apply",
    "--yes",
)  # fmt: skip
explore_options: Final = _foreign(_WITH, *_SHARED[1:], "--network")
"""Options of commands that run another one, always or if it is given."""


_CAPS: Final[dict[str, str]] = {
    "max_cost_usd": "Refuse requests after this cost (extra `prices`).",
    "max_requests": "Refuse model requests after this many.",
    "max_tokens": "Refuse requests after this many tokens of input and output.",
    "max_subagents": "Refuse the requests of subagents after this many.",
    "timeout": "Refuse requests after this many seconds, and stop the command.",
    "each_cost_usd": "Like --max-cost-usd, for each subagent.",
    "each_requests": "Like --max-requests, for each subagent.",
    "each_tokens": "Like --max-tokens, for each subagent.",
}


@attrs.frozen(kw_only=True, these={name: attrs.field(default=None) for name in _CAPS})
class GivenCaps:
    """Caps from options; `None` leaves them to `refold.yaml`."""

    def caps(self) -> Any:
        """Return the caps of a command, `proxy.desks.caps.Caps`; `None` for none.

        Raises:
            ConfigRefused: `refold.yaml` cannot be read, or has other caps.
            ExtraMissing: a cap on cost needs the extra `prices`.
        """
        from refold.tools.configuration.config import load_config  # noqa: PLC0415 - for this alone

        options = {name: value for name, value in attrs.asdict(self).items() if value is not None}
        known = load_config(Path()).record | options
        return proxy_module("desks.caps").Caps(**known) if known else None


def _cap(name: str, text: str, kind_of_option: type[click.Option] = click.Option) -> Decorator:
    is_whole = name.endswith(("requests", "tokens", "subagents"))
    kind = click.IntRange(min=1) if is_whole else click.FloatRange(min=0, min_open=True)
    unit = "SECONDS" if name == "timeout" else "USD" if name.endswith("usd") else "N"
    option = f"--{name.replace('_', '-')}"
    return click.option(option, cls=kind_of_option, type=kind, metavar=unit, help=text)


caps_options: Final = as_one("caps", GivenCaps, *(_cap(*each) for each in _CAPS.items()))
"""Options that cap the spending of a watched command."""
resume_caps_options: Final = as_one(
    "caps", GivenCaps,
    *(_cap(name, _WITH + text[0].lower() + text[1:], _OfCommands) for name, text in _CAPS.items()),
)  # fmt: skip


def refuse_with_command(*shared: str) -> None:
    """Refuse options that would have no effect with `-- COMMAND`: all but its own and `shared`.

    Raises:
        UsageError: one was given.
    """
    context = click.get_current_context()
    for param in context.command.params:
        name = param.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and name not in shared and not isinstance(param, _OfCommands):
            raise click.UsageError(f"{param.opts[0]} cannot be used with -- COMMAND")


def rules_of(
    volatile: Sequence[str], texts: Sequence[str], unordered: Sequence[str] = ()
) -> "VolatileRules":
    """Return the rules for values that are not compared."""
    from refold.engine.observed.volatile import VolatileRules  # noqa: PLC0415 - for commands alone

    return VolatileRules(volatile, texts, unordered)


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
