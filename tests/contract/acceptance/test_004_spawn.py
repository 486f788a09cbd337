"""The `spawn` and `spawn_await` tools hold to their document: checks 94 to 118."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from refold.engine.errors import ConfigRefused, ModelError, NotReady, ToolError
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel, Reply, ScriptedModel
from refold.engine.ports.ports import Delegation, Model, ModelReply, ModelRequest, Tool
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.agents.profiles import (
    FALLBACK_PROMPT,
    SPAWN_TOOLS,
    SpawnProfile,
    SpawnSettings,
    profiles_block,
)
from refold.tools.configuration.config import load_config, spawn_settings
from refold.tools.configuration.prepared_run import prepare_run
from refold.tools.contract.registry import Registry
from refold.tools.contract.tool_types import tool
from refold.tools.delegation.shipped import offered_tools
from refold.tools.delegation.spawn import CollectingChannel, JobStore, job_id_of, spawn_tools
from refold.tools.delegation.words import NOTHING

PATIENCE_SECONDS = 60
SAMPLE = """
tools:
  spawn:
    enabled: false
    profiles:
      researcher:
        bootstrap_files:              # overrides default sub-agent allowlist
          - "SOUL.md"
          - "AGENTS.md"
        system_prompt_file: "RESEARCHER.md"   # loaded from workspace, appended
        system_prompt: "Focus on academic sources."  # inline, appended last
        tools:
          - web_search
          - shell
          - read_file
        pool: "smart"
      coder:
        system_prompt: "You are a coding specialist. Write clean, tested code."
        tools:
          - shell
          - read_file
          - write_file
          - list_files
"""
PROFILES = {
    "researcher": SpawnProfile(system_prompt="Read papers.", tools=("search", " read ")),
    "coder": SpawnProfile(system_prompt="Write code."),
}


@tool(effect="reads")
def search() -> str:
    """Find something."""
    return "found"


@tool(effect="reads")
def read() -> str:
    """Read something."""
    return "text"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with nothing in it."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def tools_of(
    workspace: Path, profiles: dict[str, SpawnProfile] | None = None, **more: Any
) -> tuple[Tool, ...]:
    settings = SpawnSettings(enabled=True, profiles=profiles or {})
    return (*spawn_tools(settings, workspace=workspace, **more), search, read)


def recorded(
    log: Path,
    program: Any,
    tools: tuple[Tool, ...],
    model: Model | None = None,
    argument: Any = None,
    **options: Any,
) -> Recording:
    recording = record(
        program,
        argument,
        log=log,
        tools=tools,
        model=model or ScriptedModel(["done"]),
        seed=1,
        **options,
    )
    assert recording.status == "completed", recording.error
    return recording


def spawned(log: Path, given: tuple[Tool, ...], /, **arguments: Any) -> dict[str, Any]:
    """Spawn once, wait, and return the first entry of the child's log."""
    recorded(log, spawning_once(**arguments), given)
    return first_of(log.with_name(f"{log.stem}.1.jsonl"))


def spawning_once(**arguments: Any) -> Any:
    """Return a program that spawns once, and waits."""

    async def once(run: Any, _: Any) -> Any:
        await run.tool("spawn", **{"task": "dig", **arguments})
        return await run.tool("spawn_await", job_ids="*")

    return once


def first_of(log: Path) -> dict[str, Any]:
    return next(iter(read_entries(log))).data


def system_of(first: dict[str, Any]) -> str:
    system: str = first["input"]["agent"]["system"]
    return system


def names_of(first: dict[str, Any]) -> list[str]:
    return [offer["name"] for offer in first["tools"]]


def refused(log: Path, given: tuple[Tool, ...], which: str = "spawn", /, **arguments: Any) -> str:
    """Return the words of a call that is an error; through an agent, it is told the same."""

    async def once(run: Any, _: Any) -> Any:
        with pytest.raises(ToolError) as caught:
            await run.tool(which, **arguments)
        return caught.value.message

    message: str = recorded(log, once, given).output
    calls: list[Reply] = [{"name": which, "arguments": arguments}, "done"]
    again = log.with_name("agent.jsonl")
    recorded(again, "agent", given, ScriptedModel(calls), {"task": "go"})
    (told,) = [
        one
        for entry in read_entries(again)
        if entry.kind == "model.asked"
        for one in entry.data["added"]
        if one["role"] == "tool"
    ]
    assert told["is_error"]
    assert told["content"] == message
    return message


