"""`python -m tests.mutations`: what becomes of every edit, operator by operator.

With words, only the edits whose names contain them all are made, and each report is printed.
"""

import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from tests.mutations.suite import Answer, Bench, mutants

COLUMNS = "{:<26} {:>5} {:>9} {:>6} {:>6} {:>8}  {}"


def main(words: list[str]) -> int:
    """Print the table; 1 where anything was missed, misnamed or a false alarm."""
    answers: dict[str, list[Answer]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for mutant in mutants():
            if all(word in mutant.name for word in words):
                answer = bench.answer(mutant)
                answers[mutant.operator.name].append(answer)
                _tell(answer, in_full=bool(words))
    print(COLUMNS.format("operator", "edits", "reported", "missed", "false", "misnamed", "names"))
    for name, some in answers.items():
        print(_row(name, some))
    everything = [answer for some in answers.values() for answer in some]
    print(_row("all", everything))
    return int(any(_is_wrong(answer) for answer in everything))


def _row(name: str, answers: list[Answer]) -> str:
    names = Counter(answer.found.category for answer in answers if answer.found)
    return COLUMNS.format(
        name,
        len(answers),
        sum(answer.found is not None for answer in answers),
        sum(answer.is_missed for answer in answers),
        sum(answer.is_false_alarm for answer in answers),
        sum(answer.is_misnamed for answer in answers),
        ", ".join(f"{category} {count}" for category, count in names.most_common()),
    )


def _is_wrong(answer: Answer) -> bool:
    return answer.is_missed or answer.is_false_alarm or answer.is_misnamed or answer.is_unexpected


def _tell(answer: Answer, *, in_full: bool) -> None:
    """Print an edit that went wrong; or, on demand, any."""
    if in_full or _is_wrong(answer):
        print(f"--- {answer.mutant.name}: changes={answer.changes}")
        print(answer.mutant.source if in_full else "", end="\n" if in_full else "")
        print(answer.found.in_full() if answer.found else "identical")
        print()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
