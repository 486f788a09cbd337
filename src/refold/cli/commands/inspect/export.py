"""`refold export`: a run as one file that shows it, and needs nothing else (CONTRACT.md §14.16)."""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import click

from refold.cli.arguments.logs import OpenedLog, opened_log
from refold.cli.arguments.moving import listed_contents
from refold.cli.arguments.options import argument, declared, option, with_options
from refold.cli.arguments.outputs import force_option, output_file
from refold.cli.arguments.run_names import RUN, RUNS, one_run
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, FINE, USAGE, code_of
from refold.engine.errors import ExtraMissing, RefoldError
from refold.engine.log.damage import TORN_TAIL
from refold.engine.log.names import PACKED_SUFFIX, is_runs, tree
from refold.engine.log.pack import pack
from refold.engine.values import Value
from refold.engine.workspace.paths import names_of
from refold.page.output_files import OutputFile, OutputFolder, OutputKind
from refold.replay.audit.verify import START_MISSING, Verification, verify

if TYPE_CHECKING:
    from refold.exports.spans import Spans
    from refold.page.document import Page

_LARGE: Final = 100 * 1024 * 1024
"""Bytes of logs from which on an export is asked for twice: it holds them in memory."""
_TIMES: Final[dict[OutputKind, int]] = {"html": 7, "perfetto": 3, "markdown": 1}
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


@attrs.frozen(kw_only=True, field_transformer=with_options)
class _How(Value):
    """The form of an export, and what goes into it."""

    to: _Form = option("Format of the output.", type=click.Choice([*_SUFFIXES]), required=True)
    other: Path | None = option("Another run to compare it with.", "--diff OTHER", type=RUN)
    without_content: bool = option("Leave out the text of tools, models and people.")
    files: bool = option(
        "Add the diffs of recorded files, or with --to refold the files; list these files first."
    )
    content: bool = option("With --to otlp or parquet: add the texts of all calls.")
    endpoint: str | None = option("With --to otlp: send to this collector, .../v1/traces.", "URL")
    large: bool = option("Also export logs of more than 100 MB.")

    def check(self) -> None:
        """Refuse options that have no effect on the form, or contradict each other.

        Raises:
            UsageError: one was given.
        """
        forms: Mapping[tuple[str, ...], Mapping[str, object]] = {
            ("html", "perfetto", "markdown"): {"--without-content": self.without_content},
            ("html", "markdown"): {"--diff": self.other},
            ("html", "refold"): {"--files": self.files},
            ("otlp", "parquet"): {"--content": self.content},
            ("otlp",): {"--endpoint": self.endpoint},
        }
        for known, options in forms.items():
            for name, value in options.items():
                if value and self.to not in known:
                    raise click.UsageError(f"{name} needs --to {' or '.join(known)}")
        if self.files and self.without_content:
            raise click.UsageError("--files cannot be used with --without-content")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise click.UsageError(
                f"--endpoint {self.endpoint}: expected a URL, such as "
                "http://localhost:4318/v1/traces"
            )


@attrs.frozen(kw_only=True)
class _Made(Value):
    """One export, or why there is none."""

    exported: str = ""
    text: str = ""
    """Its size, for people."""
    gaps: Sequence[str] = ()
    """What could not be read, in words."""
    more: Mapping[str, Any] = attrs.field(factory=dict)
    """Further members of its document."""
    refused: int = FINE
    """The exit code if there is none."""

    @property
    def code(self) -> int:
        """The exit code."""
        return self.refused or (DAMAGED if self.gaps else USAGE if self.more.get("lost") else FINE)

    def document(self, to: _Form) -> dict[str, Any]:
        """Return it as plain data."""
        return {**({"exported": self.exported, "to": to} if self.exported else {}), **self.more}


