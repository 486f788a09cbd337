"""`refold record`: run a command that knows nothing of Refold; record its model requests.

Rules: CONTRACT.md §16.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from refold.cli.arguments.foreign import Foreign, caps_of, limits_option
from refold.cli.arguments.options import (
    argument,
    chosen,
    declared,
    label_option,
    log_option,
    option,
)
from refold.cli.output import output
from refold.cli.output.recorded import hint_recorded


def _print_variables(variables: Mapping[str, str]) -> None:
    """Print the variables that lead clients to the proxy, as `docker run --env-file` reads them."""
    for name, url in variables.items():
        output.line(f"{name}={url}")
    sys.stdout.flush()
    output.hint("recording requests until Ctrl-C; treat the addresses like API keys")


@declared("record", has_json=False, context_settings={"allow_interspersed_args": False})
def command(
    *,
    command: tuple[str, ...] = argument(click.UNPROCESSED, "-- COMMAND…", nargs=-1),
    log: Path | None = log_option,
    labels: dict[str, str] = label_option,
    listen: str | None = option(
        "Run only the proxy, until Ctrl-C, for a command that runs elsewhere, such as in a "
        "container.  HOST, HOST:PORT or :PORT; by default a free port on loopback.",
        "[ADDR]",
        is_flag=False,
        flag_value="",
    ),
    workspace: str = option(
        "Folder whose files are recorded; by default the git work tree or, outside of git, this "
        "folder.",
        "DIR|none",
    ),
    keep_content: bool = option("Store all files, even those that are in the git repository."),
    foreign: Foreign = chosen(click.Option, "upstream", "volatile", "profile"),
    limits: dict[str, float] = limits_option(),
) -> int:
    r"""Record the model requests of a command, in any language.

    The command runs with base-URL variables (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, and others for
    Gemini, Vertex and Bedrock) that point to a local proxy, which forwards all requests.  A
    client with a fixed base URL bypasses the proxy: see `refold doctor`. API keys are forwarded,
    but not written to the log.

    The guarantee is weaker than for `refold run`, because a replay only compares the requests
    that the command makes.

    Examples:
      refold record -- python agent.py
      refold record --log runs/agent.jsonl -- node agent.mjs --task "…"
      refold record --upstream http://localhost:8000/v1 -- ./agent.sh
      refold record --limit max_cost_usd=5 --limit max_requests=40 \
             -- claude -p "…"
      refold record --upstream GROQ_BASE_URL=https://api.groq.com/openai/v1 \
             -- python agent.py

      refold record --listen 172.17.0.1:8787 --log runs/agent.jsonl > agent.env
      docker run --env-file agent.env AGENT

    To replay, without a key, model or network:
      refold replay LOG -- python agent.py

    Exit code: the exit code of COMMAND.
    """
    from refold.cli.arguments.foreign import sessions  # noqa: PLC0415 - needs the extra `proxy`
    from refold.proxy.command import is_fed  # noqa: PLC0415 - the same
    from refold.proxy.http.routes import why_nothing_came  # noqa: PLC0415 - the same

    spends = caps_of(limits)
    given = {
        "log": log, **foreign.passed(), "workspace": workspace, "keeps_all": keep_content,
        "caps": spends, "labels": labels,
    }  # fmt: skip
    if (listen is None) == (not command):
        raise click.UsageError("use either -- COMMAND or --listen")
    if listen is not None:
        if workspace or keep_content:
            raise click.UsageError("--workspace and --keep-content need -- COMMAND")
        given["listening"] = sessions().Listening(_print_variables, listen)
    recorded = sessions().record_command(command, **given)
    sys.stdout.flush()
    hint_recorded(recorded.log, recorded.entries)
    if recorded.folder:
        output.hint(f"folder: {recorded.folder}")
    if recorded.profile:
        output.hint(
            f"profile {recorded.profile}: a replay ignores values that change on every run, and "
            "lists them; to compare them, use --profile none"
        )
    _print_failures(recorded)
    if late := _passed_on(command):
        output.hint(f"the command got {late}: put options of `refold record` before it")
    if command and is_fed():
        output.hint("standard input is not recorded: pass it to a replay, too")
    if recorded.ended.timed_out:
        output.complain(f"the command was stopped by --limit timeout={spends.timeout:g}")
    code: int = recorded.ended.code
    if recorded.is_empty:
        output.complain("no requests were recorded, only the start and end of the command")
        failure = recorded.ended.failure()
        for why in why_nothing_came(foreign.upstream, recorded.unserved, failure=failure):
            output.hint(why)
    for why in () if recorded.is_empty else recorded.unserved:
        output.complain(why)
    return code


def _print_failures(recorded: Any) -> None:
    """Report lost output, and requests without an answer of their server."""
    if recorded.ended.lost:
        output.complain(f"standard output: {recorded.ended.lost}: part of the output was lost")
    failed = (f"a request failed: {why}" for why in recorded.refused)
    for line in (*failed, *recorded.past, *recorded.capped):
        output.complain(line)


def _passed_on(command: Sequence[str]) -> str:
    """Return the options of ours that the command got and that were not given before it."""
    context = click.get_current_context()
    ours = {name: each.name or "" for each in context.command.params for name in each.opts}
    left = {name for name, of in ours.items() if name[:2] == "--" and not context.params.get(of)}
    late = [word for word in command if word.partition("=")[0] in left - _ALSO_THEIRS]
    return ", ".join(dict.fromkeys(late))


_ALSO_THEIRS: Final = frozenset({"--profile"})
"""Options that many commands have themselves."""
