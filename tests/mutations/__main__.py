"""`python -m tests.mutations`: what becomes of every edit, operator by operator.

With words, only the edits whose names contain them all are made, and each report is printed.
With `--random N --seed S`, N random programs are edited, in simulated time: the campaign.  With
`--kinds`, the kinds of edits are listed.
"""

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.mutations.operators import OPERATORS
from tests.mutations.programs import random_base
from tests.mutations.suite import Answer, Bench, Mutant, mutants, random_mutants

COLUMNS = "{:<26} {:>6} {:>8} {:>9} {:>7} {:>7} {:>6} {:>10} {:>9}  {}"
HEADS = (
    "operator", "edits", "changes", "reported", "listed", "silent", "false", "misplaced",
    "misnamed", "names",
)  # fmt: skip


def main(words: list[str]) -> int:
    """Print the table; 1 where anything was missed, misplaced, misnamed or a false alarm."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("words", nargs="*", help="edit only where the name contains them all")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="edit N random programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    parser.add_argument("--edits", type=int, default=2, help="edits of each of them")
    parser.add_argument("--kinds", action="store_true", help="list the kinds of edits")
    given = parser.parse_args(words)
    if given.kinds:
        for each in OPERATORS:
            print(f"{each.name:<26} {each.expects:<8} {each.text}")
        return 0
    answers: dict[str, list[Answer]] = defaultdict(list)
    unlike = 0
    with tempfile.TemporaryDirectory() as folder:
        if given.random:
            seeds = range(given.seed, given.seed + given.random)
            found = (each for seed in seeds for each in _answers(Path(folder), seed, given.edits))
        else:
            bench = Bench(Path(folder))
            some = (one for one in mutants() if all(word in one.name for word in given.words))
            found = (bench.answer(mutant) for mutant in some)
        for answer in found:
            if isinstance(answer, str):
                unlike += 1
                print(answer)
                continue
            answers[answer.mutant.operator.name].append(answer)
            _tell(answer, in_full=bool(given.words))
    print(COLUMNS.format(*HEADS))
    for name, some_answers in answers.items():
        print(_row(name, some_answers))
    everything = [answer for some in answers.values() for answer in some]
    print(_row("all", everything))
    print(f"{len(answers)} kinds of edits; {unlike} programs that differ without an edit")
    return int(unlike > 0 or any(answer.is_wrong for answer in everything))


def _answers(folder: Path, seed: int, edits: int) -> Iterable[Answer | str]:
    """Yield what becomes of one random program, and of its edits."""
    base = random_base(seed)
    (folder / str(seed)).mkdir()
    bench = Bench(folder / str(seed))
    if unlike := bench.diverges(base):
        yield f"--- program {seed}\n{base.source}\n{unlike}"
    mutants: Iterable[Mutant] = random_mutants(seed, edits)
    for mutant in mutants:
        yield bench.answer(mutant)


def _row(name: str, answers: list[Answer]) -> str:
    names = Counter(answer.found.category for answer in answers if answer.found)
    return COLUMNS.format(
        name,
        len(answers),
        sum(answer.changes for answer in answers),
        sum(answer.found is not None for answer in answers),
        sum(answer.changes and answer.found is None and answer.is_listed for answer in answers),
        sum(answer.is_missed for answer in answers),
        sum(answer.is_false_alarm for answer in answers),
        sum(answer.is_misplaced for answer in answers),
        sum(answer.is_misnamed for answer in answers),
        ", ".join(f"{category} {count}" for category, count in names.most_common()),
    )


def _tell(answer: Answer, *, in_full: bool) -> None:
    """Print an edit that went wrong; or, on demand, any."""
    if in_full or answer.is_wrong:
        print(f"--- {answer.mutant.name}: changes={answer.changes}")
        print(answer.mutant.difference())
        print(answer.found.in_full() if answer.found else "identical")
        print()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