def test_094_spawn_returns_before_the_child_has_ended(log: Path, workspace: Path) -> None:
    released = threading.Event()

    def answer(_request: ModelRequest) -> ModelReply:
        assert released.wait(PATIENCE_SECONDS)
        return ModelReply(message={"role": "assistant", "content": "late"})

    @tool(effect="changes")
    def release() -> None:
        released.set()

    async def program(run: Any, _: Any) -> Any:
        job = await run.tool("spawn", task="dig")
        held = not released.is_set()
        await run.tool(release)
        return [held, await run.tool("spawn_await", job_ids=job)]

    held, text = recorded(log, program, tools_of(workspace), FunctionModel(answer)).output

    assert held
    assert text.endswith("late")


def test_094_jobs_are_started_however_many_there_are(log: Path, workspace: Path) -> None:
    """More than work at once are queued."""

    async def many(run: Any, _: Any) -> Any:
        for number in range(70):
            await run.tool("spawn", task=f"dig {number}")
        return await run.tool("spawn_await", job_ids="*")

    text = recorded(log, many, tools_of(workspace)).output

    assert text.count(": OK]\ndone") == 70


def test_095_a_job_id_is_short_hex_unique_and_stable_under_replay(
    log: Path, workspace: Path
) -> None:
    async def many(run: Any, _: Any) -> Any:
        return [await run.tool("spawn", task=f"dig {n}") for n in range(8)]

    recording = recorded(log, many, tools_of(workspace))

    assert len(set(recording.output)) == 8
    assert all(re.fullmatch("[0-9a-f]{6}", each) for each in recording.output)
    offers = first_of(log)["tools"]
    assert reexecute(log, many, tools=offered_tools(offers)).identical
    taken = job_id_of("run", ())
    assert job_id_of("run", {taken}) == job_id_of("run", {taken})
    assert re.fullmatch(f"{taken}[0-9a-f]", job_id_of("run", {taken}))


def test_095_a_job_whose_id_is_taken_gets_a_longer_one_and_replaces_nobody(
    log: Path, workspace: Path
) -> None:
    """The id that the second child would have is taken before it starts, by a first job."""
    spawning = tools_of(workspace)
    ids: list[str] = []

    async def program(run: Any, _: Any) -> Any:
        first = await run.start(Delegation(program="agent", input={"task": "a"}))
        jobs = JobStore.of(run)
        if ids:
            jobs.start(ids[0], first)
        second = await run.tool("spawn", task="b")
        ids.append(second)
        return [second, await run.tool("spawn_await", job_ids="*")]

    model = FunctionModel(meeting({"a": "did a", "b": "did b"}))
    alone = recorded(log, program, spawning, model).output[0]
    taken = log.with_name("taken.jsonl")
    second, text = recorded(taken, program, spawning, model).output

    assert re.fullmatch(f"{alone}[0-9a-f]", second)
    assert text == f"[{alone}: OK]\ndid a\n\n[{second}: OK]\ndid b"


@pytest.mark.parametrize(
    "arguments", [{}, {"task": ""}, {"task": " \n"}, {"task": None}, {"task": 3}]
)
def test_096_without_a_task_it_is_an_error(
    log: Path, workspace: Path, arguments: dict[str, Any]
) -> None:
    assert refused(log, tools_of(workspace), **arguments) == "Error: task is required"


