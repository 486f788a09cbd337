"""A printed command has what the header of the log says is missing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import refold
from refold.cli.arguments.hints import Given, next_line
from refold.engine.log.reader import scan
from refold.engine.models.scripted import ScriptedModel
from refold.engine.runners.recording import record
from tests.support.forks import TOOLS, model, report
from tests.support.hints import EXECUTING, filled, runnable_hints, texts_of, unknown_options
from tests.support.loops import for_each

ROOT = Path(__file__).parents[3]
FOLDERS = [ROOT / name for name in ("engine", "replay", "tools", "src/refold")]

PROGRAM = "tests.support.forks:report"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log


def test_program_and_model_have_placeholders_where_no_log_names_them(log: Path) -> None:
    assert next_line("resume", log, Given()) == (
        f"refold resume {log} --program FILE.py:report --model SPEC"
    )
    assert next_line("show", log, Given(program=PROGRAM), "-n", "3", is_live=False) == (
        f"refold show {log} --program {PROGRAM} -n 3"
    )


def test_what_was_given_is_kept_and_only_the_rest_is_asked_for(log: Path) -> None:
    """Tools of the program's module need no option."""
    given = Given(program=PROGRAM, model=("openai:x",), root=Path("src"), ask=True)

    line = next_line("resume", log, given, "--by", "ada")

    assert line == (
        f"refold resume {log} --program {PROGRAM} --model openai:x --root src --ask --by ada"
    )


@for_each(
    "names, more",
    [
        (["read_file"], ""),
        (["read_file", "run_command"], " --agent AGENT.md"),
        (["run_command", "publish"], " --tools FILE.py:publish --agent AGENT.md"),
    ],
)
def test_what_the_built_in_agent_lacks_is_asked_for(
    names: list[str], more: str, tmp_path: Path
) -> None:
    """The configuration of its file, or tools of one's own; others are made again."""
    tools = [refold.tool(effect="reads", name=name)(lambda: "ok") for name in names]
    script = ScriptedModel(["ok"], name="openai:x")
    log = record("agent", {"task": "a"}, log=tmp_path / "a.jsonl", tools=tools, model=script).log

    line = next_line("resume", log, Given(model=("openai:x",)))

    assert line.replace(" --model openai:x", "") == f"refold resume {log}{more}"


_OWN = """
import refold

@refold.tool(effect="reads")
def publish(text: str) -> str:
    return text
"""
_AGENT = "---\nname: a\ndescription: b\ntools: [read_file, run_command, publish]\n---\nWork.\n"


def test_the_command_for_an_agent_s_file_finishes_a_run_that_broke_off(
    tmp_path: Path, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own tools, those that only its configuration sets up, and those that need a folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFOLD_CHECK", "0")
    texts = {"own.py": _OWN, "AGENT.md": _AGENT, "replies.yaml": "[ok]"}
    texts["refold.yaml"] = "tools: {run_command: {allow: [git]}}"
    for name, text in texts.items():
        Path(name).write_text(text)
    words = ["run", "AGENT.md", "--task", "a", "--model", "scripted:replies.yaml"]
    words += ["--tools", "own.py:publish", "--log", "a.jsonl"]
    assert invoke(*words).exit_code == 0
    log = Path("a.jsonl")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    line = next_line("resume", log, Given())

    (hint,) = runnable_hints(line, EXECUTING, lambda found: filled(found, words, tmp_path))
    assert (invoke(*hint).exit_code, scan(log).ended) == (0, True), line


def test_tools_that_are_elsewhere_are_named(tmp_path: Path) -> None:
    log = record(report, None, log=tmp_path / "b.jsonl", tools=TOOLS, model=model()).log
    other = tmp_path / "other.py"
    other.write_text("async def report(run, given):\n    return 1\n")

    line = next_line("fork", log, Given(program=f"{other}:report", model=("openai:x",)))

    assert "--tools FILE.py:get,FILE.py:put" in line


def test_commands_in_all_texts_of_the_code_have_the_options_that_they_are_written_with() -> None:
    """Also those that no test prints, and those with placeholders."""
    found = {place: wrong for place, text in texts_of(FOLDERS) if (wrong := unknown_options(text))}

    assert found == {}
