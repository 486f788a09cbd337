"""`refold export`: a run as one file that shows it, and needs nothing else (CONTRACT.md §14.16)."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from refold.cli.arguments.logs import file_option, json_option, opened_log
from refold.cli.arguments.moving import listed_contents
from refold.cli.arguments.outputs import force_option, output_file
from refold.cli.arguments.run_names import RUN, RUNS, one_run
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, FINE, USAGE
from refold.cli.output.pages import HelpPage
from refold.engine.errors import ExtraMissing, RefoldError
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import PACKED_SUFFIX, tree
from refold.engine.log.pack import pack
from refold.engine.workspace.paths import names_of
from refold.page.output_files import OutputFile, OutputFolder, OutputKind
from refold.replay.audit.verify import START_MISSING, verify

if TYPE_CHECKING:
    from refold.exports.spans import Spans
    from refold.page.document import Page
    from refold.replay.run.run_node import RunNode

_GAP: Final = "a log or a large text of this run is missing or damaged: see refold verify"
_LARGE: Final = 100 * 1024 * 1024
"""Bytes of logs from which on an export is asked for twice: it holds them in memory."""
_TIMES: Final[dict[OutputKind, int]] = {"html": 5, "perfetto": 1, "markdown": 1}
"""As many times the bytes of its logs is what each takes at most, as measured."""
_SHOWN: Final = 10
"""Places of damage that are listed."""
_HARMLESS: Final = frozenset({TORN_TAIL, START_MISSING})
"""The damage that a crash leaves."""
_Form = OutputKind | Literal["parquet", "refold"]
_SUFFIXES: Final[dict[_Form, str]] = {
    "html": ".html", "perfetto": ".trace.json", "markdown": ".md", "otlp": ".otlp.json",
    "atif": ".trajectory.json", "parquet": ".parquet",
    "refold": PACKED_SUFFIX,
}  # fmt: skip


@click.command("export", cls=HelpPage)
@click.argument("logs", metavar="LOG…", type=RUNS, nargs=-1, required=True)
@click.option(
    "--to", type=click.Choice(list(_SUFFIXES)), required=True, help="Format of the output."
)
@file_option(
    "-o",
    "--out",
    text="Output file, or folder for tables; by default named after the log.  Use "
    "- for standard output.",
)
@force_option
@click.option("--diff", "other", type=RUN, metavar="OTHER", help="Another run to compare it with.")
@click.option(
    "--without-content", is_flag=True, help="Leave out the text of tools, models and people."
)
@click.option(
    "--files",
    is_flag=True,
    help="Add the diffs of recorded files, or with --to refold the files; list these files first.",
)
@click.option(
    "--content", is_flag=True, help="With --to otlp or parquet: add the texts of all calls."
)
@click.option(
    "--endpoint", metavar="URL", help="With --to otlp: send to this collector, .../v1/traces."
)
@click.option("--large", is_flag=True, help="Also export logs of more than 100 MB.")
@json_option
def command(
    *,
    logs: tuple[Path, ...],
    to: _Form,
    out: Path | None,
    other: Path | None,
    without_content: bool,
    files: bool,
    content: bool,
    endpoint: str | None,
    large: bool,
) -> int:
    """Write a run and its descendants to a single file, or runs to a folder of tables.

    An earlier export to the same file is replaced.  To replace any other file except a log, add
    --force.  A folder must be empty or not exist yet.

    Examples:
      refold export runs/audit.jsonl --to html           makes audit.html
      refold export report.refold --to html -o /tmp/run.html
      refold export today.jsonl --to html --diff yesterday.jsonl
      refold export runs/audit.jsonl --to perfetto       for ui.perfetto.dev
      refold export runs/audit.jsonl --to markdown -o "$GITHUB_STEP_SUMMARY"
      refold export runs/audit.jsonl --to otlp           makes audit.otlp.json
      refold export runs/audit.jsonl --to atif           a trajectory, with texts
      refold export runs --to parquet -o tables          all runs, in four tables
      refold export runs/audit.jsonl --to refold         all its logs in one file
      refold export runs/agent.jsonl --to refold --files
      refold export LOG --to otlp --endpoint http://localhost:4318/v1/traces

    The HTML page works from disk, without a network or a server, and verifies the
    logs itself.  Every command that reads a LOG also accepts a FILE.refold; with
    --files, it can be replayed without the repository.

    Exit code: 0 complete and intact · 3 a child's log or a large text is missing
    or damaged, as standard error reports; the rest is exported.
    """
    from refold.exports.spans import Spans  # noqa: PLC0415 - the same
    from refold.page.document import page as page_of  # noqa: PLC0415 - not for help pages

    _refuse(
        to,
        {
            ("html", "perfetto", "markdown"): {"--without-content": without_content},
            ("html", "markdown"): {"--diff": other},
            ("html", "refold"): {"--files": files},
            ("otlp", "parquet"): {"--content": content},
            ("otlp",): {"--endpoint": endpoint},
        },
    )
    if (files and without_content) or (endpoint and out):
        pair = "--files cannot be used with --without-content"
        raise click.UsageError(pair if files else "-o cannot be used with --endpoint")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise click.UsageError(
            f"--endpoint {endpoint}: expected a URL, such as http://localhost:4318/v1/traces"
        )
    is_printed = out == Path("-")
    if is_printed and output.is_json():
        raise click.UsageError(
            "-o - and --json both print to standard output: use only one of them"
        )
    if to != "parquet" and len(logs) > 1:
        raise click.UsageError(f"--to {to} takes one LOG; only --to parquet takes several")
    log = logs[0] if to == "parquet" else one_run(logs[0])
    target = out or Path(f"{log.stem}{_SUFFIXES[to]}")
    if is_printed and to in ("parquet", "refold"):
        raise click.UsageError(f"--to {to} cannot write to standard output: pass a name with -o")
    if to == "refold":
        return _export_pack(log, target, has_files=files)
    if to == "parquet":
        return _tables(logs, OutputFolder(target), content=content)
    file = None if is_printed or endpoint else output_file(target, to)
    if to in ("otlp", "atif"):
        with opened_log(log) as opened, output.progress(f"reading {log}"):
            spans = Spans(opened.path, content=content or to == "atif")
            return _spans(spans, log.name, to, file, endpoint)
    with contextlib.ExitStack() as stack:
        one, *rest = (stack.enter_context(opened_log(each)).path for each in (log, other) if each)
        stack.enter_context(output.progress(f"reading {log}"))
        _print_cost(_TIMES["html" if rest else to], one, *rest, large=large)
        for path in (one, *rest) if files else ():
            _list_files(path)
        made = page_of(one, *rest, content=not without_content, files=files)
        written = _exported(made, to).encode()
    problems = made.document["verdict"]["problems"]
    code = _report_damage((one["name"], one["line"], one["what"]) for one in problems)
    if file is None:
        click.echo(written)
        return code
    file.write(written)
    size = len(written)
    shown = output.shown_path(target)
    document = {"exported": shown, "to": to, "bytes": size}
    return output.answer(
        document, lambda: output.line((shown, "bold"), f"  {words.size(size)}"), code
    )


def _refuse(to: str, options: Mapping[tuple[str, ...], Mapping[str, object]]) -> None:
    """Refuse options that have no effect on a form.

    Raises:
        UsageError: one was given.
    """
    for forms, given in options.items():
        for option, value in given.items():
            if value and to not in forms:
                raise click.UsageError(f"{option} needs --to {' or '.join(forms)}")


def _tables(places: Sequence[Path], folder: OutputFolder, *, content: bool) -> int:
    """Write the tables of runs; one that cannot be read is reported, and ends no other.

    Raises:
        ExtraMissing: pyarrow is not installed.
    """
    from refold.exports.spans import Spans  # noqa: PLC0415 - not for help pages

    folder.check()
    logs = places
    if any(each.is_dir() for each in places):
        from refold.replay.bulk.bulk import find_logs  # noqa: PLC0415 - imports what executes programs

        logs = find_logs(places)
    read, left_out, gaps = list[Spans](), Counter[str](), list[str]()

    def runs() -> Iterator[Spans]:
        for log in logs:
            try:
                with opened_log(log) as opened:
                    spans = Spans(opened.path, content=content)
                    yield spans
            except RefoldError as error:
                gaps.append(f"{output.shown_path(log)} is left out: {error}")
                continue
            read.append(spans)
            left_out.update(spans.left_out)
            gaps.extend(_gaps_of(spans, log.name))

    try:
        from refold.exports import parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ExtraMissing(error.name or "parquet", "parquet") from None
    said = lambda: f"{len(read):,} of {len(logs):,} runs exported"  # noqa: E731
    with output.progress(said), folder.files(parquet.FILES) as files:
        parquet.write(runs(), files)
    made = sum(spans.made for spans in read)
    counts = f"{words.counted(len(read), 'run')}, {words.counted(made, 'span')}"
    exported = {"exported": output.shown_path(folder.path), "to": "parquet", "spans": made}
    return _report_spans(exported, left_out, gaps, counts)


def _report_spans(
    exported: Mapping[str, object],
    left_out: Mapping[str, int],
    gaps: Sequence[str],
    text: str,
    lost: int = 0,
) -> int:
    """Report exported spans, and what they leave out; return the exit code."""
    left = {what: count for what, count in sorted(left_out.items()) if count}
    if left and not output.is_json():
        output.hint(f"left out: {', '.join(f'{count:,} {what}' for what, count in left.items())}")
    for gap in gaps:
        output.complain(gap)
    code = DAMAGED if gaps else USAGE if lost else FINE
    if exported["exported"] == "-":  # standard output has the spans
        return code
    return output.answer(
        {**exported, "lost": lost, "left_out": left},
        lambda: output.line((str(exported["exported"]), "bold"), f"  {text}"),
        code,
    )


def _spans(
    spans: "Spans",
    name: str,
    to: str,
    file: OutputFile | None,
    endpoint: str | None,
) -> int:
    """Write or send the spans of a run, and report what they leave out.

    Raises:
        ExtraMissing: the packages of the format are needed, and are not installed.
    """
    try:
        lost, why = _put(spans, to, file, endpoint)
    except ModuleNotFoundError as error:
        # The first that is imported belongs to the exporter, and its name says nothing: `google`.
        extra = ("opentelemetry", "otel") if to == "otlp" else (error.name or to, to)
        raise ExtraMissing(*extra) from None
    made = endpoint or ("-" if file is None else output.shown_path(file.path))
    if lost:
        output.complain(
            f"{endpoint} did not accept {lost:,} of {spans.made:,} spans"
            f"{why and f' ({output.safe(why)})'}: check that a collector "
            "listens at exactly this URL, and run the export again"
        )
    exported = {"exported": made, "to": to, "spans": spans.made}
    text = f"{spans.made - lost:,} spans"
    return _report_spans(exported, spans.left_out, _gaps_of(spans, name), text, lost)


def _gaps_of(spans: "Spans", name: str) -> list[str]:
    """Return that a run has something that could not be read; empty if not."""
    from refold.exports.spans import UNREAD  # noqa: PLC0415 - not for help pages

    is_read = not spans.left_out.get(UNREAD) and _is_read(spans.tree)
    return [] if is_read else [f"{name}: {_GAP}"]


def _put(spans: "Spans", to: str, file: OutputFile | None, endpoint: str | None) -> tuple[int, str]:
    """Write, print or send spans; return how many a collector did not take, and why if it said it.

    Raises:
        ModuleNotFoundError: the packages of the format are not installed.
    """
    if to == "atif":
        from refold.exports.atif import trajectory  # noqa: PLC0415 - not for other forms

        written: Iterable[bytes] = [json.dumps(trajectory(spans), ensure_ascii=False).encode()]
    else:
        from refold.exports import otlp  # noqa: PLC0415 - an extra

        if endpoint:
            sent = otlp.send(spans, endpoint)
            return sent.lost, sent.why
        written = otlp.lines(spans)
    if file is not None:
        file.write(written)
    else:
        for line in written:
            click.echo(line, nl=False)
    return 0, ""


def _is_read(node: "RunNode") -> bool:
    return node.log_state in ("read", "none") and all(map(_is_read, node.children))


def _print_cost(times: int, *logs: Path, large: bool) -> None:
    """Report, before a large run is read, the memory that it takes: a multiple of its logs.

    Raises:
        UsageError: it is large, and that was not asked for.
    """
    size = sum(path.stat().st_size for log in logs for path in tree(log) if path.exists())
    if size >= _LARGE:
        cost = f"logs of {words.size(size)}, which may need {words.size(times * size)} of memory"
        if not large:
            raise click.UsageError(
                f"{cost}; add --large, or use refold show --events -n 100 or refold why"
            )
        output.hint(f"reading {cost}")


def _list_files(log: Path) -> None:
    """List the files whose diffs go into a page."""
    from refold.replay.observed.folder import folder_diffs  # noqa: PLC0415 - rarely

    changes = folder_diffs(log, has_diffs=False)
    names = dict.fromkeys(change.path for _, _, change, _ in changes)
    output.hint(f"with {log.name}: diffs of {names_of(names) or 'no file'}")


def _report_damage(damage: Iterable[tuple[str, int, str]]) -> int:
    """Report missing and damaged places: name, line and kind; return the exit code."""
    found = [each for each in damage if each[2].partition(": ")[0] not in _HARMLESS]
    for name, line, what in found[:_SHOWN]:
        output.complain(f"{name}:{line}: {what}")
    if len(found) > _SHOWN:
        rest = words.counted(len(found) - _SHOWN, "more place")
        output.complain(f"and {rest}: to list them, use `refold verify --json`")
    return DAMAGED if found else FINE


def _exported(page: "Page", to: str) -> str:
    from refold.page.html import page_html  # noqa: PLC0415 - not for help pages
    from refold.page.other_forms import summary, trace_events  # noqa: PLC0415 - the same

    match to:
        case "perfetto":
            return json.dumps(trace_events(page.document))
        case "markdown":
            return summary(page.document)
        case _:
            return page_html(page)


def _export_pack(log: Path, target: Path, *, has_files: bool) -> int:
    """Pack a run's log, its children's logs and their large texts; nothing is overwritten.

    With `has_files`, also the files of a watched command's folder, which are listed first.
    """
    with opened_log(log) as opened, output.progress(f"packing {log}"):
        if not target.absolute().parent.is_dir():
            raise click.UsageError(f"{output.shown_path(target.parent)}: no such folder")
        with contextlib.ExitStack() as left:
            objects = listed_contents(opened.path, left) if has_files else None
            if has_files and objects is None:
                raise click.UsageError(
                    f"{output.shown_path(log)}: the log does not contain a folder"
                )
            packed = pack(opened.path, target, objects)
        logs = len(tree(opened.path))
        damage = verify(opened.path).damage
        code = _report_damage((opened.shown(one.path), one.line, one.what) for one in damage)
    size = packed.stat().st_size
    shown, what = output.shown_path(packed), f"{words.counted(logs, 'log')}, {words.size(size)}"
    return output.answer(
        {"exported": shown, "to": "refold", "logs": logs, "bytes": size},
        lambda: output.line((shown, "bold"), f"  {what}"),
        code,
    )
