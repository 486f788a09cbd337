"""`python -m tests.mutants`: which faults of one line no test sees.

    python -m tests.mutants map MAP.json tests/contract tests/engine …    once: line -> tests
    python -m tests.mutants run MAP.json --sample 1000 --seed 1           of all lines
    python -m tests.mutants run MAP.json --sample 300 --checks            of lines a check names

A check (`test_NNN_…`) names a line where it runs the line and both hold a word that few checks
hold.  Each mutant is run in a process forked for it alone, and is killed by the first test that
fails.  In the first round its functions are put in place of those that all tests have imported; it
is the quick one, and what survives it, or cannot be put so, is judged by a second: a process that
has imported nothing of Refold imports the mutant in place of the file.  No file is edited.  What
runs in processes that a test starts is not mutated.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mutants.bench import Bench, Job, Verdict
from tests.mutants.coverage_map import Checks, Map, Mapping
from tests.mutants.edits import mutants

ROOTS: Final = ("engine", "replay", "tools", "src")
EXPLAINED: Final = Path(__file__).with_name("explained.json")
"""`{name of the mutant: why no test need see it}`."""

_SHOWN: Final = 150


def main(words: list[str]) -> int:
    """Make the map, or run mutants; 1 where one survives that is not explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("do", choices=["map", "run"])
    parser.add_argument("map", type=Path)
    parser.add_argument(
        "words", nargs="*", help="map: paths of tests; run: parts of mutants' names"
    )
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="which sample: the first, the second …")
    parser.add_argument("--checks", action="store_true", help="only lines that a check names")
    parser.add_argument("--quick", action="store_true", help="the first round only")
    parser.add_argument("--seconds", type=float, default=6.0, help="of tests for each mutant")
    parser.add_argument("--tests", nargs="+", default=[], help="only by these tests")
    parser.add_argument("--again", type=Path, help="only what survived in a file of verdicts")
    parser.add_argument("--out", type=Path, help="add verdicts to a file; what it holds is done")
    parser.add_argument("--root", type=Path, default=Path.cwd())
    given = parser.parse_intermixed_args(words)
    root, path = given.root.resolve(), given.map.resolve()
    if given.do == "map":
        roots = [root / one for one in ROOTS]
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(root), *given.words]
        return int(pytest.main(options, plugins=[Mapping(root, roots, path)]))
    jobs = _sampled(given, root, Map.read(path))
    explained = json.loads(EXPLAINED.read_text(encoding="utf-8"))
    counts: Counter[str] = Counter()
    unexplained = 0
    with Bench(root) as bench:
        for verdict in bench.verdicts(jobs, is_quick=given.quick):
            counts[verdict.said] += 1
            _keep(verdict, given.out)
            if verdict.said in ("survived", "killed by another test"):
                reason = explained.get(verdict.job.mutant.name)
                unexplained += reason is None
                print(_told(verdict, reason), flush=True)
    for said, count in counts.most_common():
        print(f"{said:<24} {count:>6}")
    print(f"{'all':<24} {counts.total():>6}   {unexplained} not explained")
    return int(unexplained > 0)


def _sampled(given: argparse.Namespace, root: Path, seen: Map) -> list[Job]:
    """Return the sample's mutants, each with the tests that run its line."""
    stale = [file for file in seen.lines if not seen.is_of(root, file)]
    if stale:
        print(f"changed since the map was made, not mutated: {', '.join(stale)}")
    paths = sorted(root / file for file in seen.lines if file not in stale)
    everything = [one for path in paths for one in mutants(root, path)]
    some = [
        one
        for one in everything
        if all(word in f"{one.file}:{one.line}: {one.name}" for word in given.words)
    ]
    if given.again:
        again = {
            (one["file"], one["new"]) for one in _read(given.again) if one["said"] == "survived"
        }
        some = [one for one in some if (one.file, one.new) in again]
    checks = Checks(root, {(one.file, one.line): one.old for one in everything}.values())
    jobs = []
    for mutant in sorted(some, key=lambda one: one.rank):
        is_inside = mutant.is_inside
        if given.quick and not is_inside:
            continue
        numbers = range(mutant.line, mutant.last + 1) if is_inside else seen.lines[mutant.file]
        tests = seen.tests(mutant.file, numbers)
        if given.tests:
            tests = [test for test in tests if test.startswith(tuple(given.tests))]
        named: list[str] = []
        if given.checks:
            named = checks.that_name(mutant.old, mutant.new, tests)
            tests = [test for test in tests if test not in named]
            named = _within(named, seen, given.seconds)
        if named or (tests and not given.checks):
            tests = _within(tests, seen, given.seconds)
            jobs.append(Job(mutant, named + tests, len(named)))
    jobs = jobs[given.sample * given.seed : given.sample * (given.seed + 1)]
    done = _read(given.out) if given.out and given.out.exists() else []
    names = {(one["file"], one["line"], one["new"]) for one in done}
    return [job for job in jobs if (job.mutant.file, job.mutant.line, job.mutant.new) not in names]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _within(tests: list[str], seen: Map, most: float) -> list[str]:
    """Return the first tests, as many as are run in the time that a mutant has."""
    kept: list[str] = []
    seconds = 0.0
    for test in tests:
        seconds += seen.seconds[test]
        if kept and seconds > most:
            break
        kept.append(test)
    return kept


def _keep(verdict: Verdict, out: Path | None) -> None:
    if out:
        mutant = verdict.job.mutant
        given = {
            "said": verdict.said, "by": verdict.by, "file": mutant.file, "line": mutant.line,
            "old": mutant.old, "new": mutant.new, "tests": len(verdict.job.tests),
            "checks": verdict.job.tests[: verdict.job.checks],
        }  # fmt: skip
        with out.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(given) + "\n")


def _told(verdict: Verdict, reason: str | None) -> str:
    mutant, job = verdict.job.mutant, verdict.job
    lines = [
        f"{mutant.file}:{mutant.line}: {verdict.said}",
        f"  - {_around(mutant.old, mutant.new)}",
        f"  + {_around(mutant.new, mutant.old)}",
    ]
    if job.checks:
        numbers = sorted({check.partition("::test_")[2][:3] for check in job.tests[: job.checks]})
        lines.append(
            f"  checks that name it: {', '.join(numbers)}; killed by: {verdict.by or 'none'}"
        )
    return "\n".join([*lines, f"  {reason or 'not explained'}", ""])


def _around(text: str, other: str) -> str:
    """Return what is near the first difference."""
    first = next((at for at, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    start = max(first - 60, 0) if first + 60 > _SHOWN else 0
    return ("… " if start else "") + text[start : start + _SHOWN]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