@pytest.mark.parametrize("profiles", [PROFILES, {}])
def test_097_an_unknown_profile_is_an_error_that_names_it(
    log: Path, workspace: Path, profiles: dict[str, SpawnProfile]
) -> None:
    message = refused(log, tools_of(workspace, profiles), task="dig", profile="poet")

    assert message.startswith("Error: unknown profile 'poet'; there are: ")
    assert not log.with_name("run.1.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"tools": "serch"},
            "unknown tool 'serch'; did you mean 'search'? there are: read, search",
        ),
        ({"tools": "read, shell"}, "unknown tool 'shell'; there are: read, search"),
    ],
)
def test_097_so_is_an_unknown_tool_and_an_unknown_pool(
    log: Path, workspace: Path, arguments: dict[str, Any], words: str
) -> None:
    """Told when it is named, not by a child without tools or a job that fails."""
    coder = SpawnProfile(tools=("read", "spawn"))
    profiles = {"coder": coder}

    assert refused(log, tools_of(workspace, profiles), task="dig", **arguments) == f"Error: {words}"
    assert not log.with_name("run.1.jsonl").exists()
    replayed = tools_of(workspace, profiles)
    assert reexecute(log.with_name("agent.jsonl"), tools=replayed).identical


def test_097_so_is_a_tool_of_a_profile_that_the_run_has_not(log: Path, workspace: Path) -> None:
    """Before the run begins, if it is given the tool, and else by the call."""
    coder = SpawnProfile(tools=("shell", "read", "spawn"))
    tools = tools_of(workspace, {"coder": coder})

    async def once(run: Any, _: Any) -> Any:
        with pytest.raises(ToolError) as caught:
            await run.tool(tools[0], task="dig", profile="coder")
        return caught.value.message

    with pytest.raises(NotReady, match=r"tool 'shell': .* \(for spawn\)"):
        recorded(log, once, tools)
    said = recorded(log, once, (search, read)).output

    assert said == "Error: profile 'coder': unknown tool 'shell'; there are: read, search"
    assert not log.with_name("run.1.jsonl").exists()
    assert reexecute(log, once, tools=tools).identical


def test_097_so_is_a_default_pool_that_the_run_has_not(log: Path, workspace: Path) -> None:
    """A profile's own pool comes before it, and the error says whose it was."""
    profiles = {"coder": SpawnProfile(), "sage": SpawnProfile(pool="smart")}
    tools = tools_of(workspace, profiles, default_pool="cheap")

    async def once(run: Any, name: str) -> Any:
        with pytest.raises(ToolError) as caught:
            await run.tool(tools[0], task="dig", profile=name)
        return caught.value.message

    with pytest.raises(NotReady, match=r"model 'cheap': .* model 'smart': "):
        recorded(log, once, tools, None, "coder")  # §10.4.8: before the first line
    for name, words in (("coder", "default unknown pool 'cheap'"), ("sage", "profile 'sage': ")):
        log.unlink(missing_ok=True)
        said: str = recorded(log, once, (search, read), None, name).output
        assert said.startswith(f"Error: {words}")


def test_098_the_profile_is_an_enum_where_there_are_profiles(workspace: Path) -> None:
    with_some, without = tools_of(workspace, PROFILES)[0], tools_of(workspace)[0]

    assert with_some.parameters["properties"]["profile"]["enum"] == ["coder", "researcher"]
    assert "enum" not in without.parameters["properties"]["profile"]
    assert with_some.parameters["required"] == ["task"]


def test_099_without_a_profile_it_has_the_bootstrap_files_else_its_callers_prompt(
    log: Path, workspace: Path
) -> None:
    call: list[Reply] = [
        {"tool_calls": [{"name": "spawn", "arguments": {"task": "dig"}}]},
        {"tool_calls": [{"name": "spawn_await", "arguments": {"job_ids": "*"}}]},
        "done",
    ]
    model = ScriptedModel({"agent": call, "spawn": ["dug"]})
    block = profiles_block(PROFILES)
    asked = {"task": "go", "agent": {"system": f"You lead.\n\n{block}"}}

    recorded(log, "agent", tools_of(workspace, PROFILES), model, asked)
    assert system_of(first_of(log.with_name("run.1.jsonl"))) == "You lead."

    alone = log.with_name("alone.jsonl")
    assert system_of(spawned(alone, tools_of(workspace))) == FALLBACK_PROMPT
    (workspace / "AGENTS.md").write_text("Be kind.\n")
    (workspace / "ENVIRONMENT.md").write_text("On a boat.\n")
    (workspace / "SOUL.md").write_text("Not read.\n")
    two = log.with_name("two.jsonl")
    recorded(two, "agent", tools_of(workspace, PROFILES), model, asked)
    assert system_of(first_of(two.with_name("two.1.jsonl"))) == "Be kind.\n\n---\n\nOn a boat."
    assert reexecute(two, tools=offered_tools(first_of(two)["tools"])).identical


