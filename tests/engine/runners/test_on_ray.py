"""Children on nodes of a Ray cluster (CONTRACT.md §7.6); what all runners share is elsewhere.

The contract suite is `tests/contract/test_runners.py`.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.children.anchor import anchored
from refold.engine.events.limits import Limits
from refold.engine.log.names import child_path, tree
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import CancelSignal, Delegation, Reference
from refold.engine.program.run import Run
from refold.engine.runners.on_ray import RayRunner
from refold.engine.session import Session
from refold.tools import build_dispatch_subagents_tool, spawn_tools, subagent_tool
from tests.engine.conftest import Make, ended
from tests.support import resumable
from tests.support.child_programs import add, goes_down, mark, measures, named, told
from tests.support.clusters import session_folder

HERE = str(Path(__file__).resolve())
TOOLS: list[Any] = [add, mark, measures, told]


def until(holds: Callable[[], Any]) -> None:
    """Wait for something that is bound to come."""
    for _ in range(6000):
        if holds():
            return
        threading.Event().wait(0.02)
    raise TimeoutError(holds)


def has(log: Path, word: str) -> bool:
    return log.exists() and f'"{word}"' in log.read_text()


@pytest.fixture
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)


# --- without Ray -------------------------------------------------------------------------------


async def delegates(run: Run, _input: Any) -> Any:
    outcome = await run.delegate(Delegation(program=named("reports")))
    return [outcome.status, outcome.error.message if outcome.error else ""]


@pytest.mark.usefixtures("_no_ray")
def test_a_missing_extra_is_told_with_what_to_install(tmp_path: Path) -> None:
    """Every root has the runner; a replay of what it could not do needs no Ray either."""
    recording = refold.record(delegates, log=tmp_path / "a.jsonl", runner="ray")

    assert recording.output[0] == "failed"
    assert "ray is not installed: pip install 'refold[ray]'" in recording.output[1]
    assert refold.reexecute(recording.log, delegates).identical
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.usefixtures("_no_ray")
def test_a_child_that_may_have_run_on_a_lost_node_is_never_run_again(
    request_for: Make, tmp_path: Path
) -> None:
    """Whoever resumes its parent learns so, and has its log as far as it got."""
    request, log = request_for("works"), tmp_path / "a.1.jsonl"
    lost = log.with_suffix(".ray")
    lost.touch()

    outcome = ended(RayRunner().run(request))

    assert (outcome.status, outcome.error and outcome.error.code) == ("failed", "node_lost")
    assert outcome == anchored(outcome, request)
    assert not log.exists()


@pytest.mark.usefixtures("_no_ray")
def test_a_log_in_the_place_of_the_childs_is_never_overwritten(
    request_for: Make, tmp_path: Path
) -> None:
    request, log = request_for("works"), tmp_path / "a.1.jsonl"
    log.write_bytes(b"somebody's")

    outcome = ended(RayRunner().run(request))

    assert outcome.error is not None
    assert outcome.error.code == "LogExists"
    assert log.read_bytes() == b"somebody's"


# --- on a cluster ------------------------------------------------------------------------------

long = pytest.mark.long
on_nodes = pytest.mark.usefixtures("ray_nodes")


@long
@on_nodes
def test_a_log_comes_back_as_it_grows(request_for: Make, tmp_path: Path) -> None:
    """While the child runs; cancelled, it ends, and nothing of it is left on the node."""
    place, cancel, log = tmp_path / "marks", CancelSignal(), tmp_path / "a.1.jsonl"
    request = request_for("stays", str(place), cancel=cancel, tools=(mark,))
    outcomes: list[Any] = []
    runs = threading.Thread(target=lambda: outcomes.append(RayRunner().run(request)))

    runs.start()
    until(lambda: has(log, "timer.set") or has(log, "tool.returned"))
    cancel.set()
    runs.join()

    outcome = ended(outcomes[0])
    assert (outcome.status, outcome.error and outcome.error.code) == ("cancelled", "cancelled")
    entries = list(read_entries(log))
    assert outcome.child is not None
    assert (outcome.child.head, outcome.child.events) == (entries[-1].hash, len(entries))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.1.jsonl", "marks"]
    assert entries[0].meta["runner"] == "ray"


@long
@on_nodes
def test_a_child_whose_worker_dies_is_lost_and_not_run_again(
    request_for: Make, tmp_path: Path
) -> None:
    """Whatever Ray is asked for: nothing is retried."""
    place = tmp_path / "marks"
    request = request_for("loses_node", str(place), tools=(mark,))

    outcome = ended(RayRunner(max_retries=5).run(request))

    assert (outcome.status, outcome.error and outcome.error.code) == ("failed", "node_lost")
    assert len(place.read_text().splitlines()) == 1
    again = ended(RayRunner().run(request))
    assert (again.error and again.error.code, again.child) == ("node_lost", outcome.child)
    assert len(place.read_text().splitlines()) == 1


@long
@on_nodes
def test_memory_is_bounded_on_the_node(request_for: Make) -> None:
    """By the process that watches over the child there: Ray's own cap is not enforced."""
    outcome = ended(RayRunner(memory_bytes=150 << 20).run(request_for(named("eats"), 400)))

    assert (outcome.status, outcome.error and outcome.error.code) == ("limit", "memory_bytes")


