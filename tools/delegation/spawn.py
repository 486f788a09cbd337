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

import attrs

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.strict import suggestion
from refold.engine.errors import ToolError, UsageError
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child
from refold.engine.ports.ports import Delegation, Reference
from refold.engine.program.agent import REFUSED
from refold.engine.program.run import Run, memory_of
from refold.tools.agents.profiles import SPAWN_TOOLS, SpawnSettings, SubAgentFactory
from refold.tools.contract.policy import POLICIES
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import (
    ChildEnd,
    ToolAnswer,
    ToolCall,
    awaited,
    call_begins,
    call_ends,
    checked,
    failing,
    frame,
    note_of,
    problems_in,
    texts_schema,
)

_SPAWN, _AWAIT = SPAWN_TOOLS
_ID_DIGITS: Final = 6
JOB_IDS_MAX: Final = 1000
"""Ids that one call waits for; the answer repeats a job's text for each, the same id included."""


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
        options = factory or SubAgentFactory()

        super().__init__(
            **frame(options, name=_SPAWN, make=SpawnTool, ask=_asked),
            description=(
                "Start a sub-agent on a task and return its job id at once, while it works. It "
                "sees only the task and the context given here, not this conversation. Collect "
                "its result with spawn_await."
            ),
            parameters=_spawn_schema(options),
            companions=POLICIES[_SPAWN],
        )


class SpawnAwaitTool(DelegationTool):
    """`spawn_await`, over the jobs of the run that calls it."""

    def __init__(self) -> None:
        """Make it."""
        super().__init__(
            name=_AWAIT,
            description="Wait for spawned sub-agents and return all their results.",
            parameters=_WAITS,
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
    settings = SpawnSettings(enabled=True) if settings is None else settings
    if type(settings) is not SpawnSettings:
        why = "expected SpawnSettings, as spawn_settings({…}) makes them"
        raise UsageError(f"{why}; found {shown(settings)}")
    if not settings.enabled:
        return ()
    made = SubAgentFactory(**{"profiles": settings.profiles, **factory})
    return (SpawnTool(made), SpawnAwaitTool())


def job_id_of(run_id: str, taken: Container[str]) -> str:
    """Return the job id of a child: six hex digits, and more as long as the id is taken."""
    digits = hashlib.blake2b(run_id.encode()).hexdigest()
    lengths = range(_ID_DIGITS, len(digits) + 1)
    return next(digits[:length] for length in lengths if digits[:length] not in taken)


# --- spawn ---------------------------------------------------------------------------------------


_TEXTS: Final = {
    "task": "The task for the sub-agent, complete in itself",
    "profile": "Named profile of the sub-agent",
    "context": "Facts that the sub-agent needs beyond the task",
    "system_prompt": "Replaces the profile's own prompt",
    "tools": "Names of your own tools that it may use, separated by commas; replaces the profile's",
}


def _spawn_schema(options: SubAgentFactory) -> dict[str, Any]:
    schema = texts_schema(_TEXTS, "task", most=options.request_bytes)
    if options.profiles:
        schema["properties"]["profile"]["enum"] = sorted(options.profiles)
    return schema


def _asked(run: Run, factory: SubAgentFactory, arguments: Mapping[str, Any]) -> ToolCall[str]:
    """Return a call that starts one child and gives its job id."""
    task, details = arguments.get("task"), {"profile": arguments.get("profile") or ""}
    try:
        delegation = _delegation(run, factory, arguments)
    except ToolError as error:
        return failing(_SPAWN, task, _refused(error.message), f"Error: {error.message}", **details)
    return ToolCall(
        tool=_SPAWN,
        task=task,
        details=details,
        delegations=[delegation],
        waits=False,
        render=lambda children: _started(run, children[0]),
    )


def _started(run: Run, child: Child) -> ToolAnswer[str]:
    if child.outcome is not None and child.outcome.error is not None:
        ended = ChildEnd.of(run, child)
        error = _refused(str(ended.error))
        return ToolAnswer(error, {**ended.note, "error": error.message})
    jobs = JobStore.of(run)
    job_id = job_id_of(child.run_id, jobs.all_job_ids())
    jobs.start(job_id, child)
    return ToolAnswer(job_id, note_of(None) | {"job_id": job_id}, (job_id,))


def _delegation(run: Run, factory: SubAgentFactory, arguments: Mapping[str, Any]) -> Delegation:
    task = arguments.get("task")
    if type(task) is not str or not task.strip():
        raise ToolError(_SPAWN, "task is required")
    checked(_SPAWN, arguments, _spawn_schema(factory), factory)
    names = ("profile", "context", "system_prompt", "tools")
    profile, context, override, tools = (arguments.get(name) or "" for name in names)
    if profile and profile not in factory.profiles:
        near = suggestion(profile, factory.profiles)
        raise ToolError(_SPAWN, f"unknown profile '{profile[:60]}'{near}")
    if leads_nowhere := factory.unknown(run, _split(tools), profile):
        raise ToolError(_SPAWN, leads_nowhere)
    agent = factory.build(run, override, _split(tools), profile)
    return factory.delegation(
        _SPAWN,
        profile or _SPAWN,
        task,
        system=agent.system,
        model=agent.model,
        parameters=agent.parameters,
        given={"task": f"{context}\n\n{task}"} if context else {},
        tools=attrs.evolve(factory, tools=None).offered(run, agent.tools),
    )


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _refused(why: str) -> ToolError:
    return ToolError(_SPAWN, f"Error: {why}", REFUSED)


# --- spawn_await ---------------------------------------------------------------------------------

_WAITS: Final = texts_schema({"job_ids": 'Comma-separated job ids, or "*" for all jobs'}, "job_ids")


async def _awaited(run: Run, arguments: Mapping[str, Json]) -> str:
    """Wait for jobs and return a block for each, in the order asked."""
    asked, jobs = arguments.get("job_ids"), JobStore.of(run)
    ids = _split(asked) if type(asked) is str else []
    if why := _why_refused(arguments, ids):
        error = _refused(why)
        return await awaited(run, failing(_AWAIT, None, error, error.message, job_ids=asked))
    ticket = call_begins(run, _AWAIT, None, job_ids=asked)
    ids = jobs.all_job_ids() if ids == ["*"] else ids
    outcomes = await jobs.await_jobs(ids)
    statuses: Json = {each: one.status for each, one in outcomes.items()}
    call_ends(run, ticket, **note_of(None), jobs=statuses)
    blocks = (_block(run, each, jobs.child(each)) for each in ids)
    return "\n\n".join(blocks) or "No jobs found."


def _why_refused(arguments: Mapping[str, Json], ids: Sequence[str]) -> str:
    """Return the errors in a call of `spawn_await`, or an empty string."""
    if len(ids) > JOB_IDS_MAX:
        return f"expected at most {JOB_IDS_MAX} job_ids"
    asked = arguments.get("job_ids", "")
    given = {**arguments, "job_ids": "*" if type(asked) is str else asked}
    problems = problems_in(given, _WAITS)
    return "; ".join(problems) or ("" if ids else "job_ids is required")


def _block(run: Run, job_id: str, child: Child | None) -> str:
    if child is None:
        return f"[{job_id}: NOT FOUND]"
    ended = ChildEnd.of(run, child)
    if ended.error is None:
        return f"[{job_id}: OK]\n{ended.answer}"
    return f"[{job_id}: ERROR]\n{ended.failure}"
