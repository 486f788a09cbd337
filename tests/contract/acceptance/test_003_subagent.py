"""The `subagent` tool holds to the document that specifies it: checks 73 to 93."""

import asyncio
import re
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson
import psutil
import pytest
import structlog

import refold.engine
from refold.engine.errors import NotReady
from refold.engine.events.events import MEASURED
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import ChildRunner, Model, Policy
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from refold.tools.delegation.subagent import KEYS, subagent_tool
from tests.support.scripted_runners import Scripted, Unavailable

CHILDREN = Path(__file__).parents[3] / "fixtures" / "children" / "subagents.py"
AGAIN = " Change the task, or do the work yourself."
TASK = {"task": "count the files"}
REPLY = b'{"status":"completed","summary":"3 files"}'


async def ask(run: Any, arguments: dict[str, Any]) -> Any:
    return await run.tool("subagent", **arguments)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def call(
    log: Path,
    arguments: dict[str, Any],
    *,
    runner: str | ChildRunner = "in-process",
    model: Model | None = None,
    limits: Limits | None = None,
    on: str = "",
    **options: Any,
) -> dict[str, Any]:
    """Call the tool once from a root run, and return its result; `on` is the tool's own runner."""
    recording = record(
        ask,
        arguments,
        log=log,
        tools=[subagent_tool(runner=on, **options)],
        model=model or ScriptedModel(["3 files"]),
        runner=runner if isinstance(runner, str) else "given",
        runners={} if isinstance(runner, str) else {"given": runner},
        limits=limits,
        seed=1,
    )
    assert recording.status == "completed", recording.error
    output: dict[str, Any] = recording.output
    return output


def entries(log: Path, *kinds: str) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(log) if entry.kind in kinds]


def granted(log: Path) -> dict[str, Any]:
    """Return the limits that the log says the child got."""
    (started,) = entries(log, "child.started")
    limits: dict[str, Any] = started["delegation"]["limits"]
    return limits


