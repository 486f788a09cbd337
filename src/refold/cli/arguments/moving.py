"""Tells which contents go with runs, and what became of them (CONTRACT.md §4.6, §14.17)."""

import contextlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from refold.cli.output import output, words
from refold.cli.output.exit_codes import FINE, code_of
from refold.engine.workspace.inside import scratch_folder
from refold.engine.workspace.packing import packs_with
from refold.engine.workspace.paths import names_of
from refold.replay.index.guarantee import is_observed
from refold.store.push import Moved, StoreOutcome


def listed_contents(log: Path, left: contextlib.ExitStack) -> list[Path] | None:
    """List whose contents go with a log; return packs of git, in a folder that `left` removes.

    `None` if the log holds no folder.

    Raises:
        GitFailed: the repository is not here.
    """
    from refold.replay.observed.record import read_record  # noqa: PLC0415 - wire formats

    folder = read_record(log).folder if is_observed(log) else None
    if folder is None or folder.started is None:
        return None
    entries = {*folder.started.tree.differs, *folder.tree.differs}
    own = sorted({each.path for each in entries if each.digest})
    output.hint(
        f"with {log.name}: {folder.started.path}, "
        f"{words.counted(folder.started.by_git, 'file')} by git, "
        f"{len(own)} by content{': ' * bool(own)}{names_of(own)}"
    )
    into = left.enter_context(scratch_folder())
    return packs_with(log, folder.started, into)


def tell_moved(moved: Iterable[tuple[str, StoreOutcome]], url: str, count: int, doing: str) -> int:
    """Move runs, report on each, and return the exit code: the worst of theirs."""
    found: list[Moved] = []
    codes = {FINE}

    def progress_text() -> str:
        size = sum(each.moved_bytes for each in found)
        whole = f" of {count:,}" if count else ""
        return f"{doing} {url}: {len(found):,}{whole} runs, {words.size(size)}"

    with output.progress(progress_text):
        for run, outcome in moved:
            if isinstance(outcome, Moved):
                found.append(outcome)
                continue
            codes.add(code_of(outcome))
            found.append(Moved(run, "refused", problem=str(outcome)))
    document = {"store": url, "runs": [each.as_json() for each in found]}
    return output.answer(document, lambda: _print(found, url), max(codes))


def _print(found: list[Moved], url: str) -> None:
    for each in found:
        if each.problem:
            output.complain(each.problem)
            continue
        files = f"{words.counted(each.files, 'file')}, {words.size(each.bytes)}"
        output.line(f"{each.status}  ", (each.run, "bold"), f"  {files}  ", (each.head, "dim"))
    counts = Counter(each.status for each in found)
    told = ", ".join(f"{count:,} {status}" for status, count in counts.items()) or "no runs"
    size = words.size(sum(each.moved_bytes for each in found))
    output.line((f"{url}: {told}; {size} moved", "dim"))