@declared("export")
@force_option
def command(
    *,
    logs: tuple[Path, ...] = argument(RUNS, "LOG…", nargs=-1, required=True),
    how: _How,
    out: Path | None = option(
        "Output file, or folder for tables or several runs; by default named after the log.  Use - "
        "for standard output.",
        "-o",
        "--out FILE",
    ),
) -> int:
    """Write a run and its descendants to a single file, or runs to a folder of tables.

    Several runs, or a folder of them, become one file each.  An earlier export to the same file is
    replaced.  To replace any other file except a log, add --force.  A folder for tables must be
    empty or not exist yet.

    Examples:
      refold export runs/audit.jsonl --to html           makes audit.html
      refold export report.refold --to html -o /tmp/run.html
      refold export today.jsonl --to html --diff yesterday.jsonl
      refold export runs/audit.jsonl --to perfetto       for ui.perfetto.dev
      refold export runs/audit.jsonl --to markdown -o "$GITHUB_STEP_SUMMARY"
      refold export runs/audit.jsonl --to otlp           makes audit.otlp.json
      refold export runs/audit.jsonl --to atif           a trajectory, with texts
      refold export runs --to html -o pages              a page of each run
      refold export runs --to parquet -o tables          all runs, in four tables
      refold export runs/audit.jsonl --to refold         all its logs in one file
      refold export runs/agent.jsonl --to refold --files
      refold export LOG --to otlp --endpoint http://localhost:4318/v1/traces

    The HTML page works from disk, without a network or a server, and verifies the
    logs itself.  Every command that reads a LOG also accepts a FILE.refold; with
    --files, it can be replayed without the repository.

    Exit code: 0 complete and intact · 3 a log or a large text is missing or
    damaged, as standard error reports; the rest is exported.
    """
    how.check()
    is_printed = out == Path("-")
    if how.endpoint and out:
        raise click.UsageError("-o cannot be used with --endpoint")
    if is_printed and output.is_json():
        raise click.UsageError(
            "-o - and --json both print to standard output: use only one of them"
        )
    if is_printed and how.to in ("parquet", "refold"):
        raise click.UsageError(
            f"--to {how.to} cannot write to standard output: pass a name with -o"
        )
    if how.to == "parquet":
        folder = OutputFolder(out or Path(f"{logs[0].stem}{_SUFFIXES[how.to]}"))
        return _answer([_tables(_found(logs, least=0), folder, content=how.content)], how)
    found = _found(logs, least=2)
    needs_one = "-o -" if is_printed else "--diff" if how.other else ""
    if len(logs) > 1 and needs_one:
        raise click.UsageError(f"{needs_one} needs exactly one LOG")
    if len(found) > 1 and not needs_one:
        folders = [each for each in logs if each.is_dir()]
        return _export_all(found, folders, out or Path(), how)
    log = one_run(logs[0])
    target = None if is_printed or how.endpoint else out or _name(log, how.to)
    return _answer([_export(log, target, how)], how)


def _found(logs: Sequence[Path], *, least: int) -> Sequence[Path]:
    """Return the runs that arguments name, also those below folders.

    A folder alone that has fewer than `least` runs of its own is returned as it is.
    """
    first = logs[0].iterdir() if logs[0].is_dir() else ()
    if len(logs) == 1 and sum(map(is_runs, first)) < least:
        return logs
    from refold.replay.bulk.bulk import find_logs  # noqa: PLC0415 - imports what executes programs

    return find_logs(logs)


def _name(log: Path, to: _Form) -> Path:
    return Path(f"{log.stem}{_SUFFIXES[to]}")


def _export_all(logs: Sequence[Path], below: Sequence[Path], out: Path, how: _How) -> int:
    """Write a file for each run into a folder; one that is refused is reported, and ends no other.

    Runs that were found below a folder keep their places in it.

    Raises:
        UsageError: two of them would be one file, or the folder is a file.
        ExtraMissing: the packages of the format are not installed.
    """
    names = dict[Path, Path]()
    for log in logs:
        base = next((each for each in below if log.is_relative_to(each)), log.parent)
        names[log] = out / log.relative_to(base).parent / _name(log, how.to)
    if same := [log for log in logs if [*names.values()].count(names[log]) > 1]:
        named = " and ".join(map(output.shown_path, same[:2]))
        raise click.UsageError(f"{named} would be one file, {names[same[0]]}: export them apart")
    if out.exists() and not out.is_dir():
        raise click.UsageError(f"-o {out}: expected a folder, for {len(logs):,} runs")
    made = list[_Made]()
    for log, target in names.items():
        shown = {"log": output.shown_path(log)}
        try:
            if not how.endpoint:
                target.parent.mkdir(parents=True, exist_ok=True)
            one = _export(log, None if how.endpoint else target, how)
        except ExtraMissing:
            raise
        except (RefoldError, click.UsageError) as error:
            why = error.message if isinstance(error, click.UsageError) else str(error)
            code = code_of(error) if isinstance(error, RefoldError) else USAGE
            gap = f"{shown['log']} is left out: {why}"
            one = _Made(gaps=[gap], more={"problem": why}, refused=code)
        made.append(attrs.evolve(one, more=shown | {**one.more}))
    return _answer(made, how, how.endpoint or output.shown_path(out))


