"""What the page shows of one run is what `show`, `verify`, `why` and `show --at` say."""

import itertools
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.engine.secrets.vault import Vault
from refold.engine.state.digests import state_json
from refold.page.document import page
from refold.page.server import patch
from refold.page.turns import cut
from refold.replay.audit.refolding import state
from refold.replay.audit.verify import verify
from refold.replay.audit.why import why
from refold.replay.index.standing import STANDINGS
from refold.replay.run.opened_run import OpenedRun, delegation_tree
from tests.page.test_server import patched
from tests.support.editing import record_edits
from tests.support.fixtures import LOGS
from tests.support.growing import count, family, growing
from tests.support.loops import half
from tests.support.trees import Latency, random_tree, tools_with, tree_program
from tests.support.watched import ask, says, user


def test_the_agents_are_those_of_show_with_logs_by_id(survey_log: Path) -> None:
    shown = page(survey_log).document

    tree = delegation_tree(survey_log)
    root, *children = shown["agents"]
    ids = [log["id"] for log in shown["logs"]]
    assert root["status"] == tree.status
    assert [each["log"] for each in shown["agents"]] == ids
    assert ids == ["0", "1", "2", "3"]
    assert [each["depth"] for each in shown["agents"]] == [0, 1, 1, 1]
    started = [step for turn in root["turns"] for step in turn["steps"] if step["child"]]
    assert [step["child"] for step in started] == [each["key"] for each in children]
    assert [each["parent"]["seq"] for each in shown["logs"][1:]] == [
        step["entries"][0] for step in started
    ]
    assert shown["totals"]["subagents"] == len(tree.children)


def test_the_verdict_is_that_of_verify_and_names_logs_by_id(
    survey_log: Path, tmp_path: Path
) -> None:
    log = shutil.copytree(survey_log.parent, tmp_path / "copy") / survey_log.name
    child = log.with_name("survey.1.jsonl")
    child.write_bytes(child.read_bytes().replace(b"survey", b"purvey", 1))

    document = page(log).document

    found, verdict = verify(log), document["verdict"]
    assert (verdict["intact"], verdict["complete"]) == (found.intact, found.complete)
    assert (verdict["problems"][0]["log"], verdict["problems"][0]["line"]) == (
        document["logs"][1]["id"],
        found.damage[0].line,
    )


def test_swapped_logs_of_children_have_a_path_that_ends(tmp_path: Path) -> None:
    """Each names the start of the other, one of which comes after what it would lead to."""

    async def reads(run: Run, number: int) -> int:
        run.annotate("read", number)
        return number

    async def twice(run: Run, _: object) -> None:
        for number in (1, 2):
            await run.delegate(Delegation(program=reads, input=number))

    log = record(twice, None, log=tmp_path / "a.jsonl").log
    one, two = (log.with_name(f"a.{number}.jsonl") for number in (1, 2))
    kept = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(kept)

    document = page(log).document
    assert {segment[0] for segment in document["critical"]} == {document["logs"][0]["id"]}


def test_a_log_may_be_named_by_a_link(survey_log: Path) -> None:
    """As for `verify` and `show`; only a child's may not be one (§4.0)."""
    link = survey_log.with_name("link.jsonl")
    link.symlink_to(survey_log.name)
    try:
        shown = page(link).document
    finally:
        link.unlink()

    assert len(shown["logs"]) == 4
    assert shown["logs"] == page(survey_log).document["logs"]


KEPT = sorted(LOGS.parent.rglob("[a-z]*[a-z].jsonl"))


@pytest.mark.parametrize("log", half(KEPT), ids=lambda log: f"{log.parent.name}-{log.stem}")
def test_the_page_of_a_kept_log_says_what_the_commands_say(log: Path) -> None:
    """Programs on the kernel and a watched command."""
    _agrees(log)


