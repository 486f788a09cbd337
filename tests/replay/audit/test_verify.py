"""Verifying a log and the logs below it (CONTRACT.md §5)."""

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha1, sha256
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import pytest

from refold.engine.children.tree_digest import tree_digest_of
from refold.engine.encoding import digest
from refold.engine.errors import LogMissing
from refold.engine.events import codec
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import (
    ChildFinished,
    ChildStarted,
    Event,
    Extension,
    NoteAdded,
    RunFinished,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from refold.engine.events.outcome import ChildRef, Outcome
from refold.engine.log.beside import packs_of
from refold.engine.log.line import NO_HASH, stored_hash, trailer
from refold.engine.log.names import child_path, files_of
from refold.engine.log.reader import read_entries
from refold.engine.log.salvaging import salvage
from refold.engine.log.writer import LogWriter
from refold.engine.runners.recording import record
from refold.engine.workspace.entries import (
    FileChange,
    FolderChanged,
    FolderStarted,
    Repository,
    Staged,
)
from refold.engine.workspace.tree import FileTree, TreeEntry
from refold.replay.audit.verify import Verification, verify
from tests.support.child_programs import parents
from tests.support.folders import kept
from tests.support.loops import some
from tests.support.started import STARTED

ROOT = attrs.evolve(
    STARTED, limits={"max_depth": 2, "max_children": 3}, run_id="root", root_id="root"
)


class Scribe:
    """Writes one sound log, line by line: what a recorder does, without a program."""

    def __init__(self, path: Path, started: RunStarted) -> None:
        self.started = started
        self.log = LogWriter.create(path, started, durability="fast")
        self.leaves: list[str] = []
        self._digest = DataDigest()
        self._digest.add("run.started", None, self.log.last_data)

    def say(self, event: Event | Extension, call: str | None = None) -> None:
        """Append an event."""
        self.log.append(event, call)
        self._digest.add(codec.kind_of(event), call, self.log.last_data)

    def child(self, number: int, call: str, **wrong: Any) -> "Scribe":
        """Start a child, and return the scribe of its log; `wrong` replaces what would be right."""
        run_id = f"child-{number}"
        self.say(ChildStarted({"program": "c"}, number, run_id), call)
        above = self.started.path
        right: dict[str, Any] = {
            "depth": self.started.depth + 1,
            "run_id": run_id,
            "path": f"{above} > {call}" if above else call,
            "parent": {"run": self.started.run_id, "call": call, "hash": self.log.head},
        }
        started = attrs.evolve(self.started, **right | wrong)
        return Scribe(child_path(self.log.path, number), started)

    def join(self, child: "Scribe", call: str) -> None:
        """Take the child's outcome."""
        ref = ChildRef(run=child.started.run_id, head=child.log.head, events=child.log.entries)
        self.leaves.append(digest.child_leaf(ref.run, ref.head, ref.events))
        self.say(ChildFinished(Outcome(status="completed", child=ref)), call)

    def seal(self, **wrong: Any) -> None:
        """Finish the run; `wrong` replaces what would be right."""
        finished = RunFinished("completed", "done")
        self._digest.add("run.finished", None, self.log.encode(finished))
        right: dict[str, Any] = {
            "entries": self.log.entries + 1,
            "data_digest": self._digest.hexdigest(),
            "children_root": digest.merkle_root(self.leaves),
        }
        self.log.append(attrs.evolve(finished, **right | wrong))
        self.log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def tree(path: Path) -> Iterator[Path]:
    """A root, two children, and a grandchild under the first: all sealed."""
    root = Scribe(path, ROOT)
    first = root.child(1, "0#1")
    second = root.child(2, "0/1#1")
    below = first.child(1, "0#1")
    below.say(NoteAdded("deep"), "0#1")
    below.seal()
    first.join(below, "0#1")
    first.seal()
    second.say(ToolCalled("t", {"text": "x" * 40_000}, "pure"), "0#1")
    second.say(ToolReturned("ok", {"$ref": 1}), "0#1")
    second.seal()
    root.join(second, "0/1#1")
    root.join(first, "0#1")
    root.leaves.reverse()  # in the order of starts
    root.seal()
    return path  # type: ignore[return-value]  # a plain fixture


def whats(verification: Verification) -> list[tuple[str, str]]:
    """Return the name of the log and the word of each report."""
    return [(Path(damage.path).name, damage.what) for damage in verification.damage]


def rechained(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Alter each line of a log and hash it anew: the work of someone who knows the rules."""
    previous, out = NO_HASH, []
    for line in path.read_bytes().splitlines(keepends=True):
        body = change(line[: line.rindex(b',"hash":"')])
        end = trailer(previous, body)
        previous = stored_hash(body + end) or b""
        out.append(body + end)
    path.write_bytes(b"".join(out))


# --- sound logs ----------------------------------------------------------------------------------


def test_a_sealed_tree_is_intact_and_complete(tree: Path) -> None:
    """All logs, parents first; nothing is signed, and that is said."""
    found = verify(tree)

    assert whats(found) == []
    assert (found.intact, found.complete, found.authentic) == (True, True, None)
    names = [Path(log.path).name for log in found.logs]
    assert names == ["audit.jsonl", "audit.1.jsonl", "audit.2.jsonl", "audit.1.1.jsonl"]


def test_the_report_is_plain_data(tree: Path) -> None:
    """Documented members, for machines."""
    found = verify(tree).as_json()

    assert set(found) == {"logs", "intact", "complete", "authentic"}
    assert list(found["logs"][0]) == [
        "path", "intact", "complete", "authentic", "entries", "head", "damage",
        "guarantee", "tree_digest", "is_joined", "signature", "contents_missing",
        "contents_unchecked",
    ]  # fmt: skip


def _with_children(data_digest: str, children: dict[str, str]) -> str:
    """Return the tree digest as the contract has it (§6.2)."""
    below = [f"refold/1 tree\n{call}\0{tree}".encode() for call, tree in children.items()]
    numbers = [int(data_digest, 16), *(int(sha256(each).hexdigest(), 16) for each in below)]
    return f"{sum(numbers) % 2**256:064x}"


def test_the_tree_digest_is_computed_from_all_logs(tree: Path) -> None:
    """No seal here says it, as in older logs; a leaf's is its data digest."""
    logs = {Path(log.path).name: log for log in verify(tree).logs}
    own = {name: list(read_entries(log.path))[-1].data["data_digest"] for name, log in logs.items()}

    deep = logs["audit.1.1.jsonl"].tree_digest
    first = _with_children(own["audit.1.jsonl"], {"0#1": deep})
    children = {"0#1": first, "0/1#1": own["audit.2.jsonl"]}

    assert deep == own["audit.1.1.jsonl"]
    assert logs["audit.1.jsonl"].tree_digest == first
    assert verify(tree).tree_digest == _with_children(own["audit.jsonl"], children)
    assert all(log.is_joined for log in logs.values())


def test_a_seal_that_says_another_tree_digest_is_damage(path: Path) -> None:
    """At the seal's own line; nothing above it is known any more."""
    root = Scribe(path, ROOT)
    first = root.child(1, "0#1")
    below = first.child(1, "0#1")
    below.seal()
    first.join(below, "0#1")
    first.seal(tree_digest="0" * 64)
    root.join(first, "0#1")
    root.seal(tree_digest="1" * 64)

    found = verify(path)

    assert whats(found) == [("audit.1.jsonl", "tree digest")]
    (damage,) = found.damage
    lines = child_path(path, 1).read_bytes().splitlines(keepends=True)
    assert (damage.line, damage.byte) == (len(lines), len(b"".join(lines[:-1])))
    assert damage.found == repr("0" * 64)
    assert [bool(log.tree_digest) for log in found.logs] == [False, False, True]


@pytest.mark.parametrize("lost", ["audit.1.1.jsonl", "audit.2.jsonl"])
def test_without_a_childs_log_the_tree_digest_is_unknown_and_not_wrong(
    tree: Path, lost: str
) -> None:
    """The log that is missing is what is reported."""
    tree.with_name(lost).unlink()

    found = verify(tree)

    assert whats(found) == [(lost, "child log missing")]
    assert found.tree_digest == ""
    assert (verify(child_path(tree, 1)).tree_digest == "") is (lost == "audit.1.1.jsonl")


def test_a_joined_child_counts_with_the_entries_that_it_has(path: Path) -> None:
    """It was killed: nothing seals its log, and its parent holds its head."""
    root = Scribe(path, ROOT)
    child = root.child(1, "0#1")
    child.say(NoteAdded("n"), "0#1")
    root.join(child, "0#1")
    root.seal()

    found = verify(path)

    assert found.complete
    assert "" != found.tree_digest != found.logs[1].tree_digest != ""
    assert tree_digest_of(path) == found.tree_digest


def test_an_unsealed_log_is_intact_and_not_complete(path: Path) -> None:
    """Case 60: cut at a line end it still chains; only a seal or a head kept elsewhere tells."""
    root = Scribe(path, ROOT)
    root.say(NoteAdded("n"), "0#1")
    root.log.close()

    found = verify(path)

    assert (found.intact, found.complete, found.damage) == (True, False, ())
    assert verify(path, expect_head=found.head).complete
    assert (found.entries, found.head) == (2, root.log.head)


def test_an_expected_head_decides(tree: Path) -> None:
    """Even a sealed log is not the one expected if its head is another."""
    found = verify(tree, expect_head="0" * 64)

    assert (found.root.intact, found.root.complete) == (True, False)
    assert whats(found) == [("audit.jsonl", "another head")]


@pytest.mark.parametrize(
    ("answers", "told"),
    [([True, True], True), ([True, None], None), ([True, None, False], False)],
)
def test_a_tree_is_authentic_where_all_its_logs_are(
    tree: Path, *, answers: list[bool | None], told: bool | None
) -> None:
    """One bad signature is enough, and one that is not there makes it unknown."""
    found = verify(tree).root

    logs = tuple(attrs.evolve(found, authentic=each) for each in answers)

    assert Verification(logs).authentic is told


def test_a_torn_tail_leaves_the_rest_intact(tree: Path) -> None:
    """It is reported, and the log is not complete."""
    tree.write_bytes(tree.read_bytes()[:-1])

    found = verify(tree)

    assert (found.intact, found.complete) == (True, False)
    assert whats(found) == [("audit.jsonl", "torn tail")]
    assert found.damage[0].line == found.entries + 1


def test_a_child_with_a_torn_tail_has_another_end_than_it_was_joined_with(tree: Path) -> None:
    """Both are told: the torn line, and what is missing."""
    child = child_path(tree, 1)
    child.write_bytes(child.read_bytes()[:-1])

    found = [what for name, what in whats(verify(tree)) if name == child.name]

    assert found == ["torn tail", "log cut short"]


def test_a_third_partys_events_are_ignored(path: Path) -> None:
    """Verified as part of the chain and the digest, and otherwise nobody's business."""
    root = Scribe(path, ROOT)
    root.say(Extension("x-mine", {"$a": 1}))
    root.seal()

    assert whats(verify(path)) == []


def with_files(path: Path) -> list[Path]:
    """Write a log with a folder; return the packs that hold its contents.

    There are one of the start, one of what is in the index, and one of a change.
    """
    old, staged, new = (kept("a", text, log=path) for text in (b"old", b"staged", b"new"))
    index = (Staged("a", "100644", staged.value, 0, staged.digest, len(b"staged")),)
    start = FolderStarted("/f", "", FileTree.of((), [old]), (Repository("", index=index),))
    root = Scribe(path, ROOT)
    root.say(start.as_event())
    root.say(FolderChanged((FileChange("a", old, new),), is_end=True).as_event())
    root.seal()
    return packs_of(path)


@pytest.mark.parametrize(("number", "line"), some(1, [(0, 2), (1, 2), (2, 3)]))
def test_contents_of_files_are_looked_at(path: Path, number: int, line: int) -> None:
    """Each that the log names, by the first entry that does; a pack ends in its digest."""
    pack, size = with_files(path)[number], f"{(3, 6, 3)[number]} bytes"
    assert whats(verify(path)) == []

    whole = pack.read_bytes()
    for content in (whole[:-1], b"", b"PUCK"):
        pack.write_bytes(content)
        damaged, missing = verify(path).damage
        assert (damaged.what, damaged.line) == ("content damaged", 1)
        assert (missing.what, missing.line) == ("content missing", line)
    pack.unlink()
    (missing,) = verify(path).damage

    assert (missing.what, missing.line, missing.expected) == ("content missing", line, "a: " + size)
    assert not verify(path).intact


def test_a_content_is_the_one_that_the_log_names(path: Path) -> None:
    """By a digest of its own: git's ids are of SHA-1."""
    own = attrs.evolve(kept("a", b"old", log=path), digest="0" * 64)
    root = Scribe(path, ROOT)
    root.say(FolderStarted("/f", "", FileTree.of((), [own])).as_event())
    root.seal()

    assert whats(verify(path)) == [("audit.jsonl", "content damaged")]


def test_a_pack_that_git_refuses_is_damage(path: Path) -> None:
    """It may end in its digest all the same."""
    pack = with_files(path)[0]
    pack.write_bytes(b"PACK more" + sha1(b"PACK more", usedforsecurity=False).digest())

    assert whats(verify(path)) == [("audit.jsonl", "content unreadable")]


def test_without_git_contents_are_counted_as_unchecked(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are no damage; a pack that does not end in its digest is."""
    pack = with_files(path)[0]
    monkeypatch.setenv("PATH", str(tmp_path))

    report = verify(path)
    pack.write_bytes(pack.read_bytes()[:-1] + b"?")

    assert (report.intact, report.root.contents_unchecked) == (True, 3)
    assert whats(verify(path)) == [("audit.jsonl", "content damaged")]


def test_contents_may_be_left_out_together(path: Path) -> None:
    """As a pack and a store leave them; a link in their place is damage."""
    with_files(path)
    files_of(path).rename(path.with_name("kept"))

    report = verify(path)
    assert (report.intact, report.complete, report.root.contents_missing) == (True, True, 3)

    files_of(path).symlink_to(path.with_name("kept"))
    assert {what for _, what in whats(verify(path))} == {"content missing"}


def test_what_no_log_may_say_of_a_folder_is_damage(path: Path) -> None:
    """A path that leads out, in a chain that holds."""
    out = TreeEntry("../a", "100644", "git", "0" * 40, 3)
    root = Scribe(path, ROOT)
    root.say(FolderStarted("/f", "", FileTree.of((), [out])).as_event())
    root.seal()

    assert whats(verify(path)) == [("audit.jsonl", "folder")]


def test_a_salvaged_log_has_the_contents_that_are_left(path: Path, tmp_path: Path) -> None:
    """Lost ones are counted, and no damage of it."""
    packs = with_files(path)
    path.write_bytes(path.read_bytes()[:-20])
    packs[0].write_text("bad")

    made = salvage(path, tmp_path / "new" / "kept.jsonl")

    report = verify(made.log)
    assert (made.contents, report.intact, report.root.contents_missing) == (2, True, 1)
    packs_of(made.log)[0].write_bytes(b"")
    assert not verify(made.log).intact


def test_a_missing_log_is_an_error(path: Path) -> None:
    """There is nothing to report on."""
    for missing in (path, Path()):
        with pytest.raises(LogMissing):
            verify(missing)


def test_an_unknown_kind_is_told_with_its_place(tree: Path) -> None:
    """It hides neither the other logs nor what else is wrong, and nothing else is blamed for it."""
    second = child_path(tree, 2)
    rechained(second, lambda body: body.replace(b"tool.returned", b"tool.dissolved"))
    line = second.read_bytes().splitlines(keepends=True)

    found = verify(tree)

    unknown = next(damage for damage in found.damage if damage.what == "unknown kind")
    assert (unknown.line, unknown.byte) == (3, len(line[0] + line[1]))
    assert unknown.found == "kind 'tool.dissolved'"
    assert len(found.logs) == 4
    assert [log.intact for log in found.logs] == [True, True, False, True]
    assert {what for name, what in whats(found)} == {
        "unknown kind", "data digest", "another end"
    }  # fmt: skip


def test_a_childs_log_that_cannot_be_read_is_a_line_of_the_report(tree: Path) -> None:
    """A folder of its name, or a newer format: the others are judged all the same."""
    first, second = child_path(tree, 1), child_path(tree, 2)
    first.unlink()
    first.mkdir()
    rechained(second, lambda body: body.replace(b'"format":1', b'"format":2'))

    found = verify(tree)

    assert whats(found)[:2] == [
        ("audit.1.jsonl", "child log unreadable"),
        ("audit.2.jsonl", "newer format"),
    ]
    assert not found.complete


# --- damage --------------------------------------------------------------------------------------


def test_damage_below_is_found_from_above(tree: Path) -> None:
    """One altered byte in a grandchild; the other logs are not blamed."""
    below = child_path(child_path(tree, 1), 1)
    below.write_bytes(below.read_bytes().replace(b"deep", b"deeq"))

    found = verify(tree)

    assert [log.intact for log in found.logs] == [True, True, True, False]
    assert whats(found) == [("audit.1.1.jsonl", "hash")]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'"effect":"pure"', b'"effect":"poor"', "schema"),
        (b'"tool":"t"', b'"tool":"t","more":1', "schema"),
        (b'"bytes":40000', b'"bytes":40001', "blob damaged"),
        (b'{"$esc"', b'{"$exc"', "marker"),
        (b',"call":"0#1"', b"", "call key"),
        (b'"call":"0#1"', b'"call":"0#2"', "call key"),
        (b'"meta":{', b'"meta":{"x":1,', "no entry"),
        (b',"meta":{', b',"x":1,"meta":{', "no entry"),
        (b'"mono_us":', b'"mono_us":0', "no entry"),
        (b'"tool":"t"', b'"tool":"t","x":' + b"[" * 1023 + b"]" * 1023, "no entry"),
    ],
)
def test_a_rehashed_log_must_still_make_sense(
    tree: Path, old: bytes, new: bytes, what: str
) -> None:
    """Schema, markers, keys and form are looked at, though the chain holds."""
    second = child_path(tree, 2)
    rechained(second, lambda body: body.replace(old, new))

    found = verify(second)

    assert what in {name for _, name in whats(found)}
    assert not found.intact


@pytest.mark.parametrize("field", ["entries", "data_digest", "children_root"])
def test_what_the_seal_says_must_be_so(path: Path, field: str) -> None:
    """Entries, data digest and children are counted again."""
    Scribe(path, ROOT).seal(**{field: 7 if field == "entries" else "0" * 64})

    assert whats(verify(path)) == [("audit.jsonl", field.replace("_", " "))]


def test_a_missing_blob_is_told_at_the_line_that_names_it(tree: Path) -> None:
    """And the rest of the log is still verified."""
    next(tree.with_name("audit.blobs").glob("*/*")).unlink()

    found = verify(tree)

    assert whats(found) == [("audit.2.jsonl", "blob missing")]
    assert found.damage[0].line == 2


def test_reports_are_bounded(path: Path) -> None:
    """A log with a million faults does not fill the memory."""
    root = Scribe(path, ROOT)
    for _ in range(300):
        root.say(ToolReturned("ok"), "0#1")
    root.log.close()

    assert len(verify(path).damage) == 100


# --- children ------------------------------------------------------------------------------------


def test_a_missing_child_is_found(tree: Path) -> None:
    """Its parent has joined it, so its log must be there."""
    child_path(tree, 2).unlink()

    found = verify(tree)

    assert (found.intact, found.complete) == (True, False)
    assert [(Path(d.path).name, d.what) for d in found.damage] == [
        ("audit.2.jsonl", "child log missing")
    ]


def test_swapped_children_are_found_in_both(tree: Path) -> None:
    """Neither is the child that the parent started there, nor ends as the parent saw it."""
    one, two = child_path(tree, 1), child_path(tree, 2)
    contents = one.read_bytes(), two.read_bytes()
    two.write_bytes(contents[0])
    one.write_bytes(contents[1])

    found = {name for name, what in whats(verify(tree)) if what.startswith("another child")}

    assert found == {"audit.1.jsonl", "audit.2.jsonl"}


def test_a_child_rewritten_as_a_whole_is_found(tree: Path) -> None:
    """Sound in itself, but its end is not the one that the parent wrote down."""
    below = child_path(child_path(tree, 1), 1)
    rechained(below, lambda body: body.replace(b'"p"', b'"q"'))

    assert ("audit.1.1.jsonl", "another end") in whats(verify(tree))


def test_a_child_cut_at_a_line_end_is_found(tree: Path) -> None:
    """Case 60: each number of lines removed: what is left chains, and is known to be short."""
    second = child_path(tree, 2)
    lines = second.read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines)):
        second.write_bytes(b"".join(lines[:number]))

        found = verify(tree)

        assert ("audit.2.jsonl", "log cut short") in whats(found)
        assert not found.complete


def test_a_killed_child_is_complete_if_its_parent_anchors_it(path: Path) -> None:
    """It never wrote `run.finished`, and nothing may follow what its parent has seen.

    Its torn tail was cut off when it was joined; another one is no crash's.
    """
    root = Scribe(path, ROOT)
    child = root.child(1, "0#1")
    child.say(NoteAdded("last words"), "0#1")
    child.log.close()
    root.join(child, "0#1")
    root.seal()

    assert verify(path).complete
    with child.log.path.open("ab") as file:
        file.write(b'{"seq":2,"ki')
    found = verify(path)

    assert (found.intact, found.complete) == (True, False)
    assert whats(found) == [("audit.1.jsonl", "torn tail")]


def test_bytes_behind_a_childs_seal_are_no_torn_tail_of_a_crash(tree: Path) -> None:
    """Its parent holds its head, and yet: nothing is ever written after `run.finished`."""
    with child_path(tree, 2).open("ab") as file:
        file.write(b"and one thing more")

    found = verify(tree)

    assert whats(found) == [("audit.2.jsonl", "torn tail")]
    assert (found.intact, found.complete) == (True, False)


def test_a_child_whose_start_was_cut_off_is_explained(tree: Path) -> None:
    """A parent cut at the end of a line is intact: its log ends before it names the child."""
    lines = tree.read_bytes().splitlines(keepends=True)
    tree.write_bytes(lines[0] + lines[1])  # the start of the first child, and not of the second

    found = verify(tree)

    assert whats(found) == [("audit.2.jsonl", "start missing")]
    assert (found.damage[0].line, found.damage[0].byte) == (1, 0)
    assert (found.intact, found.complete) == (True, False)


def test_another_runs_log_is_not_excused_by_an_open_parent(tree: Path) -> None:
    """Only a child of this very run may be one whose start was cut off."""
    lines = tree.read_bytes().splitlines(keepends=True)
    tree.write_bytes(lines[0] + lines[1])
    child_path(tree, 2).write_bytes(tree.read_bytes())

    assert ("audit.2.jsonl", "unnamed child") in whats(verify(tree))


def test_members_of_any_type_are_told_and_trip_nothing(tree: Path) -> None:
    """A call that is an array, a cause that is text, in a line that was hashed anew."""
    second = child_path(tree, 2)
    for call in (b'"call":["0#1"]', b'"call":"0#1","cause":"1"', b'"call":"0#1","cause":true'):
        before = second.read_bytes()
        rechained(second, lambda body, call=call: body.replace(b'"call":"0#1"', call))  # type: ignore[misc]  # bound now

        assert ("audit.2.jsonl", "no entry") in whats(verify(tree))
        second.write_bytes(before)


def test_a_child_that_nobody_started_is_reported(tree: Path) -> None:
    """A log under a child's name that no `child.started` accounts for."""
    stray = child_path(tree, 3)
    stray.write_bytes(tree.read_bytes())

    found = verify(tree)

    assert ("audit.3.jsonl", "unnamed child") in whats(found)
    assert not found.intact


def test_a_child_that_wrote_no_log_needs_none(path: Path) -> None:
    """Its outcome says so: no head and no entries."""
    root = Scribe(path, ROOT)
    root.say(ChildStarted({}, 1, "child-1"), "0#1")
    ref = ChildRef(run="child-1", head="", events=0)
    root.leaves.append(digest.child_leaf("child-1", "", 0))
    root.say(ChildFinished(Outcome(status="failed", child=ref)), "0#1")
    root.seal()

    assert whats(verify(path)) == []
    assert verify(path).complete


def test_a_crashed_parent_need_not_have_its_last_child(path: Path) -> None:
    """It may have died before the child began; it is incomplete in any case."""
    root = Scribe(path, ROOT)
    root.say(ChildStarted({}, 1, "child-1"), "0#1")
    root.log.close()

    found = verify(path)

    assert (whats(found), found.complete) == ([], False)


def test_a_sealed_parent_has_the_logs_of_all_that_it_started(path: Path) -> None:
    """Of those, too, that nobody waited for: it ended after they had begun."""
    root = Scribe(path, ROOT)
    root.child(1, "0#1").seal()
    root.seal()
    assert whats(verify(path)) == []
    child_path(path, 1).unlink()

    assert whats(verify(path)) == [("audit.1.jsonl", "child log missing")]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"parent": {"run": "root", "call": "0#9", "hash": "0" * 64}}, "parent"),
        ({"run_id": "another"}, "run id"),
        ({"root_id": "another"}, "root id"),
        ({"depth": 7}, "depth"),
        ({"path": "0#9"}, "path"),
    ],
)
def test_each_word_that_a_child_says_of_its_start_counts(
    path: Path, wrong: dict[str, Any], what: str
) -> None:
    """Though all its hashes are right, and those of the parent that joined it (§5.4)."""
    root = Scribe(path, ROOT)
    child = root.child(1, "0#1", **wrong)
    child.seal()
    root.join(child, "0#1")
    root.seal()

    assert ("audit.1.jsonl", f"another child: {what}") in whats(verify(path))