def _answer(made: Sequence[_Made], how: _How, place: str = "") -> int:
    """Report exports, and what they leave out; return the exit code, the worst of theirs.

    `place` is where several are.
    """
    left = Counter[str]()
    for one in made:
        left.update(one.more.get("left_out", {}))
        for gap in one.gaps:
            output.complain(gap)
    if left and not output.is_json():
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(left.items()))
        output.hint(f"left out: {counts}")
    code = max(one.code for one in made)
    done = [one for one in made if one.exported]
    if [one.exported for one in done] == ["-"]:  # standard output has it
        return code

    def describe() -> None:
        for one in done:
            output.line((one.exported, "bold"), f"  {one.text}")
        if place:
            output.line((f"{len(done):,} of {len(made):,} runs exported", "dim"))

    documents = [one.document(how.to) for one in made]
    whole = {"exported": place, "to": how.to, "runs": documents} if place else documents[0]
    return output.answer(whole, describe, code)


def _export(log: Path, target: Path | None, how: _How) -> _Made:
    """Write, print or send one run in a form of one file."""
    if how.to == "refold":
        assert target is not None, "not to standard output"
        return _export_pack(log, target, has_files=how.files)
    assert how.to != "parquet", "not a file"
    file = None if target is None else output_file(target, how.to)
    if how.to in ("otlp", "atif"):
        from refold.exports.spans import Spans  # noqa: PLC0415 - not for help pages

        with opened_log(log) as opened, output.progress(f"reading {log}"):
            spans = Spans(opened.path, content=how.content or how.to == "atif")
            return _spans(spans, opened, how, file)
    from refold.page.document import page as page_of  # noqa: PLC0415 - not for help pages

    with contextlib.ExitStack() as stack:
        given = (each for each in (log, how.other) if each)
        first, *others = (stack.enter_context(opened_log(each)) for each in given)
        one, *rest = (each.path for each in (first, *others))
        stack.enter_context(output.progress(f"reading {log}"))
        _print_cost(_TIMES["html" if rest else how.to], one, *rest, large=how.large)
        for path in (one, *rest) if how.files else ():
            _list_files(path)
        made = page_of(one, *rest, content=not how.without_content, files=how.files)
        size = 0

        def parts() -> Iterator[bytes]:
            nonlocal size
            for part in _exported(made, how.to):
                size += len(part)
                yield part

        if file is None:
            sys.stdout.buffer.writelines(parts())
        else:
            file.write(parts())
        gaps = _gaps_of(first, made.sides[0].verification)
    exported = "-" if file is None else output.shown_path(file.path)
    return _Made(exported=exported, text=words.size(size), gaps=gaps, more={"bytes": size})


def _tables(logs: Sequence[Path], folder: OutputFolder, *, content: bool) -> _Made:
    """Write the tables of runs; one that cannot be read is reported, and ends no other.

    Raises:
        ExtraMissing: pyarrow is not installed.
    """
    from refold.exports.spans import Spans  # noqa: PLC0415 - not for help pages

    folder.check()
    read, left_out, gaps = list[Spans](), Counter[str](), list[str]()

    def runs() -> Iterator[Spans]:
        for log in logs:
            try:
                with opened_log(log) as opened:
                    spans = Spans(opened.path, content=content)
                    yield spans
                    read.append(spans)
                    left_out.update(spans.left_out)
                    gaps.extend(_gaps_of(opened, verify(opened.path)))
            except RefoldError as error:
                gaps.append(f"{output.shown_path(log)} is left out: {error}")

    with ExtraMissing.of("parquet"):
        from refold.exports import parquet  # noqa: PLC0415 - an extra
    said = lambda: f"{len(read):,} of {len(logs):,} runs exported"  # noqa: E731
    with output.progress(said), folder.files(parquet.FILES) as files:
        parquet.write(runs(), files)
    count = sum(spans.made for spans in read)
    text = f"{words.counted(len(read), 'run')}, {words.counted(count, 'span')}"
    made = output.shown_path(folder.path)
    return _of_spans(count, left_out, exported=made, gaps=gaps, text=text)


