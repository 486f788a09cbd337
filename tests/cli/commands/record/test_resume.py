"""`refold resume` goes on with a run; what people have to say is listed, to paste (§14.15)."""

import json
import os
import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.engine.log.pack import pack
from refold.engine.models import ScriptedModel, model_from
from refold.engine.ports.ports import Delegation, Model
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.programs.survey import survey_tools
from refold.proxy.desks.caps import Caps
from refold.proxy.sessions import record_command
from refold.tools.contract.tool_types import tool
from tests.proxy.test_sessions import program
from tests.support import resumable
from tests.support.fixtures import LOGS
from tests.support.loops import some
from tests.support.resumable import TOOLS, executed
from tests.support.schemas import validate
from tests.support.unfinished import cut, lines_of, rows_of
from tests.support.upstream import Upstream

Invoke = Callable[..., Result]

HERE = resumable.__name__
WORDS = ["--tools", f"{HERE}:TOOLS"]


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:
    executed.clear()


def _program(name: str) -> list[str]:
    return ["--program", f"{HERE}:{name}", *WORDS]


@pytest.fixture
def broken_off(tmp_path: Path) -> Path:
    """The log of a run that broke off while it paid."""
    whole = record(resumable.sequential, 1, log=tmp_path / "whole.jsonl", tools=TOOLS, seed=1)
    at = next(at for at, row in enumerate(rows_of(whole.log)) if row["data"].get("tool") == "pay")
    return cut(whole.log, tmp_path / "a.jsonl", at + 1)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """The log of a run that waits for two answers."""
    return record(resumable.asking, 1, log=tmp_path / "q.jsonl", tools=TOOLS, seed=1).log


def test_a_run_that_broke_off_goes_on(broken_off: Path, invoke: Invoke) -> None:
    """0: completed; the output is printed."""
    said = invoke("resume", broken_off, *_program("sequential"), "--settle", "0#4=retry")

    assert said.exit_code == 0, said.output
    assert said.stdout == '[0,"refused",7]\n'
    assert str(broken_off) in said.stderr
    assert invoke("verify", broken_off).exit_code == 0


def test_tools_may_be_named_one_by_one(broken_off: Path, invoke: Invoke) -> None:
    """As `refold replay` takes them: the last `--tools` does not hide the others."""
    each = [word for tool in TOOLS for word in ("--tools", f"{HERE}:{tool.name}")]

    said = invoke(
        "resume", broken_off, "--program", f"{HERE}:sequential", *each, "--settle", "0#4=retry"
    )

    assert said.exit_code == 0, said.output


def test_what_is_in_doubt_is_listed_with_options_that_work(
    broken_off: Path, invoke: Invoke
) -> None:
    """2: people have to decide; nothing was done."""
    before = broken_off.read_bytes()

    said = invoke("resume", broken_off, *_program("sequential"))

    assert said.exit_code == 2
    assert broken_off.read_bytes() == before
    options = re.findall(r"--settle '?[^' ]+'?", said.stderr)
    assert options == [f"--settle '0#4={each}'" for each in ("retry", "fail", "result:JSON")]
    command = next(line for line in said.stderr.splitlines() if line.startswith("refold resume"))
    pasted = [*shlex.split(command.removesuffix("…"))[1:], *shlex.split(options[0])]
    assert invoke(*pasted).exit_code == 0


def test_it_may_count_as_failed(broken_off: Path, invoke: Invoke) -> None:
    """5: the run goes on with the failure, and does not complete."""
    said = invoke("resume", broken_off, *_program("sequential"), "--settle", "0#4=fail")

    assert said.exit_code == 5
    assert executed.count(("pay", 7)) == 1  # when it was recorded


def test_a_result_comes_from_a_file_too(broken_off: Path, tmp_path: Path, invoke: Invoke) -> None:
    """`KEY=@FILE`."""
    (tmp_path / "r.json").write_text("8\n")

    said = invoke(
        "resume",
        broken_off,
        *_program("sequential"),
        "--settle",
        f"0#4=result:@{tmp_path / 'r.json'}",
    )

    assert said.stdout == '[0,"refused",8]\n'


