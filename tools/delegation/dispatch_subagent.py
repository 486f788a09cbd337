"""`dispatch_subagent`: one child, forked from the caller's session, on a registered prompt.

    parse    validate; snapshot; fork a session; render the prompt        -> a `Delegation`
    render   the outcome                                                  -> value, or the error

Invalid input raises `ToolValidationError` before anything is captured.  A prompt that cannot be
built, or an unknown snapshot version, gives a failing result.  A child that does not complete
raises `DispatchSubagentError`.  The rendered prompt is recorded as a drawn value, so a replay needs
no registry. The child's session is closed and released at its end; the caller's session never
changes. Shared parts: `tools.delegation.forked_children`.  Rules: CONTRACT.md §10.20.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self, get_args

import attrs

from refold.engine.encoding.canonical import Json, encode
from refold.engine.encoding.hints import Keywords
from refold.engine.encoding.parameters import names_nearest, texts
from refold.engine.encoding.strict import nearest
from refold.engine.errors import (
    DispatchSubagentError,
    NotCanonical,
    SnapshotRestoreError,
    SnapshotSerializationError,
    ToolValidationError,
)
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child
from refold.engine.ports.ports import Reference
from refold.engine.ports.programs import load
from refold.engine.session.session import Session
from refold.engine.session.shared import SharedSession
from refold.engine.session.snapshot import SCHEMA_VERSION, Snapshot
from refold.tools.agents.prompts import (
    ANOTHER_SESSION,
    NOT_THE_RUNS,
    MarkdownSection,
    PromptFactory,
    PromptRegistry,
    PromptTool,
    ToolContext,
    ToolResult,
    is_foreign,
    own_session,
)
from refold.tools.delegation.forked_children import ForkedOptions, forked, own_or_new
from refold.tools.delegation.shared import ChildEnd, ToolAnswer, ToolCall, answered
from refold.tools.delegation.words import answer_of

NAME: Final = "dispatch_subagent"
INSTRUCTIONS_MAX: Final = 2000
LABEL_MAX: Final = 160

SubagentMode = Literal["plan_step", "ad_hoc"]


_ASCII: Final = r"^[\x00-\x7F]*\S[\x00-\x7F]*$"
_Label = Annotated[str, Keywords(minLength=1, maxLength=LABEL_MAX, pattern=_ASCII)]


@attrs.frozen
class DispatchSubagent:
    """The tool's parameters."""

    mode: Annotated[
        SubagentMode, "plan_step: the work of one step of your plan; ad_hoc: any other work"
    ]
    """The kind of work for the child."""
    prompt_ns: Annotated[str, "Namespace of the prompt that the subagent works on"]
    """The namespace of a registered prompt."""
    prompt_key: Annotated[str, "Key of the prompt in its namespace"]
    """Its key there."""
    instructions: Annotated[
        str,
        Keywords(minLength=1, maxLength=INSTRUCTIONS_MAX, pattern=_ASCII),
        "The work for the subagent, complete in itself; plain ASCII text",
    ]
    """ASCII, 1 to 2,000 characters once trimmed."""
    expected_artifacts: Annotated[
        tuple[_Label, ...], "Names of the artifacts that the subagent is to return"
    ] = attrs.field(default=(), converter=texts)
    """Labels, ASCII, up to 160 characters each once trimmed."""
    plan_step_id: Annotated[str | None, "Id of the plan's step; required if mode is plan_step"] = (
        None
    )
    """Required where the mode is `plan_step`."""
    snapshot_version: Annotated[
        str | None, f"Version of the session snapshots that you know, {SCHEMA_VERSION!r}; leave out"
    ] = None
    """Of the snapshots that the caller knows; checked before anything is hydrated."""


