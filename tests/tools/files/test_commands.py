"""`write_file` stays below its folder; `run_command` runs what is allowed, without a shell."""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from refold.engine.errors import LimitRefused, ToolError, ToolRefused
from refold.engine.ports.offers import offer_of
from refold.engine.ports.ports import Tool
from refold.engine.ports.programs import load
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.files.commands import (
    FILE_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    run_command_tool,
    write_file_tool,
)

PYTHON = Path(sys.executable).name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def _python_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


# --- write_file ----------------------------------------------------------------------------------


def test_a_file_is_written_and_written_over(root: Path) -> None:
    write = write_file_tool(root)

    first = write(path="a/b/c.txt", content="é")
    second = write(path="a/b/c.txt", content="two")

    assert (first.path, first.size_bytes, first.created) == ("a/b/c.txt", 2, True)
    assert (second.size_bytes, second.created) == (3, False)
    assert (root / "a/b/c.txt").read_text() == "two"
    assert sorted(path.name for path in (root / "a/b").iterdir()) == ["c.txt"]


@pytest.mark.parametrize("mode", [0o755, 0o600])
def test_a_file_that_is_written_over_keeps_its_permissions(root: Path, mode: int) -> None:
    """A script stays executable, and what others may not read stays so."""
    script = root / "run.sh"
    script.write_text("#!/bin/sh")
    script.chmod(mode)

    write_file_tool(root)(path="run.sh", content="#!/bin/sh\ntrue\n")

    assert stat.S_IMODE(script.stat().st_mode) == mode


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../x", "outside_root"),
        ("a/../../x", "outside_root"),
        ("/etc/x", "outside_root"),
        ("", "not_a_file"),
        (".", "not_a_file"),
        ("./.", "not_a_file"),
        ("folder", "not_a_file"),
        ("new/.", "not_a_file"),
        ("new/..", "not_a_file"),
        ("link.txt", "not_a_file"),
        ("away/x", "not_readable"),
        ("plain.txt/x", "not_readable"),
        ("x" * 300, "not_readable"),
        ("x" * 300 + "/x", "not_readable"),
        ("x/" * 2050, "arguments"),
    ],
)
def test_nothing_outside_and_nothing_but_files(root: Path, path: str, code: str) -> None:
    """Symbolic links lead nowhere, whether they are the file or stand above it."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "target").write_text("as it was")
    (root / "folder").mkdir()
    (root / "plain.txt").write_text("plain")
    (root / "link.txt").symlink_to(outside / "target")
    (root / "away").symlink_to(outside)

    with pytest.raises(ToolError) as refused:
        write_file_tool(root)(path=path, content="x")

    assert refused.value.code == code
    assert [each.name for each in outside.iterdir()] == ["target"]
    assert (outside / "target").read_text() == "as it was"
    assert not (root / "new").exists()


def test_too_much_is_refused(root: Path) -> None:
    with pytest.raises(ToolError, match=f"{FILE_BYTES_MAX + 1} bytes; {FILE_BYTES_MAX}") as refused:
        write_file_tool(root)(path="a", content="é" + "e" * (FILE_BYTES_MAX - 1))

    assert refused.value.tool == "write_file"

    assert list(root.iterdir()) == []


# --- run_command ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("_python_on_path")
def test_a_command_runs_in_the_folder_and_says_how_it_ended(root: Path) -> None:
    run = run_command_tool(root, allow=[PYTHON])
    code = "import os, sys; print(os.getcwd()); print('e', file=sys.stderr); sys.exit(3)"

    result = run(command=[PYTHON, "-c", code])

    assert (result.status, result.code, result.truncated) == ("exited", 3, False)
    assert result.stdout == f"{root.resolve()}\n"
    assert result.stderr == "e\n"


@pytest.mark.parametrize(
    "command", [["sh"], ["/bin/sh"], [sys.executable], [f"{PYTHON} -c pass"], [""]]
)
def test_what_is_not_on_the_list_does_not_run(root: Path, command: list[str]) -> None:
    with pytest.raises(ToolError) as refused:
        run_command_tool(root, allow=[PYTHON])(command=command)

    assert refused.value.code == "denied"
    assert f"there are: {PYTHON}" in refused.value.message


def test_a_command_of_nothing_is_refused_for_its_form(root: Path) -> None:
    with pytest.raises(ToolError, match="/command: expected the program's name") as refused:
        run_command_tool(root, allow=[PYTHON])(command=[])

    assert refused.value.code == "arguments"


@pytest.mark.usefixtures("_python_on_path")
def test_there_is_no_shell_and_no_environment_but_the_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "s")
    monkeypatch.setenv("WANTED", "w")
    run = run_command_tool(root, allow=[PYTHON], environment=["WANTED"])
    code = "import os, sys; print(os.environ.get('SECRET_OF_MINE'), os.environ.get('WANTED'))"

    assert run(command=[PYTHON, "-c", code]).stdout == "None w\n"
    shown = run(command=[PYTHON, "-c", "import sys; print(sys.argv[1])", "$(id); *"]).stdout
    assert shown == "$(id); *\n"


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(root: Path) -> None:
    code = "sleep 1000 & echo $!; wait"

    result = run_command_tool(root, allow=["sh"], timeout_seconds=1)(command=["sh", "-c", code])

    assert (result.status, result.code) == ("timed_out", None)
    assert _is_dead(int(result.stdout))


def _is_dead(pid: int) -> bool:
    """Return whether a process has ended; an orphan may wait to be reaped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.usefixtures("_python_on_path")