def notes(log: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the log says of the call, when it began and when it ended."""
    begins, ends = entries(log, "note.added")
    return begins["data"], ends["data"]


def without_duration(result: dict[str, Any]) -> bytes:
    return orjson.dumps(result | {"duration_ms": 0})


OUTCOMES: dict[str, dict[str, Any]] = {
    "success": {"runner": Scripted(REPLY)},
    "failure": {"runner": Scripted(b'{"status":"failed","summary":""}')},
    "timeout": {"program": f"{CHILDREN}:sleeps", "timeout_seconds": 1},
    "malformed": {"runner": Scripted(b"{")},
    "depth": {"limits": Limits(max_depth=0)},
    "disabled": {"enabled": False},
    "unavailable": {"runner": Unavailable()},
    "truncated": {"runner": Scripted(REPLY), "policy": Policy(summary_bytes=2)},
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], Path]]:
    """The result of a call with each outcome, and its log."""
    logs = {outcome: tmp_path_factory.mktemp(outcome) / "run.jsonl" for outcome in OUTCOMES}
    return {name: (call(log, TASK, **OUTCOMES[name]), log) for name, log in logs.items()}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_073_every_outcome_has_the_same_six_keys_in_order(
    ended: dict[str, tuple[dict[str, Any], Path]], outcome: str
) -> None:
    result, _ = ended[outcome]

    assert tuple(result) == KEYS
    assert KEYS == ("success", "summary", "artifacts", "error", "timed_out", "duration_ms")
    assert result["success"] is (outcome in ("success", "truncated"))
    assert result["timed_out"] is (outcome == "timeout")
    assert (result["error"] is None) is result["success"]


def test_073_a_refused_call_has_them_too(log: Path) -> None:
    assert tuple(call(log, {})) == KEYS


def called(folder: Path, *asked: dict[str, Any]) -> list[Path]:
    """Return the logs of calls that ask for more."""
    logs = [folder / f"run{letter}.jsonl" for letter in "abc"]
    for log, more in zip(logs, asked, strict=True):
        call(log, TASK | more, runner=Scripted(REPLY))
    return logs


def test_074_the_timeout_is_120_s_unless_asked_and_clamped_at_the_cap(tmp_path: Path) -> None:
    logs = called(tmp_path, *[{}, {"timeout_seconds": 7}, {"timeout_seconds": 9999}])

    assert [granted(log)["timeout_seconds"] for log in logs] == [120, 7, 600]
    assert [notes(log)[0]["limits"]["timeout_seconds"] for log in logs] == [120, 7, 600]
    assert [notes(log)[0]["clamped"] for log in logs] == [{}, {}, {"timeout_seconds": 9999}]


def test_075_iterations_are_8_unless_asked_and_clamped_at_the_cap(tmp_path: Path) -> None:
    logs = called(tmp_path, *[{}, {"max_iterations": 3}, {"max_iterations": 51}])

    assert [granted(log)["max_iterations"] for log in logs] == [8, 3, 50]
    assert [notes(log)[0]["clamped"] for log in logs] == [{}, {}, {"max_iterations": 51}]


def test_075_the_child_is_stopped_at_its_iterations(log: Path) -> None:
    model = ScriptedModel([{"name": "nothing", "arguments": {"n": n}} for n in range(9)])

    result = call(log, TASK | {"max_iterations": 2}, model=model)

    assert result["error"] == (
        "max_iterations: the child made all 2 model requests that it had and did not finish. "
        "Ask for more (max_iterations may be up to 50), or give a smaller task."
    )
    assert len(entries(log.with_name("run.1.jsonl"), "model.asked")) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "/task: expected text that is not blank, found nothing"),
        ({"task": " \n"}, "/task: expected text that is not blank, found ' \\n'"),
        ({"task": 3}, "/task: expected text that is not blank, found 3"),
        ({"task": None}, "/task: expected text that is not blank, found None"),
        ({"max_iterations": 0}, "/max_iterations: expected an integer of at least 1, found 0"),
        (
            {"max_iterations": True},
            "/max_iterations: expected an integer of at least 1, found True",
        ),
        ({"max_iterations": 2.0}, "/max_iterations: expected an integer of at least 1, found 2.0"),
        ({"timeout_seconds": -1}, "/timeout_seconds: expected an integer of at least 1, found -1"),
        (
            {"timeout_seconds": "5"},
            "/timeout_seconds: expected an integer of at least 1, found '5'",
        ),
        (
            {"timeout_seconds": True},
            "/timeout_seconds: expected an integer of at least 1, found True",
        ),
        ({"files": "a.py"}, "/files: expected an array of texts, found 'a.py'"),
        ({"files": ["a.py", 1]}, "/files: expected an array of texts, found ['a.py', 1]"),
        ({"context": None}, "/context: expected text, found None"),
        (
            {"depth": 3},
            (
                "/depth: unknown argument (there are task, context, files, max_iterations, "
                "timeout_seconds)"
            ),
        ),
    ],
)
def test_076_arguments_are_checked_and_nothing_is_coerced(
    log: Path, arguments: dict[str, Any], error: str
) -> None:
    given = arguments if "task" in arguments or not arguments else TASK | arguments

    result = call(log, given)

    assert result == {
        "success": False,
        "summary": "",
        "artifacts": [],
        "error": f"arguments: {error}",
        "timed_out": False,
        "duration_ms": 0,
    }
    assert entries(log, "child.started") == []


def test_077_the_child_sees_the_task_the_context_and_the_hints_and_nothing_else(log: Path) -> None:
    arguments = {"files": ["a.py", "b/c.py"], "context": "It is Python.", "task": "Find the bug."}
    model = ScriptedModel(
        {
            "agent": [
                {"tool_calls": [{"name": "subagent", "arguments": arguments}], "text": "my secret"},
                "done",
            ],
            "subagent": ["found"],
        }
    )

    record(
        "agent",
        {"agent": {"system": "Secret."}, "task": "Secret task."},
        log=log,
        tools=[subagent_tool()],
        model=model,
    )

    (asked,) = entries(log.with_name("run.1.jsonl"), "model.asked")
    text = "Find the bug.\n\nContext:\nIt is Python.\n\nFiles:\n- a.py\n- b/c.py"
    assert asked["added"] == [{"role": "user", "content": text}]
    assert b"ecret" not in log.with_name("run.1.jsonl").read_bytes()


def test_078_the_parent_blocks_until_the_result(log: Path) -> None:
    """The call is not done while the child waits, and is once the child is let go."""
    child_waits, let_go = threading.Event(), threading.Event()

    @tool(effect="reads")
    def wait_in_child() -> bool:
        child_waits.set()
        return let_go.wait(60)

    @tool(effect="reads")
    def wait_for_child() -> bool:
        return child_waits.wait(60)

    @tool(effect="reads")
    def release() -> None:
        let_go.set()

    async def program(run: Any, _input: Any) -> list[Any]:
        calling = asyncio.ensure_future(run.tool("subagent", **TASK))
        waited = await run.tool("wait_for_child")
        before = calling.done()
        await run.tool("release")
        return [waited, before, (await calling)["summary"]]

    recording = record(
        program,
        log=log,
        tools=[wait_in_child, wait_for_child, release, subagent_tool()],
        model=ScriptedModel([{"name": "wait_in_child", "arguments": {}}, "let go"]),
    )

    assert recording.output == [True, False, "let go"]


def test_079_a_timeout_is_the_same_but_for_its_duration(log: Path) -> None:
    result = call(log, TASK | {"timeout_seconds": 1}, program=f"{CHILDREN}:sleeps")

    assert result | {"duration_ms": 0} == {
        "success": False,
        "summary": "",
        "artifacts": [],
        "error": "timed_out: the child did not finish within the 1 s that it had. Ask for more "
        "(timeout_seconds may be up to 600), or give a smaller task.",
        "timed_out": True,
        "duration_ms": 0,
    }
    assert result["duration_ms"] >= 1000


def test_080_an_unavailable_runner_is_an_error_in_the_result(log: Path) -> None:
    result = call(log, TASK, runner=Unavailable("no room"))

    assert result["success"] is False
    assert result["error"] == f"runner_unavailable: no room.{AGAIN}"


def test_080_so_is_a_runner_that_raises_and_one_that_nobody_gave(tmp_path: Path) -> None:
    class Broken:
        name = "broken"

        def run(self, _request: Any, /) -> Any:
            raise OSError("no more processes")

    raised = call(tmp_path / "a.jsonl", TASK, runner=Broken())
    with pytest.raises(NotReady, match="runner 'cluster': not found"):
        call(tmp_path / "b.jsonl", TASK, on="cluster")

    assert raised["error"] == f"runner: broken: OSError: no more processes.{AGAIN}"
    assert not (tmp_path / "b.jsonl").exists()


def test_080_so_is_a_program_that_cannot_be_found_and_the_replay_needs_none(log: Path) -> None:
    """Of a tool that the run was not given: §10.4.8 checks those that it was.

    The reason stands in the log, so a replay tells it where the program exists by now.
    """
    lost = subagent_tool(program="no_such_module_x:leaf")

    async def ask(run: Any, arguments: dict[str, Any]) -> Any:
        return await run.tool(lost, **arguments)

    with pytest.raises(NotReady, match="No module named 'no_such_module_x'"):
        call(log, TASK, program="no_such_module_x:leaf")
    result = record(ask, TASK, log=log).output

    error = "program 'no_such_module_x': No module named 'no_such_module_x'"
    assert result == dict(zip(KEYS, (False, "", [], error, False, 0), strict=True))
    assert entries(log, "child.started") == []
    assert reexecute(log, program=ask, tools=[subagent_tool()]).identical


@pytest.mark.parametrize(
    ("argument", "size"),
    [("context", "é" * 131_073), ("task", "a" * 262_145), ("files", ["a" * 200_000, "b" * 62_145])],
)
def test_089_a_request_above_256_kib_is_rejected_with_its_size(
    log: Path, argument: str, size: Any
) -> None:
    """Phase 3 of the document: delegated payloads have a size that a transport can rely on."""
    result = call(log, TASK | {argument: size}, runner=Scripted(REPLY))

    found = 262_146 if argument == "context" else 262_145
    assert result["error"] == f"rejected: /{argument}: expected at most 262144 bytes, found {found}"
    assert tuple(result) == KEYS
    assert entries(log, "child.started") == []


def test_089_a_request_of_256_kib_is_not(log: Path) -> None:
    assert call(log, TASK | {"context": "a" * 262_144}, runner=Scripted(REPLY))["success"]


@pytest.mark.parametrize("parallel", [False, True])
def test_078_calls_of_one_reply_take_turns_unless_set_up_otherwise(
    log: Path,
    parallel: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The document rules out children at once: the second starts when the first has ended."""
    calls = [{"name": "subagent", "arguments": {"task": task}} for task in ("one", "two")]
    model = ScriptedModel({"agent": [{"tool_calls": calls}, "done"], "subagent": ["found"]})

    record("agent", {"task": "x"}, log=log, tools=[subagent_tool(parallel=parallel)], model=model)

    kinds = [each.kind for each in read_entries(log) if each.kind.startswith("child.")]
    started, finished = "child.started", "child.finished"
    at_once = [started, started, finished, finished]
    assert kinds == (at_once if parallel else [started, finished] * 2)
    assert reexecute(log, tools=[subagent_tool()]).identical


@pytest.mark.parametrize("frame", [b"", b"3 files", b'{"status":', b"\xff\xfe"])
def test_081_a_reply_that_is_no_json_is_a_schema_error(log: Path, frame: bytes) -> None:
    result = call(log, TASK, runner=Scripted(frame))

    assert result["success"] is False
    assert result["error"] == f"json: the reply is not valid JSON.{AGAIN}"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ([], "schema: the reply at /: expected an object, found an array"),
        (
            {"status": "completed"},
            "schema: the reply at /summary: expected text, found nothing",
        ),
        (
            {"status": "completed", "summary": 3},
            "schema: the reply at /summary: expected text, found an integer",
        ),
        (
            {"status": "completed", "summary": "", "artifacts": [{"kind": "note", "value": 1}]},
            "schema: the reply at /artifacts/0/value: expected text, found an integer",
        ),
    ],
)
def test_082_a_reply_of_another_shape_is_a_schema_error_with_its_path(
    log: Path, reply: Any, error: str
) -> None:
    result = call(log, TASK, runner=Scripted(orjson.dumps(reply)))

    assert result["success"] is False
    assert result["error"] == f"{error}. Change the task, or do the work yourself."