@attrs.frozen
class DispatchSubagentResult:
    """The tool's result value."""

    prompt_ns: str
    """The namespace of the prompt that the child had."""
    prompt_key: str
    """Its key there."""
    message_summary: str
    """The child's answer, or the reason for its failure."""
    artifacts: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Labels of the returned artifacts."""
    tools_used: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """In the order of their first use."""


_NO_REGISTRY: Final = (
    "another process cannot make its registry of prompts: "
    "PromptRegistry(reference=Reference('package.module', 'make_registry', {}))"
)
_EMPTY: Final = Reference(PromptRegistry.__module__, PromptRegistry.__qualname__, {})


@names_nearest
@attrs.frozen(kw_only=True)
class DispatchSubagentOptions(ForkedOptions):
    """How the tool is set up."""

    prompts: PromptRegistry = attrs.field(factory=lambda: PromptRegistry(reference=_EMPTY))
    """The prompts that a call may name."""
    session: Session | None = attrs.field(default=None, eq=False, repr=False)
    """The section's: a run that calls has to have it, or one made of it; None: any run may."""
    lacks_session: bool = False
    """Whether the run has another one; on record."""

    @property
    def reference(self) -> Reference | None:
        """How a subprocess makes the same tool; None where it cannot."""
        prompts = self.prompts.reference
        found = None if prompts is None else attrs.asdict(prompts)
        return self.remaking(dispatch_subagent_tool, prompts=found) if found else None

    def with_json(self, plain: Mapping[str, Json]) -> Self:
        """Return these options with the values and the prompts of a reference."""
        if "prompts" not in plain:
            return super().with_json(plain)
        prompts = Reference(**plain["prompts"])
        found: PromptRegistry = load(prompts)
        found.reference = found.reference or prompts  # for children in a third process
        more = {name: value for name, value in plain.items() if name != "prompts"}
        return attrs.evolve(super().with_json(more), prompts=found)


# --- parse ---------------------------------------------------------------------------------------


def _asked(
    options: DispatchSubagentOptions, params: DispatchSubagent, context: ToolContext
) -> ToolCall[ToolResult[DispatchSubagentResult]] | ToolResult[DispatchSubagentResult]:
    run, params = context.run, validated(params)
    if options.lacks_session:
        raise ToolValidationError(NOT_THE_RUNS)
    name = f"{params.prompt_ns}/{params.prompt_key}"
    factory = options.prompts.resolve(params.prompt_ns, params.prompt_key)
    found = run.settings(f"{NAME} has {name}", lambda: _found(options, factory, name))
    if found is not True:
        why = f"Unknown prompt requested for subagent dispatch: {name[:120]}{found}"
        raise ToolValidationError(why)
    if params.snapshot_version not in (None, SCHEMA_VERSION):
        found = f"{params.snapshot_version}. Leave snapshot_version out."
        message = f"Snapshot schema version mismatch: expected {SCHEMA_VERSION}, got {found}"
        return ToolResult(message, None, success=False)
    if refused := options.refused(params):
        return refused
    program = forked(options.program)
    child, snapshot = _fork(own_or_new(context.session))
    try:
        rendered = run.settings(
            f"{NAME} renders {name}", lambda: _rendered(params, factory, child, snapshot)
        )
    except NotCanonical as error:
        rendered = {"failure": str(error)}
    if "text" not in rendered:
        child.bus.close()
        message = f"Failed to build subagent prompt {name}. {rendered['failure']}"
        return ToolResult(message, None, success=False)
    own = context.rendered_prompt
    delegation = options.delegation(
        NAME,
        name,
        params.instructions,
        system=rendered["text"],
        program=program,
        tools=None if own is None else options.offered(run, own.tools),
        session=child,
    )
    return ToolCall(
        tool=NAME,
        task=params.instructions,
        delegations=[delegation],
        render=lambda children: _answer(run, params, children[0]),
        close=child.bus.close,
    )


def _found(options: DispatchSubagentOptions, factory: PromptFactory | None, name: str) -> Json:
    """Return True, or the logged text that lists the available prompts."""
    if factory is not None:
        return True
    known = options.prompts.names
    return f"{nearest(name, known) or '.'} There are: {', '.join(known) or 'none'}."


