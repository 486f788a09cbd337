"""What each peer does for the table of `peers`: the same work, written as its documents show it.

A call finds two words; a request is turn 10 of a conversation.  Peers are imported where they are
used, because each is in a process of its own and none has to be installed.
"""

import http.client
import itertools
import os
import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import urlsplit

import attrs
import orjson

import refold
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.replaying import Replaying
from refold.proxy.http.routes import routes_of
from refold.proxy.http.server import served
from refold.replay.observed.record import read_record
from tests.benchmarks import bench_watched, measure, programs

CALLS, REQUESTS, TIMES = 100, 20, 20
"""Of one run of a job."""
RECORD, ONE, REPLAY = "a recorded call", "re-execution of a run of one call", "a re-executed call"
REQUEST, SERVED = "a recorded request", "a replayed request"
WORKS = {
    RECORD: f"the time for one of the {CALLS} calls of a run. The arguments are stored before the "
    "call starts, and the result before the program gets it. DBOS and LangGraph store only the "
    "result",
    ONE: "the program runs again and gets the recorded result. The time includes everything that "
    "the library does for this",
    REPLAY: f"the same, for one of the {CALLS} calls of a run",
    REQUEST: f"the time for one of the {REQUESTS} HTTP requests of a program. The model is a "
    "server on the same machine that answers immediately. Refold's proxy and the model run in the "
    "client's process",
    SERVED: f"the same, for one of {REQUESTS} requests that are answered from the recording. For "
    "the floor, the model answers",
}


@attrs.frozen
class Timed:
    """Something that a peer does, and what has reached the disk when it is done."""

    work: str
    durability: str
    run: Callable[[], object]
    count: int = 1


def _often(run: Callable[[Any], object], given: object) -> Callable[[], object]:
    return lambda: [run(given) for _ in range(TIMES)]


# --- the floor ----------------------------------------------------------------------------------


def floor(folder: Path) -> list[Timed]:
    """Return the two lines of a call dumped, hashed and written; and read; and a bare request."""
    one, many, place = folder / "one", folder / "many", folder / "written"
    _lines(one, 1)
    _lines(many, CALLS)
    url = measure.opened.enter_context(bench_watched.Model()).url
    return [
        Timed(RECORD, "no sync", lambda: _lines(place, CALLS), CALLS),
        Timed(RECORD, "each line synced", lambda: _lines(place, CALLS, synced=True), CALLS),
        Timed(ONE, "its lines read, hashed, loaded", _often(_loaded, one), TIMES),
        Timed(REPLAY, "its lines read, hashed, loaded", lambda: _loaded(many), CALLS),
        Timed(REQUEST, "kept nowhere", lambda: _ask(url), REQUESTS),
        Timed(SERVED, "kept nowhere", lambda: _ask(url), REQUESTS),
    ]