def test_082_so_is_a_member_too_many(log: Path) -> None:
    reply = {"status": "completed", "summary": "", "mood": "good"}

    result = call(log, TASK, runner=Scripted(orjson.dumps(reply)))

    assert result["error"].startswith("schema: the reply at /mood: expected one of status, summary")


@pytest.mark.parametrize(
    ("kind", "kinds"), [("exe", ("note", "path", "diff", "json")), ("diff", ("note", "path"))]
)
def test_083_an_artifact_of_another_kind_is_rejected(
    log: Path, kind: str, kinds: tuple[Any, ...]
) -> None:
    answer = {"summary": "made it", "artifacts": [{"kind": kind, "value": "x"}]}
    model = ScriptedModel([orjson.dumps(answer).decode()])

    result = call(log, TASK, model=model, policy=Policy(artifact_kinds=kinds))

    allowed = ", ".join(kinds)
    assert result["success"] is False
    assert result["artifacts"] == []
    assert result["error"] == (
        f"artifacts: the reply at /artifacts/0/kind: expected one of {allowed}, found '{kind}'"
        ". Ask for fewer, smaller or other artifacts."
    )


@pytest.mark.parametrize("runner", ["in-process", "subprocess"])
def test_084_a_long_summary_is_cut_on_a_code_point_and_says_so(log: Path, runner: str) -> None:
    """And tells the digest of all that was said, not of what was kept."""
    model = ScriptedModel(["é" * 5])

    result = call(log, TASK, model=model, policy=Policy(summary_bytes=5), runner=runner)

    (finished,) = entries(log, "child.finished")
    cut = finished["outcome"]["truncated"]
    assert result["success"] is True
    assert result["summary"] == "éé\n[cut: the first 4 of 10 bytes. Ask for a shorter answer.]"
    assert (cut["kept_bytes"], cut["seen_bytes"]) == (4, 10)
    assert cut["sha256"] == sha256(("é" * 5).encode()).hexdigest()
    note = f"truncated: kept_bytes=4 seen_bytes=10 sha256={cut['sha256']}"
    assert result["artifacts"] == [{"kind": "note", "value": note}]