def test_list_executes_nothing_and_needs_no_program(
    broken_off: Path, asked: Path, invoke: Invoke
) -> None:
    """0: a list, or one document of it."""
    doubts = invoke("resume", broken_off, "--list")
    questions = invoke("resume", asked, "--list")
    document = json.loads(invoke("resume", asked, "--list", "--json").stdout)

    named = invoke("resume", asked, "--list", *_program("asking"))

    assert (doubts.exit_code, questions.exit_code, named.exit_code) == (0, 0, 0)
    assert f"refold resume {asked} --program {HERE}:asking --tools {HERE}:TOOLS" in named.stderr
    assert "pay(n=7)" in doubts.stdout
    assert "A?" in questions.stdout
    validate(document, "open-ends")
    assert [each["key"] for each in document["questions"]] == ["0/1#1", "0/2#1"]


def test_a_suspended_run_is_five_and_says_how_to_answer(asked: Path, invoke: Invoke) -> None:
    """5: question, key, and the options; each answer goes to its question."""
    waits = invoke("resume", asked, *_program("asking"))
    once = invoke("resume", asked, *_program("asking"), "--answer", "0/1#1=5", "--by", "ada")
    twice = invoke("resume", asked, *_program("asking"), "--answer", "0/2#1=some text")
    last = invoke("resume", asked, *_program("asking"), "--answer", "0#2=null", "--json")

    assert [said.exit_code for said in (waits, once, twice, last)] == [5, 5, 5, 0]
    assert "--answer '0/1#1=JSON'" in waits.stdout
    assert "--answer '0/2#1=TEXT'" in waits.stdout
    document = json.loads(last.stdout)
    validate(document, "run")
    assert document["output"] == [5, "some text", 6, 2010, None]
    assert '"by":"ada"' in asked.read_text()


@pytest.mark.parametrize(
    "options",
    [
        ["--answer", "0/1#1=five"],
        ["--answer", "0#9=1"],
        ["--answer", "0/1#1"],
        ["--answer", "0/1#1=1", "--answer", "0/1#1=2"],
        ["--answer", "0/1#1=@missing.json"],
        ["--settle", "0#9=retry"],
        ["--settle", "0#4=maybe"],
        ["--settle", "0/1#1=retry"],
    ],
)
def test_what_fits_nothing_is_usage(options: list[str], asked: Path, invoke: Invoke) -> None:
    """2: and the log is as it was."""
    before = asked.read_bytes()

    said = invoke("resume", asked, *_program("asking"), *options)

    assert said.exit_code == 2
    assert "fault of Refold" not in said.stderr
    assert asked.read_bytes() == before


def test_a_program_has_to_be_named(asked: Path, invoke: Invoke) -> None:
    """2: a log never says what code to import."""
    said = invoke("resume", asked, *WORDS)

    assert said.exit_code == 2
    line = f"refold resume {asked} --program FILE.py:asking --tools {HERE}:TOOLS"
    assert said.stderr.splitlines()[-1] == line


def test_its_tools_are_found_in_the_module_of_the_program(asked: Path, invoke: Invoke) -> None:
    """As of a fork; it waits for an answer still."""
    assert invoke("resume", asked, "--program", f"{HERE}:asking").exit_code == 5


def test_another_program_is_a_divergence(asked: Path, invoke: Invoke) -> None:
    """1: as for replay; the log is as it was."""
    before = asked.read_bytes()

    said = invoke("resume", asked, *_program("sequential"), "--answer", "0/1#1=5")

    lines = said.stderr.splitlines()
    assert said.exit_code == 1
    assert lines[0].startswith("refold: ")
    assert any(line.startswith("  likely ") for line in lines), lines
    assert lines[-1].endswith("guard the change with run.patched")
    assert asked.read_bytes() == before


