"""`spawn` and `spawn_await`: start a child and continue; fetch its result later.

    spawn        task, and perhaps profile, context, system_prompt, tools → a job id, "a3f9c1"
    spawn_await  job_ids, "a3f9c1,b7d2e4" or "*"                          → one block a job

    [a3f9c1: OK]            [b7d2e4: ERROR]         [c0ffee: NOT FOUND]
    <text>                  <message>

A job is a child of this run. Its id is derived from the child's, so a replay gives the same id. A
failed job is not a failure of `spawn_await`, which reports all jobs. Jobs that were not awaited are
cancelled when the run ends. `tools.agents.profiles` builds the children. Rules: CONTRACT.md §10.17.
"""

import hashlib
import weakref
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.errors import ToolError, UsageError
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child
from refold.engine.ports.delegation import Delegation
from refold.engine.ports.ports import Reference
from refold.engine.program.agent import REFUSED, caller
from refold.engine.program.run import Run
from refold.tools.agents.profiles import SPAWN_TOOLS, SpawnSettings, SubAgentFactory, nearest_of
from refold.tools.contract.memory import memory_of, settings_of
from refold.tools.contract.policy import POLICIES
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import (
    call_begins,
    call_ends,
    call_failed,
    offered_to_child,
    outcome_in,
    texts_schema,
    unknown_in,
)
from refold.tools.delegation.words import error_of, handed_back, told_of

_SPAWN, _AWAIT = SPAWN_TOOLS
_ROW: Final = POLICIES[_SPAWN]
_ID_DIGITS: Final = 6
JOB_IDS_MAX: Final = 1000
"""Ids that one call waits for; the answer repeats a job's text for each, the same id included."""
_WELL: Final[dict[str, Any]] = {
    "success": True,
    "timed_out": False,
    "error": None,
    "duration_ms": 0,
}
"""The logged members of a successful call."""


class JobStore:
    """The jobs of one run: what `spawn` started there, in that order."""

    def __init__(self, run: Run) -> None:
        """Make an empty one; `of` has the run's own, which goes with it."""
        self._run = weakref.ref(run)
        self._jobs: dict[str, Child] = {}

    @classmethod
    def of(cls, run: Run) -> "JobStore":
        """Return the jobs of `run`."""
        return memory_of(run, "jobs", lambda: cls(run))

    def start(self, job_id: str, child: Child) -> None:
        """Keep a child that was started, under its id."""
        self._jobs[job_id] = child

    async def await_jobs(self, job_ids: Sequence[str]) -> dict[str, Outcome]:
        """Wait for the jobs that exist, and return their outcomes; again as often as asked."""
        found = {each: self._jobs[each] for each in job_ids if each in self._jobs}
        run = self._run()
        if run is None:
            raise UsageError("the run of these jobs has ended")
        outcomes = await run.join(*found.values())
        return dict(zip(found, outcomes, strict=True))

    def child(self, job_id: str) -> Child | None:
        """Return the child of a job, or None."""
        return self._jobs.get(job_id)

    def all_job_ids(self) -> list[str]:
        """Return the ids of all jobs, ended or not, in the order of their starts."""
        return list(self._jobs)


class CollectingChannel:
    """A channel that keeps sent messages and never receives any."""

    streaming: Final = False

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sent: list[str] = []

    async def send(self, text: str) -> None:
        """Keep a piece of text."""
        self._sent.append(text)

    async def receive(self) -> AsyncIterator[str]:
        """Yield nothing, and end at once."""
        nothing: tuple[str, ...] = ()
        for text in nothing:
            yield text

    @property
    def collected_text(self) -> str:
        """All that was sent, as one text."""
        return "".join(self._sent)


class SpawnTool(DelegationTool):
    """`spawn`, over what `factory` builds children from."""

    def __init__(self, factory: SubAgentFactory | None = None) -> None:
        """Make the tool; without a factory, it has no profiles."""
        plain = (factory or SubAgentFactory()).as_json()

        async def handler(run: Run, arguments: dict[str, Json], /) -> Json:
            settings = settings_of(run, _SPAWN, lambda: plain)
            return await _spawned(run, SubAgentFactory.from_json(settings), arguments)

        super().__init__(
            name=_SPAWN,
            description=(
                "Start a sub-agent on a task and return its job id at once; it works while you go "
                "on. Collect its result with spawn_await."
            ),
            parameters=_spawn_schema(sorted(plain["profiles"])),
            handler=handler,
            reference=Reference(__name__, "remade", plain),
            children=SubAgentFactory.from_json(plain).children,
        )


class SpawnAwaitTool(DelegationTool):
    """`spawn_await`, over the jobs of the run that calls it."""

    def __init__(self) -> None:
        """Make it."""
        super().__init__(
            name=_AWAIT,
            description="Wait for spawned sub-agents and return all their results.",
            parameters=texts_schema(
                {"job_ids": 'Comma-separated job ids, or "*" for all jobs'}, "job_ids"
            ),
            handler=_awaited,
            reference=Reference(__name__, "SpawnAwaitTool", {}),
        )


def spawn_tools(
    settings: SpawnSettings | None = None, **factory: Any
) -> tuple[SpawnTool | SpawnAwaitTool, ...]:
    """Return both tools; none where `settings` are not enabled.

    Keywords are the other attributes of `SubAgentFactory`.  Without `settings` both are there, and
    no profiles.
    """
    if settings is None:
        settings = SpawnSettings(enabled=True)
    if not settings.enabled:
        return ()
    return (SpawnTool(SubAgentFactory(profiles=settings.profiles, **factory)), SpawnAwaitTool())