def validated(params: DispatchSubagent) -> DispatchSubagent:
    """Return the parameters with surrounding blanks removed.

    Raises:
        ToolValidationError: a value is not allowed.
    """
    if params.mode not in get_args(SubagentMode):
        raise ToolValidationError(
            f"mode must be one of plan_step, ad_hoc; found {params.mode!r:.60}."
        )
    step = None if params.plan_step_id is None else params.plan_step_id.strip()
    if params.mode == "plan_step" and not step:
        raise ToolValidationError("plan_step_id is required when mode is 'plan_step'.")
    labels = params.expected_artifacts
    return attrs.evolve(
        params,
        instructions=_ascii("instructions", params.instructions, INSTRUCTIONS_MAX),
        expected_artifacts=tuple(_ascii("expected_artifacts", item, LABEL_MAX) for item in labels),
        plan_step_id=step,
    )


def _ascii(field: str, value: str, most: int) -> str:
    text = value.strip()
    if not text:
        raise ToolValidationError(f"{field} must be non-empty ASCII text.")
    if len(text) > most:
        raise ToolValidationError(
            f"{field} must be <= {most} characters of ASCII text; found {len(text)}."
        )
    for place, character in enumerate(text, 1):
        if not character.isascii():
            raise ToolValidationError(
                f"{field} must contain only ASCII characters; found {character!r} at {place} of "
                f"{len(text)}, in {text[max(0, place - 20) : place + 20]!r}."
            )
    return text


def _fork(parent: Session) -> tuple[Session, Snapshot]:
    """Return a session that starts where the caller's is, on a view of its bus."""
    try:
        snapshot = parent.snapshot()
    except SnapshotSerializationError:
        raise ToolValidationError("Unable to capture parent session state.") from None
    child = parent.empty(parent.bus.view(), parent)
    try:
        child.rollback(snapshot)
    except SnapshotRestoreError:
        child.bus.close()
        del child  # it must not live in a traceback
        raise ToolValidationError("Unable to hydrate child session from snapshot.") from None
    return child, snapshot


def _rendered(
    params: DispatchSubagent, factory: PromptFactory | None, child: Session, snapshot: Snapshot
) -> dict[str, str]:
    """Return the prompt's text, or the failure to make it; a replay has it from the log."""
    values = {
        "instructions": params.instructions,
        "mode": params.mode,
        "plan_step_id": params.plan_step_id or "none",
        "expected_artifacts": ", ".join(params.expected_artifacts) or "none",
        "snapshot_summary": snapshot.summary,
    }
    if factory is None:
        return {"failure": "It was removed from the registry."}
    try:
        text = factory(session=child).render(values=values).text
    except Exception as error:  # noqa: BLE001 - a prompt's factory may raise what it likes
        return {"failure": f"{type(error).__name__}: {error}"}
    return {"text": f"{text}\n\n{_TASK.render(values)}"}


# --- render --------------------------------------------------------------------------------------


def _answer(
    run: Any, params: DispatchSubagent, child: Child
) -> ToolAnswer[ToolResult[DispatchSubagentResult]]:
    ended = ChildEnd.of(run, child)
    outcome, note = ended.outcome, {"statuses": [ended.outcome.status]}
    if ended.error is not None:
        if _never_began(outcome):
            return ToolAnswer(ToolResult(ended.error, None, success=False), note)
        return ToolAnswer(DispatchSubagentError(ended.failure), note)
    value = DispatchSubagentResult(
        prompt_ns=params.prompt_ns,
        prompt_key=params.prompt_key,
        message_summary=answer_of(outcome),
        artifacts=tuple(artifact.value for artifact in outcome.artifacts),
        tools_used=outcome.tools_used,
    )
    return ToolAnswer(ToolResult(value.message_summary, value), note)


def _never_began(outcome: Outcome) -> bool:
    """Return whether the child could not be started: a limit, or a failure of the runner."""
    code = outcome.error.code if outcome.error is not None else ""
    is_empty = outcome.child is None or outcome.child.events == 0
    return outcome.status == "rejected" or (is_empty and code in _ORCHESTRATION)