@long
@on_nodes
def test_children_of_children_run_wherever_they_are_told(tmp_path: Path) -> None:
    """On Ray below in process below a subprocess below Ray, on a cluster that has no more room."""
    runners = ["ray", "subprocess", "in-process", "ray"]
    log = tmp_path / "a.jsonl"

    recording = refold.record(
        goes_down, runners, log=log, runners={"ray": RayRunner(num_cpus=4)}, seed=1
    )

    ran = [next(read_entries(path)).meta.get("runner") for path in tree(log)]
    assert recording.output == [
        "ray",
        "completed",
        ["subprocess", "completed", ["in-process", "completed", ["ray", "completed", 4]]],
    ]
    assert ran == [None, *runners]
    assert refold.verify(log).intact
    assert refold.reexecute(log, goes_down).identical


@long
@on_nodes
def test_large_texts_come_back_before_the_lines_that_name_them(tmp_path: Path) -> None:
    """The same blobs as of a subprocess, and none in doubt."""
    blobs = []
    for runner in ("subprocess", "ray"):
        log = tmp_path / runner / "a.jsonl"
        recording = refold.record(
            hands_on, 300_000, log=log, runner=runner, tools=TOOLS, seed=1, durability="fast"
        )
        assert recording.output == 300_000
        report = refold.verify(log)
        assert report.intact, report.damage
        assert refold.reexecute(log, hands_on, tools=TOOLS).identical
        blobs.append(sorted(path.name for path in log.with_name("a.blobs").glob("*/*")))
    assert blobs[0] == blobs[1] != []


async def hands_on(run: Run, size: int) -> Any:
    return (await run.delegate(Delegation(program=named("writes_much"), input=size))).output


@long
@on_nodes
def test_a_secret_is_nowhere_but_in_its_tool(tmp_path: Path) -> None:
    """Not in Ray's folder, a log or an argument of a process, though the child says it."""
    secret = "s3cret-of-the-day"
    given = {"ON_RAY": secret}

    recording = refold.record(
        secretive, log=tmp_path / "a.jsonl", runner="ray", tools=TOOLS, secrets=given
    )

    (message,) = recording.output
    assert "seen 0 times" in message
    assert "[redacted:ON_RAY]" in message
    folders = [tmp_path, Path(session_folder())]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [str(path) for path in files if secret.encode() in path.read_bytes()] == []


async def secretive(run: Run, _input: Any) -> Any:
    outcome = await run.delegate(Delegation(program=named("says_secret")))
    return [outcome.error.message if outcome.error else ""]


async def spends(run: Run, requests: int) -> int:
    for _ in range(requests):
        await run.model([{"role": "user", "content": "more"}])
    return requests