def test_a_log_that_ended_or_is_damaged_is_three(
    broken_off: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """3: nothing may follow; nothing is repaired."""
    broken_off.write_bytes(broken_off.read_bytes().replace(b"step", b"stop", 1))

    assert invoke("resume", tmp_path / "whole.jsonl", *_program("sequential")).exit_code == 3
    assert invoke("resume", tmp_path / "whole.jsonl", "--list").exit_code == 3
    assert invoke("resume", tmp_path / "whole.jsonl").exit_code == 3
    assert invoke("resume", broken_off, *_program("sequential")).exit_code == 3
    assert invoke("resume", tmp_path / "none.jsonl", *_program("sequential")).exit_code == 2


def test_a_packed_log_is_only_read(asked: Path, tmp_path: Path, invoke: Invoke) -> None:
    """2."""
    pack(asked, tmp_path / "q.refold")

    packed = invoke("resume", tmp_path / "q.refold", *_program("asking"))
    folder = invoke("resume", tmp_path, *_program("asking"))

    assert (packed.exit_code, folder.exit_code) == (2, 2)
    assert "is packed and cannot be resumed: unzip it first" in packed.stderr
    assert f"{tmp_path} is a folder with 2 runs" in folder.stderr


def test_ask_asks_at_the_terminal(asked: Path, invoke: Invoke) -> None:
    """An answer that does not fit is asked for again; an empty line leaves the question open."""
    some = invoke("resume", asked, *_program("asking"), "--ask", stdin="five\n5\n\n")
    rest = invoke("resume", asked, *_program("asking"), "--ask", stdin="b\nc\n")

    assert (some.exit_code, rest.exit_code) == (5, 0), rest.output
    assert rest.stdout.endswith("2010,c]\n") or '"c"]' in rest.stdout


def test_show_says_what_a_run_waits_for(asked: Path, broken_off: Path, invoke: Invoke) -> None:
    """Of a log that has no end, below the tree."""
    suspended = invoke("show", asked)
    broken = invoke("show", broken_off)

    assert "--answer '0/1#1=JSON'" in suspended.stdout
    assert "--settle '0#4=retry'" in broken.stdout
    assert f"refold resume {asked} --program FILE.py:asking" in suspended.stderr


# --- an agent ------------------------------------------------------------------------------------

AGENT = """---
name: writer
description: Writes.
tools: [list_files, write_file]
---
You write.
"""
REPLIES = """
writer:
  - {name: list_files, arguments: {}}
  - "Done."
"""


@pytest.fixture
def agent_log(tmp_path: Path, invoke: Invoke) -> Path:
    """The log of an agent's run that broke off before its second request."""
    (tmp_path / "AGENT.md").write_text(AGENT)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    words = ["--task", "look", "--model", f"scripted:{tmp_path / 'replies.yaml'}"]
    whole = tmp_path / "w.jsonl"
    said = invoke("run", tmp_path / "AGENT.md", *words, "--root", tmp_path, "--log", whole)
    assert said.exit_code == 0, said.stderr
    at = next(at for at, row in enumerate(rows_of(whole)) if row["kind"] == "tool.returned")
    return cut(whole, tmp_path / "r.jsonl", at + 1)


@pytest.mark.parametrize("has_file", [True, False])
def test_an_agent_goes_on_with_its_file_or_without(
    has_file: bool,  # noqa: FBT001 - a parameter of the test
    agent_log: Path,
    tmp_path: Path,
    invoke: Invoke,
) -> None:
    """Its tools are those of the file, or, made of the folder alone, those in the log."""
    words = ["--model", f"scripted:{tmp_path / 'replies.yaml'}", "--root", tmp_path]
    words += ["--agent", tmp_path / "AGENT.md"] if has_file else []

    said = invoke("resume", agent_log, *words)

    assert (said.exit_code, said.stdout) == (0, "Done.\n"), said.stderr
    assert invoke("replay", agent_log).exit_code == 0


def test_a_scripted_model_has_to_be_named_again(
    agent_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """2: where its script lies is not in the log."""
    before = lines_of(agent_log)

    said = invoke("resume", agent_log, "--root", tmp_path)

    assert said.exit_code == 2
    assert "the model of this run was 'scripted'" in said.stderr
    assert ": pass a model with --model SPEC" in said.stderr
    assert lines_of(agent_log) == before


async def judged(run: Run, _: None) -> list[str]:
    """Ask two models."""
    ask = [{"role": "user", "content": "?"}]
    return [(await run.model(ask, model=name)).message["content"] for name in ("", "judge")]


@pytest.mark.parametrize("given", [[], ["judge=openai:gpt-5-judge"]])
def test_a_script_with_the_name_of_a_provider_has_to_be_named_again(
    given: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    """No provider is asked, though there is a key; one script replaces all that were scripts."""
    models: dict[str, Model] = {
        "": ScriptedModel(["one"], "openai:gpt-5-mini"),
        "judge": ScriptedModel(["yes"], "openai:gpt-5-judge"),
    }
    whole = record(judged, log=tmp_path / "whole.jsonl", models=models)
    log = cut(whole.log, tmp_path / "a.jsonl", 2)
    (tmp_path / "model.py").write_text(
        "from refold.engine.models import ScriptedModel\nMODEL = ScriptedModel(['two'])\n"
    )
    words = ["resume", log, "--program", "tests.cli.commands.record.test_resume:judged"]
    words += [word for spec in given for word in ("--model", spec)]
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        said = invoke(*words)
        asked = upstream.received
    shown = invoke("show", log)

    assert (said.exit_code, asked) == (2, []), said.output
    assert "was a script in the program, with the name 'openai:gpt-5-mini'" in said.stderr
    assert "--model SPEC" in shown.output
    line = said.stderr.splitlines()[-1]
    assert all(f"--model {spec} " in line for spec in given)
    model = f"{tmp_path}/model.py:MODEL"
    again = shlex.split(line.replace("SPEC", model).replace("openai:gpt-5-judge", model))[1:]
    assert invoke(*again).stdout == '["two","two"]\n'


def test_an_agent_asks_before_a_tool_that_the_configuration_names(
    tmp_path: Path, invoke: Invoke
) -> None:
    """§10.18, §9.9: it is suspended, and says the command; `--ask` asks at the terminal."""
    (tmp_path / "AGENT.md").write_text(AGENT)
    (tmp_path / "refold.yaml").write_text("tools: {approval: [write_file]}\n")
    arguments = "{path: x.txt, content: hello}"
    (tmp_path / "replies.yaml").write_text(
        f"writer:\n  - {{name: write_file, arguments: {arguments}}}\n  - Done.\n"
    )
    words = ["--task", "write", "--model", f"scripted:{tmp_path / 'replies.yaml'}"]
    words += ["--root", str(tmp_path), "--config", str(tmp_path / "refold.yaml")]
    agent, log = tmp_path / "AGENT.md", tmp_path / "m.jsonl"

    waits = invoke("run", agent, *words, "--log", log)
    denied = invoke("run", agent, *words, "--log", tmp_path / "n.jsonl", "--ask", stdin="no\n")
    is_denied = not (tmp_path / "x.txt").exists()
    command = next(line for line in waits.stderr.splitlines() if line.startswith("refold resume"))
    done = invoke(*shlex.split(command)[1:], "--answer", "0/1#1=true")

    assert (waits.exit_code, denied.exit_code, done.exit_code) == (5, 0, 0), done.stderr
    assert "May I call write_file" in waits.stdout
    assert is_denied
    assert (tmp_path / "x.txt").read_text() == "hello"
    assert invoke("replay", log).exit_code == 0
    assert invoke("replay", tmp_path / "n.jsonl").exit_code == 0


def test_a_run_that_waits_for_nobody_is_said_to_go_on(
    broken_off: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """No question, and no effect that changes anything."""
    (tmp_path / "begun").mkdir()

    said = invoke("resume", cut(broken_off, tmp_path / "begun" / "a.jsonl", 1), "--list")

    assert said.exit_code == 0, said.output
    assert "the run has no end and no open questions: it can be resumed" in said.stdout


def test_a_model_that_the_run_did_not_have_is_named_with_those_that_it_had(
    broken_off: Path, invoke: Invoke
) -> None:
    """2: before anything is done."""
    before = broken_off.read_bytes()

    said = invoke("resume", broken_off, *_program("sequential"), "--model", "fast=openai:x")

    assert said.exit_code == 2
    assert "--model fast=…: the run does not have such a model; its models are none" in said.stderr
    assert broken_off.read_bytes() == before


@pytest.mark.long
@pytest.mark.parametrize("is_resumed", [False, True])
def test_ask_asks_what_a_child_in_another_process_wants_to_know(
    is_resumed: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    invoke: Invoke,
) -> None:
    """§9.9: it is suspended there, and the run goes on with the answer at once; resumed, too."""
    (tmp_path / "AGENT.md").write_text(AGENT.replace("write_file", "subagent, write_file"))
    (tmp_path / "refold.yaml").write_text("tools: {approval: [write_file]}\n")
    (tmp_path / "replies.yaml").write_text(
        "writer:\n  - {name: subagent, arguments: {task: dig}}\n  - Done.\n"
        "subagent:\n  - {name: write_file, arguments: {path: x.txt, content: hello}}\n  - Dug.\n"
    )
    words = ["--task", "write", "--model", f"scripted:{tmp_path / 'replies.yaml'}"]
    words += ["--root", str(tmp_path), "--config", str(tmp_path / "refold.yaml")]
    log = tmp_path / "m.jsonl"

    words += ["--runner", "subprocess", "--log", str(log)]
    if is_resumed:
        waits = invoke("run", tmp_path / "AGENT.md", *words)
        lines = waits.stderr.splitlines()
        again = next(line for line in lines if line.startswith("refold resume"))
        more = shlex.split(again)[1:]
        done = invoke(*more, "--ask", stdin="yes\n")
    else:
        done = invoke("run", tmp_path / "AGENT.md", *words, "--ask", stdin="yes\n")

    assert (done.exit_code, done.stdout) == (0, "Done.\n"), done.stderr
    assert done.stderr.count("May I call write_file") == 1
    assert (tmp_path / "x.txt").read_text() == "hello"
    assert invoke("replay", log).exit_code == 0


def test_a_run_that_has_ended_is_not_resumed_whatever_follows_its_end(
    tmp_path: Path, invoke: Invoke
) -> None:
    """3: it says so, and not that the program does something else."""
    whole = record(resumable.sequential, 1, log=tmp_path / "whole.jsonl", tools=TOOLS, seed=1)
    with whole.log.open("ab") as file:
        file.write(b" ")
    before = whole.log.read_bytes()

    for words in (_program("sequential"), ["--list"], []):
        said = invoke("resume", whole.log, *words)

        assert said.exit_code == 3
        assert "is complete, so nothing can be appended" in said.stderr
    assert whole.log.read_bytes() == before


def test_what_is_open_in_a_recorded_command_is_listed(tmp_path: Path, invoke: Invoke) -> None:
    """Only to continue it, its command has to be given."""
    log = cut(LOGS / "watched.jsonl", tmp_path / "a.jsonl", 9)

    listed = invoke("resume", log, "--list", "--json")
    continued = invoke("resume", log)

    assert (listed.exit_code, continued.exit_code) == (0, 2)
    validate(json.loads(listed.stdout), "open-ends")
    assert "is the log of a watched command" in continued.stderr


@tool(effect="reads")
def interrupted(n: int) -> int:
    """Press Ctrl-C once."""
    if n == 2 and not executed:
        executed.append(("interrupted", {}))
        os.kill(os.getpid(), signal.SIGINT)
    return n


async def counts(run: Run, _: None) -> list[int]:
    """Call a tool four times, and once in a child."""
    await run.delegate(Delegation(program=counted))
    return [await run.tool("interrupted", n=n) for n in range(4)]


async def counted(run: Run, _: None) -> int:
    """Call it once."""
    return int(await run.tool("interrupted", n=0))


@pytest.mark.parametrize("words", [[], ["--list"], ["--program", "SAID", "--tools", "TOOL"]])
def test_an_interrupted_run_is_refused_with_the_fork_that_continues_it(
    words: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    """The whole command, which runs what had no answer."""
    log = tmp_path / "a.jsonl"
    with pytest.raises(KeyboardInterrupt):
        record(counts, None, log=log, tools=[interrupted])
    here = "tests.cli.commands.record.test_resume"
    given = {"SAID": f"{here}:counts", "TOOL": f"{here}:interrupted"}

    said = invoke("resume", log, *(given.get(word, word) for word in words))
    line = said.stderr.splitlines()[-1].replace("FILE.py", here)
    done = invoke(*shlex.split(line)[1:], "--into", tmp_path / "b.jsonl")

    assert said.exit_code == 3
    assert line.startswith(f"refold fork {log} ")
    assert done.exit_code == 0, done.output
    assert rows_of(tmp_path / "b.jsonl")[-1]["data"]["output"] == [0, 1, 2, 3]


async def _publishes(run: Run, text: str) -> str:
    reply = await run.model([{"role": "user", "content": text}])
    is_allowed = await run.ask("publish?", {"type": "boolean"})
    return f"{reply.message['content']} {is_allowed}"


MODEL = ScriptedModel(["b"])


@pytest.mark.parametrize("spec", [f"scripted:{__file__}:MODEL", f"{__file__}:MODEL"])
def test_a_scripted_model_is_named_by_its_file(spec: str, tmp_path: Path, invoke: Invoke) -> None:
    """The hint has the option, unknown keys are refused first, and `yes` is an answer."""
    log = record(_publishes, "a", log=tmp_path / "a.jsonl", model=MODEL).log
    hint = invoke("resume", log, "--list").stderr.splitlines()[-1]
    assert hint.endswith("--program FILE.py:_publishes --model SPEC")
    assert invoke("resume", log).stderr.splitlines()[-1] == hint
    before = log.read_bytes()
    words = shlex.split(hint.replace("FILE.py", __file__))[1:-1]

    wrong = invoke(*words[:-1], "--answer", "0#9=true")
    nothing = invoke(*words, f"{__file__}:_publishes", "--answer", "0#2=yes")

    assert (wrong.exit_code, nothing.exit_code) == (2, 2)
    assert "'0#9' is not an open question; open: 0#2" in wrong.stderr
    assert "expected a model, found <function _publishes" in nothing.stderr
    assert log.read_bytes() == before
    done = invoke(*words, spec, "--answer", "0#2=yes")
    assert (done.exit_code, done.stdout) == (0, "b True\n"), done.stderr


async def _asks(run: Run, text: str) -> str:
    return str((await run.model([{"role": "user", "content": text}])).message["content"])


def test_a_run_that_has_ended_asks_for_no_model(tmp_path: Path, invoke: Invoke) -> None:
    whole = record(_asks, "a", log=tmp_path / "a.jsonl", model=ScriptedModel(["b"]))

    said = invoke("resume", whole.log, "--program", "tests.cli.commands.record.test_resume:_asks")

    assert said.exit_code == 3
    assert "nothing can be appended" in said.stderr
    assert "--model" not in said.stderr


def test_a_shipped_program_goes_on_with_its_own_tools(
    sources: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """It needs no name, in the line to copy neither; its folder is said, as for `refold run`."""
    part = {"name": "beta", "packages": ["beta"], "modules": [], "skip": ["test"]}
    whole = record("survey_package", part, log=tmp_path / "w.jsonl", tools=survey_tools(sources))
    log = cut(whole.log, tmp_path / "a.jsonl", 3)

    listed = invoke("resume", log, "--list")
    said = invoke("resume", log, "--root", sources)

    assert said.exit_code == 0, said.output
    assert f"refold resume {log}" in listed.output


def test_a_model_that_a_client_reaches_needs_no_name(
    broken_off: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """It is made of what the log says, or of the pool of its name; one of scripts is not."""
    models: dict[str, Model] = {"": model_from("openai:m"), "pool": ScriptedModel([])}
    models["other"] = model_from("anthropic:m")
    whole = record(resumable.sequential, 1, log=tmp_path / "m.jsonl", tools=TOOLS, models=models)
    log = cut(whole.log, tmp_path / "b.jsonl", broken_off.read_bytes().count(b"\n"))
    (tmp_path / "refold.yaml").write_text("llm: {pools: {pool: {model: openai:m}}}\n")
    words = [*_program("sequential"), "--settle", "0#4=retry"]

    bare = invoke("resume", log, *words)
    config = invoke("resume", log, *words, "--config", tmp_path / "refold.yaml")

    assert (bare.exit_code, config.exit_code) == (2, 0), bare.output + config.output
    assert "the model 'pool' of this run was 'scripted'" in bare.stderr


def test_a_list_of_a_damaged_log_is_three(broken_off: Path, invoke: Invoke) -> None:
    broken_off.write_bytes(broken_off.read_bytes().replace(b"step", b"stop", 1))

    said = invoke("resume", broken_off, "--list")

    assert said.exit_code == 3
    assert f"{broken_off}:" in said.stderr


def test_an_agent_whose_tools_are_in_no_folder_needs_its_file(
    agent_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """2: they may be called from here on."""
    (tmp_path / "AGENT.md").write_text(AGENT.replace("list_files,", "pay, list_files,"))
    words = ["--model", f"scripted:{tmp_path / 'replies.yaml'}", "--root", tmp_path]
    whole = tmp_path / "own.jsonl"
    run = ["run", tmp_path / "AGENT.md", "--task", "look", "--log", whole, *words, *WORDS]
    assert invoke(*run).exit_code == 0
    log = cut(whole, tmp_path / "cut.jsonl", agent_log.read_bytes().count(b"\n"))

    said = invoke("resume", log, *words)

    assert said.exit_code == 2
    assert "or pass --agent AGENT.md, as for `refold run`" in said.stderr


# --- watched commands --------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """The log of a command that a cap ended after one of two requests, and the command."""
    monkeypatch.chdir(tmp_path)
    command = program(tmp_path, "print(text_of(ask('Hello')), text_of(ask('Hello again')))")
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        record_command(command, log=tmp_path / "run.jsonl", caps=Caps(max_requests=1))
    return tmp_path / "run.jsonl", command


@pytest.mark.long
def test_a_watched_command_is_resumed_from_the_command_line(
    watched: tuple[Path, list[str]], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says before what it will ask; the new log has nothing left, which is code 3."""
    log, command = watched
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        done = invoke("resume", log, "--into", "again.jsonl", "--json", "--", *command)
        capped = invoke(
            "resume", log, "--into", "c.jsonl", "--limit", "max_requests=1", "--", *command
        )
        again = invoke("resume", "again.jsonl", "--", *command)

    assert (done.exit_code, capped.exit_code, again.exit_code) == (0, 0, 3), done.stderr
    assert done.stderr.startswith("1 answer from the log, 1 to request before it goes on\n")
    document = json.loads(done.stdout)
    validate(document, "resume-command")
    assert (document["served"], document["live"], document["status"]) == (1, 1, "completed")
    assert "nothing to resume: the command succeeded" in again.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    some(
        1,
        [
            ([], "`refold resume` with -- COMMAND"),
            (["--limit", "max_requests=2"], "--limit needs -- COMMAND"),
            (["--list", "--", "true"], "--list has no effect with -- COMMAND"),
            (["--"], "expected a command after --"),
        ],
    ),
)
def test_what_makes_no_sense_with_a_watched_command_is_refused(
    watched: tuple[Path, list[str]], invoke: Invoke, words: list[str], told: str
) -> None:
    done = invoke("resume", watched[0], *words)

    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())


def test_another_command_is_told_apart_and_asks_nothing(
    watched: tuple[Path, list[str]], invoke: Invoke, tmp_path: Path
) -> None:
    """The record of the first request goes unused, and is said to."""
    other = program(tmp_path, "print(open('nowhere'))")

    done = invoke("resume", watched[0], "--into", "again.jsonl", "--", *other)

    assert done.exit_code == 5
    assert "0 answers from the log, 0 requested" in done.stderr
    assert "1 recorded answer not requested again" in done.stderr


def test_one_agent_is_asked_again_and_the_rest_is_kept(
    watched: tuple[Path, list[str]], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fork --again`: errors are kept as recorded, too; a name of nobody lists who is there."""
    log, command = watched
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        words = ["fork", log, "--into", "again.jsonl", "--again", "0/1", "--json", "--", *command]
        done = invoke(*words)
        none = invoke("fork", log, "--again", "nobody", "--", *command)
        both = invoke("fork", log, "--again", "0/1", "--at", "3", "--", *command)
        asked = len(upstream.received)

    document = json.loads(done.stdout)
    validate(document, "resume-command")
    assert (done.exit_code, document["served"], document["live"], asked) == (5, 1, 1, 1)
    assert (none.exit_code, both.exit_code) == (2, 2)
    assert "no agent has this name: 0/1 (conversation 1), 0/2" in none.stderr
    assert "--again cannot be used with" in both.stderr


@pytest.mark.long
def test_files_of_the_copy_are_named_and_applied(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only if that is asked for, and not into a folder that changed since."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    command = program(tmp_path, "ask('Hello').read(); open('a.txt', 'w').write('new')")
    with Upstream() as upstream:
        upstream.lead(monkeypatch)
        dies = program(tmp_path, "ask('Hello').read(); os.kill(os.getpid(), 9)")
        record_command(dies, log=tmp_path / "run.jsonl")
        program(tmp_path, "ask('Hello').read(); open('a.txt', 'w').write('new')")
    log = tmp_path / "run.jsonl"

    named = invoke("resume", log, "--into", tmp_path / "b.jsonl", "--", *command)
    applied = invoke(
        "resume", log, "--into", tmp_path / "c.jsonl", "--copy", "apply", "--", *command
    )
    refused = invoke(
        "resume", log, "--into", tmp_path / "d.jsonl", "--copy", "apply", "--", *command
    )

    assert [done.exit_code for done in (named, applied, refused)] == [0, 0, 1], named.stderr
    assert (
        f"1 file of the copy not as in {project}: a.txt; to write them there, use --copy apply"
        in named.stderr
    )
    assert f"applied to {project}: a.txt" in applied.stderr
    why = f"nothing was applied: {project} is not as the record left it: error: a.txt: "
    assert why in refused.stderr
    assert (project / "a.txt").read_text() == "new"
