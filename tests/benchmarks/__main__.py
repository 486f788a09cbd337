"""`python -m tests.benchmarks`: what Refold costs, as ratios measured in one run.  Run by hand.

Nothing here is a test: a table is for people to read.  `--markdown` prints it for docs,
`--large` measures memory on a log of 1 GB instead of 100 MB, and of commands on a million entries;
words choose among the sections;
`page`, which needs a browser, `children`, which needs Ray, and `workspace`, which makes 50,000
files, are measured where they are named alone.  `goals` compares what users wait for with the
checkout that `--against` names, and `tests` times the default tests.  `peers` compares with other
libraries (group `bench`), and `curves` shows how time and memory grow; `--into docs` writes table,
JSON and picture of both.
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from tests.benchmarks import (
    bench_audits,
    bench_children,
    bench_log,
    bench_page,
    bench_run,
    bench_start,
    bench_store,
    bench_watched,
    curves,
    goals,
    measure,
    memory,
    peers,
    report,
    workspace,
)

_ROUNDS = 24
_SLOW = 4
"""Sections whose jobs take seconds have so many times fewer rounds."""


@attrs.frozen
class Section:
    """One table."""

    title: str
    jobs: Callable[[Path], list[measure.Job]]
    slower: int = 1


_SECTIONS = {
    "log": Section("One entry of a log", bench_log.jobs),
    "calls": Section("One call of a tool", bench_run.calls),
    "crowds": Section("One of many branches, one child", bench_run.crowds, _SLOW),
    "lengths": Section("One of few, and one of many", bench_run.lengths, _SLOW * 2),
    "watched": Section("One request of a watched command", bench_watched.jobs, _SLOW),
    "audits": Section("One of many logs", bench_audits.jobs, _SLOW * 2),
    "stores": Section("One of many stored runs", bench_store.jobs, _SLOW * 2),
    "start": Section("Starting", lambda _folder: bench_start.jobs(), _SLOW),
    "children": Section("One of many children", bench_children.jobs, _SLOW * 2),
}
_NAMED = ("page", "children")
"""What needs a browser, or Ray."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    options = _options(arguments)
    chosen = options.sections or [*(set(_SECTIONS) - {*_NAMED}), "memory"]
    render = measure.as_markdown if options.markdown else measure.as_text
    with tempfile.TemporaryDirectory() as name, measure.opened:
        os.environ["XDG_CACHE_HOME"] = name  # commands keep there how far they have read logs
        print(f"Python {platform.python_version()}, medians of up to {options.rounds} rounds\n")
        for section in [_SECTIONS[key] for key in _SECTIONS if key in chosen]:
            rounds = max(1, options.rounds // section.slower)
            rows = measure.measure(section.jobs(Path(name)), rounds=rounds)
            print(render(section.title, rows), end="\n\n", flush=True)
        if "audits" in chosen:
            print(bench_audits.peaks(Path(name)), end="\n\n", flush=True)
        if "memory" in chosen:
            found = memory.peaks(Path(name), log_bytes=10**9 if options.large else 10**8)
            print((memory.as_markdown if options.markdown else memory.as_text)(*found), end="\n\n")
            print(memory.of_second_calls(Path(name)), end="\n\n")
            print(memory.of_commands(Path(name), large=options.large))
        if "page" in chosen:
            print(bench_page.as_text(bench_page.shown(Path(name))))
        if "goals" in chosen:
            rows = goals.rows(options.against, rounds=options.rounds, words=options.only)
            print(render("What users wait for", rows), goals.floors(rows), sep="\n\n", flush=True)
        if "peers" in chosen:
            data = peers.measured(
                rounds=options.rounds, words=options.only or [], build=options.build
            )
            print(said := peers.as_markdown(data), flush=True)
            if options.into:
                report.write(options.into, "peers", said, data, peers.draw)
        if "curves" in chosen:
            data = curves.measured(words=options.only or [], build=options.build)
            print(said := curves.as_markdown(data), flush=True)
            if options.into:
                report.write(options.into, "curves", said, data, curves.draw)
        for line in _lines(chosen, Path(name)):
            print(line, flush=True)


def _lines(chosen: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield the lines of sections that are no tables."""
    if "workspace" in chosen:
        yield from workspace.lines(folder)
    if "tests" in chosen:
        yield goals.tests()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    known = [*_SECTIONS, "memory", "page", "workspace", "goals", "tests", "peers", "curves"]
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(known))
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--large", action="store_true", help="memory on a log of 1 GB")
    parser.add_argument("--against", type=Path, help="for goals: another checkout")
    parser.add_argument(
        "--only", action="append", help="rows of goals, peers, curves that have this word"
    )
    parser.add_argument("--into", type=Path, help="a folder for table, JSON, picture: docs")
    parser.add_argument("--build", default="", help="how this Python was built, in words")
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(known):
        parser.error(f"no such section: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return options


if __name__ == "__main__":
    main()
