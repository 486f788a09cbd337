"""`refold ls`: the recorded runs of a folder (CONTRACT.md §14.10)."""

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

import click

from refold.cli.arguments.logs import opened_log
from refold.cli.arguments.options import POSITIVE, argument, declared, given_options, option
from refold.cli.arguments.run_list import moment, orphans, runs_of
from refold.cli.arguments.run_names import PLACE, RUN, RUNS_FOLDER, short_name
from refold.cli.output import output, words
from refold.cli.output.entries import compact
from refold.cli.output.listed import ListedRun
from refold.engine.errors import LogError, UsageError
from refold.engine.events.outcome import Status
from refold.engine.log.descriptors import holding
from refold.engine.log.names import SUFFIX
from refold.replay.difference.pointer_diff import few
from refold.replay.index.kept_folds import KeptFolds, cache_folder, keeping
from refold.replay.index.standing import STANDINGS
from refold.store.place import StoredRun


def _tokens(run: ListedRun) -> int:
    return run.usage.tokens if run.usage else 0


def _cost(run: ListedRun) -> int:
    return (run.usage and run.usage.cost_usd_micros) or 0


_SORTS: Final[dict[str, Callable[[ListedRun], int]]] = {
    "cost": _cost, "tokens": _tokens, "time": lambda run: run.duration_ms or 0,
}  # fmt: skip
_SHOWN: Final = 3
_STATUSES: Final = (*get_args(Status), *STANDINGS, "unreadable")


@declared("ls")
def command(
    *,
    places: tuple[Path | StoredRun, ...] = argument(PLACE, "[LOG|DIR|URL]…", nargs=-1),
    is_tree: bool = option("Show forks below their origins."),
    status: tuple[str, ...] = option(
        f"Only runs with this status; can be repeated. One of {', '.join(_STATUSES)}.",
        "STATUS",
        type=click.Choice(_STATUSES),
    ),
    since: float | None = option(
        "Only runs that started since: 2026-01-31, 12h, 7d.", "TIME", callback=moment
    ),
    is_notable: bool = option(
        "Only runs in which `refold show --notable` finds something; slow, because it reads "
        "entire logs."
    ),
    last: int | None = option("Only the N newest of the runs found.", type=POSITIVE),
    text: str = option("Only runs with this in input, output, error, label, path or program."),
    sort: str | None = option(
        "Show those with the most last; prints a sum.", type=click.Choice([*_SORTS])
    ),
    other: Path | None = option(
        "Compare with this run, in a table with calls, tokens, cost, time, changed files and the "
        "first difference; reads entire logs.",
        "--diff LOG",
        type=RUN,
    ),
) -> int:
    """List runs, newest last: the root runs of folders (by default runs/), or single ones.

    A run without an end is `running`, `waits_for_you` (a person must answer) or
    `broke_off`.

    Examples:
      refold ls
      refold ls /var/log/agents --json
      refold ls --status failed --since 7d
      refold ls --tree                forks below their origins
      refold ls runs tests/old.refold --sort cost
      refold ls runs --diff runs/first.jsonl
      refold ls s3://bucket/audits    the runs of a store, by name

    Exit code: 0 listed · with --diff: 1 differences · 3 a log or a large text is
    missing or damaged, as standard error reports, and is not in its row's sums.
    """
    if any(isinstance(each, StoredRun) for each in places):
        return _stored(places)
    paths, advice = _places(places)
    if other is not None or is_notable:  # a log is listed, searched or compared, and read once
        click.get_current_context().with_resource(holding())
    where = few([*map(output.shown_path, paths)], _SHOWN)
    with output.progress(f"reading {where}"), keeping(KeptFolds(cache_folder())):
        listed = runs_of(paths, is_whole=bool(text))
        found = [each for each in listed if _is_asked_for(each, status, since, text)]
        found = [each for each in found if _is_notable(each)] if is_notable else found
        found = sorted(found, key=_SORTS[sort]) if sort else found
        found = found[-last:] if last else found
        folders = filter(Path.is_dir, paths)
        lost = [output.shown_path(path) for folder in folders for path in orphans(folder)]
    if other is not None:
        from refold.cli.commands.inspect.ls_diff import ls_diff  # noqa: PLC0415 - reads entire logs

        return ls_diff([each.path for each in found], other)
    is_shown = {each.path for each in found}
    unread = sum(each.status == "unreadable" for each in listed if each.path not in is_shown)
    if unread:
        files = words.counted(unread, "file")
        output.hint(
            f"{files} could not be read, so may be missing here: to list them, use "
            "--status unreadable"
        )

    def describe() -> None:
        rows = [*_lineage(found)] if is_tree else [(each, "") for each in found]
        _print_runs(rows, sort or "")
        if sort:
            _print_sums(found)
        if listed and not found:
            output.line(f"no run matches ({len(listed):,} in {where})")
        elif not found:
            output.line(f"no runs in {where}; {_advice_below(paths) or advice}")
        for name in lost:
            output.line((f"{name} is missing, but other files of its run exist", "yellow"))
        if lost:
            output.line((f"`{output.command('rm', lost[0])}` removes them", "dim"))

    runs = [each.as_json() for each in found]
    document = {"places": [*map(output.shown_path, paths)], "runs": runs, "orphans": lost}
    return output.answer(document, describe)


