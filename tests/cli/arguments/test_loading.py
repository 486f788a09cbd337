"""Tools and sessions are named as programs are: by module or file (CONTRACT.md §14.9)."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.cli.arguments.loading import import_from_here, load_session, load_tools, models_by_name
from refold.engine.errors import ToolRefused, UsageError
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import ModelReply
from refold.engine.ports.programs import load, reference_from
from refold.engine.program.agent import agent
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from tests.support.unfinished import cut

Invoke = Callable[..., Result]

TOOLS = """
import refold.tools.contract.tool_types as contract

@contract.tool(effect="pure")
def add(a: int, b: int) -> int:
    return a + b

TOOLS = [add]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "adding.py"
    path.write_text(TOOLS)
    return path


def test_tools_are_named_alone_or_in_lists(file: Path) -> None:
    """Separated by commas; no name is no tool."""
    found = load_tools(f"{file}:TOOLS, {file}:add")

    assert [tool.name for tool in found] == ["add", "add"]
    assert load_tools("") == ()


def test_what_is_no_tool_is_refused(file: Path) -> None:
    """And so is a name behind which there is nothing."""
    with pytest.raises(ToolRefused):
        load_tools("os:sep")
    with pytest.raises(ToolRefused, match="functions: add"):
        load_tools(f"{file}:missing")
    with pytest.raises(ToolRefused, match=r"adding\.py:NAME"):
        load_tools(str(file))


def test_modules_are_found_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Last, and only where a name asks for it; once, however often it does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    import_from_here(None, "", "agent", "recorded")
    assert str(tmp_path) not in sys.path
    import_from_here(None, "app:main")
    import_from_here("app:TOOLS,recorded")

    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1


_DEPENDENCIES = ("attr", "attrs", "cattrs", "click", "jsonschema", "orjson", "psutil", "rich",
                 "structlog", "yaml", "httpx", "uvicorn")  # fmt: skip


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs, a program, and a file named like each of our dependencies."""
    folder = tmp_path_factory.mktemp("traps")
    (folder / "own.py").write_text("async def own(run, _input):\n    return 1\n")
    for name in _DEPENDENCIES:
        (folder / f"{name}.py").write_text(f"open('executed-{name}', 'w').close()\n")

    async def own(_run: Run, _input: object) -> int:
        return 1

    record(own, log=folder / "own.jsonl")
    model = FunctionModel(lambda _: ModelReply(message={"role": "assistant", "content": "done"}))
    log = record(agent, {"task": "t"}, log=folder / "a.jsonl", model=model).log
    cut(log, folder / "cut.jsonl", 1)
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "."],
        ["resume", "cut.jsonl"],
        *(
            pytest.param(arguments.split(), marks=pytest.mark.long)
            for arguments in (
                "replay . --program own:own --limit jobs=1",
                "replay a.jsonl",
                "explore a.jsonl",
                "replay own.jsonl --program own:own",
                "replay own.jsonl --program own.py:own",
                "replay . --program own.py:own",
            )
        ),
    ],
    ids=" ".join,
)
def test_no_file_of_the_working_directory_is_taken_for_a_dependency(
    arguments: list[str], traps: Path
) -> None:
    """Without a program, and with one that is there, in the processes of many replays too."""
    said = subprocess.run(
        [sys.executable, "-m", "refold", *arguments],
        cwd=traps, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "identical" in said.stdout or arguments[0] != "replay", said.stderr
    assert sorted(path.name for path in traps.glob("executed-*")) == []


@pytest.mark.parametrize(
    "load", [load_tools, lambda text: load_session(text, None, Path("no.jsonl"))]
)
def test_whatever_is_named_is_looked_for_there(
    load: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who loads it, so that no command forgets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UsageError, match="no_such_module"):
        load("no_such_module:NAME")

    assert sys.path[-1] == str(tmp_path)


SESSION = """
import attrs
import refold

@attrs.frozen
class Finding:
    text: str

def findings() -> refold.Session:
    session = refold.Session()
    session.register(Finding)
    return session

async def main(run, given):
    run.session.dispatch(Finding(given))
    return [each.text for each in run.session.select_all(Finding)]

async def idle(run, given):
    return run.uuid()

async def changed(run, given):
    run.uuid()
    run.session.dispatch(Finding(given))
    return len(run.session.select_all(Finding))
"""
_NAMED = """
FINDINGS = findings()
FINDINGS.dispatch(Finding("of the file"))
"""
COMMANDS = ("replay", "explore", "explore --results", "replay --live", "fork --at 3", "resume")


@pytest.fixture
def findings(tmp_path: Path) -> Path:
    path = tmp_path / "findings.py"
    path.write_text(SESSION)
    return path


def recorded(command: str, file: Path, program: str) -> list[str]:
    """Return a command over the log of a run that had a session of its own."""
    found = load(reference_from(f"{file}:{program}"))
    session = load(reference_from(f"{file}:findings"))()
    log = record(found, "new", log=file.with_name("run.jsonl"), session=session).log
    given = log if command != "resume" else cut(log, file.with_name("cut.jsonl"), 3)
    into = ["--into", str(file.with_name("into.jsonl"))] if command.startswith("fork") else []
    name, *more = command.split()
    return [name, str(given), *more, *into, "--program", f"{file}:{program}"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_beside", [True, False])
def test_every_command_that_runs_a_program_again_takes_its_session(
    command: str, *, is_beside: bool, findings: Path, invoke: Invoke
) -> None:
    """In the module of the program; of two, the named one. Its items are not the run's."""
    others = "" if is_beside else _NAMED.replace("FINDINGS", "OTHERS")
    findings.write_text(SESSION + _NAMED + others)
    given = recorded(command, findings, "main")

    said = invoke(*given, *([] if is_beside else ["--tools", f"{findings}:FINDINGS"]))

    assert said.exit_code == 0, said.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_needs_a_session_and_got_none_says_so(
    command: str, findings: Path, invoke: Invoke
) -> None:
    said = invoke(*recorded(command, findings, "main"))

    assert said.exit_code == 2
    held = "of its own" if command == "resume" else "Finding"
    assert f"had a session ({held})" in said.stderr
    assert "--tools FILE.py:NAME" in said.stderr


