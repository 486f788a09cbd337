"""`refold ls`: the recorded runs of a folder (CONTRACT.md §14.10)."""

import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, get_args

import click

from refold.cli.arguments.logs import json_option, opened_log
from refold.cli.arguments.run_list import listed_runs, moment, orphans
from refold.cli.arguments.run_names import PLACE
from refold.cli.output import output, words
from refold.cli.output.entries import compact
from refold.cli.output.listed import ListedRun
from refold.cli.output.pages import page
from refold.engine.errors import LogError, UsageError
from refold.engine.events.outcome import Status
from refold.engine.log.names import PACKED_SUFFIX, SUFFIX
from refold.replay.index.kept_folds import KeptFolds, cache_folder, keeping
from refold.replay.index.standing import STANDINGS
from refold.store.place import StoredRun

_PAGE: Final = """
Examples:
  refold ls
  refold ls /var/log/agents --json
  refold ls --status failed --since 7d
  refold ls --tree                forks below their origins
  refold ls s3://bucket/audits    the runs of a store, by name
"""


_STATUSES: Final = (*get_args(Status), *STANDINGS, "unreadable")


@click.command("ls", epilog=page(_PAGE))
@click.argument("folder", metavar="[DIR|URL]", type=PLACE, default=Path("runs"))
@click.option("--tree", "is_tree", is_flag=True, help="Show forks below their origins.")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(_STATUSES),
    metavar="STATUS",
    help=f"Only runs with this status; can be repeated. One of {', '.join(_STATUSES)}.",
)
@click.option("--program", default="", help="Only runs whose program name contains this.")
@click.option(
    "--since",
    callback=moment,
    metavar="TIME",
    help="Only runs that started since: 2026-01-31, 12h, 7d.",
)
@click.option(
    "--notable", "is_notable", is_flag=True,
    help="Only runs in which `refold show --notable` finds something; slow, because it reads "
         "entire logs.",
)  # fmt: skip
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Only the N newest of the runs found."
)
@click.option(
    "--text",
    default="",
    help="Only runs with this in input, output, error, label, path or program.",
)
@json_option
def command(
    *,
    folder: Path | StoredRun,
    is_tree: bool,
    status: tuple[str, ...],
    program: str,
    since: float | None,
    text: str,
    last: int | None,
    is_notable: bool,
) -> int:
    """List the root runs in DIR (by default runs/), newest last.

    A run without an end is `running`, `waits_for_you` (a person must answer) or
    `broke_off`.
    """
    if isinstance(folder, StoredRun):
        if is_tree or status or program or since is not None or text or is_notable or last:
            raise click.UsageError("a store lists runs only by name; `refold pull` copies them")
        from refold.cli.arguments.moving import tell_moved  # noqa: PLC0415 - few lie in a store
        from refold.store.pull import stored  # noqa: PLC0415 - the same

        names = [folder.name] if folder.name else []
        return tell_moved(stored(folder.url, names), folder.url, 0, "listing")
    if folder.is_file():
        shown = output.shown_path(folder)
        is_log = folder.suffix in (SUFFIX, PACKED_SUFFIX)
        advice = f"a log: refold show {shlex.quote(shown)}" if is_log else "a file, not a folder"
        raise UsageError(f"{shown} is {advice}")
    is_here = any(Path().glob(f"*{SUFFIX}"))
    advice = "`refold ls .` lists those here" if is_here else "`refold demo` records a first run"
    if not folder.is_dir():
        shown = output.shown_path(folder)
        raise UsageError(f"{shown}: no such folder; {advice}")
    with output.progress(f"reading {folder}"), keeping(KeptFolds(cache_folder())):
        listed = listed_runs(folder, is_whole=bool(text))
        found = [each for each in listed if _is_asked_for(each, status, program, since, text)]
        found = [each for each in found if _is_notable(each)] if is_notable else found
        found = found[-last:] if last else found
        lost = [output.shown_path(path) for path in orphans(folder)]
    unread = _unreadable(listed) - _unreadable(found)
    if unread:
        files = words.counted(unread, "file")
        output.hint(
            f"{files} could not be read, and may belong here: to list them, use --status unreadable"
        )

    def describe() -> None:
        for each, branch in _lineage(found) if is_tree else ((each, "") for each in found):
            _print(each, branch)
        if listed and not found:
            output.line(f"no run matches ({len(listed):,} in this folder)")
        elif not found:
            output.line(f"no runs in {folder}; {advice}")
        for name in lost:
            output.line((f"{name} is missing, but other files of its run exist", "yellow"))
        if lost:
            output.line((f"`refold rm {shlex.quote(lost[0])}` removes them", "dim"))

    runs = [each.as_json() for each in found]
    document = {"folder": output.shown_path(folder), "runs": runs, "orphans": lost}
    return output.answer(document, describe)