def test_100_bootstrap_files_of_a_profile_replace_the_default_ones(
    log: Path, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("Not read.")
    (workspace / "SOUL.md").write_text("Be wise.")
    profile = SpawnProfile(bootstrap_files=("SOUL.md",))

    first = spawned(log, tools_of(workspace, {"sage": profile}), profile="sage")

    assert system_of(first) == "Be wise."


def test_101_the_prompt_file_comes_second_and_the_inline_prompt_last(
    log: Path, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("One.")
    (workspace / "SAGE.md").write_text("Two.")
    whole = SpawnProfile(system_prompt="Three.", system_prompt_file="SAGE.md")

    first = spawned(log, tools_of(workspace, {"whole": whole}), profile="whole")

    assert system_of(first) == "One.\n\n---\n\nTwo.\n\n---\n\nThree."


def test_101_a_file_of_a_profile_that_is_not_there_is_told(log: Path, workspace: Path) -> None:
    """Before the run begins; and if it goes later, by the call that needs it."""
    gap = SpawnProfile(system_prompt_file="ABSENT.md", bootstrap_files=("SOUL.md",))
    tools = tools_of(workspace, {"gap": gap})
    with pytest.raises(NotReady, match=r"ABSENT\.md: no such file.*SOUL\.md: no such file"):
        spawned(log, tools, profile="gap")
    assert not log.exists()

    async def late(run: Any, _: Any) -> Any:
        (workspace / "SOUL.md").unlink(missing_ok=True)
        with pytest.raises(ToolError) as caught:
            await run.tool("spawn", task="dig", profile="gap")
        return caught.value.message

    (workspace / "ABSENT.md").write_text("Be brief.")
    (workspace / "SOUL.md").write_text("Be kind.")
    said = recorded(log, late, tools).output

    assert said == "Error: the profile's files cannot be read: SOUL.md"
    assert reexecute(log, late, tools=tools).identical


def test_102_a_prompt_in_the_call_takes_the_place_of_the_profiles(
    log: Path, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("One.")
    tools = tools_of(workspace, PROFILES)

    first = spawned(log, tools, profile="coder", system_prompt="Write tests.")

    assert system_of(first) == "One.\n\n---\n\nWrite tests."


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"profile": "researcher", "tools": " read , "}, ["read"]),
        ({"profile": "researcher"}, ["read", "search"]),
        ({"profile": "researcher", "tools": " "}, ["read", "search"]),
        ({"profile": "coder"}, ["read", "search"]),
        ({"tools": "search"}, ["search"]),
        ({"tools": ""}, ["read", "search"]),
    ],
)
def test_103_tools_of_the_call_go_before_the_profiles_and_these_before_all(
    log: Path, workspace: Path, arguments: dict[str, Any], names: list[str]
) -> None:
    assert names_of(spawned(log, tools_of(workspace, PROFILES), **arguments)) == names


def test_104_a_spawned_child_can_never_spawn(log: Path, workspace: Path) -> None:
    profile = SpawnProfile(tools=("spawn", "spawn_await", "read"))
    tools = tools_of(workspace, {"greedy": profile})

    assert names_of(spawned(log, tools, profile="greedy")) == ["read"]
    other = log.with_name("other.jsonl")
    assert names_of(spawned(other, tools, tools="spawn,read,spawn_await")) == ["read"]


def test_105_without_a_profile_it_has_all_other_tools_of_its_caller(
    log: Path, workspace: Path
) -> None:
    assert names_of(spawned(log, tools_of(workspace, PROFILES))) == ["read", "search"]


@pytest.mark.parametrize(
    ("more", "said"),
    [({}, "dig"), ({"context": ""}, "dig"), ({"context": "Here."}, "Here.\n\ndig")],
)
def test_106_the_context_stands_before_the_task(
    log: Path, workspace: Path, more: dict[str, Any], said: str
) -> None:
    assert spawned(log, tools_of(workspace), **more)["input"]["task"] == said