def test_084_a_frame_over_its_cap_kills_the_child(log: Path) -> None:
    result = call(
        log,
        TASK,
        program=f"{CHILDREN}:floods",
        policy=Policy(frame_bytes=4096),
        runner="subprocess",
    )

    (finished,) = entries(log, "child.finished")
    assert result["error"] == (
        "frame_bytes: the child's reply is larger than allowed. Ask for a shorter answer."
    )
    assert finished["outcome"]["status"] == "limit"


def nested(log: Path, runner: str = "in-process") -> Recording:
    """Record a root agent whose child tries to delegate too."""
    model = ScriptedModel(
        {
            "agent": [{"name": "subagent", "arguments": {"task": "dig"}}, "done"],
            "subagent": [{"name": "subagent", "arguments": {"task": "deeper"}}, "too deep"],
        }
    )
    return record(
        "agent",
        TASK,
        log=log,
        tools=[subagent_tool()],
        model=model,
        runner=runner,
        seed=1,
        clock=FixedClock(),
    )


def test_085_the_root_may_delegate_and_its_child_may_not(tmp_path: Path) -> None:
    logs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]

    recordings = [nested(log) for log in logs]

    assert recordings[0].data_digest == recordings[1].data_digest
    (started,) = entries(logs[0].with_name("a.1.jsonl"), "run.started")
    assert started["tools"] == []
    assert entries(logs[0].with_name("a.1.jsonl"), "child.started") == []
    assert not list(tmp_path.glob("a.1.*.jsonl"))