def test_what_was_cut_short_is_not_complete_whatever_head_it_has(path: Path) -> None:
    """A kept head of an entry before the damage does not make it whole."""
    root = Scribe(path, ROOT)
    root.say(NoteAdded("a"), "0#1")
    head = root.log.head
    root.say(NoteAdded("b"), "0#2")
    root.log.close()
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"c"'))

    found = verify(path, expect_head=head)

    assert (found.head, found.complete) == (head, False)


def test_a_damaged_parent_is_no_ground_to_blame_its_children(tree: Path) -> None:
    """What names them may stand behind the place where its chain breaks, or was torn."""
    lines = tree.read_bytes().splitlines(keepends=True)
    for rest, what in ((lines[1].replace(b"0#1", b"0#2"), "hash"), (lines[1][:40], "torn tail")):
        tree.write_bytes(lines[0] + rest)

        assert whats(verify(tree)) == [("audit.jsonl", what)]
        assert verify(tree).damage[0].byte == len(lines[0])
    tree.write_bytes(b"")
    assert [damage.byte for damage in verify(tree, expect_head="0" * 64).damage] == [0, 0]


def test_verifying_changes_nothing(tree: Path) -> None:
    """Not a byte, not a name."""
    before = {p: p.read_bytes() for p in tree.parent.rglob("*") if p.is_file()}

    verify(tree)

    assert {p: p.read_bytes() for p in tree.parent.rglob("*") if p.is_file()} == before


