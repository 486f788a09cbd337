"""Logs of released formats are read, folded and re-executed by every later version (§15.2).

`fixtures/logs/<version>/` holds what that version recorded of `tests.support.kept_programs`, some
with the Python that it ran on: what hangs on asyncio's order is to be the same on another.  No
file there is ever edited: whatever no longer passes is a break of the format, or of the kernel's
rules, and needs a version of its own.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import refold
from refold.engine.encoding.canonical import Json
from refold.engine.events.codec import structure, unstructure
from refold.engine.events.events import KIND_OF, KINDS, Event
from refold.engine.log.reader import read_entries
from refold.engine.models import ScriptedModel
from refold.replay.audit.refolding import refold_log
from refold.replay.tree.delegation_tree import delegation_tree
from tests.support.kept_bound import NOW, exchanges
from tests.support.kept_programs import INPUTS, PROGRAMS, add, fetch, sitting, taking
from tests.support.kept_watched import EXCHANGES
from tests.support.watched import replayed

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "fixtures" / "logs"
LOGS: Final = sorted(path for path in KEPT.glob("*/*.jsonl") if path.stem in PROGRAMS)
TREES: Final = {
    "0.1.0-aborting": "1efbff1f4095",
    "0.1.0-delegating": "0d61f803797c",
    "0.1.0-dropping": "25a3bd7a4def",
    "0.1.0-everything": "13a7234865b0",
    "0.1.0-failing": "878d08735752",
    "0.1.0-plainly": "401b516421d7",
    "0.1.0-polling": "0d9c79fbed0d",
    "0.1.0-stopping": "471d868837fe",
    "0.1.0-tagged": "ff554d062429",
    "0.1.0-python3.11-aborting": "61edfa24a762",
    "0.1.0-python3.11-dropping": "39c43a266f28",
    "0.1.0-python3.11-polling": "0179f34ce11c",
    "0.1.0-python3.13-aborting": "e6c96edb7d3c",
    "0.1.0-python3.13-dropping": "cff59ce4301a",
    "0.1.0-python3.13-polling": "598d2ed4e152",
}
"""The first digits of the tree digests that no seal says: they are computed from the logs."""
WATCHED: Final = sorted(KEPT.glob("*/watched.jsonl"))


def _name(log: Path) -> str:
    return f"{log.parent.name}-{log.stem}"


@pytest.mark.parametrize("log", LOGS, ids=_name)
def test_a_kept_log_is_whole(log: Path) -> None:
    """Case 90: bytes, schema, causes, children and blobs are as they were; so is the state."""
    report = refold.verify(log)

    assert report.intact, report
    assert report.complete, report
    assert refold_log(log).agrees is True
    assert report.tree_digest != ""
    assert report.tree_digest.startswith(TREES.get(_name(log), ""))


@pytest.mark.parametrize("number", [1, 3])
def test_a_child_from_before_by_and_own_children_replays_alone(number: int) -> None:
    """Its parent's cancellation is one "from outside", and a join takes a foreign child's end."""
    here = KEPT / "0.1.0"
    program = {1: sitting, 3: taking}[number]
    refold.reexecute(here / "meddling.jsonl", PROGRAMS["meddling"], tools=[add, fetch])  # HANDED

    report = refold.reexecute(here / f"meddling.{number}.jsonl", program, tools=[add, fetch])

    assert report.identical, report


def test_a_log_from_before_values_were_bound_replays_as_it_did() -> None:
    """By the rules that it has: its patterns hold anywhere, and `-old` ends a path."""
    log = KEPT / "0.1.0-noted" / "bound.jsonl"
    again = [each.asked for each in exchanges(NOW["folder"], 50_000)]
    changed = [each.asked for each in exchanges(NOW["folder"] + "s", 500)]

    assert refold.verify(log).complete
    assert replayed(log, again, here=NOW).identical
    assert not replayed(log, changed, here=NOW).identical


def _spins(log: Path) -> bool:
    return _name(log) == "0.1.0-polling"  # made without the flag `passes`


REEXECUTED: Final = [
    pytest.param(log, marks=pytest.mark.long if _spins(log) else (), id=_name(log)) for log in LOGS
]


@pytest.mark.parametrize("log", REEXECUTED)
def test_a_kept_log_is_reexecuted(log: Path) -> None:
    """Case 4: its program does the same now, under each supported version of Python."""
    report = refold.reexecute(log, PROGRAMS[log.stem], tools=[add, fetch])

    assert report.identical, report


@pytest.mark.parametrize("log", WATCHED, ids=_name)
def test_a_kept_log_of_a_watched_command_is_replayed(log: Path) -> None:
    """Its requests are matched, its tree is told, its bytes are as they were (§16.2)."""
    verified = refold.verify(log)
    asked = [one.asked for one in EXCHANGES]

    report = replayed(log, asked)

    assert verified.intact, verified
    assert verified.complete, verified
    assert refold_log(log).agrees is True
    assert report.identical, report
    assert report.served == len(asked)
    lead, *_ = delegation_tree(log).children
    assert [(child.name, child.how) for child in lead.children] == [
        ("hiker", "prompt"),
        ("cook", "prompt"),
    ]


def test_there_are_logs_of_this_version() -> None:
    """Each program once, with children, blobs and a failure among them."""
    here = KEPT / refold.__version__

    assert {log.stem for log in LOGS if log.parent == here} == set(PROGRAMS) == set(INPUTS)
    assert (here / "everything.2.jsonl").is_file()
    assert list((here / "everything.blobs").glob("??/*"))
    assert here / "watched.jsonl" in WATCHED


LATER: Final = {
    "run.started": {"versions/flags", "versions/release"},
    "run.finished": {"models", "usage", "tree_digest"},
    "timer.fired": {"length_us", "nth"},
    "effect.cancelled": {"by"},
}
"""Members that the logs of 0.1.0 lack, by kind: optional since (§15.4; flags: §15.1)."""


def _members(data: Json, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and type of each member; those of what users say are not looked into."""
    if isinstance(data, dict) and at not in ("input", "arguments", "output", "result", "outcome"):
        for name, value in data.items():
            place = f"{at}/{name}" if at else name
            yield place, type(value).__name__
            if place not in ("usage", "versions/flags"):
                yield from _members(value, place)


