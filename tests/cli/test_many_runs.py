"""Commands read runs by file, folder, name or URL; a damaged one is a row, and ends no command."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from click.testing import Result

from refold.engine.events.limits import Limits
from refold.engine.log.names import NAME_MAX
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from tests.support.loops import some
from tests.support.stores import folder_store, leading, record_run

Invoke = Callable[..., Result]
PROGRAM = f"--program {leading.__module__}:{leading.__name__}"


def _change(log: Path) -> None:
    """Change a line in the middle."""
    log.write_bytes(log.read_bytes().replace(b'"seq":2', b'"seq":7', 1))


def _replace(log: Path) -> None:
    """Write something else."""
    log.write_text("no log\n")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of three runs."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    for number, name in enumerate(("first", "second", "third")):
        record_run(folder / f"{name}.jsonl", number, "y")
    return folder


_THREE: Final = "runs/first.jsonl runs/second.jsonl runs/third.jsonl"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ls {runs}", 0),
        ("ls {runs} --sort time", 0),
        ("ls {runs} --notable --text leading", 0),
        ("ls {runs} --diff runs/first.jsonl", 3),
        ("show {runs} --failed", 3),
        ("verify {runs}", 3),
        ("verify {runs} --write-heads heads.txt", 3),
        ("export {runs} --to parquet -o tables", 3),
        ("export {runs} --to html -o pages", 3),
        ("export {runs} --to otlp", 3),
        ("export {runs} --to atif --json", 3),
        ("export {runs} --to refold -o packs", 3),
        ("push {runs} {store}", 3),
        ("sign {runs} --key key", 3),
        pytest.param(f"replay {{runs}} {PROGRAM}", 3, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(
    ("given", "damage"),
    some(1, [("runs", _change), (_THREE, _replace), ("runs", _replace), (_THREE, _change)]),
)
def test_a_damaged_run_ends_no_command_that_takes_many(
    line: str,
    code: int,
    given: str,
    damage: Callable[[Path], None],
    runs: Path,
    invoke: Invoke,
) -> None:
    """It is reported by name, and the others as if it were not there."""
    damage(runs / "second.jsonl")
    if line.startswith("sign"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"], check=True)
    words = shlex.split(line.format(runs=given, store=folder_store(runs.parent / "store")))

    done = invoke(*words)

    assert done.exit_code == code, done.output
    assert "second" in done.output or "1 file could not be read" in done.stderr
    if words[0] != "export" and "--failed" not in words and "--notable" not in words:
        assert "first" in done.stdout
        assert "third" in done.stdout


@pytest.mark.parametrize(
    "line",
    ["show {}", "show {} --events", "why {} -1", "diff {} {}", "export {} --to markdown -o -",
     f"fork {{}} --at 2 {PROGRAM} --into new.jsonl", f"replay {{}} --tripwire {PROGRAM}"],
)  # fmt: skip
def test_a_folder_is_its_only_run_and_of_several_one_has_to_be_named(
    line: str, runs: Path, invoke: Invoke
) -> None:
    """The newest are named."""
    several = invoke(*line.format("runs", "runs").split())
    for path in [*runs.glob("first*"), *runs.glob("second*")]:
        path.unlink()
    one = invoke(*line.format("runs", "runs").split())

    assert several.exit_code == 2
    has = "3 runs (runs/third.jsonl, runs/second.jsonl, runs/first.jsonl): name one"
    assert f"runs is a folder with {has}" in several.stderr
    assert one.exit_code == 0, one.output
    assert "runs is a folder with one run: runs/third.jsonl" in one.stderr


async def nested(run: Run, depth: int) -> int:
    """Start a child until its log would have a name that the system refuses."""
    if depth:
        child = await run.delegate(Delegation(program=nested, input=depth - 1, brief="go on"))
        assert child.status in ("completed", "failed")
    return depth


def test_a_run_with_a_child_too_deep_for_a_log_is_read_all_the_same(
    tmp_path: Path, invoke: Invoke
) -> None:
    log = tmp_path / f"{'a' * (NAME_MAX - len('.jsonl'))}.jsonl"
    record(nested, 20, log=log, limits=Limits(max_depth=30))

    read = [
        ("show", log), ("why", log, 1), ("verify", log), ("diff", log, log), ("ls", log),
        ("export", log, "--to", "html", "-o", tmp_path / "a.html"),
        ("export", log, "--to", "atif", "-o", tmp_path / "a.json"),
        ("replay", log, "--program", f"{nested.__module__}:nested"),
    ]  # fmt: skip
    codes = {words[0]: invoke(*words).exit_code for words in read}

    assert not any(codes.values()), codes
