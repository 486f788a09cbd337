"""`refold replay`: shipped programs by their name, others as they are named; 0, 1 or 3."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from click.testing import Result

from refold.cli.arguments.loading import load_tools
from refold.cli.commands.check.replay import describe
from refold.engine.events.events import RunStarted
from refold.engine.events.limits import Limits
from refold.engine.log.line import NO_HASH, TRAILER, stored_hash, trailer
from refold.engine.log.pack import pack
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.difference.excuses import IGNORED_SHOWN, Ignored
from refold.replay.reexecute.report import ReplayReport
from tests.support.unfinished import cut

Invoke = Callable[..., Result]

PROGRAM_NAME = "adding.py"
PROGRAM = """
import refold.tools.contract.tool_types as contract

@contract.tool(effect="pure")
def add(a: int, b: int) -> tuple[int, ...]:
    return (a + b,)

TOOLS = [add]

async def main(run, given):
    print("chatter")
    (total,) = await run.tool("add", a=given, b=1)
    return total
"""


@pytest.fixture
def log(program: Path, tmp_path: Path) -> Path:
    tools = load_tools(f"{program}:TOOLS")
    return record(f"{program}:main", 2, log=tmp_path / "a.jsonl", tools=tools).log


def test_a_shipped_program_is_known_by_its_name(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("replay", survey_log)

    assert said.exit_code == 0
    assert "identical" in said.stdout
    assert "3 child runs; tool calls executed: 0" in said.stdout


def test_any_other_program_has_to_be_named(log: Path, invoke: Invoke) -> None:
    """Case 8: 2, with the option that names it."""
    said = invoke("replay", log)

    assert said.exit_code == 2
    assert "--program" in said.stderr


COMMANDS = ["replay", "replay --junit none.xml", "replay --live", "fork --at 0", "explore",
            "explore --results", "resume"]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_program_of_a_shipped_name_has_to_be_named(
    command: str, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Refold ships under that name would be run in its place."""

    async def crashes(run: Run, _input: object) -> object:
        return await run.tool("add", a=1)

    monkeypatch.chdir(tmp_path)
    log = record(crashes, log=tmp_path / "a.jsonl").log
    given = cut(log, tmp_path / "cut.jsonl", 1) if command == "resume" else log
    name, *more = command.split()

    said = invoke(name, given, *more)

    assert said.exit_code == 2
    assert "program" in said.stderr + said.stdout
    assert given.read_bytes() == log.read_bytes()[: given.stat().st_size]


def test_a_shipped_program_that_ends_its_process_ends_no_other(
    tmp_path: Path, invoke: Invoke
) -> None:
    """A log that says it was sealed all the same is re-executed in a process of its own."""
    log = record("never_ends", log=tmp_path / "a.jsonl", limits=Limits(timeout_seconds=0.01)).log
    first, *rest = read_entries(log)
    assert isinstance(first.event, RunStarted)
    started = attrs.evolve(first.event, program="crashes")
    with LogWriter.create(tmp_path / "b.jsonl", started) as writer:
        for entry in rest:
            writer.append(entry.event, entry.call, entry.cause)

    said = invoke("replay", tmp_path / "b.jsonl")

    assert said.exit_code == 1
    assert "environment" in said.stdout


def test_a_program_is_named_by_file_and_its_tools_too(
    log: Path, program: Path, invoke: Invoke
) -> None:
    said = invoke(
        "replay", log, "--program", f"{program}:main", "--tools", f"{program}:TOOLS", "--json"
    )

    document = json.loads(said.stdout)
    assert said.exit_code == 0
    assert document["identical"]
    assert document["tools_executed"] == 0


