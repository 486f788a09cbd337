"""The engine under the five tools: checks 119 to 128."""

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import LogSealed, RefoldError
from refold.engine.events.events import (
    FOLDER,
    KINDS,
    MEASURED,
    TAILS,
    UNDIGESTED,
    WIRE,
    RunFinished,
)
from refold.engine.events.limits import Limits
from refold.engine.log.names import tree
from refold.engine.log.reader import read_entries, read_events, scan
from refold.engine.log.writer import LogWriter
from refold.engine.models.scripted import Reply, ScriptedModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.engine.state.digests import state_digest
from refold.engine.state.folding import Fold
from refold.replay.audit.refolding import refold_log, state
from refold.replay.audit.verify import verify
from refold.replay.compare.diff import diff
from refold.replay.difference import volatile
from refold.replay.explain.divergence import Divergence
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.testing.snapshot import delegation_text
from refold.tools.agents.agent_files import NAMESPACE, AgentLoader, agent_prompts
from refold.tools.agents.plans import register_plans
from refold.tools.agents.profiles import SpawnSettings
from refold.tools.agents.prompts import context_of
from refold.tools.contract.tool_types import DelegationTool, tool
from refold.tools.delegation.dispatch_subagent import dispatch_subagent_tool
from refold.tools.delegation.dispatch_subagents import (
    DispatchSubagentsParams,
    SubagentIsolationLevel,
    SubagentTask,
    subagents_tool,
)
from refold.tools.delegation.shipped import offered_tools
from refold.tools.delegation.spawn import spawn_tools
from refold.tools.delegation.subagent import subagent_tool
from refold.tools.delegation.subagent_dispatch import create_subagent_dispatch_tool
from tests.support.child_programs import look
from tests.support.loops import for_each, some
from tests.support.sessions import Finding, findings

PATIENCE_SECONDS = 60


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def calls(*named: tuple[str, dict[str, Any]]) -> Reply:
    return {"tool_calls": [{"name": name, "arguments": given} for name, given in named]}


def planned() -> Session:
    session = Session()
    register_plans(session)
    return session


SCRIPT: dict[str, list[Reply]] = {
    "agent": [
        calls(
            ("subagent", {"task": "count"}),
            ("dispatch_subagent", {
                "mode": "ad_hoc",
                "prompt_ns": NAMESPACE,
                "prompt_key": "scribe",
                "instructions": "write",
            }),
            ("dispatch_subagents", {"tasks": [
                {"objective": "one", "steps": ["a", "b"]},
                {"objective": "two", "steps": []},
            ]}),
            ("subagent_dispatch", {"agent_id": "reviewer", "task": "review"}),
            ("spawn", {"task": "dig"}),
            ("spawn", {"task": "dig deeper"}),
        ),
        calls(("spawn_await", {"job_ids": "*"})),
        "done",
    ],
    "subagent": [calls(("subagent", {"task": "too deep"})), "counted"],
    "agents/scribe": [
        calls(("look", {"at": "b.txt"}), ("spawn", {"task": "dig"})),
        calls(("spawn_await", {"job_ids": "*"})),
        "written",
    ],
    "run-delegation": [
        calls(("planning_read_plan", {}), ("look", {"at": "c.txt"})),
        "planned",
    ],
    "reviewer": [calls(("subagent_dispatch", {"agent_id": "scribe", "task": "fix"})), "reviewed"],
    "scribe": [calls(("subagent", {"task": "count again"})), "fixed"],
    "spawn": [
        calls(("dispatch_subagents", {"tasks": [{"objective": "sift", "steps": []}]})),
        "dug",
    ],
}  # fmt: skip
"""What each agent says; all five tools, and most of them once more inside another's child."""


def five(folder: Path) -> list[Any]:
    """Return all five tools over a folder of agents; `subagent` runs in processes of their own."""
    for agent in ("lead", "reviewer", "scribe"):
        (folder / agent).mkdir(parents=True, exist_ok=True)
        text = f"---\ndescription: Is {agent}.\n---\nYou are {agent}."
        (folder / agent / "AGENT.md").write_text(text)
    loader = AgentLoader(folder)
    return [
        look,
        subagent_tool(runner="subprocess"),
        dispatch_subagent_tool(prompts=agent_prompts(loader.discover_agents())),
        subagents_tool(),
        create_subagent_dispatch_tool(loader, "lead"),
        *spawn_tools(SpawnSettings(enabled=True)),
    ]