@pytest.mark.long
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_a_log_that_grows_keeps_its_id_and_is_never_said_to_be_damaged(seed: int) -> None:
    """Whatever order its pieces come in; a head counts no more lines than are there."""
    with tempfile.TemporaryDirectory() as made:
        recorded = record(family, 2, log=Path(made) / "there" / "a.jsonl", tools=[count]).log
        (here := Path(made) / "here").mkdir()
        named: dict[str, str] = {}
        with growing(recorded, here, random.Random(seed)) as (log, rest):
            for there in rest():
                document = page(log).document
                named |= {each["id"]: each["name"] for each in document["logs"]}
                lines = {each["id"]: each["entries"] for each in document["logs"]}
                assert len(set(named.values())) == len(named)
                assert sum(lines.values()) == there
                root, statuses = document["agents"][0], document["totals"]["statuses"]
                assert document["verdict"]["intact"]
                assert root["standing"] == ("running" if there < sum(_entries(recorded)) else "")
                assert set(statuses) <= {"running", "completed"}
            assert {each["log_state"] for each in document["agents"]} == {"read"}
        last, whole = page(log), page(recorded)
        assert last.document == whole.document
        assert last.part("links") == whole.part("links")
        assert last.part("states") == whole.part("states")


def _entries(recorded: Path) -> list[int]:
    return [each.entries for each in verify(recorded).logs]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=6, deadline=None)
def test_patches_make_the_document_of_the_end_whatever_pieces_a_log_came_in(seed: int) -> None:
    """Of a page that is made on, as of one that is made anew; and they go through JSON."""
    with tempfile.TemporaryDirectory() as made:
        recorded = record(family, 2, log=Path(made) / "there" / "a.jsonl", tools=[count]).log
        (here := Path(made) / "here").mkdir()
        with growing(recorded, here, random.Random(seed)) as (log, rest):
            last, told = None, None
            for _ in rest():
                last = page(log, before=last)
                change = patch(told, _plain(last.document)) if told else {"=": last.document}
                told = told if change is None else patched(told, _plain(change))
                assert told == _plain(page(log).document)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=8, deadline=None)
def test_the_page_of_any_program_says_what_the_commands_say(seed: int) -> None:
    tree, tools = random_tree(seed, children=True), tools_with(Latency(seed))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "a.jsonl"
        _agrees(record(tree_program, tree, log=log, tools=tools, durability="fast").log)


def _agrees(log: Path) -> None:
    shown = page(log)
    document, logs = shown.document, shown.logs
    _agents_agree(document["agents"], OpenedRun(log))
    links, states = shown.part("links"), shown.part("states")
    verdict = verify(log)
    assert [document["verdict"][name] for name in ("intact", "complete")] == [
        verdict.intact,
        verdict.complete,
    ]
    for each in document["logs"]:
        path = logs[each["id"]]
        assert len(links[each["id"]]["seq"]) == each["entries"]
        _states_agree(path, states[each["id"]])
        _links_agree(path, each["id"], links, {at: name for name, at in logs.items()})
    _path_is_one(document)


def test_a_cost_that_is_not_known_of_all_answers_is_at_least_that(tmp_path: Path) -> None:
    """Beside the requests stand those that failed."""
    asked = ask(user("Go."))
    answers = [
        ModelAnswered("error", says("a"), Usage(requests=1), error={"code": "cut", "message": "."}),
        ModelAnswered("ok", says("b"), Usage(output_tokens=1, cost_usd_micros=210_000)),
    ]
    with ObservedLog(tmp_path / "a.jsonl", program="p", input=None, vault=Vault()) as log:
        observer = Observer(log)
        for each in answers:
            observer.answered(observer.asked(asked), each)
        log.seal("completed", "done")
    document = page(tmp_path / "a.jsonl").document

    root = document["agents"][0]
    assert root["spent"].endswith(", at least $0.2100 (1 answer not counted)")
    assert root["own_spent"].endswith(", cost \u2013")
    assert root["priced"] == {"usd_micros": 210_000, "unpriced": 1}
    assert document["failures"] == " (1 failed: cut)"