def _of_spans(count: int, left: Mapping[str, int], lost: int = 0, **made: Any) -> _Made:
    left_out = {what: count for what, count in sorted(left.items()) if count}
    return _Made(more={"spans": count, "lost": lost, "left_out": left_out}, **made)


def _spans(spans: "Spans", log: OpenedLog, how: _How, file: OutputFile | None) -> _Made:
    """Write, print or send the spans of a run.

    Raises:
        ExtraMissing: the packages of the format are needed, and are not installed.
    """
    sent: Any = None
    written: Iterable[bytes] = ()
    if how.to == "atif":
        from refold.exports.atif import trajectory  # noqa: PLC0415 - not for other forms

        written = [json.dumps(trajectory(spans), ensure_ascii=False).encode()]
    else:
        try:
            from refold.exports import otlp  # noqa: PLC0415 - an extra

            sent = otlp.send(spans, how.endpoint) if how.endpoint else None
            written = () if sent else otlp.lines(spans)
        except ModuleNotFoundError:  # of the exporter, and its name says nothing: `google`
            raise ExtraMissing("opentelemetry", "otel") from None
    if file is not None:
        file.write(written)
    for line in written if file is None else ():
        click.echo(line, nl=False)
    if lost := sent.lost if sent else 0:
        output.complain(
            f"{how.endpoint} did not accept {lost:,} of {spans.made:,} spans"
            f"{sent and sent.why and f' ({output.safe(sent.why)})'}: check that a collector "
            "listens at exactly this URL, and run the export again"
        )
    made = how.endpoint or ("-" if file is None else output.shown_path(file.path))
    text, gaps = f"{spans.made - lost:,} spans", _gaps_of(log, verify(log.path))
    return _of_spans(spans.made, spans.left_out, lost, exported=made, gaps=gaps, text=text)


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
                f"{cost}; add --large, or see a part: "
                f"{output.command('show', logs[0], '--events', '-n', '100')}"
            )
        output.hint(f"reading {cost}")


def _list_files(log: Path) -> None:
    """List the files whose diffs go into a page."""
    from refold.replay.observed.folder import folder_diffs  # noqa: PLC0415 - rarely

    changes = folder_diffs(log, has_diffs=False)
    names = dict.fromkeys(change.path for _, _, change, _ in changes)
    output.hint(f"with {log.name}: diffs of {names_of(names) or 'no file'}")


def _gaps_of(log: OpenedLog, verified: Verification | None) -> list[str]:
    """Return the missing and damaged places of a run, in words; print those that a crash left."""
    found = list[str]()
    for one in verified.damage if verified else ():
        place = f"{log.shown(one.path)}:{one.line}: {words.damage(one.what)}"
        if one.what in _HARMLESS:
            output.hint(place)
        else:
            found.append(place)
    gaps = found[:_SHOWN]
    if len(found) > _SHOWN:
        rest = words.counted(len(found) - _SHOWN, "more place")
        gaps.append(
            f"and {rest}: to list them, use {output.command('verify', log.given, '--json')}"
        )
    return gaps


def _exported(page: "Page", to: str) -> Iterable[bytes]:
    from refold.page.html import page_html  # noqa: PLC0415 - not for help pages
    from refold.page.other_forms import summary, trace_text  # noqa: PLC0415 - the same

    match to:
        case "perfetto":
            return trace_text(page.sides[0])
        case "markdown":
            return [summary(page).encode()]
        case _:
            return [page_html(page).encode()]


def _export_pack(log: Path, target: Path, *, has_files: bool) -> _Made:
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
        gaps = _gaps_of(opened, verify(opened.path))
    size = packed.stat().st_size
    text = f"{words.counted(logs, 'log')}, {words.size(size)}"
    more = {"logs": logs, "bytes": size}
    return _Made(exported=output.shown_path(packed), text=text, gaps=gaps, more=more)