def all_five(log: Path, **options: Any) -> tuple[Recording, list[Any]]:
    tools = five(log.parent / "agents")
    model = ScriptedModel(SCRIPT)
    session = planned()
    recording = record(
        "agent", {"task": "go"}, log=log, tools=tools, model=model, session=session, **options
    )
    return recording, tools


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, list[Any]]:
    """One recorded run with all five tools."""
    return all_five(tmp_path_factory.mktemp("five") / "run.jsonl")


def test_119_a_replay_executes_nothing_and_derives_every_state_again(
    whole: tuple[Recording, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, tools = whole

    def touched(*_: Any, **__: Any) -> Any:
        raise AssertionError("a replay reached the world")

    for port in (
        "refold.engine.models.scripted.ScriptedModel.complete",
        "refold.engine.runners.in_process.InProcess.run",
        "refold.engine.runners.in_subprocess.InSubprocess.run",
        "refold.tools.contract.tool_types.FunctionTool.call",
        "refold.engine.recording.workers.Workers.submit",
        "refold.engine.program.drawn._text_of",
    ):
        monkeypatch.setattr(port, touched)

    report = reexecute(recording.log, tools=tools, session=planned())

    assert report.identical, report
    assert report.tools_executed == 0
    logs = tree(recording.log)
    assert report.children == len(logs) - 1
    for each in logs:
        found = refold_log(each)
        assert found.recorded_digest is not None
        assert found.digest == found.recorded_digest
        *facts, (end, _, _) = read_events(each)
        assert isinstance(end, RunFinished)
        before = Fold()
        before.follow(facts)
        assert state_digest(before.state()) == found.digest, "it follows from the entries before"


@tool(effect="reads")
async def wavers(which: int) -> int:
    """Take a moment, each time another."""
    await asyncio.sleep(random.SystemRandom().uniform(0, 0.004))
    return which


async def child(run: Run, which: Any) -> Any:
    both = await asyncio.gather(run.tool(wavers, which=which), run.tool(wavers, which=-which))
    return [*both, run.random("x").randint(0, 99), run.now().isoformat()]


async def parallel(run: Run, _: Any) -> Any:
    """Wait for each child by itself, so that the first to end is the first in the log."""
    delegations = (Delegation(program=child, input=number) for number in range(4))
    outcomes = await asyncio.gather(*(run.delegate(each) for each in delegations))
    return [outcome.output for outcome in outcomes]


def _digest_of(log: Path) -> str:
    *_, last = read_entries(log)
    digest: str = last.data["data_digest"]
    return digest


def _order_of(log: Path) -> str:
    return " ".join(f"{entry.kind}{entry.call}" for entry in read_entries(log))


def test_120_fifty_live_runs_of_parallel_children_have_one_data_digest(tmp_path: Path) -> None:
    recordings = [
        record(
            parallel,
            log=tmp_path / f"run{'abcdefghij'[number // 10]}{'abcdefghij'[number % 10]}.jsonl",
            tools=[wavers],
            seed=7,
            clock=FixedClock(),
            durability="fast",
        )
        for number in range(50)
    ]

    assert {recording.status for recording in recordings} == {"completed"}
    trees = [tree(recording.log) for recording in recordings]
    assert {len(logs) for logs in trees} == {5}
    for same in zip(*trees, strict=True):  # the root's logs, then each child's
        assert len({_digest_of(log) for log in same}) == 1
    assert {recording.data_digest for recording in recordings} == {_digest_of(trees[0][0])}
    assert len({_order_of(logs[0]) for logs in trees}) > 1  # they did race
    assert len({recording.head for recording in recordings}) == 50


def saying(value: int) -> Any:
    """Return a tool, a child and a model that say `value`, each by the same name."""

    @tool(effect="reads", name="say")
    def say() -> int:
        return value

    async def child(_run: Run, _: Any) -> int:
        return value

    return say, child, ScriptedModel([str(value)])


async def _calls_one(run: Run, _: Any) -> None:
    await run.tool("say")


async def _calls_two(run: Run, _: Any) -> None:
    await asyncio.gather(run.tool("say"), run.tool("say"))


async def _asks(run: Run, _: Any) -> None:
    await run.model([{"role": "user", "content": "say"}])


@for_each("program", [_calls_one, _calls_two, _asks, None])
def test_120_what_came_back_counts_and_not_the_program_alone(
    tmp_path: Path, program: Callable[[Run, Any], Any] | None
) -> None:
    """The same requests with another result have another digest, though nothing is made of it."""

    def digest_of(value: int, name: str) -> str:
        say, child, model = saying(value)

        async def delegates(run: Run, _: Any) -> None:
            await run.delegate(Delegation(program=child))

        chosen = program or delegates
        log = tmp_path / f"{name}.jsonl"
        recording = record(chosen, log=log, tools=[say], model=model, seed=1, clock=FixedClock())
        assert recording.ok, recording.error
        return recording.data_digest

    assert digest_of(7, "one") == digest_of(7, "two") != digest_of(8, "other")


async def finds(run: Run, given: Any) -> str:
    for _ in range(3):
        await run.tool(wavers, which=1)
        run.session.dispatch(Finding(given["task"]))
    return "found"


SHARING = subagents_tool(program=finds, isolation_level=SubagentIsolationLevel.NO_ISOLATION)
RACERS = tuple(SubagentTask(str(number)) for number in range(6))


async def racing(run: Run, _: Any) -> list[str]:
    await SHARING.handler(DispatchSubagentsParams(RACERS), context=context_of(run))
    return [finding.text for finding in run.session.select_all(Finding)]


def test_121_races_in_a_shared_session_are_recorded_as_they_came(log: Path) -> None:
    """Which comes first is decided by the race; a replay has it from the record."""
    session, again = findings(), findings()

    recording = record(racing, log=log, session=session, tools=[wavers])

    assert recording.ok, recording.error
    changes = [entry.data for entry in read_entries(log) if entry.kind == "session.changed"]
    arrived = [change["data"]["text"] for change in changes]
    assert sorted(arrived) == sorted(str(number) for number in range(6) for _ in range(3))
    assert recording.output == arrived
    report = reexecute(log, racing, session=again)
    assert report.identical, report
    assert [finding.text for finding in again.select_all(Finding)] == arrived
    assert again.digest() == session.digest()


def test_122_what_comes_after_the_end_of_a_run_is_refused(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that never yields is timed out and fenced; its late line is refused and reported."""
    monkeypatch.setattr("refold.engine.runners.in_process._PATIENCE_SECONDS", 0.3)
    released, ended, told = threading.Event(), threading.Event(), list[BaseException]()

    def stubborn(run: Any, _: Any) -> None:
        assert released.wait(PATIENCE_SECONDS)
        try:
            run.annotate("late")
        except BaseException as error:
            told.append(error)
            raise
        finally:
            ended.set()

    async def parent(run: Run, _: Any) -> str:
        limits = Limits(timeout_seconds=0.2)
        return (await run.delegate(Delegation(program=stubborn, limits=limits))).status

    recording = record(parent, log=log)

    assert recording.output == "timed_out"
    child_log = log.with_name("run.1.jsonl")
    before = child_log.read_bytes()
    released.set()
    assert ended.wait(PATIENCE_SECONDS)
    (error,) = told
    assert isinstance(error, RefoldError)
    assert str(child_log) in str(error)
    assert child_log.read_bytes() == before
    with pytest.raises(LogSealed):
        LogWriter.resume(log)
    assert verify(log).intact


def _cut(lines: list[bytes]) -> list[bytes]:
    return lines[:-2]


def _swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[4], lines[3], *lines[5:]]


def _edited(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[2].replace(b"five", b"four"), *lines[3:]]


async def notes(run: Run, _: Any) -> None:
    for text in ("three", "five", "seven", "nine"):
        run.annotate(text)


async def with_a_child(run: Run, _: Any) -> None:
    await run.delegate(Delegation(program=notes))


@pytest.mark.parametrize(("damage", "line"), [(_cut, 5), (_swapped, 4), (_edited, 3)])
def test_123_a_cut_a_swap_and_an_edit_are_found_and_located(
    log: Path, damage: Callable[[list[bytes]], list[bytes]], line: int
) -> None:
    """In a child's log, from the root's: its name and the line are told."""
    record(with_a_child, log=log)
    assert verify(log).intact
    there = log.with_name("run.1.jsonl")
    there.write_bytes(b"".join(damage(there.read_bytes().splitlines(keepends=True))))

    found = verify(log)

    assert not (found.intact and found.complete)
    first = found.damage[0]
    assert (first.path, first.line) == (str(there), line)


def test_124_a_torn_line_is_told_taken_off_and_what_is_open_is_in_doubt(log: Path) -> None:
    async def asks(run: Run, _: Any) -> str:
        return str(await run.tool("look", at="a.txt"))

    record(asks, log=log, tools=[look])
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2]) + lines[2][:20])

    torn = scan(log).torn
    assert torn is not None
    assert (torn.what, torn.line) == ("torn tail", 3)
    assert not verify(log).complete
    resumed = LogWriter.resume(log)
    resumed.writer.close()
    assert resumed.cut is not None
    assert resumed.cut.kept.read_bytes() == lines[2][:20]
    assert log.read_bytes() == b"".join(lines[:2])
    (doubtful,) = state(log).open
    assert (doubtful.kind, doubtful.name, doubtful.seq) == ("tool", "look", 1)


def test_125_a_changed_dialect_or_reducer_is_told_at_its_first_difference(log: Path) -> None:
    async def delegates(run: Run, _: Any) -> Any:
        return await run.tool("dig_for_me", task="dig")

    record(delegates, log=log, tools=[digging(8)])
    report = reexecute(log, delegates, tools=[digging(3)])

    found = report.divergences[0]
    (started,) = [entry.seq for entry in read_entries(log) if entry.kind == "child.started"]
    assert (found.log, found.seq) == (str(log), started)
    assert _differs(found, "/limits/max_iterations") == (8, 3)

    async def changes(run: Run, _: Any) -> None:
        run.session.dispatch(Finding("a"))
        run.session.dispatch(Finding("a"))

    other = log.with_name("other.jsonl")
    record(changes, log=other, session=findings())
    changed = Session()
    changed.register(Finding, Finding, lambda _items, event: (event,))
    (of_reducer,) = reexecute(other, changes, session=changed).divergences
    assert of_reducer.seq == scan(other).entries - 1
    before, after = _differs(of_reducer, "/session_digest")
    assert before != after


def digging(iterations: int) -> DelegationTool:
    """Return a dialect that grants its children so many iterations."""

    async def handler(run: Run, arguments: dict[str, Any], /) -> Any:
        limits = Limits(max_iterations=iterations)
        outcome = await run.delegate(Delegation(program=child_of_no_word, limits=limits))
        return [arguments["task"], outcome.status]

    return DelegationTool(name="dig_for_me", description="", parameters={}, handler=handler)


async def child_of_no_word(_run: Run, _: Any) -> None:
    pass


def _differs(divergence: Divergence, pointer: str) -> tuple[Any, Any]:
    """Return what was recorded at a place, and what is there now."""
    return next(
        (each.before, each.after) for each in divergence.diff if each.pointer.endswith(pointer)
    )


def test_126_all_five_tools_in_one_tree_of_logs_that_replays(
    whole: tuple[Recording, list[Any]],
) -> None:
    """Nested in each other, in process and in subprocesses, in one run of one agent."""
    recording, tools = whole

    assert recording.output == "done", recording.error
    logs = tree(recording.log)
    by_tool: dict[str, set[str]] = {}
    for each in logs[1:]:
        first = next(iter(read_entries(each)))
        parent = each.with_name(each.name.rpartition(".jsonl")[0].rpartition(".")[0] + ".jsonl")
        (started,) = [
            entry.data["delegation"]
            for entry in read_entries(parent)
            if entry.kind == "child.started" and entry.data["run_id"] == first.data["run_id"]
        ]
        by_tool.setdefault(started["tool"], set()).add(first.meta["runner"])
    assert set(by_tool) == {
        "subagent",
        "dispatch_subagent",
        "dispatch_subagents",
        "subagent_dispatch",
        "spawn",
    }
    assert by_tool["subagent"] == {"subprocess"}
    assert by_tool["spawn"] == {"in-process"}
    assert max(each.name.count(".") for each in logs) >= 4  # run.4.1.1.jsonl and the like
    verified = verify(recording.log)
    assert verified.intact, verified.damage
    assert verified.complete
    offers = next(iter(read_entries(recording.log))).data["tools"]
    for given in (tools, offered_tools(offers)):  # as they were set up, and as anybody has them
        report = reexecute(recording.log, tools=given, session=planned())
        assert report.identical, report
        assert (report.tools_executed, report.children) == (0, len(logs) - 1)


@pytest.mark.parametrize("runner", some(1, ["in-process", "subprocess"]))
def test_127_limits_only_narrow_through_any_mix_of_tools(log: Path, runner: str) -> None:
    """`subagent_dispatch` knows no depth of its own; inside `subagent` it has that one's."""
    tools = five(log.parent / "agents")
    asks = calls(("subagent_dispatch", {"agent_id": "reviewer", "task": "review"}))
    script = {"agent": [calls(("subagent", {"task": "count"})), "done"], "subagent": [asks, "no"]}

    recording = record(
        "agent", {"task": "go"}, log=log, tools=tools, model=ScriptedModel(script), runner=runner
    )

    assert recording.ok
    child_log = log.with_name("run.1.jsonl")
    first = next(iter(read_entries(child_log))).data
    assert first["limits"]["max_depth"] == 1
    assert not {"subagent", "subagent_dispatch"} & {offer["name"] for offer in first["tools"]}
    assert not log.with_name("run.1.1.jsonl").exists()


def test_127_levels_narrow_what_was_granted_and_never_replace_it(log: Path) -> None:
    """Whatever a tool asks for its children: levels below the caller, or a depth of its own."""

    async def deep(run: Run, arguments: dict[str, Any], /) -> Any:
        outcome = await run.delegate(
            Delegation(
                program="agent",
                input={"task": "dig", "agent": {"name": "deep"}},
                levels=arguments.get("levels"),
                limits=Limits(max_depth=arguments.get("max_depth")),
            )
        )
        return [outcome.status, outcome.error.code if outcome.error else ""]

    digger = DelegationTool(name="deep", description="", parameters={}, handler=deep)
    asks = calls(("deep", {"levels": 5}), ("deep", {"max_depth": 9}), ("deep", {}))
    script: dict[str, list[Reply]] = {
        "agent": [calls(("subagent", {"task": "count"})), "done"],
        "subagent": [asks, "no"],
        "deep": ["reached"],
    }

    recording = record(
        "agent", {"task": "go"}, log=log, tools=[subagent_tool(), digger],
        model=ScriptedModel(script),
    )  # fmt: skip

    assert recording.ok
    child_log = log.with_name("run.1.jsonl")
    told = [
        entry.data["result"] for entry in read_entries(child_log) if entry.kind == "tool.returned"
    ]
    assert told == [["rejected", "max_depth"]] * 3
    assert not log.with_name("run.1.1.jsonl").exists()


def _lost(before: Any, after: Any, at: str = "") -> set[str]:
    """Return the pointers of what is in one value and not in the other; the rest is equal."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        assert before == after, at
        return set()
    assert after.keys() <= before.keys(), at
    inside = [_lost(before[name], after[name], f"{at}/{name}") for name in after]
    return {f"{at}/{name}" for name in before.keys() - after.keys()}.union(*inside)


VOLATILE = {
    "run.started": {"/run_id", "/root_id", "/parent", "/nonce", "/origin", "/shipped", "/untimed"},
    "child.started": {"/number", "/run_id"},
    "child.finished": {"/outcome/duration_ms", "/outcome/child"},
    "timer.fired": {"/virtual_us", "/length_us", "/nth"},
    "run.finished": {
        "/entries",
        "/data_digest",
        "/state_digest",
        "/session_digest",
        "/children_root",
        "/models",
        "/usage",
        "/tree_digest",
    },
    "tool.returned": {"/result/duration_ms"},
    "note.added": {"/data/duration_ms", "/data/started_at", "/data/correlation_id"},
}
"""All that may be missing of what stands in a log."""


def test_128_what_is_volatile_stands_in_one_closed_list(
    tmp_path: Path, whole: tuple[Recording, list[Any]]
) -> None:
    """Two recordings of one program, at other times and with other ids, differ in nothing else."""
    known = ["clock.read", "effect.late", "run.resumed", "tokens.granted", FOLDER, MEASURED, WIRE]
    assert sorted(UNDIGESTED) == known
    assert dict(TAILS) == {
        "run.started": "run_id",
        "child.started": "number",
        "child.finished": "duration_ms",
        "timer.fired": "virtual_us",
        "run.finished": "entries",
    }
    assert {kind for kind in KINDS if volatile.is_volatile(kind)} == UNDIGESTED - {
        FOLDER,
        MEASURED,
        WIRE,
    }

    async def program(run: Run, _: Any) -> str:
        return str(await run.tool("subagent", task="dig"))[:12]

    logs = [tmp_path / f"{name}.jsonl" for name in ("one", "two")]
    for each in logs:
        record(
            program,
            log=each,
            tools=[subagent_tool()],
            model=ScriptedModel(["dug"]),
            seed=1,
            clock=FixedClock(),
        )
    recording, _ = whole
    for each in (*logs, *tree(recording.log)):
        for entry in read_entries(each):
            lost = _lost(entry.data, volatile.stable(entry.kind, entry.data))
            assert lost <= VOLATILE.get(entry.kind, set()), entry.kind
    one, two = ([*read_entries(each)] for each in logs)
    for left, right in zip(one, two, strict=True):
        assert left.hash != right.hash
        assert volatile.stable(left.kind, left.data) == volatile.stable(right.kind, right.data)
    assert delegation_text(logs[0]) == delegation_text(logs[1])
    again, _ = all_five(tmp_path / "run.jsonl")
    assert delegation_text(again) == delegation_text(recording)
    found = diff(recording.log, again.log)
    assert found.identical, found