def test_tools_in_the_module_of_the_program_are_found(
    log: Path, program: Path, invoke: Invoke
) -> None:
    """With their types, and compared with the recorded ones; a function of that name is none."""
    same = invoke("replay", log, "--program", f"{program}:main")
    other = program.with_name("other.py")
    other.write_text(PROGRAM.replace("(a + b,)\n", "(a + b,)\nadd.description = 'Otherwise.'\n"))
    changed = invoke("replay", log, "--program", f"{other}:main")
    other = program.with_name("plain.py")
    other.write_text(PROGRAM.replace("@contract.tool", "TOOLS = []\n#").replace("[add]", "[]"))
    plain = invoke("replay", log, "--program", f"{other}:main")

    assert (same.exit_code, same.stdout) == (
        0,
        "identical: 4 entries, 0 child runs; tool calls executed: 0\n",
    )
    assert "what the tool add does: its definition has changed" in changed.stdout
    assert (plain.exit_code, "pass tools=[add]" in plain.stderr) == (2, True)


def test_what_the_program_prints_is_no_part_of_the_document(
    log: Path, program: Path, invoke: Invoke
) -> None:
    """Case 104: a program may print and log in a replay; standard output is the answer's alone."""
    words = ("replay", log, "--program", f"{program}:main", "--tools", f"{program}:TOOLS")

    said = invoke(*words)

    assert "chatter" not in said.stdout
    assert "chatter" in said.stderr


def test_a_changed_program_diverges_and_says_where(
    log: Path, program: Path, invoke: Invoke
) -> None:
    """Case 5: what it asks for now, and where."""
    now = program.with_name("now.py")
    now.write_text(PROGRAM.replace("b=1", "b=2"))

    said = invoke("replay", log, "--program", f"{now}:main", "--tools", f"{now}:TOOLS")

    assert said.exit_code == 1
    assert "1 run diverged" in said.stdout
    assert "args_changed" in said.stdout


def test_a_damaged_log_is_three(survey_log: Path, tmp_path: Path, invoke: Invoke) -> None:
    log = tmp_path / "survey.jsonl"
    log.write_bytes(survey_log.read_bytes().replace(b'"list_files"', b'"list_filez"', 3))

    said = invoke("replay", log)

    assert said.exit_code == 3
    assert "Traceback" not in said.output