def test_086_a_subprocess_child_has_the_depth_that_it_was_granted(log: Path) -> None:
    result = call(log, TASK, program=f"{CHILDREN}:delegates", runner="subprocess")

    assert result["success"] is True
    assert result["summary"].startswith("max_depth is 1, and the child would be at depth 2")


def test_086_one_that_went_deeper_all_the_same_is_failed_at_join(log: Path) -> None:
    result = call(log, TASK, program=f"{CHILDREN}:cheats", runner="subprocess")

    assert log.with_name("run.1.1.jsonl").exists()  # it did cheat
    assert result["success"] is False
    assert result["error"].startswith("child_log: a run at depth 2 was started; max_depth is 1.")


def test_087_the_disabled_tool_says_so_and_is_logged(log: Path) -> None:
    result = call(log, TASK, enabled=False)

    assert result["success"] is False
    assert "not enabled in this phase" in result["error"]
    (called,), (returned,) = entries(log, "tool.called"), entries(log, "tool.returned")
    assert called["arguments"] == TASK
    assert returned["result"] == result


def test_088_each_call_logs_its_correlation_id_hash_times_and_status(log: Path) -> None:
    result = call(log, TASK, runner=Unavailable())

    begins, ends = notes(log)
    run_id = entries(log, "run.started")[0]["run_id"]
    called = next(entry.call for entry in read_entries(log) if entry.kind == "tool.called")
    assert begins["correlation_id"] == ends["correlation_id"] == f"{run_id}:{called}"
    assert begins["task_sha256"] == sha256(b"count the files").hexdigest()
    assert begins["started_at"].endswith("+00:00")
    told = ("success", "timed_out", "error", "duration_ms")
    assert {name: ends[name] for name in told} == {name: result[name] for name in told}
    assert [(each["what"], each["places"]) for each in entries(log, MEASURED)] == [
        ("note:subagent begins", ["/data/correlation_id", "/data/started_at"]),
        ("note:subagent ends", ["/data/correlation_id", "/data/duration_ms"]),
        ("tool:subagent", ["/result/duration_ms"]),
    ]


async def naps(run: Any, _given: Any) -> str:
    await run.sleep(0.05)
    return "rested"


def test_088_each_call_has_an_id_a_start_and_a_duration_of_its_own(log: Path) -> None:
    async def twice(run: Any, _: Any) -> list[Any]:
        found = []
        for _ in range(2):
            begun = run.now().isoformat()
            found.append([begun, await run.tool("subagent", **TASK)])
        return found

    recording = record(twice, log=log, tools=[subagent_tool(program=naps)])

    told = [note["data"] for note in entries(log, "note.added")]
    begins, ends = told[::2], told[1::2]
    run_id = entries(log, "run.started")[0]["run_id"]
    calls = [entry.call for entry in read_entries(log) if entry.kind == "tool.called"]
    assert [note["correlation_id"] for note in begins] == [f"{run_id}:{each}" for each in calls]
    assert [note["correlation_id"] for note in ends] == [f"{run_id}:{each}" for each in calls]
    assert len(set(calls)) == 2
    assert [note["started_at"] for note in begins] == [begun for begun, _ in recording.output]
    assert begins[0]["started_at"] < begins[1]["started_at"]
    outcomes = [one["outcome"]["duration_ms"] for one in entries(log, "child.finished")]
    assert [note["duration_ms"] for note in ends] == outcomes
    assert all(50 <= duration < 30_000 for duration in outcomes)


