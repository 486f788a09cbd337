"""The tree digest: equal for two runs that did the same, their children included (§6.2)."""

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.engine.children.tree_digest import tree_digest_of
from refold.engine.log.line import NO_HASH, TRAILER, stored_hash, trailer
from refold.engine.log.names import child_path
from tests.support.given_up import given_up

Shape = list[Any]
"""Of a run: the shapes of its children, each with a word for how it is started."""

shapes: st.SearchStrategy[Shape] = st.recursive(
    st.just([]),
    lambda below: st.lists(st.tuples(st.sampled_from(["gather", "join"]), below), max_size=3),
    max_leaves=6,
)


def _tools(answers: dict[str, int], delays: dict[str, float]) -> list[Any]:
    """Return a tool that answers each run from a table, as late as another one says."""

    @refold.tool(effect="pure")
    async def measure(path: str) -> int:
        await asyncio.sleep(delays.get(path, 0))
        return answers.get(path, 0)

    return [measure]


async def walk(run: refold.Run, given: dict[str, Any]) -> None:
    """Measure, and start a child for each shape below; no child hands anything back."""
    path: str = given["path"]
    await run.tool("measure", path=path)
    waiting: list[Any] = []
    for at, (how, below) in enumerate(given["shape"]):
        inner = {"path": f"{path}/{at}", "shape": below}
        delegation = refold.Delegation(program=walk, input=inner, brief="walk")
        if how == "join":
            await run.join(await run.start(delegation))
        else:
            waiting.append(run.delegate(delegation))
    await asyncio.gather(*waiting)


def _paths(shape: Shape, path: str = "") -> list[str]:
    return [
        path,
        *(p for at, (_, below) in enumerate(shape) for p in _paths(below, f"{path}/{at}")),
    ]


def _recorded(folder: str, name: str, shape: Shape, *tables: Any) -> refold.Recording:
    given, log = {"path": "", "shape": shape}, Path(folder, name, "a.jsonl")
    return refold.record(walk, given, log=log, tools=_tools(*tables), seed=1, durability="fast")


@pytest.mark.usefixtures("many_times")
@settings(max_examples=10, deadline=None)
@given(shapes, st.data())
def test_tree_digests_are_equal_exactly_where_all_runs_did_the_same(
    shape: Shape, data: st.DataObject
) -> None:
    """Whatever the folder and the order in which children end; `diff` says the same."""
    paths = _paths(shape)
    some = st.lists(st.sampled_from(paths), max_size=2)
    others = dict.fromkeys(data.draw(some), 1)
    late = [dict.fromkeys(data.draw(some), 0.002) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        a = _recorded(folder, "one", shape, {}, late[0])
        b = _recorded(folder, "other", shape, others, late[1])
        verified = refold.verify(b)

        assert (a.tree_digest == b.tree_digest) is (not others)
        assert refold.diff(a, b).identical is (not others)
        assert verified.intact
        assert verified.tree_digest == b.tree_digest != ""
        assert (a.data_digest == b.data_digest) is ("" not in others)


def test_a_cancelled_child_is_left_out_and_listed_apart(tmp_path: Path) -> None:
    """How far it came is timing; `diff` and its own digest tell what it did."""
    one, other = given_up(tmp_path, 1), given_up(tmp_path, 7)
    third = given_up(tmp_path, 1, joined=5)
    reports = [refold.verify(each).logs for each in (one, other)]

    assert one.tree_digest == other.tree_digest not in ("", one.data_digest)
    assert third.tree_digest != one.tree_digest
    assert not refold.diff(one, other).identical
    assert [[log.is_joined for log in logs] for logs in reports] == [[True, False, True]] * 2
    assert reports[0][1].tree_digest != reports[1][1].tree_digest != ""
    assert reports[0][2].tree_digest == reports[1][2].tree_digest != ""


def _without_it(log: Path) -> None:
    """Take the tree digest out of a seal, as an older version left it."""
    *before, last = log.read_bytes().splitlines(keepends=True)
    body = re.sub(rb',"tree_digest":"[0-9a-f]*"', b"", last[:-TRAILER])
    end = trailer(stored_hash(before[-1]) or NO_HASH, body)
    log.write_bytes(b"".join([*before, body, end]))


def test_a_log_that_does_not_say_it_is_read_whole(tmp_path: Path) -> None:
    """Its children too; one that is gone, or damaged, leaves it unknown."""
    shape: Shape = [("join", [("gather", [])]), ("gather", [])]
    said = _recorded(str(tmp_path), "one", shape, {}, {})
    _without_it(said.log)

    assert tree_digest_of(said.log) == said.tree_digest
    child_path(said.log, 2).unlink()
    assert tree_digest_of(said.log) == ""


def test_a_log_without_an_end_says_what_it_holds(tmp_path: Path) -> None:
    """As a parent needs it of a child that was killed; of nothing there is none."""
    said = _recorded(str(tmp_path), "one", [("join", [])], {}, {})
    before = tree_digest_of(said.log)
    lines = said.log.read_bytes().splitlines(keepends=True)
    said.log.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])

    assert before == said.tree_digest
    assert tree_digest_of(said.log) not in ("", before)
    assert tree_digest_of(tmp_path / "none.jsonl") == ""
    said.log.write_bytes(b"{}\n")
    assert tree_digest_of(said.log) == ""