LISTINGS = """
import sys
from pathlib import Path
from refold.engine.events.limits import Limits
from refold import record, verify
from tests.support.started import STARTED
from tests.support.child_programs import parents
from tests.support.started import STARTED
listed = []
def hook(event, args):
    if event in ("os.listdir", "os.scandir"):
        listed.append(event)
sys.addaudithook(hook)
import refold.replay.audit.verify
many = Limits(max_children=1000)
record(parents, int(sys.argv[2]), log=sys.argv[1], limits=many, durability="fast")
recorded, listed[:] = len(listed), []
assert len(verify(sys.argv[1]).logs) == int(sys.argv[2]) + 1
sys.stdout.write(f"{recorded} {len(listed)}")
"""


@pytest.mark.long
def test_a_folder_is_listed_once_however_many_children_lie_in_it(tmp_path: Path) -> None:
    """Case 106: else ten thousand children cost a hundred million looks; recording lists none."""
    counts = [
        subprocess.run(
            [sys.executable, "-c", LISTINGS, str(tmp_path / name / "a.jsonl"), number],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
        ).stdout.split()
        for name, number in (("few", "3"), ("many", "30"))
    ]

    assert counts[0] == counts[1]
    assert counts[0][1] == "1"


def _steps(log: Path) -> int:
    """Return how many functions verifying a tree calls, those of C included."""
    steps = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # what is called when it comes by is no step
    sys.setprofile(count)
    try:
        assert verify(log).complete
    finally:
        sys.setprofile(before)
        gc.enable()
    return steps


@pytest.mark.long
def test_a_child_more_costs_what_a_child_costs(tmp_path: Path) -> None:
    """Case 106: verifying is linear in the children, however many there are."""
    steps = []
    for number in (1, 10, 20, 40):
        log = tmp_path / str(number) / "a.jsonl"
        recording = record(parents, number, log=log, durability="fast")
        assert recording.ok
        steps.append(_steps(log))

    _, ten, twenty, forty = steps  # the first fills caches
    assert forty - twenty <= 2.1 * (twenty - ten)