def _agents_agree(shown: list[dict[str, Any]], run: OpenedRun) -> None:
    """All that `show --json` says of an agent and its turns, but for texts and the log's name.

    Each stands right behind the one above.
    """
    assert len(shown) == len(run.agents)
    above = list[str | None]([None])
    for each in shown:
        agent = run.by_key[each["key"]]
        while above[-1] != each["parent"]:
            above.pop()
        above.append(each["key"])
        left_out = {"artifacts", "brief", "children", "ended_us", "head", "input", "log", "run_id"}
        _says(each, agent.node.as_json(), left_out)
        for one, turn in zip(each["turns"], agent.turns, strict=True):
            whole = turn.as_json()
            _says(one, whole, {"added", "dropped", "steps"})
            for step, its in zip(one["steps"], whole["steps"], strict=True):
                _says(step, its, {"name", "result"})
                assert step["name"] == (its["name"] or its["kind"])


def _says(shown: dict[str, Any], told: dict[str, Any], but: set[str]) -> None:
    wanted = {name: cut(value) for name, value in told.items() if name not in but}
    assert _plain({name: shown[name] for name in wanted}) == _plain(wanted)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _states_agree(path: Path, rows: list[Any]) -> None:
    known: Any = {}
    for seq, changes in enumerate(rows):
        known |= changes
        assert _plain(known) == _plain(state_json(state(path, seq))), f"{path}:{seq}"


def _links_agree(path: Path, own: str, links: dict[str, Any], ids: dict[Path, str]) -> None:
    """The chain of each entry is that of `why`, and so is what stands beside its first link."""
    for seq in range(len(links[own]["seq"])):
        chain, place = [], (own, seq)
        while (link := _link(links, *place))[2] >= 0 and link[1]:
            chain.append(link)
            place = link[1:]
        found = why(path, seq)
        assert chain == [
            (cause.how, ids[Path(cause.log)], cause.seq) for cause in found[1:] if cause.is_main
        ]
        beside = {(how, log, at) for how, log, at in links["beside"].get(f"{own}:{seq}", ())}
        direct = {
            (cause.how, ids[Path(cause.log)], cause.seq)
            for cause in found
            if cause.of == 0 and not cause.is_main
        }
        assert direct <= beside


def _link(links: dict[str, Any], log: str, seq: int) -> tuple[str, str, int]:
    own, above = links[log], links[log]["log"][seq]
    return (
        links["words"][own["how"][seq]],
        "" if above < 0 else links["logs"][above],
        own["seq"][seq],
    )


def _path_is_one(document: dict[str, Any]) -> None:
    """The critical path goes without a gap from the root's first entry to its last.

    A watched command has none: what it waited for is not recorded. Neither has a run without end.
    """
    segments = document["critical"]
    has_ended = document["agents"][0]["status"] not in STANDINGS
    assert bool(segments) == (document["guarantee"] == "kernel" and has_ended)
    if segments:
        assert segments[0][3] == 0
        assert segments[-1][2] == document["logs"][0]["entries"] - 1
    for (*_, start, end), (*_, then, after) in itertools.pairwise(segments):
        assert start <= end
        assert then <= after
        assert abs(then - end) <= 1 or then <= end


@pytest.mark.long
def test_changes_of_files_are_told_and_their_diffs_only_on_request(tmp_path: Path) -> None:
    """With the calls that can have made them; of a page without content, nothing."""
    log = record_edits(tmp_path, "r", {"new": "two"})

    plain, full, bare = page(log), page(log, files=True), page(log, content=False, files=True)

    changes = plain.document["changes"]
    changed = [("changed", "a.py", 1, 1), ("removed", "b.py", 0, 1), ("added", "pkg/new.py", 1, 0)]
    names = ("change", "path", "lines_added", "lines_removed")
    assert [tuple(each[name] for name in names) for each in changes] == changed
    assert all(each["calls"] and not each["diff"] for each in changes)
    assert "-one\n+two" in full.document["changes"][0]["diff"]
    assert bare.document["changes"] == []
    assert not any(each["files"] for each in bare.document["agents"])  # names are content, too
    files = plain.document["agents"][0]["files"]
    assert [tuple(each[name] for name in names) for each in files] == changed
