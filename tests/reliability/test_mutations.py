"""Re-execution finds what an edit changes, and nothing where it changes nothing (CONTRACT.md §12).

The edits are made in `tests/mutations`; `python -m tests.mutations` prints the whole table.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.mutations.bases import BASES
from tests.mutations.operators import OPERATORS
from tests.mutations.suite import Answer, Bench, Mutant, lines_of, mutants

CHUNKS: Final = 4


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


def test_there_are_enough_edits_of_every_sort(edits: tuple[Mutant, ...]) -> None:
    """Of every base, by every operator; a third of them or less is neutral by construction."""
    assert len(edits) >= 600
    assert {mutant.base.name for mutant in edits} == {base.name for base in BASES}
    assert {mutant.operator.name for mutant in edits} == {each.name for each in OPERATORS}
    neutral = [mutant for mutant in edits if mutant.operator.expects == "neutral"]
    assert 100 <= len(neutral) <= len(edits) / 3


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_a_base_leaves_the_same_lines_each_time(bench: Bench, base: object, tmp_path: Path) -> None:
    """Two records of one program agree: what differs in a third is its edit's doing."""
    assert isinstance(base, type(BASES[0]))
    _, lines = bench.base(base)

    again = Bench(tmp_path).base(base)[0]

    assert lines_of(again) == lines


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_change_is_reported_and_nothing_else(
    bench: Bench, edits: tuple[Mutant, ...], chunk: int
) -> None:
    """Of every third edit; what each is expected to be called is asserted, too."""
    answers = _check(bench, edits[::3][chunk::CHUNKS])

    assert Counter(answer.found is None for answer in answers)[False] > len(answers) / 2


@pytest.mark.long
@pytest.mark.parametrize("first", [1, 2])
def test_so_are_all_the_others(bench: Bench, edits: tuple[Mutant, ...], first: int) -> None:
    """The edits that the quick run leaves out."""
    _check(bench, edits[first::3])
