"""`refold fork`: a new log from any entry of another, and what became of it."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import refold
from refold.engine.log.reader import read_entries
from refold.engine.models import ScriptedModel
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.page.one_run import OneRun
from refold.replay.run.opened_run import OpenedRun
from refold.tools.contract.tool_types import tool
from tests.support import checked_programs
from tests.support.checked_programs import of_the_tools_variable
from tests.support.forks import TOOLS, model, report
from tests.support.schemas import validate
from tests.support.upstream import Upstream

Invoke = Callable[..., Result]
PROGRAM = ("--program", "tests.support.forks:report")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A recorded run."""
    return record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log


def test_a_result_is_changed_and_the_run_goes_on(log: Path, tmp_path: Path, invoke: Invoke) -> None:
    value = tmp_path / "value.json"
    value.write_text("77")

    said = invoke("fork", log, *PROGRAM, "--set", f"0#3=@{value}", "--into", tmp_path / "b.jsonl")

    assert said.exit_code == 0, said.output
    assert said.stdout.startswith(f"completed  forked from {log} at entry ")
    assert "/output/4: 3 → 77" in said.stdout


def test_a_fork_that_fails_says_why(log: Path, tmp_path: Path, invoke: Invoke) -> None:
    given = ("--set", '0/1#1={"error":{"message":"gone"}}', "--into", tmp_path / "b.jsonl")

    said = invoke("fork", log, *PROGRAM, *given)

    assert said.exit_code == 5, said.output
    assert "refold: raised: ToolError: get: gone" in said.stderr


@tool(effect="reads")
def ticket(n: int) -> str:
    """Return the number of a ticket."""
    return f"{n:04}"


@tool(effect="reads")
def count(n: int) -> int:
    """Return a number."""
    return n


async def sells(run: Run, n: int) -> list[Any]:
    return [await run.tool(ticket, n=n), await run.tool(count, n=n)]


@pytest.mark.parametrize(
    ("edit", "output"),
    [
        ("0#1=4711", ["4711", 1]),
        ('0#1="4711"', ["4711", 1]),
        ("0#1=[1]", ["[1]", 1]),
        ("0#2=4711", ["0001", 4711]),
        ("0#2=many", None),
        ('0#2="4711"', None),
    ],
)
def test_a_value_has_the_type_of_the_tool(
    edit: str, output: list[Any] | None, tmp_path: Path, invoke: Invoke
) -> None:
    """For a text, a JSON string is that string, and any other value is taken as it is written."""
    log = record(sells, 1, log=tmp_path / "a.jsonl", tools=[ticket, count]).log
    said = invoke(
        "fork", log, "--program", f"{__name__}:sells", "--set", edit, "--into", tmp_path / "b.jsonl"
    )

    if output is None:
        assert said.exit_code == 2, said.output
        assert "does not fit" in said.stderr
        assert not (tmp_path / "b.jsonl").exists()
    else:
        assert said.exit_code == 0, said.output
        *_, last = read_entries(tmp_path / "b.jsonl")
        assert last.data["output"] == output