def test_a_childs_damaged_log_is_not_a_run_that_diverged(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made.py").write_text(
        "import refold\n\n"
        "async def child(run, n): return n\n"
        "async def made(run, n):\n"
        "    await run.delegate(refold.Delegation(program=child, input=n))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    log = record(importlib.import_module("made").made, 7, log=tmp_path / "made.jsonl").log
    child = tmp_path / "made.1.jsonl"
    child.write_bytes(child.read_bytes().replace(b'"output":7', b'"output":8'))

    said = invoke("replay", log, "--program", "made:made")

    assert said.exit_code == 3
    assert said.stdout.startswith("1 log damaged\n")
    assert "1 run diverged" not in said.stdout


def test_a_packed_log_replays(survey_log: Path, tmp_path: Path, invoke: Invoke) -> None:
    assert invoke("replay", pack(survey_log, tmp_path / "s.refold")).exit_code == 0


@pytest.mark.parametrize(
    "name", ["no.such.module:x", "json:nothing", "nonsense", "missing.py:main", "os:sep"]
)
def test_a_program_that_cannot_be_found_is_usage(
    name: str, survey_log: Path, invoke: Invoke
) -> None:
    said = invoke("replay", survey_log, "--program", name)

    assert said.exit_code == 2
    assert "Traceback" not in said.output


def test_what_a_rule_passed_over_is_counted_and_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A few of it; all with `--all`."""
    each = tuple(
        Ignored(
            log="a.jsonl",
            seq=seq,
            what="tool:look",
            call="0#1",
            pointer=f"/result/{seq}",
            recorded=1,
            now=2,
            rule="/result/*",
        )
        for seq in range(IGNORED_SHOWN + 2)
    )
    report = ReplayReport(
        log=Path("a.jsonl"), entries=1, children=0, ignored=each, ignored_count=len(each)
    )

    describe(report)
    few = capsys.readouterr().out
    describe(report, is_all=True)
    everything = capsys.readouterr().out

    assert f"ignored: {len(each)} values that changed\n" in few
    assert few.endswith("  … and 2 more: to list them, add --all\n")
    assert few.count("/result/") < everything.count("/result/")
    assert "more" not in everything


async def noted(run: Run, _input: None) -> None:
    run.annotate("a")


def test_the_tripwire_names_where_a_program_reads_the_world(
    log: Path, program: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """§14.9: in words and in the document; and of one that reads nothing, that it does not."""
    reads = tmp_path / "reads.py"
    reads.write_text("import time\n\nasync def main(run, given):\n    time.time()\n")
    other = record(f"{reads}:main", 2, log=tmp_path / "b.jsonl").log
    words = ("replay", other, "--tripwire", "--program", f"{reads}:main")
    tools = ("--program", f"{program}:main", "--tools", f"{program}:TOOLS")

    said = invoke(*words)
    (finding,) = json.loads(invoke(*words, "--json").stdout)["findings"]
    clear = invoke("replay", log, "--tripwire", *tools)
    broken = invoke("replay", cut(log, tmp_path / "cut.jsonl", 2), "--tripwire", *tools)

    assert [each.exit_code for each in (said, clear, broken)] == [0, 0, 0], broken.output
    assert "1 place where the program bypassed run" in said.stdout
    assert "reads.py:4" in said.stdout
    assert finding["line"] == 4
    assert "the program did not bypass run" in clear.stdout
    assert "which are not watched" in broken.stdout
    assert "which are not watched" not in said.stdout + clear.stdout
    assert json.loads(invoke("replay", log, *tools, "--json").stdout)["findings"] is None


def test_a_command_runs_again_for_one_log(log: Path, invoke: Invoke) -> None:
    said = invoke("replay", log, log, "--", "true")

    assert said.exit_code == 2
    assert "with -- COMMAND, replay one log at a time" in said.stderr


def test_a_volatile_path_that_matches_nothing_is_noted(
    survey_log: Path, invoke: Callable[..., Result]
) -> None:
    done = invoke("replay", survey_log, "--volatile", "tool:nothing/arguments/a")

    assert done.exit_code == 0
    assert "note: the volatile path 'tool:nothing/arguments/a' matches nothing" in done.stdout


def test_what_is_identical_and_was_not_compared_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    describe(ReplayReport(log=Path("a.jsonl"), entries=1, children=0, timers=2))

    assert "  not compared: the length of 2 timers (" in capsys.readouterr().out


def test_what_is_identical_and_does_not_verify_is_three(
    log: Path, program: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """§14.9: times are nothing that a program asks for; that they are none, `verify` says."""
    words = ("--program", f"{program}:main", "--tools", f"{program}:TOOLS")
    previous, lines = NO_HASH, list[bytes]()
    for line in log.read_bytes().splitlines(keepends=True):
        body = (
            line[:-TRAILER].replace(b'"mono_us":', b'"mono_us":"1","m":')
            if lines
            else line[:-TRAILER]
        )
        lines.append(body + trailer(previous, body))
        previous = stored_hash(lines[-1]) or b""
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines))

    said = invoke("replay", tmp_path / "b.jsonl", *words)
    torn = log.with_name("torn.jsonl")
    torn.write_bytes(log.read_bytes() + b"{")

    assert said.exit_code == 3
    assert "b.jsonl:2" in said.stderr
    assert "identical" not in said.stdout
    assert invoke("replay", torn, *words).exit_code == 0


@pytest.mark.parametrize("option", ["--limit=timeout=1", "--tripwire"])
def test_what_is_of_one_log_here_or_of_many_elsewhere_is_not_both(
    option: str, log: Path, invoke: Invoke
) -> None:
    more = ["--source", "tools=live"] if "=" in option else ["--junit", "a.xml"]

    said = invoke("replay", log, option, *more)

    assert said.exit_code == 2
    assert "without --limit" in said.stderr
