"""A snapshot without words survives a new recording, and shows another delegation (§13.10)."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.engine.models.scripted import FunctionModel
from refold.engine.runners.recording import record
from refold.replay.testing.snapshot import delegation_text
from refold.replay.testing.structure import is_within, sampled_text

Shape = tuple[int, list[Any]]
"""A prompt, and the shapes of the children."""
SHAPES: st.SearchStrategy[Shape] = st.recursive(
    st.tuples(st.integers(0, 2), st.just([])),
    lambda below: st.tuples(st.integers(0, 2), st.lists(below, max_size=3)),
    max_leaves=5,
)


async def agent(run: refold.Run, task: dict[str, Any]) -> Any:
    """Ask a model with a prompt, and delegate in the words of a task."""
    prompt, below = task["shape"]
    system = {"role": "system", "content": f"Prompt {prompt}."}
    await run.model([system, {"role": "user", "content": task["words"]}])
    for number, shape in enumerate(below):
        words = f"{task['words']} {number}"
        more = refold.Delegation(program=agent, input={"shape": shape, "words": words}, brief=words)
        await run.delegate(more)
    return task["words"]


def structure(shape: Shape, words: str) -> str:
    """Return the structure of a new recording."""
    with tempfile.TemporaryDirectory() as folder:
        log, model = Path(folder) / "a.jsonl", FunctionModel(lambda _: f"{words}!")
        record(agent, {"shape": shape, "words": words}, log=log, model=model)
        return delegation_text(log, words=False)


def sorted_shape(shape: Shape) -> str:
    """Return what two shapes share if they differ in the order of children alone."""
    return f"({shape[0]}{''.join(sorted(map(sorted_shape, shape[1])))})"


@given(SHAPES, SHAPES, st.text("ab \n.é", min_size=1, max_size=9))
def test_only_another_delegation_is_another_structure(one: Shape, other: Shape, words: str) -> None:
    plain = structure(one, "plain")

    assert structure(one, words) == plain
    assert (structure(other, words) == plain) == (sorted_shape(one) == sorted_shape(other))


@pytest.mark.long
@given(st.lists(SHAPES, min_size=2, max_size=4))
def test_samples_hold_for_each_recording_that_they_are_of(shapes: list[Shape]) -> None:
    texts = [structure(shape, "go") for shape in shapes]

    text = sampled_text(texts)

    assert all(is_within(text, each) for each in texts)
    assert is_within(sampled_text(texts[:1] * 2), texts[1]) == (
        sampled_text(texts[:1]) == sampled_text(texts[1:2])
    )


def test_equal_agents_are_counted_and_prompts_follow_whole() -> None:
    text = structure((0, [(1, []), (2, []), (1, [])]), "go")

    assert text.count("2 × agent: completed") == 1
    assert text.endswith(":\n    Prompt 2.\n") or "    Prompt 2.\n" in text
    assert "go" not in text
