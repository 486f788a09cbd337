"""The folder of a recorded command: what the log says of it, from outside."""

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from refold.engine.events.events import FOLDER
from refold.engine.log.blobs import BlobStore
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import read_entries, whole_data
from refold.engine.workspace.entries import (
    FolderChanged,
    FolderEntry,
    FolderLost,
    FolderStarted,
    FolderState,
    read_entry,
)
from refold.engine.workspace.packing import contents_of
from refold.replay.audit.verify import verify
from tests.support.editing import Step, agent, steps
from tests.support.folders import git, repository
from tests.support.here import refold_here
from tests.support.upstream import Upstream

DEADLINE_SECONDS = 120.0
_RETURNED, _ANSWERED = "tool.returned", "model.answered"


def record(
    folder: Path,
    tasks: Mapping[str, Sequence[Step]],
    *options: str,
    more: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> tuple[Path, str]:
    """Record the first of these tasks in a folder, with the agent and the log beside it.

    Return the log and what was said: by a process of its own behind the words of `before`.
    """
    log = folder.parent / "run.jsonl"
    words = ["record", "--log", str(log), *options, "--", *agent(folder.parent, next(iter(tasks)))]
    rules = [rule for task, listed in tasks.items() for rule in steps(task, listed)]
    with Upstream(rules) as upstream:
        env = {"PATH": os.environ["PATH"], **upstream.environment(), **(more or {})}
        env = {"HOME": str(folder.parent), **env}
        if not before:
            done = refold_here(*words, folder=folder, environment=env)
            assert done.exit_code == 0, done.stderr
            return log, done.stderr
        ran = subprocess.run(
            [*before, sys.executable, "-m", "refold", *words],
            cwd=folder, env=env, capture_output=True, text=True, timeout=DEADLINE_SECONDS,
            check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return log, ran.stderr


def entries_of(log: Path) -> list[FolderEntry]:
    """Return what a log says of the folder."""
    blobs = BlobStore(blobs_of(log))
    said = [entry for entry in read_entries(log) if entry.kind == FOLDER]
    return [read_entry(whole_data(entry, log, blobs)) for entry in said]


def made_by(log: Path) -> dict[str, list[tuple[str, ...]]]:
    """Return, by path, the calls that may have made each of its changes."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for entry in entries_of(log):
        if isinstance(entry, FolderChanged):
            for change in entry.changes:
                found.setdefault(change.path, []).append(entry.suspects(change))
    return found


def calls_of(log: Path) -> dict[str, str]:
    """Return the call keys of a log by what the calls say: a file, a command."""
    called = [entry for entry in read_entries(log) if entry.kind == "tool.called"]
    firsts = (str(next(iter(entry.data["arguments"].values()))) for entry in called)
    return {first: entry.call or "" for first, entry in zip(firsts, called, strict=True)}


TASK: Sequence[Step] = [
    [("Read", {"path": "a.py"})],
    [("Edit", {"file_path": "a.py", "old": "one", "new": "two\nthree"})],
    [("Bash", {"command": "rm b.py; mv c.py d.py; echo x > made.txt"})],
    [("Read", {"path": "a.py"})],
]
FILES = {"a.py": "one\n", "b.py": "bee\n", "c.py": "sea\n", "pkg/x.py": "x\n"}


@pytest.mark.parametrize("in_git", [True, pytest.param(False, marks=pytest.mark.long)])
def test_each_change_is_in_the_log_with_the_call_that_made_it(
    tmp_path: Path, *, in_git: bool
) -> None:
    """At the start, after each call that changed files, at the end."""
    top = repository(tmp_path / "r", FILES)
    if not in_git:
        (top / ".git").rename(tmp_path / "git")
    log, said = record(top, {"change": TASK})

    start, edited, moved, end = entries_of(log)
    assert isinstance(start, FolderStarted)
    assert (start.path, start.below, start.by_git) == (str(top), "", 4 if in_git else 0)
    assert isinstance(edited, FolderChanged)
    assert isinstance(moved, FolderChanged)
    assert isinstance(end, FolderChanged)
    assert end.is_end
    assert end.changes == ()
    lines = {change.path: (change.added, change.removed) for change in moved.changes}
    assert lines == {"b.py": (0, 1), "c.py": (0, 1), "d.py": (1, 0), "made.txt": (1, 0)}
    assert [(each.path, each.added, each.removed) for each in edited.changes] == [("a.py", 2, 1)]
    calls = calls_of(log)
    bash = next(call for said, call in calls.items() if said.startswith("rm b.py"))
    edit = edited.calls[0]
    assert made_by(log) == {"a.py": [(edit,)]} | {path: [(bash,)] for path in lines}
    state = FolderState()
    for entry in (start, edited, moved, end):
        state.apply(entry)
    with contents_of(log, start, tmp_path / "made")[0] as contents:
        whole = contents.whole(state.tree).differs
        held = {each.path: contents.content(each) for each in whole}
    assert held == {
        "a.py": b"two\nthree\n", "d.py": b"sea\n", "made.txt": b"x\n", "pkg/x.py": b"x\n",
    }  # fmt: skip
    by_git = "1 file by git, 3 by content (16 bytes)" if in_git else "0 files by git, 4 by"
    assert f"folder: {by_git}" in said
    assert verify(log).intact


@pytest.mark.long
def test_a_folder_further_down_and_one_that_is_named(tmp_path: Path) -> None:
    """The work tree is recorded, and where in it the command was started."""
    top = repository(tmp_path / "r", FILES)
    script: dict[str, Sequence[Step]] = {
        "change": [[("Write", {"file_path": "x.py", "text": "y\n"})]]
    }

    log, _ = record(top / "pkg", script, more={"HOME": str(tmp_path)})
    start, changed, _end = entries_of(log)

    assert isinstance(start, FolderStarted)
    assert (start.path, start.below) == (str(top), "pkg")
    assert isinstance(changed, FolderChanged)
    assert [change.path for change in changed.changes] == ["pkg/x.py"]
    assert len(changed.calls) == 1


@pytest.mark.long
def test_none_is_recorded_if_told_so_and_never_a_home_folder(tmp_path: Path) -> None:
    """The first says nothing, the second one line."""
    top = repository(tmp_path / "r", FILES)
    script: dict[str, Sequence[Step]] = {"change": []}

    log, quiet = record(top, script, "--workspace", "none")
    assert entries_of(log) == []
    assert "folder:" not in quiet
    log.unlink()
    log, told = record(top, script, more={"HOME": str(top)})
    assert entries_of(log) == []
    assert f"folder: {top} is the home folder: to record it anyway, use --workspace {top}" in told


@pytest.mark.long
def test_a_change_after_the_last_request_is_in_the_end(tmp_path: Path) -> None:
    """By no call: the program made it itself, or what it left in the background."""
    top = repository(tmp_path / "r", FILES)

    log, _ = record(top, {"change": TASK}, more={"LATE": "late"})

    last = entries_of(log)[-1]
    assert isinstance(last, FolderChanged)
    assert [change.path for change in last.changes] == ["late.txt"]
    assert last.calls == ()


@pytest.mark.long
def test_subagents_at_their_own_files_and_at_one(tmp_path: Path) -> None:
    """Eight at once: each change names the call that made it among those that may have."""
    top = repository(tmp_path / "r", {"shared": "".join(f"{n}\n" for n in range(8))})
    names = [f"part{n}" for n in range(8)]
    tasks: dict[str, Sequence[Step]] = {
        "all": [[("Task", {"prompt": name}) for name in names]],
        **{
            name: [
                [("Write", {"file_path": f"{name}.txt", "text": f"{name}\n"})],
                [("Bash", {"command": f"echo {name} >> shared"})],
            ]
            for name in names
        },
    }

    log, _ = record(top, tasks)

    called, found = calls_of(log), made_by(log)
    by_whom = {call for calls in found.pop("shared") for call in calls}
    own = {path: {*calls} for path, calls in found.items()}  # a look may see a file half written
    assert own == {f"{name}.txt": {(called[f"{name}.txt"],)} for name in names}
    assert by_whom >= {called[f"echo {name} >> shared"] for name in names}


def _drawn(chance: random.Random, name: str) -> list[Step]:
    """Return what a subagent does: to files of its own, and to one that all change."""
    steps: list[Step] = []
    for number in range(chance.randint(1, 4)):
        mark, own = f"{name}-{number}", f"{name}/{chance.randint(0, 1)}.txt"
        told: dict[str, tuple[str, dict[str, str]]] = {
            own: ("Write", {"file_path": own, "text": mark}),
            f"{name}/run": ("Bash", {"command": f"mkdir -p {name}; echo {mark} >> {name}/run"}),
            "shared": ("Bash", {"command": f"echo {mark} >> shared"}),
            "": ("Read", {"path": "a.py"}),
        }
        chosen = chance.sample([*told], chance.randint(1, 3))
        steps.append([told[path] for path in chosen])
    return steps


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", range(1, 9))
def test_each_change_is_told_before_the_next_answer_with_the_call_that_made_it(
    tmp_path: Path, count: int, seed: int
) -> None:
    """Of up to eight subagents that work at once, at their own files and at one of all."""
    chance = random.Random(f"{count} {seed}")
    top = repository(tmp_path / "r", {"a.py": "one\n", "shared": ""})
    names = [f"part{n}" for n in range(count)]
    drawn = {name: _drawn(chance, name) for name in names}
    log, _ = record(top, {"all": [[("Task", {"prompt": name}) for name in names]], **drawn})

    entries = [*read_entries(log)]
    blobs = BlobStore(blobs_of(log))
    told: list[tuple[int, str, tuple[str, ...]]] = []
    for at, entry in enumerate(entries):
        said = read_entry(whole_data(entry, log, blobs)) if entry.kind == FOLDER else None
        if isinstance(said, FolderChanged):
            told += [(at, change.path, said.suspects(change)) for change in said.changes]
    changing = 0
    for entry in entries:
        asked = entry.data.get("arguments", {}) if entry.kind == "tool.called" else {}
        words = str(asked.get("command", "")).split()
        path = asked.get("file_path") or (words[-1] if words else "")
        if path:
            changing += 1
            call = entry.call or ""
            shown = next(n for n, e in enumerate(entries) if (e.kind, e.call) == (_RETURNED, call))
            scope = call.rpartition("#")[0]
            answered = next(
                (
                    n for n, e in enumerate(entries[shown:], shown)
                    if e.kind == _ANSWERED and (e.call or "").rpartition("#")[0] == scope
                ),
                len(entries),
            )  # fmt: skip
            found = [at for at, named, calls in told if named == path and call in calls]
            assert found, (path, call, [each for each in told if each[1] == path])
            assert found[0] < answered
    assert changing == sum(
        name != "Read" for steps in drawn.values() for s in steps for name, _ in s
    )
    own = {path: calls for _, path, calls in told if path != "shared" and not path.endswith("run")}
    scopes = {path: {call.rpartition("#")[0] for call in calls} for path, calls in own.items()}
    assert all(len(each) == 1 for each in scopes.values()), scopes


def test_a_folder_that_cannot_be_kept_any_more_ends_its_record_and_not_the_run(
    tmp_path: Path,
) -> None:
    """As on a full disk: a plain file stands where contents were to be written."""
    top = repository(tmp_path / "r", FILES)
    (tmp_path / "run.files").write_text("in the way")

    log, said = record(top, {"change": TASK})

    start, lost = entries_of(log)
    assert isinstance(start, FolderStarted)
    assert isinstance(lost, FolderLost)
    assert "folder: not recorded:" in said
    assert verify(log).intact
    assert (top / "made.txt").exists()


_SMALL_DISK = 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"'


@pytest.mark.long
def test_a_full_disk_in_the_middle_ends_the_record_of_the_folder_alone(tmp_path: Path) -> None:
    """The run goes on, and is recorded; contents are on a disk of 64 kB."""
    small = ["unshare", "-Urm", "sh", "-c", _SMALL_DISK, "sh", str(tmp_path / "run.files")]
    (tmp_path / "run.files").mkdir()
    if subprocess.run([*small, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    top = repository(tmp_path / "r", FILES)
    task: Sequence[Step] = [
        [("Write", {"file_path": "small", "text": "x"})],
        [("Bash", {"command": "head -c 200000 /dev/urandom > large"})],
        [("Write", {"file_path": "later", "text": "x"})],
    ]

    log, said = record(top, {"change": task}, before=small)

    start, changed, lost = entries_of(log)
    assert isinstance(start, FolderStarted)
    assert isinstance(changed, FolderChanged)
    assert isinstance(lost, FolderLost)
    assert "No space left" in lost.why
    assert "folder: not recorded:" in said
    assert verify(log).complete
    assert (top / "later").exists()


@pytest.mark.long
def test_a_hundred_thousand_files_are_recorded_and_given_back(tmp_path: Path) -> None:
    """The log names what changed."""
    count = 100_000
    top = repository(tmp_path / "r", FILES)
    for number in range(count):
        file = top / f"d{number // 500}" / f"f{number}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{number}\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "many")

    log, said = record(top, {"change": [*TASK, [("Bash", {"command": "echo x > d7/f3500"})]]})

    assert f"folder: {count:,} files by git" in said
    assert log.stat().st_size < 100_000
    words = [sys.executable, "-m", "refold", "files", str(log), "-o", str(tmp_path / "again")]
    subprocess.run(words, cwd=top, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
    assert (tmp_path / "again" / "d7" / "f3500").read_text() == "x\n"
    assert sum(len(names) for _, _, names in os.walk(tmp_path / "again")) == count + 4