async def shares(run: Run, _input: Any) -> Any:
    program = Reference(HERE, "spends")
    children = [
        await run.start(Delegation(program=program, input=requests, part=50)) for requests in (8, 1)
    ]
    return [one.output for one in await run.join(*children)]


@long
@on_nodes
def test_children_ask_their_parent_for_more_tokens(tmp_path: Path) -> None:
    """§8.3: and get what their siblings left."""
    reply: Any = {"text": "ok", "usage": {"output_tokens": 10}}
    log = tmp_path / "a.jsonl"

    recording = refold.record(
        shares,
        log=log,
        runner="ray",
        model=ScriptedModel([reply] * 20),
        limits=Limits(model_tokens=100),
    )

    assert recording.output == [8, 1]
    granted = [e.data["tokens"] for e in read_entries(log) if e.kind == "tokens.granted"]
    assert granted == [40]
    assert refold.reexecute(log, shares).identical


@long
@on_nodes
def test_a_child_that_waits_for_a_person_goes_on_on_a_node(tmp_path: Path) -> None:
    """§9.9: with its log and those below it, which are taken there."""
    tools = [resumable.step]
    log = tmp_path / "a.jsonl"
    asked = refold.record(resumable.asking_below, 1, log=log, tools=tools, runner="ray")
    keys = [question.key for question in asked.questions]

    once = refold.resume(log, resumable.asking_below, tools=tools, answers={keys[1]: "deep"})
    last = refold.resume(log, resumable.asking_below, tools=tools, answers={keys[0]: "flat"})

    assert keys == ["0#1 > 0#2", "0#2 > 0#1 > 0#2"]
    assert [question.key for question in once.questions] == keys[:1]
    assert last.output == [[1202, "flat", 1402], [1204, "deep", 1404], 604]
    assert refold.verify(log).intact
    assert refold.reexecute(log, resumable.asking_below, tools=tools).identical


# --- what nodes lack ---------------------------------------------------------------------------