def _unreadable(runs: Iterable[ListedRun]) -> int:
    return sum(each.status == "unreadable" for each in runs)


def _is_notable(run: ListedRun) -> bool:
    """Return whether a run, or one below it, is notable, by its logs."""
    if run.status == "unreadable":
        return False
    from refold.replay.tree.delegation_tree import delegation_tree  # noqa: PLC0415 - the same
    from refold.replay.tree.totals import below  # noqa: PLC0415 - few look for them

    try:
        with opened_log(run.path) as opened:
            nodes = below(delegation_tree(opened.path))
    except LogError as error:
        output.complain(f"{run.log} cannot be searched: {error}")
        return False
    unread = sum(node.log_state in ("missing", "damaged", "foreign") for node in nodes)
    if unread:
        output.hint(f"{run.log}: {words.counted(unread, 'log')} of it cannot be searched")
    return any(node.notable for node in nodes)


def _lineage(found: list[ListedRun]) -> Iterator[tuple[ListedRun, str]]:
    """Yield runs with the beginnings of their lines, each below the run that it was forked from."""
    from refold.cli.output.trees import branches  # noqa: PLC0415 - few ask for the tree

    known = {each.nonce for each in found if each.nonce}
    below: dict[str, list[ListedRun]] = {}
    for each in found:
        below.setdefault(each.origin if each.origin in known else "", []).append(each)
    waiting = [(each, "", "") for each in reversed(below.get("", []))]
    while waiting:
        each, lead, under = waiting.pop()
        yield each, lead
        if each.nonce:
            waiting += reversed(branches(below.pop(each.nonce, []), under))


def _print(found: ListedRun, branch: str) -> None:
    """Print a run on one line: its log comes before the parts that a terminal may cut off."""
    started = (found.started or "(no time)").replace("T", " ").removesuffix("Z")
    took = "" if found.duration_ms is None else f" · {words.seconds(found.duration_ms)}"
    output.line(
        branch,
        (f"{started}  ", "dim"),
        output.status(found.status),
        f"  {found.log}",
        (f"  {found.who or '?'}", "bold"),
        "".join(f"  {name}={value}" for name, value in found.labels.items()),
        (f"  {found.error}", "red") if found.error else "",
        f"  forked at entry {found.forked['at']} ·" if found.forked else " ",
        f" {words.counted(found.entries, 'entry', 'entries')}",
        (" · matched", "yellow")
        if found.guarantee
        else f" · {words.counted(max(0, found.runs - 1), 'run')} below",
        (f" · {found.failed_children} failed", "red") if found.failed_children else "",
        (f" · {found.refused} refused by default limits", "yellow") if found.refused else "",
        took,
        f" · {found.input}" if found.input not in ("", "null") else "",
        f" · {', '.join(found.models)}" if found.models else "",
        f" · {words.spent(found.usage, found.priced)}" if found.usage else "",
        (f"  {words.size(found.bytes)}", "dim"),
        cut=True,
    )


def _is_asked_for(
    run: ListedRun, status: tuple[str, ...], program: str, since: float | None, text: str
) -> bool:
    labels = [f"{name}={value}" for name, value in run.labels.items()]
    whole = [compact(each, sys.maxsize) for each in run.texts] if text else []
    told = "\n".join([run.log, run.program, run.status, run.who, *labels, *whole]).lower()
    return (
        (not status or run.status in status)
        and program in run.program
        and (since is None or run.wall_us >= since * 1_000_000)
        and text.lower() in told
    )
