"""Options of the commands that run a command of another program, and where its proxy is.

Rules: CONTRACT.md §16.
"""

import functools
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from refold.cli.arguments.options import given_options, limit_option, option, with_options
from refold.engine.errors import ExtraMissing

if TYPE_CHECKING:
    from refold.engine.observed.volatile import VolatileRules

_COMMAND: Final = "refold.command"


class OfPrograms(click.Option):
    """An option that has no effect with `-- COMMAND`."""


class OfCommands(click.Option):
    """An option that has no effect without `-- COMMAND`."""


program_option: Final = functools.partial(option, cls=OfPrograms)
command_option: Final = functools.partial(option, cls=OfCommands)
_GROUPS: Final = {
    click.Option: "Options", OfPrograms: "With a program", OfCommands: "With -- COMMAND"
}  # fmt: skip


class WithCommand(click.Command):
    """A command that takes a program, or another command behind `--`.

    The class of an option is its group: its help has them apart, and the options of one group are
    refused with the other.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        for kind, title in _GROUPS.items():
            of_kind = [param for param in self.get_params(ctx) if type(param) is kind]
            if rows := [row for param in of_kind if (row := param.get_help_record(ctx))]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the arguments after `--` aside, and refuse options that would have no effect."""
        at = args.index("--") if "--" in args else len(args)
        if at < len(args):
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
        try:
            rest = super().parse_args(ctx, args[:at])
        except click.UsageError as error:
            if "extra argument" not in error.message or at < len(args):
                raise
            raise click.UsageError(f"{error.message}; a command to run follows --", ctx) from None
        refused, why = (
            (OfPrograms, "has no effect with -- COMMAND") if at < len(args)
            else (OfCommands, "needs -- COMMAND")
        )  # fmt: skip
        for name in given_options(ctx, refused):
            raise click.UsageError(f"{name} {why}", ctx)
        return rest


def command_given() -> tuple[str, ...] | None:
    """Return the command after `--`; `None` without `--`.

    Raises:
        UsageError: nothing follows it.
    """
    given: tuple[str, ...] | None = click.get_current_context().meta.get(_COMMAND)
    if given == ():
        raise click.UsageError("expected a command after --")
    return given


_FOLDERS: Final = ("none", "recorded", "today")
_OUTPUT: Final = ("ignore", "letters", "words", "lines", "exact")


@attrs.frozen(kw_only=True, field_transformer=with_options)
class Foreign:
    """Options for recording or comparing the command of another program."""

    upstream: tuple[str, ...] = option(
        "Server to send requests to; by default the one in the base-URL variables, or the "
        "provider's own.  NAME is openai, anthropic, or the variable that the client reads.",
        "[NAME=]URL",
    )
    volatile: tuple[str, ...] = option(
        "Do not compare a part of requests, model:*/parameters/user or tool:fetch/arguments/ts; "
        "and of a command, text that matches, text:REGEX; files at the end, file:GLOB; the order "
        "of adjacent user messages that begin like order:REGEX; or the order of its output, "
        "output:words, output:lines or output:letters, or none of it, output:ignore.  Reports "
        "list the ignored values.",
        "RULE",
    )
    profile: str = option(
        "The profile of the command: claude-code, codex, opencode, aider, gemini-cli, qwen-code, "
        "copilot, pi, google-adk, langgraph, smolagents, none, or FILE.py:NAME; by default, "
        "detected.",
        "NAME",
    )
    copy: tuple[str, ...] = option(
        "Where the command runs: by default in a copy of the recorded folder, with edits of the "
        "program under test.  recorded: without edits; today: with every edit since; none: in the "
        "current folder.  keep:DIR keeps the copy, network lets its sandbox use this machine's "
        "network, hooks installs your git hooks, and apply (of resume) writes the changed files "
        "into your folder at the end.",
        "RULE",
    )

    @property
    def applies(self) -> bool:
        """Whether the changes of a copy go into the user's folder."""
        return "apply" in self.copy

    def copying(self, *, may_apply: bool = False) -> Any:
        """Return where a command runs again, as `proxy.copies.placing` takes it.

        Raises:
            UsageError: a rule is unknown, or two of them contradict each other.
        """
        known = (*_FOLDERS, "network", "hooks", *["apply"] * may_apply)
        kept = [each[5:] for each in self.copy if each.startswith("keep:") and each[5:]]
        rest = [each for each in self.copy if not (each.startswith("keep:") and each[5:])]
        for each in rest:
            if each not in known:
                raise click.UsageError(f"--copy {each}: expected {', '.join(known)} or keep:DIR")
        folders = [each for each in rest if each in _FOLDERS]
        if len({*folders}) > 1 or len(kept) > 1 or (folders == ["none"] and len(self.copy) > 1):
            raise click.UsageError(f"--copy {' and '.join(self.copy)} contradict each other")
        files = folders[0] if folders else ""
        return proxy_module("copies.placing").Copying(
            in_place=files == "none", files=files.replace("none", ""),
            keep=Path(kept[0]).expanduser() if kept else None, has_network="network" in rest,
            has_hooks="hooks" in rest, ignored=tuple(split_rules(self.volatile)["file"]),
        )  # fmt: skip

    def passed(self) -> dict[str, Any]:
        """Return them as keyword arguments of `proxy.sessions`."""
        rules = {"rules": rules_of(self.volatile), "profile": self.profile}
        output = split_rules(self.volatile)["output"]
        if output and output[-1] not in _OUTPUT:
            expected = ", ".join(f"output:{each}" for each in _OUTPUT)
            raise click.UsageError(f"--volatile output:{output[-1]}: expected {expected}")
        return {"upstreams": self.upstream, **rules, **({"output": output[-1]} if output else {})}


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


def limits_option(**how: Any) -> Any:
    """Declare the option that caps the spending of a watched command."""
    return limit_option(
        _CAPS, "Refuse requests from there on: max_cost_usd (extra `prices`), max_requests, "
        "max_tokens (of input and output), max_subagents, timeout (seconds; it also stops the "
        "command); for each subagent: each_cost_usd, each_requests, each_tokens.", **how,
    )  # fmt: skip


_RULES: Final = ("text", "order", "file", "output", "part")


def split_rules(volatile: Sequence[str]) -> dict[str, list[str]]:
    """Return the rules of `--volatile` by their kind, one of `_RULES`."""
    found: dict[str, list[str]] = {name: [] for name in _RULES}
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
        raise click.UsageError("--volatile text:, order:, file: and output: need -- COMMAND")
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
    with ExtraMissing.of("proxy"):
        return import_module(f"refold.proxy.{name}")