def meeting(outcomes: dict[str, str]) -> Callable[[ModelRequest], ModelReply]:
    """Return a model in which each child says, or fails with, what its task stands for."""

    def answer(request: ModelRequest) -> ModelReply:
        text = outcomes[request.messages[-1]["content"]]
        if text.startswith("raise "):
            raise RuntimeError(text.removeprefix("raise "))
        return ModelReply(message={"role": "assistant", "content": text})

    return answer


def awaited(log: Path, workspace: Path, outcomes: dict[str, str], *job_ids: str) -> list[Any]:
    """Spawn a job for each task; return the ids, then what each `spawn_await` gave.

    In `job_ids`, `0` stands for the first job's id, and so on.
    """

    async def program(run: Any, _: Any) -> Any:
        jobs = [await run.tool("spawn", task=task) for task in outcomes]
        asked = [re.sub(r"\d", lambda found: jobs[int(found[0])], each) for each in job_ids]
        return [jobs, *[await run.tool("spawn_await", job_ids=each) for each in asked]]

    recording = recorded(log, program, tools_of(workspace), FunctionModel(meeting(outcomes)))
    assert reexecute(log, program, tools=offered_tools(first_of(log)["tools"])).identical
    output: list[Any] = recording.output
    return output


def test_107_it_waits_for_what_is_asked_and_answers_in_that_order(
    log: Path, workspace: Path
) -> None:
    """The second job ends only after its result was not asked for."""
    released = threading.Event()

    def answer(request: ModelRequest) -> ModelReply:
        task = request.messages[-1]["content"]
        assert task != "b" or released.wait(PATIENCE_SECONDS)
        return ModelReply(message={"role": "assistant", "content": f"did {task}"})

    @tool(effect="changes")
    def release() -> None:
        released.set()

    async def program(run: Any, _: Any) -> Any:
        a, b, c = [await run.tool("spawn", task=task) for task in "abc"]
        first = await run.tool("spawn_await", job_ids=f"{c}, {a}")
        assert not released.is_set()
        await run.tool(release)
        return [[a, b, c], first, await run.tool("spawn_await", job_ids=b)]

    (a, b, c), first, second = recorded(
        log, program, tools_of(workspace), FunctionModel(answer)
    ).output

    assert first == f"[{c}: OK]\ndid c\n\n[{a}: OK]\ndid a"
    assert second == f"[{b}: OK]\ndid b"


def test_108_the_star_is_every_job_in_the_order_of_starts(log: Path, workspace: Path) -> None:
    """Also those that had ended and been told before."""
    (a, b), _, all_of_them = awaited(log, workspace, {"a": "did a", "b": "did b"}, "1", "*")

    assert all_of_them == f"[{a}: OK]\ndid a\n\n[{b}: OK]\ndid b"


def test_109_a_block_is_its_head_and_its_text_and_blank_lines_part_them(
    log: Path, workspace: Path
) -> None:
    (a, b), both = awaited(log, workspace, {"a": "one\ntwo", "b": ""}, "0,1")

    assert both == f"[{a}: OK]\none\ntwo\n\n[{b}: OK]\n{NOTHING}"


ENDINGS = {
    "raise": "kaput",
    "fail": "the model failed",
    "time": "timed_out: the child did not finish within the 0.2 s that it had",
    "limit": "max_iterations",
    "kind": "zip",
    "cancel": "cancelled",
}
"""Ways in which a child does not complete, and what its message says of it."""


def endings(request: ModelRequest, told: threading.Event) -> ModelReply:
    """Answer a child in the way that its task names; `told` is set once its end was told."""
    match request.messages[-1]["content"]:
        case "raise":
            raise RuntimeError("kaput")
        case "fail":
            raise ModelError("failed", "the model failed")
        case "time":
            assert told.wait(PATIENCE_SECONDS)  # past the deadline of its run
            return ModelReply(message={"role": "assistant", "content": "late"})
        case "kind":  # an artifact of a kind that no policy knows
            said = '{"summary": "done", "artifacts": [{"kind": "zip", "value": "x"}]}'
            return ModelReply(message={"role": "assistant", "content": said})
    call = {"id": "c", "name": "read", "arguments": {}}
    return ModelReply(message={"role": "assistant", "content": "", "tool_calls": [call]})