@long
@on_nodes
def test_a_program_that_is_not_on_the_node_is_told_with_what_to_do(
    request_for: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a working directory that Ray ships, it is found there."""
    here, shipped = tmp_path / "here", tmp_path / "shipped"
    for folder in (here, shipped):
        folder.mkdir()
        (folder / "prog.py").write_text("async def child(run, input):\n    return [input]\n")
    program = Reference(str(here / "prog.py"), "child")
    monkeypatch.chdir(here)
    (here / "prog.py").unlink()

    lacks = ended(RayRunner().run(request_for(program, 1)))
    shipping = [sys.executable, "-c", _SHIPPING, *map(str, (here, shipped, tmp_path / "a.jsonl"))]
    done = subprocess.run(shipping, check=True, capture_output=True, text=True)

    assert lacks.error is not None
    assert lacks.error.code == "ProgramNotFound"
    assert "prog.py" in lacks.error.message
    assert "ray.init(runtime_env={'working_dir': '.'})" in lacks.error.message
    assert done.stdout == "[1]\n", done.stderr


_SHIPPING = """
import os, sys, ray, refold
from refold.engine.ports.ports import Reference
from refold.engine.runners.on_ray import RayRunner

here, shipped, log = sys.argv[1:]
os.chdir(here)
file = os.path.join(here, "prog.py")
os.link(os.path.join(shipped, "prog.py"), file)
ray.init(runtime_env={"working_dir": shipped}, log_to_driver=False)

class Apart(RayRunner):
    def run(self, request):
        os.remove(file)  # as on a node that has none of this machine's files
        return super().run(request)

async def lead(run, _input):
    outcome = await run.delegate(refold.Delegation(program=Reference(file, "child"), input=1))
    return outcome.output if outcome.ok else outcome.error.message

print(refold.record(lead, log=log, runner="ray", runners={"ray": Apart()}).output)
"""


@long
@on_nodes
def test_a_cluster_without_room_is_told(request_for: Make) -> None:
    """After a while that can be set; nothing of the child is left waiting."""
    outcome = ended(
        RayRunner(wait_seconds=0.5, resources={"gpu_of_ours": 1}).run(request_for("works"))
    )

    assert outcome.error is not None
    assert outcome.error.code == "spawn_failed"
    assert "gpu_of_ours" in outcome.error.message


@long
def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path) -> None:
    """By its address, once for all children of the run."""
    pytest.importorskip("ray")
    code = (
        "import refold; from tests.engine.runners.test_on_ray import two; "
        f"print(refold.record(two, log={str(tmp_path / 'a.jsonl')!r}, runner='ray').output)"
    )
    environment = os.environ | {"RAY_ADDRESS": "127.0.0.1:1", "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-c", code]

    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)

    assert done.stdout.count("runner_unavailable: no Ray cluster at 127.0.0.1:1") == 2


async def two(run: Run, _input: Any) -> list[str]:
    child = Delegation(program=named("reports"))
    outcomes = [await run.delegate(child) for _ in range(2)]
    return [f"{one.error.code}: {one.error.message}" for one in outcomes if one.error]


# --- a tree ------------------------------------------------------------------------------------


@long
def test_a_node_is_killed_in_the_middle_of_a_tree(
    ray_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One and 200 children of three tools: those on the node are lost, and nothing runs twice."""
    place, log = tmp_path / "marks", tmp_path / "a.jsonl"
    node = ray_nodes.add_node(num_cpus=2, resources={"doomed": 1}, object_store_memory=80 << 20)

    @refold.tool(effect="changes")
    def kill() -> None:
        """Kill the node when the child that stays there has done something, and its log tells."""
        until(lambda: has(child_path(log, 1), "tool.returned"))
        ray_nodes.remove_node(node, allow_graceful=False)

    async def lead(run: Run, _input: Any) -> Any:
        stays = Delegation(program=named("stays"), input=str(place), runner="doomed")
        child = await run.start(stays)
        jobs = [await run.tool("spawn", task=f"{each}") for each in range(67)]
        await run.tool(kill)
        steps = [{"objective": f"{each}", "steps": ["s"]} for each in range(66)]
        await run.tool("dispatch_subagents", tasks=steps)
        rest = await asyncio.gather(
            *(run.tool("subagent", task=f"{each}", timeout_seconds=600) for each in range(67))
        )
        await run.tool("spawn_await", job_ids=",".join(jobs))
        (lost,) = await run.join(child)
        return [lost.error.code if lost.error else "", len(rest)]

    script: list[Any] = [{"name": "mark", "arguments": {"place": str(place)}}, "done"]
    tools: list[Any] = [mark, *spawn_tools(), subagent_tool(parallel=True)]
    tools.append(build_dispatch_subagents_tool())
    make = Reference("refold.engine.session", "Session", {})

    recording = refold.record(
        lead,
        log=log,
        runner="ray",
        runners={"doomed": RayRunner(resources={"doomed": 0.1})},
        tools=tools,
        model=ScriptedModel({"*": script}),
        session=Session(factory=make),
    )

    assert recording.ok, recording.error
    assert recording.output == ["node_lost", 67]
    ends = [each.data["outcome"] for each in read_entries(log) if each.kind == "child.finished"]
    said = [(each["status"], each.get("error", {}).get("code")) for each in ends]
    assert len(said) == 201
    assert set(said) <= {("completed", None), ("failed", "node_lost")}
    assert said.count(("completed", None)) >= 133, "who began after that was not on the node"
    marks = place.read_text().split()
    assert len(marks) == len(set(marks)) >= said.count(("completed", None)) + 1
    assert [path.name for path in tmp_path.glob("*.ray")] != []

    monkeypatch.setitem(sys.modules, "ray", None)
    report = refold.verify(log)
    assert report.intact, report.damage
    replayed = refold.reexecute(log, lead, tools=tools, session=Session(factory=make))
    assert replayed.identical, str(replayed)