@pytest.mark.parametrize("command", [each for each in COMMANDS if each != "resume"])
def test_a_run_whose_session_was_empty_needs_none(
    command: str, findings: Path, invoke: Invoke
) -> None:
    said = invoke(*recorded(command, findings, "idle"))

    assert said.exit_code == 0, said.stderr


def test_a_run_that_goes_on_needs_its_session_even_if_it_was_empty(
    findings: Path, invoke: Invoke
) -> None:
    """An empty one without its reducers would take what the program still does, and lose it."""
    given = recorded("resume", findings, "idle")

    assert invoke(*given).exit_code == 2
    named = findings.with_name("named.py")
    named.write_text(SESSION + _NAMED)
    assert invoke(*given, "--tools", f"{named}:FINDINGS").exit_code == 0


@pytest.mark.long
def test_several_logs_get_a_session_each_if_they_had_one(findings: Path, invoke: Invoke) -> None:
    """One that had none is replayed without."""
    recorded("replay", findings, "main")
    record(load(reference_from(f"{findings}:idle")), log=findings.with_name("none.jsonl"))
    programs = ["--program", f"{findings}:main", "--program", f"{findings}:idle"]
    findings.write_text(SESSION + _NAMED)

    said = invoke("replay", findings.parent, *programs)

    assert said.exit_code == 0, said.stdout
    assert "2 identical" in said.stdout


def test_what_is_no_session_is_refused(findings: Path) -> None:
    """And so is a name behind which there is nothing, whatever the run had."""
    findings.write_text(f"{SESSION}{_NAMED}{_NAMED.replace('FINDINGS', 'OTHERS')}")
    session = load(reference_from(f"{findings}:findings"))()
    program = f"{findings}:idle"
    log = record(load(reference_from(program)), log=findings.with_name("a.jsonl"), session=session)

    with pytest.raises(UsageError, match="2 sessions were found: name one with --tools"):
        load_session("", program, log.log)
    assert load_session(f"{findings}:OTHERS", program, log.log) is not None
    with pytest.raises(ToolRefused):
        load_session("os:sep", program, log.log)
    with pytest.raises(ToolRefused):
        load_session(f"{findings}:missing", program, log.log)


def test_a_model_is_said_alone_or_for_a_name() -> None:
    """A NAME may hold colons and a FILE an equals sign; what has no form is refused later."""
    said = models_by_name(["openai:a", "openai:b=openai:c:d", "sage=scripted:x=y"])

    assert said == {"": "openai:a", "openai:b": "openai:c:d", "sage": "scripted:x=y"}
    assert models_by_name(["scripted:a=b.yaml"]) == {"": "scripted:a=b.yaml"}
    assert models_by_name(["sage=gpt-4o"]) == {"": "sage=gpt-4o"}
    with pytest.raises(UsageError, match="twice"):
        models_by_name(["a=openai:x", "a=openai:y"])


@pytest.mark.parametrize("command", ["replay", "replay --live", "fork --at 2"])
def test_a_session_that_stands_in_loses_nothing(
    command: str, findings: Path, invoke: Invoke
) -> None:
    """§6.3: the program dispatches now what it did not then; an empty session knows no reducer."""
    *words, _ = recorded(command, findings, "idle")

    said = invoke(*words, f"{findings}:changed")

    assert said.exit_code in (1, 5)
    assert "SessionNeeded" in said.stdout
    assert "--tools FILE.py:NAME" in " ".join(said.stdout.split())


@pytest.mark.parametrize(
    "line",
    [
        "run AGENT.md --task x --model scripted:pipe",
        "run pipe --task x --model scripted:none",
        "run AGENT.md --task x --model openai:m --config pipe",
        "run AGENT.md --task x --model openai:m --config pipe.toml",
        "fork a.jsonl --set 0#1=@pipe",
        "sign a.jsonl --key pipe",
        "verify a.jsonl --trust pipe",
        "verify a.jsonl --heads pipe",
    ],
)
def test_a_pipe_is_refused_where_a_file_is_read(
    line: str, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening one without a writer would wait for ever."""
    monkeypatch.chdir(tmp_path)
    for name in ("pipe", "pipe.toml"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "AGENT.md").write_text("---\nname: a\ndescription: b\n---\nHi\n")
    record(lambda _run, _input: None, log=tmp_path / "a.jsonl")

    done = invoke(*line.split())

    assert done.exit_code == 2
    assert "a pipe or a device, not a file" in done.stderr
