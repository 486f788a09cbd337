"""`refold export`: a run as one file that shows it, and needs nothing else (CONTRACT.md §14.16)."""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from refold.cli.arguments.logs import LOG, file_option, json_option, opened_log
from refold.cli.arguments.outputs import force_option, output_file
from refold.cli.output import output, words
from refold.cli.output.exit_codes import FINE
from refold.cli.output.pages import page
from refold.page.output_files import OutputKind

if TYPE_CHECKING:
    from refold.page.document import Page

_PAGE: Final = """
Examples:
  refold export runs/audit.jsonl --to html           makes audit.html
  refold export report.refold --to html -o /tmp/run.html
  refold export today.jsonl --to html --diff yesterday.jsonl
  refold export runs/audit.jsonl --to perfetto       for ui.perfetto.dev
  refold export runs/audit.jsonl --to markdown -o "$GITHUB_STEP_SUMMARY"

The page needs no network and no server: open it from disk, attach it to a
report, keep it as an artifact of CI.  It checks the chain of the logs itself.
"""

_SUFFIXES: Final[dict[OutputKind, str]] = {
    "html": ".html", "perfetto": ".trace.json", "markdown": ".md",
}  # fmt: skip


@click.command("export", epilog=page(_PAGE))
@click.argument("log", type=LOG)
@click.option("--to", type=click.Choice(list(_SUFFIXES)), required=True, help="What to make.")
@file_option(
    "-o",
    "--out",
    text="Where to; by default the log's name, here.  - prints it.",
)
@force_option
@click.option("--diff", "other", type=LOG, metavar="OTHER", help="Another run to compare it with.")
@click.option(
    "--without-content", is_flag=True, help="Leave out what tools, models and people said."
)
@json_option
def command(
    *,
    log: Path,
    to: OutputKind,
    out: Path | None,
    other: Path | None,
    without_content: bool,
) -> int:
    """Make one file of a run and all runs below it, for people or other viewers.

    An earlier export to the same file is replaced, another file only with
    --force, and a log never.
    """
    from refold.page.document import page as page_of  # noqa: PLC0415 - not for help pages

    is_printed = out == Path("-")
    if is_printed and output.is_json():
        raise click.UsageError("-o - and --json are both standard output: leave out one")
    target = out or Path(log.with_suffix(_SUFFIXES[to]).name)
    file = None if is_printed else output_file(target, to)
    with contextlib.ExitStack() as stack:
        one, *rest = (stack.enter_context(opened_log(each)).path for each in (log, other) if each)
        stack.enter_context(output.progress(f"reading {log}"))
        text = _exported(page_of(one, *rest, content=not without_content), to)
    content = text.encode()
    if file is None:
        click.echo(content)
        return FINE
    file.write(content)
    size = len(content)
    shown = output.shown_path(target)
    document = {"exported": shown, "to": to, "bytes": size}
    return output.answer(document, lambda: output.line((shown, "bold"), f"  {words.size(size)}"))


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
