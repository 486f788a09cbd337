"""Tells what became of runs that were pushed or pulled (CONTRACT.md §14.17)."""

from collections import Counter
from collections.abc import Iterable

from refold.cli.output import output, words
from refold.cli.output.exit_codes import FINE, code_of
from refold.store.push import Moved, StoreOutcome


def tell_moved(moved: Iterable[tuple[str, StoreOutcome]], url: str, count: int, doing: str) -> int:
    """Move runs, tell what became of each, and return the exit code: the worst of theirs."""
    found: list[Moved] = []
    codes = {FINE}

    def said() -> str:
        size = sum(each.moved_bytes for each in found)
        whole = f" of {count:,}" if count else ""
        return f"{doing} {url}: {len(found):,}{whole} runs, {words.size(size)}"

    with output.progress(said):
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