def remade(**plain: Any) -> SpawnTool:
    """Return the `spawn` that a reference describes."""
    return SpawnTool(SubAgentFactory.from_json(plain))


def job_id_of(run_id: str, taken: Container[str]) -> str:
    """Return the job id of a child: six hex digits, and more as long as the id is taken."""
    digits = hashlib.blake2b(run_id.encode()).hexdigest()
    lengths = range(_ID_DIGITS, len(digits) + 1)
    return next(digits[:length] for length in lengths if digits[:length] not in taken)


# --- spawn ---------------------------------------------------------------------------------------


_TEXTS: Final = {
    "task": "The task for the sub-agent, complete in itself",
    "profile": "Named profile of the sub-agent",
    "context": "What it needs to know beyond the task",
    "system_prompt": "Replaces the profile's own prompt",
    "tools": "Names of your own tools that it may use, separated by commas; replaces the profile's",
}


def _spawn_schema(profiles: list[str]) -> dict[str, Any]:
    schema = texts_schema(_TEXTS, "task")
    if profiles:
        schema["properties"]["profile"]["enum"] = profiles
    return schema


async def _spawned(run: Run, factory: SubAgentFactory, arguments: Mapping[str, Json]) -> str:
    """Start one child and return its job id."""
    task, profile = arguments.get("task"), arguments.get("profile") or ""
    ticket = call_begins(run, _SPAWN, task, profile=profile)
    try:
        child = await run.start(_delegation(run, factory, arguments))
        if child.outcome is not None and child.outcome.error is not None:
            error = error_of(child.outcome, run=run)
            raise _refused(error or child.outcome.error.message)
    except ToolError as error:
        call_failed(run, ticket, error.message)
        raise
    jobs = JobStore.of(run)
    job_id = job_id_of(child.run_id, jobs.all_job_ids())
    jobs.start(job_id, child)
    call_ends(run, ticket, ids=[job_id], **_WELL, job_id=job_id)
    return job_id


def _delegation(run: Run, factory: SubAgentFactory, arguments: Mapping[str, Json]) -> Delegation:
    task = arguments.get("task")
    if type(task) is not str or not task.strip():
        raise _refused("task is required")
    if unknown := unknown_in(arguments, _TEXTS):
        raise _refused("; ".join(unknown))
    names = ("profile", "context", "system_prompt", "tools")
    for name in names:
        text = arguments.get(name)
        if not (text is None or type(text) is str):
            raise _refused(f"{name} must be text")
    profile, context, override, tools = (arguments.get(name) or "" for name in names)
    if profile and profile not in factory.profiles:
        near = nearest_of(profile, factory.profiles)
        raise _refused(f"unknown profile '{profile}'{near}")
    if leads_nowhere := factory.unknown(run, _split(tools), profile):
        raise _refused(leads_nowhere)
    agent = factory.build(run, override, _split(tools), profile)
    own = caller().child(
        name=profile or _SPAWN, system=agent.system, model=agent.model, parameters=agent.parameters
    )
    return Delegation(
        program="agent",
        input={"agent": own, "task": f"{context}\n\n{task}" if context else task},
        brief=task,
        agent=profile or _SPAWN,
        tool=_SPAWN,
        tools=offered_to_child(run, agent.tools, _ROW.levels),
        levels=_ROW.levels,
        policy=_ROW.policy,
    )


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _refused(why: str) -> ToolError:
    return ToolError(_SPAWN, f"Error: {why}", REFUSED)


# --- spawn_await ---------------------------------------------------------------------------------


async def _awaited(run: Run, arguments: Mapping[str, Json]) -> str:
    """Wait for jobs and return a block for each, in the order asked."""
    asked, jobs = arguments.get("job_ids"), JobStore.of(run)
    ticket = call_begins(run, _AWAIT, None, job_ids=asked)
    ids = _split(asked) if type(asked) is str else []
    why = _why_refused(arguments, ids)
    if why:
        error = ToolError(_AWAIT, f"Error: {why}", REFUSED)
        call_failed(run, ticket, error.message)
        raise error
    ids = jobs.all_job_ids() if ids == ["*"] else ids
    outcomes = await jobs.await_jobs(ids)
    call_ends(run, ticket, **_WELL, jobs={each: one.status for each, one in outcomes.items()})
    blocks = (_block(run, each, jobs.child(each)) for each in ids)
    return "\n\n".join(blocks) or "No jobs found."


def _why_refused(arguments: Mapping[str, Json], ids: Sequence[str]) -> str:
    """Return the errors in a call of `spawn_await`, or an empty string."""
    if len(ids) > JOB_IDS_MAX:
        return f"expected at most {JOB_IDS_MAX} job_ids"
    if unknown := unknown_in(arguments, ["job_ids"]):
        return "; ".join(unknown)
    if type(arguments.get("job_ids", "")) is not str:
        found = f"{arguments['job_ids']!r:.60}"
        return f'job_ids is a text of ids separated by commas, or "*"; found {found}'
    return "" if ids else "job_ids is required"


def _block(run: Run, job_id: str, child: Child | None) -> str:
    if child is None:
        return f"[{job_id}: NOT FOUND]"
    outcome = outcome_in(child)
    if outcome.error is None:
        return f"[{job_id}: OK]\n{handed_back(outcome)}"
    error = error_of(outcome, run=run, limits=child.limits) or outcome.error.message
    return f"[{job_id}: ERROR]\n{told_of(outcome, error)}"