def test_of_a_long_text_the_two_ends_are_kept(root: Path) -> None:
    run, size = run_command_tool(root, allow=[PYTHON]), OUTPUT_BYTES_MAX

    result = run(command=[PYTHON, "-c", f"print('a' * {size} + 'z' * {size})"])

    assert result.truncated
    assert result.status == "exited"
    head, middle, tail = result.stdout.splitlines()
    assert (set(head), set(tail)) == ({"a"}, {"z"})
    assert middle == f"[{size + 1} bytes are missing here]"


@pytest.mark.usefixtures("_python_on_path")
def test_a_long_text_of_errors_is_cut_too(root: Path) -> None:
    run = run_command_tool(root, allow=[PYTHON])

    result = run(command=[PYTHON, "-c", "import sys; sys.stderr.write('e' * 99_999)"])

    assert (result.truncated, result.stdout) == (True, "")
    assert "bytes are missing here" in result.stderr


@pytest.mark.parametrize("entry", ["", ".", "bin", "../up", "./"])
def test_no_program_is_found_by_a_relative_path(
    root: Path, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an entry of `PATH` means the folder in which the model may write."""
    for folder in (root, root / "bin", root.parent / "up"):
        folder.mkdir(exist_ok=True)
        (folder / "own-tool").write_text("#!/bin/sh\necho found\n")
        (folder / "own-tool").chmod(0o700)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", entry + os.pathsep)
    runs = run_command_tool(root, allow=["own-tool"])

    with pytest.raises(ToolError, match="no such program on PATH"):
        runs(command=["own-tool"])

    monkeypatch.setenv("PATH", os.pathsep.join((entry, str(root), "")))
    assert runs(command=["own-tool"]).stdout == "found\n"


def test_a_program_that_is_not_there_is_told(root: Path) -> None:
    with pytest.raises(ToolError) as refused:
        run_command_tool(root, allow=["no-such-program"])(command=["no-such-program"])

    assert refused.value.code == "not_found"


def test_a_program_that_cannot_start_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of the call, and no result of a program."""
    (root.parent / "odd-tool").write_text("#!/no/such/interpreter\n")
    (root.parent / "odd-tool").chmod(0o700)
    monkeypatch.setenv("PATH", str(root.parent), prepend=os.pathsep)

    with pytest.raises(ToolError, match="odd-tool") as refused:
        run_command_tool(root, allow=["odd-tool"])(command=["odd-tool"])

    assert refused.value.code == "spawn_failed"


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_python_on_path")
def test_both_change_the_world_and_a_replay_runs_neither(root: Path, tmp_path: Path) -> None:
    tools: list[Tool] = [write_file_tool(root), run_command_tool(root, allow=[PYTHON])]

    async def program(run: Any, _: Any) -> Any:
        written = await run.tool("write_file", path="a.py", content="print(6 * 7)")
        ran = await run.tool("run_command", command=[PYTHON, "a.py"])
        return [written.created, ran.stdout]

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, tools=tools)

    assert recording.output == [True, "42\n"], recording.error
    assert [made.effect for made in tools] == ["changes", "changes"]
    assert tools[1].description.endswith(f": {PYTHON}.")
    (root / "a.py").unlink()
    assert reexecute(log, program, tools=tools).identical
    assert list(root.iterdir()) == []
    for made in tools:
        assert made.reference is not None
        assert offer_of(load(made.reference)) == offer_of(made)


def test_nonsense_is_refused(root: Path) -> None:
    for allow in ([], ["/bin/sh"], [""]):
        with pytest.raises(ToolRefused, match="allow"):
            run_command_tool(root, allow=allow)
    with pytest.raises(ToolRefused, match="is not a folder") as refused:
        write_file_tool(root / "absent")
    assert refused.value.tool == "write_file"
    with pytest.raises(ToolRefused, match="is not a folder") as refused:
        run_command_tool(root / "absent", allow=["a"])
    assert refused.value.tool == "run_command"
    with pytest.raises(LimitRefused):
        run_command_tool(root, allow=["a"], timeout_seconds=0)