_ORCHESTRATION: Final = ("runner", "session")
"""Codes of what went wrong before the child ran."""


def text_of_result(result: Any) -> tuple[str, bool]:
    """Return the model's text: the summary, followed by any other members."""
    value = result["value"] or {}
    more = {name: value[name] for name in ("artifacts", "tools_used") if value.get(name)}
    text = f"{result['message']}\n\n{encode(more).decode()}" if more else result["message"]
    return text, not result["success"]


# --- the tool and its section --------------------------------------------------------------------


def dispatch_subagent_tool(
    options: DispatchSubagentOptions | None = None, /, **changes: Any
) -> PromptTool:
    """Return the tool; keywords are the attributes of `DispatchSubagentOptions`."""
    chosen = DispatchSubagentOptions.of(options, changes)

    def handler(params: DispatchSubagent, *, context: ToolContext) -> Any:
        now = attrs.evolve(chosen, lacks_session=context.lacks(chosen.session))
        return answered(context.run, _asked(now.recorded(context.run, NAME), params, context))

    return PromptTool(
        name=NAME,
        description="Spawn an isolated subagent run with the full tool suite and return a "
        "summarized result. It starts with a copy of this session, but not of this conversation.",
        params=DispatchSubagent,
        narrow=lambda schema: _with_prompts(schema, chosen.prompts.names),
        handler=handler,
        reference=chosen.reference,
        children=chosen.children,
        unreachable=_NO_REGISTRY if chosen.prompts.reference is None else "",
        why_useless=lambda own, _: _why_useless(chosen, own),
        tell=text_of_result,
    )


def _why_useless(options: DispatchSubagentOptions, own: Session | None) -> str:
    if not options.prompts.names:
        return "no prompt is registered: pass prompts=, a PromptRegistry with at least one"
    return ANOTHER_SESSION if is_foreign(own, options.session) else ""


def _with_prompts(schema: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the schema with the one version of snapshots, and the prompts that are registered."""
    more: dict[str, dict[str, Any]] = {"snapshot_version": {"enum": [SCHEMA_VERSION, None]}}
    if names:
        split = [name.rpartition("/") for name in names]
        known = f"{schema['properties']['prompt_key']['description']}; there are {', '.join(names)}"
        more["prompt_ns"] = {"enum": sorted({ns for ns, _, _ in split})}
        more["prompt_key"] = {"enum": sorted({key for _, _, key in split}), "description": known}
    properties = {name: one | more.get(name, {}) for name, one in schema["properties"].items()}
    return {**schema, "properties": properties}


class PromptSubagentToolsSection(MarkdownSection[Any]):
    """The section of a prompt that offers `dispatch_subagent`."""

    def __init__(self, *, session: Session | SharedSession, **options: Any) -> None:
        """Take the session whose snapshots the subagents start from.

        The calling run must have this session (`record(…, session=session)`) or, in a child, one
        derived from it; any other is refused. `options` are the keywords of
        `dispatch_subagent_tool`.

        Raises:
            UsageError: `session` is not a session.
        """
        super().__init__(
            title="Subagents",
            key="prompt-subagent-tools",
            template=_GUIDANCE,
            section_tools=(dispatch_subagent_tool(session=own_session(session), **options),),
        )
        self.session: Final = session


_GUIDANCE: Final = """
    Call `dispatch_subagent` to hand a block of work to a subagent of its own when a plan step needs
    deep investigation, or when this conversation nears its context limit. It starts from a snapshot
    of this session with the same tools; only its summary and artifacts come back.
    """

_TASK: Final = MarkdownSection[Any](
    title="Delegated task",
    key="delegated-task",
    template="""
    ## Delegated task

    Mode: ${mode}
    Plan step: ${plan_step_id}
    Expected artifacts: ${expected_artifacts}
    Session at the start: ${snapshot_summary}
    """,
)