def _lines(path: Path, calls: int, *, synced: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    called = {"tool": "find", "arguments": {"limit": 2, "query": "needle"}, "effect": "reads"}
    returned = {"status": "ok", "result": ["needle", "needle"]}
    before = "0" * 64
    for at in range(calls):
        for kind, data in (("tool.called", called), ("tool.returned", returned)):
            line: dict[str, Any] = {"seq": at, "kind": kind, "call": f"0#{at}", "cause": at}
            meta = {"wall_us": 1_700_000_000_000_000, "mono_us": 1_000_000_000 + at}
            text = orjson.dumps(line | {"data": data, "meta": meta, "hash": before}) + b"\n"
            before = sha256(text).hexdigest()
            os.write(descriptor, text)
            if synced:
                os.fdatasync(descriptor)
    os.close(descriptor)


def _loaded(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            sha256(line).digest()
            orjson.loads(line)


def _ask(base: str) -> None:
    place = urlsplit(base)
    connection = http.client.HTTPConnection(place.netloc)
    for turn in range(bench_watched.SHORT, bench_watched.SHORT + REQUESTS):
        target = f"{place.path}{bench_watched.PATH}"
        connection.request("POST", target, bench_watched.body(turn))
        answer = connection.getresponse()
        if answer.status != 200 or not answer.read():
            raise RuntimeError(f"{target}: {answer.status}")
    connection.close()


# --- peers --------------------------------------------------------------------------------------


def of_refold(folder: Path) -> list[Timed]:
    """Return what Refold does, with each of its durabilities."""
    fresh = itertools.count()
    one, many, straight = folder / "one.jsonl", folder / "many.jsonl", folder / "watched.jsonl"

    def recorded(calls: int, durability: Any, log: Path | None = None) -> None:
        place = log or folder / f"{next(fresh)}.jsonl"
        tools = [programs.find]
        refold.record(
            programs.asynchronous, calls, log=place, tools=tools, durability=durability
        ).result()

    def replayed(log: Path) -> None:
        if not refold.reexecute(log, programs.asynchronous).identical:
            raise RuntimeError(str(log))

    recorded(1, "fast", one)
    recorded(CALLS, "fast", many)
    model = measure.opened.enter_context(bench_watched.Model()).url
    with bench_watched.recorded(straight, model) as base:
        _ask(f"{base}/openai")
    proxy = measure.opened.enter_context(bench_watched.recorded(folder / "proxy.jsonl", model))

    def again() -> None:
        desk = Replaying(read_record(straight), Secrets(), routes=routes_of([f"openai={model}"]))
        with served(desk, ["openai"]) as base:
            _ask(f"{base}/openai")

    return [
        Timed(RECORD, "`fast`: no sync", lambda: recorded(CALLS, "fast"), CALLS),
        Timed(RECORD, "`group`: synced in groups", lambda: recorded(CALLS, "group"), CALLS),
        Timed(RECORD, "`strict`: each entry synced", lambda: recorded(CALLS, "strict"), CALLS),
        Timed(ONE, "the whole log verified", _often(replayed, one), TIMES),
        Timed(REPLAY, "the whole log verified", lambda: replayed(many), CALLS),
        Timed(REQUEST, "synced in groups", lambda: _ask(f"{proxy}/openai"), REQUESTS),
        Timed(SERVED, "the whole log verified, the proxy started", again, REQUESTS),
    ]


def dbos(folder: Path) -> list[Timed]:
    """Return a step of DBOS."""
    from dbos import DBOS  # noqa: PLC0415 - each peer where it is used

    place = f"sqlite:///{folder / 'dbos.sqlite'}"
    DBOS(config={"name": "bench", "system_database_url": place, "run_admin_server": False,
                 "log_level": "CRITICAL"})  # fmt: skip

    @DBOS.step()
    def find(query: str, limit: int) -> list[str]:
        return [query] * limit

    @DBOS.workflow()
    def calling(calls: int) -> int:
        for _ in range(calls):
            find("needle", 2)
        return calls

    DBOS.launch()
    measure.opened.callback(DBOS.destroy)
    synced = "SQLite, each step synced (rollback journal)"
    return [Timed(RECORD, synced, lambda: calling(CALLS), CALLS)]


def langgraph(folder: Path) -> list[Timed]:
    """Return a superstep of LangGraph with its checkpointer."""
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415

    graph = StateGraph(Found)
    graph.add_node("find", lambda state: {"left": state["left"] - 1, "found": ["needle"] * 2})
    graph.add_edge(START, "find")
    graph.add_conditional_edges("find", lambda state: "find" if state["left"] else END)
    kept = sqlite3.connect(folder / "langgraph.sqlite", check_same_thread=False)
    compiled = graph.compile(checkpointer=SqliteSaver(kept))
    threads = itertools.count()

    def run() -> None:
        config = {"configurable": {"thread_id": str(next(threads))}, "recursion_limit": CALLS + 5}
        compiled.invoke({"left": CALLS, "found": []}, config, durability="sync")

    return [Timed(RECORD, "SQLite, each superstep synced (WAL)", run, CALLS)]


class Found(TypedDict):
    """The state of the graph."""

    left: int
    found: list[str]


def eventsourcing(folder: Path) -> list[Timed]:
    """Return two saved events, one before the call and one after it."""
    from eventsourcing.application import Application  # noqa: PLC0415
    from eventsourcing.domain import Aggregate, event  # noqa: PLC0415

    class Run(Aggregate):
        @event("Called")
        def called(self, tool: str, arguments: dict[str, Any]) -> None:
            self.last = (tool, arguments)

        @event("Returned")
        def returned(self, result: list[str]) -> None:
            self.result = result

    place = str(folder / "events.sqlite")
    kept: Any = Application(
        env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": place}
    )

    def run() -> None:
        calling = Run()
        for _ in range(CALLS):
            calling.called("find", {"query": "needle", "limit": 2})
            kept.save(calling)
            calling.returned(["needle"] * 2)
            kept.save(calling)

    return [Timed(RECORD, "SQLite, each event synced (WAL)", run, CALLS)]


def temporal(_folder: Path) -> list[Timed]:
    """Return the replay of a workflow that executes an activity again and again."""
    import asyncio  # noqa: PLC0415

    from temporalio.worker import Replayer, UnsandboxedWorkflowRunner  # noqa: PLC0415

    from tests.benchmarks.peer_temporal import Calling, history  # noqa: PLC0415

    one, many = history(1), history(CALLS)
    loop = asyncio.new_event_loop()
    measure.opened.callback(loop.close)
    measure.opened.callback(lambda: loop.run_until_complete(loop.shutdown_asyncgens()))

    def run(given: Any) -> None:
        replayer = Replayer(workflows=[Calling], workflow_runner=UnsandboxedWorkflowRunner())
        loop.run_until_complete(replayer.replay_workflow(given))

    said = "the history in memory, no sandbox"
    return [
        Timed(ONE, said, _often(run, one), TIMES),
        Timed(REPLAY, said, lambda: run(many), CALLS),
    ]


def vcrpy(folder: Path) -> list[Timed]:
    """Return a request that vcrpy records and replays, in the process of the client."""
    import vcr  # noqa: PLC0415

    url = measure.opened.enter_context(bench_watched.Model()).url
    cassette, kept = folder / "new.yaml", folder / "kept.yaml"

    def run(path: Path, mode: str) -> None:
        if mode == "all":
            path.unlink(missing_ok=True)
        with vcr.use_cassette(str(path), record_mode=mode, match_on=["method", "uri", "body"]):
            _ask(url)

    run(kept, "all")
    return [
        Timed(REQUEST, "written at the end, no sync", lambda: run(cassette, "all"), REQUESTS),
        Timed(SERVED, "the whole cassette loaded", lambda: run(kept, "none"), REQUESTS),
    ]