@pytest.mark.parametrize("ending", ENDINGS)
def test_110_what_fails_is_an_error_and_never_ok(log: Path, workspace: Path, ending: str) -> None:
    """Whether it raised, failed, took too long, hit a limit, was refused or given up."""
    told = threading.Event()

    async def program(run: Any, _: Any) -> Any:
        if ending == "cancel":
            job = "given-up"
            child = await run.start(Delegation(program="agent", input={"task": "time"}))
            JobStore.of(run).start(job, child)
            run.cancel(child)
        else:
            job = await run.tool("spawn", task=ending)
        text = await run.tool("spawn_await", job_ids=job)
        told.set()
        return [job, text]

    limits = {
        "time": Limits(join_seconds=0.2),
        "limit": Limits(max_iterations=1),
    }.get(ending, Limits())
    job, text = recorded(
        log,
        program,
        tools_of(workspace),
        FunctionModel(lambda request: endings(request, told)),
        limits=limits,
    ).output

    assert text.startswith(f"[{job}: ERROR]\n")
    assert "OK]" not in text
    assert ENDINGS[ending] in text
    assert reexecute(log, program, tools=offered_tools(first_of(log)["tools"])).identical


def test_111_an_unknown_id_is_told_at_its_place(log: Path, workspace: Path) -> None:
    (a, b), text = awaited(log, workspace, {"a": "did a", "b": "did b"}, "1,unknown_id,0")

    assert text == f"[{b}: OK]\ndid b\n\n[unknown_id: NOT FOUND]\n\n[{a}: OK]\ndid a"


def test_112_the_star_without_jobs(log: Path, workspace: Path) -> None:
    assert awaited(log, workspace, {}, "*") == [[], "No jobs found."]


def test_113_jobs_never_make_it_an_error_and_a_missing_argument_does(
    log: Path, workspace: Path
) -> None:
    outcomes = {"a": "did a", "b": "raise no"}

    (a, b), text = awaited(log, workspace, outcomes, "0,1,none")

    assert [line for line in text.splitlines() if line.startswith("[")] == [
        f"[{a}: OK]",
        f"[{b}: ERROR]",
        "[none: NOT FOUND]",
    ]
    all_failed = log.with_name("failed.jsonl")
    (c, d), text = awaited(all_failed, workspace, {"a": "raise no", "b": "raise oh"}, "*")
    assert re.findall(r"\[.*\]", text) == [f"[{c}: ERROR]", f"[{d}: ERROR]"]
    nobody = log.with_name("nobody.jsonl")
    assert awaited(nobody, workspace, {}, "none,neither") == [
        [],
        "[none: NOT FOUND]\n\n[neither: NOT FOUND]",
    ]
    wrong: list[dict[str, Any]] = [{}, *({"job_ids": each} for each in ("", "  ", ","))]
    for number, arguments in enumerate(wrong):
        folder = log.parent / str(number)
        folder.mkdir()
        words = refused(folder / "run.jsonl", tools_of(workspace), "spawn_await", **arguments)
        assert words == "Error: job_ids is required"


def test_114_a_result_can_be_had_again(log: Path, workspace: Path) -> None:
    (a,), first, again, star = awaited(log, workspace, {"a": "did a"}, "0", "0", "*")

    assert first == again == star == f"[{a}: OK]\ndid a"


def test_115_a_collecting_channel_keeps_what_is_sent_and_receives_nothing(log: Path) -> None:
    """As a host's own agent uses one in a run: what it sent is the text that it returns."""

    async def speaking(run: Any, _: Any) -> Any:
        channel = CollectingChannel()
        assert channel.streaming is False
        for _ in range(2):
            reply = await run.model([{"role": "user", "content": channel.collected_text}])
            await channel.send(reply.message["content"])
        return [channel.collected_text, [text async for text in channel.receive()]]

    def answer(request: ModelRequest) -> ModelReply:
        text = {"": "foo", "foo": "bar"}[request.messages[0]["content"]]
        return ModelReply(message={"role": "assistant", "content": text})

    recording = recorded(log, speaking, (), FunctionModel(answer))

    assert recording.output == ["foobar", []]
    assert reexecute(log, speaking).identical