def _said(log: Path) -> dict[str, dict[str, str]]:
    """Return the members of each kind in a log, with their types."""
    said: dict[str, dict[str, str]] = {}
    for entry in read_entries(log):
        said.setdefault(entry.kind, {}).update(_members(entry.data))
    return said


@pytest.mark.parametrize("name", ["everything", "plainly", "failing", "tagged"])
def test_members_that_came_later_are_optional_and_no_other_has_changed(
    name: str, tmp_path: Path
) -> None:
    """§15.4: the program recorded now says what the kept log says, and those members besides."""
    log = KEPT / "0.1.0" / f"{name}.jsonl"
    asks = name in ("everything", "tagged")
    model = ScriptedModel(["They have read two texts.", "Nothing more."]) if asks else None
    program, argument = PROGRAMS[name], INPUTS[name]
    new = refold.record(
        program, argument, log=tmp_path / "new.jsonl", tools=[add, fetch], model=model
    )

    before, now = _said(log), _said(new.log)

    assert before.keys() == now.keys()
    for kind, members in now.items():
        later = members.keys() - before[kind].keys()
        assert later <= LATER.get(kind, set()), kind
        assert {place: members[place] for place in members.keys() - later} == before[kind], kind
    assert refold.verify(log).complete
    assert refold_log(log).agrees is True
    assert refold.reexecute(log, program, tools=[add, fetch]).identical


def test_the_contract_lists_the_members_that_came_later() -> None:
    """§15.4, but for flags, which §15.1 lists."""
    listed = re.sub(
        r"\s+", " ", (ROOT / "CONTRACT.md").read_text("utf-8").partition("**§15.4**")[2]
    ).partition("## ")[0]

    for kind, members in LATER.items():
        for member in members - {"versions/flags", "versions/release"}:
            assert re.search(rf"`{member}`[^,]* of `{kind}`|`{member}` and .* of `{kind}`", listed)


def test_a_member_is_renamed_as_contributing_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old log is read by the new class, and each run writes the member that its flag says."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    members = text.partition("```python\n")[2].partition("```")[0]
    block = "".join(f"    {line}\n" for line in members.splitlines())
    known: dict[str, Any] = {"attrs": attrs}
    exec(  # the class as a maintainer writes it
        "@attrs.frozen(weakref_slot=False)\nclass Asked:\n"
        f"{block}    arguments: dict\n    effect: str\n    delegates: bool | None = None\n",
        known,
    )
    asked: Any = known["Asked"]
    renamed: type[Event] = asked
    monkeypatch.setitem(KINDS, "x-renamed", renamed)
    monkeypatch.setitem(KIND_OF, renamed, "x-renamed")
    log = KEPT / "0.1.0" / "plainly.jsonl"
    calls = [entry for entry in read_entries(log) if entry.kind == "tool.called"]

    read: list[Any] = [structure("x-renamed", entry.data) for entry in calls]
    new = asked(name="add", arguments={"a": 1}, effect="pure")

    assert [each.called for each in read] == ["add", "add", "add"]
    assert [unstructure(each) for each in read] == [entry.data for entry in calls]
    assert list(unstructure(new)) == ["name", "arguments", "effect"]
    assert structure("x-renamed", unstructure(new)).called == "add"  # type: ignore[union-attr]  # it is `asked`