def _places(places: Iterable[Path | StoredRun]) -> tuple[list[Path], str]:
    """Return the places, by default `runs`, and the advice where nothing is found.

    Raises:
        UsageError: one does not exist.
    """
    paths = [Path(str(each)) for each in places] or [Path("runs")]
    is_here = any(Path().glob(f"*{SUFFIX}"))
    advice = "`refold ls .` lists those here" if is_here else "`refold demo` records a first run"
    for each in paths:
        if not each.exists():
            raise UsageError(f"{output.shown_path(each)}: no such log or folder; {advice}")
    return paths, advice


def _advice_below(paths: Iterable[Path]) -> str:
    """Return the command that lists the runs of a folder in one of these; empty if none has any.

    No deeper: below a home folder are millions of files.
    """
    logs = (log for path in paths if path.is_dir() for log in path.glob(f"*/*{SUFFIX}"))
    log = next(logs, None)
    return f"`{output.command('ls', log.parent)}` lists those below" if log else ""


def _stored(places: Sequence[Path | StoredRun]) -> int:
    """List the runs of a store, by name."""
    (folder, *rest) = places
    if given_options() or rest or not isinstance(folder, StoredRun):
        raise click.UsageError("a store lists runs only by name; `refold pull` copies them")
    from refold.cli.arguments.moving import tell_moved  # noqa: PLC0415 - few lie in a store
    from refold.store.pull import stored  # noqa: PLC0415 - the same

    names = [folder.name] if folder.name else []
    return tell_moved(stored(folder.url, names), folder.url, 0, "listing")


def _is_notable(run: ListedRun) -> bool:
    """Return whether a run, or one below it, is notable, by its logs."""
    if run.status == "unreadable":
        return False
    from refold.replay.run.opened_run import OpenedRun  # noqa: PLC0415 - few look for them

    try:
        with opened_log(run.path) as opened:
            nodes = [each.node for each in OpenedRun(opened.path).agents]
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


def _print_runs(runs: Sequence[tuple[ListedRun, str]], sort: str) -> None:
    """Print a row a run, whose first columns leave room in 80 cells."""
    folders = {run.path.parent for run, _ in runs}
    folder = folders.pop() if len(folders) == 1 else RUNS_FOLDER
    if folder not in (RUNS_FOLDER, Path()):
        output.line((f"{output.shown_path(folder)}:", "dim"))
    heads: list[output.Part] = ["started", "status", "run", *_NUMBERS, "what"]
    rows = [[*_cells(run, folder, sort), branch, *_what(run)] for run, branch in runs]
    if rows:
        output.table([heads, *rows], right=_NUMBERS, is_cut=True)


_NUMBERS: Final = ("below", "time", "cost", "tokens")
"""Columns that are aligned on the right."""


def _cells(run: ListedRun, folder: Path, sort: str) -> list[output.Part]:
    """Return the columns of a run; its tokens only if runs are sorted by them."""
    started = (run.started or "").replace("T", " ")[:16]
    is_new = started[:4] == str(dt.datetime.now(dt.UTC).year)
    return [
        (started[5:] if is_new else started, "dim"),
        output.status(run.status),
        short_name(run.path, folder),
        f"{run.runs - 1:,}" if run.runs > 1 else "",
        "" if run.duration_ms is None else words.seconds(run.duration_ms),
        words.dollars(_cost(run)) if _cost(run) else "",
        f"{_tokens(run):,}" if sort == "tokens" else "",
    ]


def _what(run: ListedRun) -> list[output.Part]:
    """Return where a run is from and what it is about, then how it went, then its sizes."""
    _, colon, question = run.standing.partition(": ")
    facts = [
        words.counted(run.entries, "entry", "entries"),
        "matched" if run.guarantee else "",
        ", ".join(run.models),
        words.spent(run.usage, run.priced) if run.usage else "",
        words.size(run.bytes),
    ]
    return [
        f"forked at entry {run.forked['at']}  " if run.forked else "",
        (run.title or run.log, "bold"),
        (f"  {question}" if colon else "", "yellow"),
        (f"  {run.error}" if run.error else "", "red"),
        (f"  {run.failed_children} failed" if run.failed_children else "", "red"),
        (f"  {run.refused} refused by default limits" if run.refused else "", "yellow"),
        "".join(f"  {name}={value}" for name, value in run.labels.items()),
        (f"  {' · '.join(filter(None, facts))}", "dim"),
    ]


def _print_sums(found: list[ListedRun]) -> None:
    """Print what runs took together, and how many had no known cost."""
    tokens, cost = sum(map(_tokens, found)), sum(map(_cost, found))
    took = words.seconds(sum(each.duration_ms or 0 for each in found))
    unknown = sum(bool(_tokens(each)) and not _cost(each) for each in found)
    more = f" ({words.counted(unknown, 'run')} without a known cost)" if unknown else ""
    runs = words.counted(len(found), "run")
    line = f"{runs}: {words.counted(tokens, 'token')}, {words.dollars(cost)}{more}, {took}"
    output.line((line, "bold"))


def _is_asked_for(run: ListedRun, status: tuple[str, ...], since: float | None, text: str) -> bool:
    labels = [f"{name}={value}" for name, value in run.labels.items()]
    whole = [compact(each, sys.maxsize) for each in run.texts] if text else []
    told = "\n".join(
        [run.log, run.program, run.status, run.standing, run.who, *labels, *whole]
    ).lower()
    return (
        (not status or run.status in status)
        and (since is None or run.wall_us >= since * 1_000_000)
        and text.lower() in told
    )
