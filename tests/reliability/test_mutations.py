"""Re-execution finds what an edit changes, and nothing where it changes nothing (CONTRACT.md §12).

The edits are made in `tests/mutations`; `python -m tests.mutations` prints the whole table.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.mutations.bases import BASES
from tests.mutations.operators import OPERATORS
from tests.mutations.programs import random_base
from tests.mutations.suite import Answer, Bench, Mutant, lines_of, mutants, random_mutants, tree_of

SHARE: Final = 144
"""In so many parts, all edits are tried."""
PAIRS: Final = 103
"""Of so many pairs of a base and an operator, the edits of one are tried in the quick run."""
RANDOM: Final = 15
"""Random programs of the quick run."""
LONG_RANDOM: Final = 3_000
WRONG_MAX: Final = 0.003
"""Edits that change behaviour and are told at another place, or by another name."""


@pytest.fixture(scope="module")
def edits() -> tuple[Mutant, ...]:
    return tuple(mutants())


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("mutants"))


def _check(bench: Bench, some: tuple[Mutant, ...]) -> list[Answer]:
    """Every change is reported, by its name; nothing else is."""
    answers = [bench.answer(mutant) for mutant in some]
    assert [answer.mutant.name for answer in answers if answer.is_missed] == []
    assert [answer.mutant.name for answer in answers if answer.is_false_alarm] == []
    assert [
        (answer.mutant.name, answer.found.category)
        for answer in answers
        if answer.is_misnamed and answer.found
    ] == []
    assert [answer.mutant.name for answer in answers if answer.is_unexpected] == []
    return answers


@pytest.mark.long
def test_there_are_enough_edits_of_every_sort(edits: tuple[Mutant, ...]) -> None:
    """Of every base, by every operator; a third of them or less is neutral by construction."""
    assert len(edits) >= 600
    assert {mutant.base.name for mutant in edits} == {base.name for base in BASES}
    used = {mutant.operator.name for mutant in edits}
    trees = [tree_of(random_base(seed)) for seed in range(30)]
    others = [one for one in OPERATORS if one.name not in used]
    unused = [one.name for one in others if not any(next(one.edits(tree), "") for tree in trees)]
    assert unused == []
    assert len(OPERATORS) >= 70
    neutral = [mutant for mutant in edits if mutant.operator.expects == "neutral"]
    assert 100 <= len(neutral) <= len(edits) / 3


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_a_base_leaves_the_same_lines_each_time(bench: Bench, base: object, tmp_path: Path) -> None:
    """Two records of one program agree: what differs in a third is its edit's doing."""
    assert isinstance(base, type(BASES[0]))
    _, lines = bench.base(base)

    again = Bench(tmp_path).base(base)[0]

    assert lines_of(again) == lines


def test_every_change_is_reported_and_nothing_else(bench: Bench) -> None:
    """Of a share of the edits; what each is expected to be called is asserted, too."""
    answers = _check(bench, tuple(mutants(PAIRS)))

    assert Counter(answer.found is None for answer in answers)[False] > len(answers) / 2


@pytest.mark.long
@pytest.mark.parametrize("first", range(SHARE))
def test_so_are_all_the_others(bench: Bench, edits: tuple[Mutant, ...], first: int) -> None:
    """Those that the quick run leaves out, too."""
    _check(bench, edits[first::SHARE])


def _campaign(folder: Path, seeds: range) -> list[Answer]:
    """Edit random programs; none may differ unedited, no edit be silent or a false alarm."""
    answers = []
    for seed in seeds:
        (folder / str(seed)).mkdir()
        bench = Bench(folder / str(seed))
        assert bench.diverges(random_base(seed)) == ""
        answers += [bench.answer(mutant) for mutant in random_mutants(seed, 2)]
    assert [answer.mutant.name for answer in answers if answer.is_missed] == []
    assert [answer.mutant.name for answer in answers if answer.is_false_alarm] == []
    assert [answer.mutant.name for answer in answers if answer.is_unexpected] == []
    return answers


@pytest.mark.long
def test_edits_of_random_programs_are_reported_where_they_were_made(tmp_path: Path) -> None:
    """By their name, of the request that was edited; what is silent is listed (§12.2, §12.4)."""
    answers = _campaign(tmp_path, range(RANDOM))

    assert [answer.mutant.name for answer in answers if answer.is_wrong] == []
    assert len({answer.mutant.operator.name for answer in answers}) >= 20


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:coroutine 'as_completed:RuntimeWarning")  # an edit ended it
def test_so_are_those_of_three_thousand_programs(tmp_path: Path) -> None:
    """`python -m tests.mutations --random 3000` prints the table."""
    answers = _campaign(tmp_path, range(LONG_RANDOM))

    changes = sum(answer.changes for answer in answers)
    wrong = [answer.mutant.name for answer in answers if answer.is_wrong]
    assert len({answer.mutant.operator.name for answer in answers}) >= 40
    assert len(wrong) <= WRONG_MAX * changes, wrong