def test_what_was_not_recorded_is_four_and_says_how_to_go_on(
    log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    said = invoke("fork", log, *PROGRAM, "--set", "0/1#1=5", "--into", tmp_path / "b.jsonl")

    assert said.exit_code == 4, said.output
    assert "--model" in said.stderr


@pytest.mark.long
def test_an_edit_that_changes_what_is_kept_is_a_difference(
    log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    said = invoke(
        "fork", log, *PROGRAM, "--at", "-2", "--set", "0/1#1=5", "--into", tmp_path / "b.jsonl"
    )

    assert said.exit_code == 1, said.output
    assert not (tmp_path / "b.jsonl").exists()


def test_the_document_is_as_its_schema_says(log: Path, tmp_path: Path, invoke: Invoke) -> None:
    said = invoke("fork", log, *PROGRAM, "--at", "5", "--into", tmp_path / "b.jsonl", "--json")

    document: Any = json.loads(said.stdout)
    validate(document, "fork")
    assert document["diff"]["identical"]
    assert (document["status"], document["missing"]) == ("completed", [])
    assert document["output"] == list(read_entries(log))[-1].data["output"]


def test_a_packed_log_is_named_as_it_was_given(log: Path, tmp_path: Path, invoke: Invoke) -> None:
    """Never by where it was unpacked, and compared while it is there."""
    packed = tmp_path / "a.refold"
    assert invoke("export", log, "--to", "refold", "--out", packed).exit_code == 0

    for name, options in (("b", ()), ("c", ("--json",))):
        into = tmp_path / f"{name}.jsonl"
        said = invoke("fork", packed, *PROGRAM, "--at", "3", "--into", into, *options)

        assert said.exit_code == 0, said.output
        assert "refold-" not in said.stdout
        assert "a.refold" in said.stdout


def test_without_a_place_it_is_a_fresh_log_in_runs(
    log: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    said = invoke("fork", log, *PROGRAM, "--at", "5")

    assert said.exit_code == 0, said.output
    (made,) = [path for path in (tmp_path / "runs").glob("*.jsonl") if ".1." not in path.name]
    assert "-report-fork-" in made.name


@pytest.mark.parametrize("words", [(), ("--at", "99"), ("--set", "0#99=1"), ("--set", "0#3")])
def test_a_fork_of_nowhere_is_usage(
    log: Path, tmp_path: Path, invoke: Invoke, words: tuple[str, ...]
) -> None:
    said = invoke("fork", log, *PROGRAM, *words, "--into", tmp_path / "b.jsonl")

    assert said.exit_code == 2, said.output


def test_what_an_edit_gave_is_not_shown_as_what_was_given(
    log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """In the run whose call was edited and in no other; by `show`, `why` and the page."""
    forked = tmp_path / "b.jsonl"
    invoke("fork", log, *PROGRAM, "--set", "0#2 > 0#1=30", "--into", forked)
    child = tmp_path / "b.1.jsonl"

    shown = invoke("show", child, "--events").stdout
    (line,) = [each for each in shown.splitlines() if "edited" in each]

    assert "tool.returned" in line
    assert "ok 30" in line
    assert "edited" in invoke("show", child, "--events").stdout
    assert "edited" in invoke("why", child, "-1").stdout
    assert "edited" not in invoke("show", forked, "--events").stdout
    assert "edited" not in invoke("show", log, "--events").stdout
    document = OneRun(OpenedRun(forked), content=True).document()
    assert document["title"].endswith(" · edited: 0#2 > 0#1")


def test_ls_shows_forks_below_what_they_left(log: Path, tmp_path: Path, invoke: Invoke) -> None:
    invoke("fork", log, *PROGRAM, "--at", "5", "--into", tmp_path / "b.jsonl")
    invoke("fork", tmp_path / "b.jsonl", *PROGRAM, "--at", "7", "--into", tmp_path / "c.jsonl")
    invoke("fork", log, *PROGRAM, "--at", "5", "--into", tmp_path / "d.jsonl")

    said = invoke("ls", tmp_path, "--tree").stdout
    document = json.loads(invoke("ls", tmp_path, "--json").stdout)

    rows = said.splitlines()[2:]
    assert [row.split()[3] for row in rows] == ["a", "b", "c", "d"]
    assert [row.partition("report")[0].rpartition("ms  ")[2] for row in rows] == [
        "", "├─ forked at entry 5  ", "│  └─ forked at entry 7  ", "└─ forked at entry 5  ",
    ]  # fmt: skip
    validate(document, "ls")
    assert [row.get("forked", {}).get("at") for row in document["runs"]] == [None, 5, 7, 5]


@tool(effect="pure")
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def choosing(run: PlainRun, n: int) -> Any:
    return run.tool(double, n=n) if run.tool(double, n=n) == 2 else 0


@tool(effect="reads")
def fetch(topic: str) -> str:
    """Fetch a text."""
    return f"text of {topic}"


@tool(effect="changes")
def keep(text: str) -> str:
    """Keep a text."""
    return f"kept {text}"


async def worker(run: Run, topic: str) -> str:
    text = await run.tool("keep", text=await run.tool("fetch", topic=topic))
    reply = await run.model([{"role": "user", "content": text}], agent="worker")
    return str(reply.message["content"])


async def team(run: Run, goal: str) -> list[str]:
    plan = await run.model([{"role": "user", "content": goal}], agent="lead")
    topics = str(plan.message["content"]).split()
    return [(await run.delegate(Delegation(program=worker, input=t))).result() for t in topics]


async def keeping(run: Run, key: str) -> None:
    """Keep what was found under what was found."""
    found = await run.tool(fetch, topic=key)
    await run.tool(keep, text=await run.tool(fetch, topic=str(found)))


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """A team whose planner named one topic, and the script of its model."""
    script = {"lead": ["tides"], "worker": ["done"]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    log = tmp_path / "team.jsonl"
    return record(team, "sea", log=log, tools=[fetch, keep], model=ScriptedModel(script)).log


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (("--live", "--yes", "--model", "SPEC"), 1),
        (("--live", "--model", "SPEC"), 2),
        (("--live",), 4),
        ((), 6),
        (("--source", "children=live"), 6),
    ],
)
def test_a_fork_that_is_refused_names_the_options_that_work(
    planned: Path, tmp_path: Path, invoke: Invoke, options: tuple[str, ...], runs: int
) -> None:
    said = ("--program", f"{__name__}:team", "--set", "0#1=tides ice")
    words: list[Any] = ["fork", planned, *said, "--into", tmp_path / "b.jsonl", *options]
    for _run in range(runs):
        words = [str(word).replace("SPEC", f"scripted:{tmp_path}/script.json") for word in words]
        done = invoke(*words)
        if done.exit_code not in (2, 4):
            break
        assert done.exit_code == 4 or not list(tmp_path.glob("b.*"))
        _, resumes, line = done.stderr.rpartition("refold resume ")
        named = re.findall(r"add (--[^;\n:,]+)", done.stderr)
        words = ["resume", *shlex.split(line)] if resumes else [*words, *shlex.split(named[-1])]

    assert done.exit_code == 0, done.output
    assert list(read_entries(tmp_path / "b.jsonl"))[-1].data["output"] == ["done", "done"]


def test_a_call_that_was_refused_is_not_in_doubt(tmp_path: Path, invoke: Invoke) -> None:
    """It never began: the log ends before it, and whoever resumes is told that it runs then."""
    log = record(keeping, "a", log=tmp_path / "a.jsonl", tools=[fetch, keep]).log
    said = ("--program", f"{__name__}:keeping", "--set", "0#1=b", "--live")

    done = invoke("fork", log, *said, "--into", tmp_path / "b.jsonl")

    assert done.exit_code == 4
    assert "can be resumed, which runs keep#3" in done.stderr
    kinds = [entry.kind for entry in read_entries(tmp_path / "b.jsonl")]
    assert kinds[-2:] == ["tool.called", "tool.returned"]
    assert kinds.count("tool.called") == 2
    assert "in doubt" not in invoke("show", tmp_path / "b.jsonl").stdout


@pytest.mark.parametrize(
    "given",
    [
        (),
        (
            "--tools",
            f"{__name__}:fetch,{__name__}:keep",
        ),
    ],
)
def test_a_fork_with_a_log_leads_to_its_resume_alone(
    given: tuple[str, ...], tmp_path: Path, invoke: Invoke
) -> None:
    """The fork itself, with one more option, is refused: its log is there."""
    log = record(keeping, "a", log=tmp_path / "a.jsonl", tools=[fetch, keep]).log
    said = (
        "--program",
        f"{__name__}:keeping",
        "--set",
        "0#1=b",
        "--live",
        *given,
    )

    done = invoke("fork", log, *said, "--into", tmp_path / "b.jsonl")
    (line,) = (each for each in done.stderr.splitlines() if "refold resume" in each)

    assert "on the command line" not in done.stderr
    assert invoke(*shlex.split(line.partition(": refold ")[2])).exit_code == 0


def test_a_live_fork_of_a_scripted_model_is_refused_with_the_model_to_name(
    planned: Path, tmp_path: Path, invoke: Invoke
) -> None:
    said = (
        "--program",
        f"{__name__}:team",
        "--set",
        "0#1=tides ice",
        "--live",
    )

    done = invoke("fork", planned, *said, "--into", tmp_path / "b.jsonl")

    assert done.exit_code == 2
    assert "--live asks models live, and the model of this run was 'scripted'" in done.stderr
    assert "add --model SPEC" in done.stderr
    assert not list(tmp_path.glob("b.*"))


async def chain(run: Run, _: None) -> int:
    """Make each of many calls with the result of the first."""
    first = await run.tool("get", key="a")
    return sum([await run.tool("get", key="k" * (first + n)) for n in range(50)])


def test_a_fork_prints_forty_lines_of_differences_and_the_command_for_all(
    tmp_path: Path, invoke: Invoke
) -> None:
    """The document has them all, and so has `refold diff --all`."""
    log = record(chain, None, log=tmp_path / "a.jsonl", tools=TOOLS).log
    words = ["--program", f"{__name__}:chain", "--set", "0#1=99", "--live"]
    words += ["--yes", "--tools", "tests.support.forks:TOOLS"]

    said = invoke("fork", log, *words, "--into", tmp_path / "b.jsonl")
    document = json.loads(
        invoke("fork", log, *words, "--into", tmp_path / "c.jsonl", "--json").stdout
    )

    lines = said.stdout.splitlines()
    last = next(line for line in lines if line.startswith("and "))
    command = f"refold diff {log} {tmp_path}/b.jsonl --all"
    assert (said.exit_code, len(lines) <= 45) == (0, True), said.output
    assert last.endswith(f" differences more: to list all, use {command}")
    whole = invoke(*shlex.split(command)[1:]).stdout
    assert (
        whole.count(" (0#") + 1
        == document["diff"]["count"]
        == int(last.split()[1]) + said.stdout.count(" (0#")
    )


async def asking(run: Run, _: None) -> list[Any]:
    """Ask two models, and draw a number."""
    ask = [{"role": "user", "content": str(run.random().random())}]
    return [(await run.model(ask, model=name)).message["content"] for name in ("", "judge")]


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """A run whose models were scripts with the names of real ones."""
    models = {
        name: ScriptedModel(["one"], f"openai:gpt-5-{name or 'mini'}") for name in ("", "judge")
    }
    done = record(asking, log=tmp_path / "a.jsonl", models=models)
    assert done.ok
    return done.log


@pytest.mark.parametrize(
    "words",
    [
        ["fork", "--at", "0", "--live"],
        ["fork", "--at", "0", "--source", "model=live"],
        ["replay", "--live", "--source", "model=live"],
        ["replay", "--live"],
    ],
)
def test_a_script_with_the_name_of_a_provider_never_leads_to_it(
    priced: Path, tmp_path: Path, invoke: Invoke, words: list[str]
) -> None:
    """The refusal names the option with which it runs."""
    (tmp_path / "model.py").write_text(
        "from refold.engine.models import ScriptedModel\nMODEL = ScriptedModel(['two'])\n"
    )
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        given = [*words, str(priced), "--program", f"{__name__}:asking"]
        said = invoke(*given)
        asked = upstream.received

    assert (said.exit_code, asked) == (2, []), said.output
    assert "--model SPEC" in said.stderr
    assert invoke(*given, "--model", f"{tmp_path}/model.py:MODEL").exit_code in (0, 1)


def test_a_fork_that_is_refused_leaves_no_log(
    planned: Path, tmp_path: Path, invoke: Invoke
) -> None:
    said = ("--program", f"{__name__}:team", "--set", "0#1=tides ice")

    done = invoke("fork", planned, *said, "--into", tmp_path / "b.jsonl", "--json")

    document = json.loads(done.stdout)
    validate(document, "fork")
    assert (document["log"], document["status"], document["diff"]) == (None, "refused", None)
    assert document["missing"][0]["options"] == "--source children=live"
    assert not list(tmp_path.glob("b.*"))


def test_an_edit_that_is_not_reached_is_told(tmp_path: Path, invoke: Invoke) -> None:
    """A fork that takes another way because of one edit does not get to the other."""
    record(choosing, 1, log=tmp_path / "a.jsonl")
    way = ("--program", f"{__name__}:choosing")
    edits = ("--set", "0#1=5", "--set", "0#2=7")

    both = invoke("fork", tmp_path / "a.jsonl", *way, *edits, "--into", tmp_path / "b.jsonl")
    one = invoke("fork", tmp_path / "a.jsonl", *way, *edits[2:], "--into", tmp_path / "c.jsonl")

    assert (both.exit_code, one.exit_code) == (0, 0), both.output + one.output
    assert "the edit of 0#2 has no effect" in both.stderr
    assert "0#1" not in both.stderr
    assert "no effect" not in one.stderr


TEAM = ("--program", f"{__name__}:team")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (TEAM, "--set"),
        ((*TEAM, "--at", "99", "--set", "0#1=x"), "numbered 0 to 5"),
        ((*TEAM, "--at", "1", "--model", "gpt"), "openai:"),
        ((*TEAM, "--at", "1", "--source=model=live"), "--model SPEC"),
        (("--set", "0#1=x"), "--program"),
        (("--program", "no.py:team", "--at", "1"), "no.py"),
    ],
)
@pytest.mark.usefixtures("planned")
def test_a_fork_of_nowhere_says_what_to_write(
    tmp_path: Path, invoke: Invoke, words: tuple[str, ...], expected: str
) -> None:
    said = invoke("fork", tmp_path / "team.jsonl", *words, "--into", tmp_path / "b.jsonl")

    assert said.exit_code in (1, 2), said.output
    assert expected in said.stderr


def note(text: str) -> str:
    """Note a text: a plain function, which becomes a tool that may change the world."""
    return f"noted {text}"


def noting(run: PlainRun, text: str) -> Any:
    return run.tool("note", text=text)


def test_live_finds_a_plain_function_that_was_passed_as_a_tool(
    tmp_path: Path, invoke: Invoke
) -> None:
    log = refold.record(noting, "a", log=tmp_path / "a.jsonl", tools=[note]).log
    words = (
        "--program",
        f"{__name__}:noting",
        "--at",
        "0",
        "--live",
        "--yes",
    )

    said = invoke("fork", log, *words, "--into", tmp_path / "b.jsonl")

    assert said.exit_code == 0, said.output
    assert list(read_entries(tmp_path / "b.jsonl"))[-1].data["output"] == "noted a"


def test_a_fork_whose_result_hangs_on_a_variable_exits_with_1(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference is printed, and the document says that the log does not replay."""
    monkeypatch.setenv("REFOLD_CHECK", "1")
    program = f"{checked_programs.__file__}:of_the_tools_variable"
    log = refold.record(
        of_the_tools_variable, log=tmp_path / "a.jsonl", ask=lambda _: "yes", check=False
    ).log
    words = ["--program", program, "--set", "0#1=other", "--into", tmp_path / "b.jsonl"]

    result = invoke("fork", log, *words, "--json")

    assert (result.exit_code, json.loads(result.stdout)["replays"]) == (1, False)
    assert "output_changed" in result.stderr