def test_088_and_one_line_of_diagnostics_where_these_are_configured(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()  # the command line configures it for its whole process
    call(log, TASK, runner=Scripted(REPLY))
    silent = capsys.readouterr()
    try:
        with structlog.testing.capture_logs() as lines:
            call(log.with_name("again.jsonl"), TASK, runner=Scripted(REPLY))
    finally:
        structlog.reset_defaults()

    assert silent == ("", "")
    (line,) = lines
    assert line["event"] == "subagent"
    assert line["correlation_id"] == notes(log)[0]["correlation_id"]
    assert line["task_sha256"] == notes(log)[0]["task_sha256"]


REPLAY = """
import sys
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.delegation.subagent import subagent_tool
print(reexecute(sys.argv[1], tools=[subagent_tool()]).identical)
"""


def test_089_the_log_is_all_that_a_replay_needs(log: Path, tmp_path: Path) -> None:
    """Input and output are whole in the log; another process, folder and environment agree."""
    arguments = TASK | {"context": "c", "files": ["f"], "timeout_seconds": 9, "max_iterations": 2}
    model = ScriptedModel(
        {"agent": [{"name": "subagent", "arguments": arguments}, "done"], "subagent": ["3 files"]}
    )
    record("agent", TASK, log=log, tools=[subagent_tool()], model=model)

    (called,), (returned,) = entries(log, "tool.called"), entries(log, "tool.returned")
    assert called["arguments"] == arguments
    assert tuple(returned["result"]) == KEYS
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    replayed = subprocess.run(
        [sys.executable, "-I", "-c", REPLAY, str(log)],
        cwd=elsewhere,
        env={},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert replayed.stdout == "True\n"


def test_089_refusals_and_failures_replay_too(
    ended: dict[str, tuple[dict[str, Any], Path]],
) -> None:
    for outcome, (_, log) in ended.items():
        options = OUTCOMES[outcome].items()
        set_up = {name: value for name, value in options if name not in ("runner", "limits")}

        report = reexecute(log, ask, tools=[subagent_tool(**set_up)])

        assert report.identical, f"{outcome}: {report}"


def test_090_the_same_reply_gives_the_same_bytes(tmp_path: Path) -> None:
    reply = orjson.dumps(
        {
            "artifacts": [{"value": "ü", "kind": "note"}],
            "summary": "3 files",
            "status": "completed",
        }
    )

    one, two = (
        orjson.dumps(call(tmp_path / f"{name}.jsonl", TASK, runner=Scripted(reply)))
        for name in ("a", "b")
    )

    assert one == two
    assert (
        one
        == (
            '{"success":true,"summary":"3 files","artifacts":[{"kind":"note","value":"ü"}],'
            '"error":null,"timed_out":false,"duration_ms":0}'
        ).encode()
    )


def test_091_both_runners_give_the_same_result(tmp_path: Path) -> None:
    logs = {runner: tmp_path / f"{runner}.jsonl" for runner in ("in-process", "subprocess")}

    recordings = [nested(log, runner) for runner, log in logs.items()]

    results = [entries(log, "tool.returned") for log in logs.values()]
    assert orjson.dumps(results[0]) == orjson.dumps(results[1])
    assert results[0][0]["result"]["summary"] == "too deep"
    assert recordings[0].data_digest == recordings[1].data_digest


def test_091_also_where_the_child_fails(tmp_path: Path) -> None:
    def failing(runner: str) -> bytes:
        model = ScriptedModel([{"error": {"code": "http_500", "message": "overloaded"}}])
        return without_duration(
            call(tmp_path / f"{runner}.jsonl", TASK, runner=runner, model=model)
        )

    one = failing("in-process")

    assert one == failing("subprocess")
    assert b"http_500" in one


def test_092_after_a_timeout_the_whole_process_group_is_dead(log: Path, tmp_path: Path) -> None:
    ids = tmp_path / "ids"

    result = call(
        log,
        TASK | {"timeout_seconds": 1, "context": str(ids)},
        program=f"{CHILDREN}:spins",
        runner="subprocess",
    )

    assert result["timed_out"] is True
    started = ids.read_text().split() if ids.exists() else []  # a busy machine may start nothing
    assert not [pid for pid in started if is_alive(int(pid))]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


_IMPORT: Final = re.compile(r"^ *(?:from|import) +(refold\b[\w.]*)", re.MULTILINE)


def test_093_the_kernel_imports_nothing_of_tools() -> None:
    """No file of the engine imports what is not the engine's, wherever in it the import stands."""
    (folder,) = refold.engine.__path__
    files = sorted(Path(folder).rglob("*.py"))
    imported = {name for file in files for name in _IMPORT.findall(file.read_text("utf-8"))}

    assert len(files) > 40
    assert "refold.engine.kernel.kernel" in imported
    assert {name for name in imported if not name.startswith("refold.engine")} == set()