def test_116_the_prompt_names_the_profiles_where_there_are_any(tmp_path: Path) -> None:
    profiles = {"x": SpawnProfile(system_prompt='A < "b"', tools=("read", "search"))}
    assert profiles_block({**profiles, "a": SpawnProfile(system_prompt="All.")}) == (
        "<available_spawn_profiles>\n"
        '  <profile name="a">All. Tools: all.</profile>\n'
        '  <profile name="x">A &lt; &quot;b&quot; Tools: read, search.</profile>\n'
        "</available_spawn_profiles>"
    )
    assert profiles_block({}) == ""
    (tmp_path / "AGENT.md").write_text(
        "---\ndescription: d\ntools: [spawn, spawn_await]\n---\nYou lead.\n"
    )
    config = tmp_path / "refold.yaml"
    prompts = []
    for text in (SAMPLE.replace("enabled: false", "enabled: true"), ""):
        config.write_text(text)
        given, _, _ = prepare_run(tmp_path, task="go", root=tmp_path, config=load_config(config))
        prompts.append(given["agent"]["system"])
    assert prompts[0].startswith("You lead.\n\n<available_spawn_profiles>\n")
    assert prompts[1] == "You lead."


def test_117_it_is_not_there_unless_it_is_enabled(tmp_path: Path) -> None:
    assert not SpawnSettings().enabled
    assert spawn_tools(SpawnSettings(profiles=PROFILES)) == ()
    assert not Registry(spawn_tools(SpawnSettings())).names
    assert Registry(spawn_tools(SpawnSettings(enabled=True))).names == SPAWN_TOOLS
    (tmp_path / "AGENT.md").write_text("---\ndescription: d\n---\nYou lead.\n")
    (tmp_path / "refold.yaml").write_text(SAMPLE)
    _, tools, _ = prepare_run(tmp_path, task="go", root=tmp_path, config=load_config(tmp_path))
    assert not {tool.name for tool in tools} & set(SPAWN_TOOLS)


def test_118_the_sample_loads_verbatim_and_no_pool_is_the_default_pool(
    log: Path, workspace: Path, tmp_path: Path
) -> None:
    settings = spawn_settings(yaml.safe_load(SAMPLE)["tools"]["spawn"])
    config = tmp_path / "refold.yaml"
    config.write_text(SAMPLE)
    assert load_config(config).spawn == settings
    assert settings == SpawnSettings(
        enabled=False,
        profiles={
            "researcher": SpawnProfile(
                system_prompt="Focus on academic sources.",
                system_prompt_file="RESEARCHER.md",
                bootstrap_files=("SOUL.md", "AGENTS.md"),
                tools=("web_search", "shell", "read_file"),
                pool="smart",
            ),
            "coder": SpawnProfile(
                system_prompt="You are a coding specialist. Write clean, tested code.",
                tools=("shell", "read_file", "write_file", "list_files"),
            ),
        },
    )
    config.write_text(f"{SAMPLE}\nllm: {{pools: {{fast: 'openai:gpt-4o-mini'}}}}\n")
    with pytest.raises(
        ConfigRefused,
        match=r"tools\.spawn\.profiles\.researcher\.pool 'smart' not found in llm\.pools",
    ):
        load_config(config)

    async def once(run: Any, _: Any) -> Any:
        jobs = [await run.tool("spawn", task="dig", profile=name) for name in ("none", "smart")]
        return [jobs, await run.tool("spawn_await", job_ids="*")]

    profiles = {"none": SpawnProfile(), "smart": SpawnProfile(pool="smart")}
    tools = tools_of(workspace, profiles, default_pool="fast")
    models = {name: ScriptedModel([f"by {name}"], name=name) for name in ("fast", "smart")}
    (a, b), text = recorded(log, once, tools, models=models).output
    assert text == f"[{a}: OK]\nby fast\n\n[{b}: OK]\nby smart"
