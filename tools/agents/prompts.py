"""Prompts: sections of text and tools, found by (namespace, key), rendered with values.

    registry.register("weekly", "review", lambda session: Prompt(ns="weekly", key="review", …))
    prompt.render(Params(…), values={…}, overrides={…}) -> RenderedPrompt(text, tools)

A registry is a value that callers pass on; nothing registers itself. `use_prompt` writes the
rendered prompt to the run's log. This module also has the parts that prompt tools share: parameters
as a class, `ToolContext`, `ToolResult` and `PromptTool`.  Rules: CONTRACT.md §10.20.
"""

import inspect
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, get_args

import attrs

from refold.engine.encoding import shapes, strict
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.hints import field_names
from refold.engine.encoding.plain import to_json
from refold.engine.errors import (
    PromptRefused,
    ToolError,
    ToolValidationError,
    UsageError,
)
from refold.engine.ports.ports import Reference, Tool, ToolDefinition
from refold.engine.program.agent import REFUSED, caller
from refold.engine.program.run import memory_of
from refold.engine.session.session import Session
from refold.engine.session.shared import SharedSession
from refold.tools.contract.tool_types import KernelTool

P = TypeVar("P")
V = TypeVar("V")

NOT_THE_RUNS: Final = "The section's session is not the run's: work without this tool."
"""The error of a tool whose section was made for a different session."""
ANOTHER_SESSION: Final = "its section has another session: pass that one, record(…, session=…)"
"""The same, before a run begins."""


# --- sections and prompts ------------------------------------------------------------------------


@attrs.define(kw_only=True, slots=False, eq=False)
class MarkdownSection(Generic[P]):
    """Text with `${names}`, filled in from a `P`, and the tools that it introduces."""

    title: str
    """Its heading."""
    key: str
    """Unique within a prompt."""
    template: str
    default_params: P | None = None
    """Used where `render` is given no `P`."""
    section_tools: Sequence[Tool] = ()
    """Tools that the text introduces."""
    accepts_overrides: bool = False
    """Whether `render` may replace the template by one of its `overrides`."""

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools that the section offers."""
        return tuple(self.section_tools)

    def render(self, values: Mapping[str, object], template: str | None = None) -> str:
        """Return the text with its names filled in.

        Raises:
            PromptRefused: a name has no value.
        """
        text = inspect.cleandoc(self.template if template is None else template)
        try:
            return string.Template(text).substitute(values)
        except KeyError as error:
            raise PromptRefused(f"section {self.key}: no value for ${{{error.args[0]}}}") from None
        except ValueError as error:
            raise PromptRefused(f"section {self.key}: {error}; write $$ for a dollar") from None

    def params_in(self, given: Iterable[object]) -> dict[str, object]:
        """Return this section's values: its defaults, updated with the given parameters."""
        (wanted,) = get_args(getattr(self, "__orig_class__", None)) or (object,)
        kind = wanted if isinstance(wanted, type) and wanted is not Any else object
        found = [self.default_params, *(params for params in given if isinstance(params, kind))]
        return {
            name: getattr(params, name)
            for params in found
            for name in field_names(type(params)) or ()
        }


@attrs.frozen(kw_only=True)
class RenderedPrompt:
    """A prompt as a model gets it."""

    ns: str
    """The namespace of the prompt."""
    key: str
    """Its key there."""
    text: str
    """Markdown, all sections filled in."""
    tools: tuple[Tool, ...] = ()
    """Sorted by name, as everything offers them."""
    output_type: type | None = None
    """The type argument of `Prompt[…]`, if it is an attrs class or a dataclass."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as a model sees them."""
        return tuple(map(ToolDefinition.of, self.tools))


@attrs.define(kw_only=True, slots=False, eq=False)
class Prompt(Generic[V]):
    """Sections in order, under a namespace and a key; `V` is what its run is to return."""

    ns: str
    """The namespace."""
    key: str
    """Unique in its namespace."""
    name: str = ""
    """For people."""
    sections: Sequence[MarkdownSection[Any]] = ()
    """In the order in which they are rendered."""

    @property
    def output_type(self) -> type | None:
        """The `V` of `Prompt[V]`, if it is an attrs class or a dataclass."""
        named = get_args(getattr(self, "__orig_class__", None))
        kind = named[0] if named and isinstance(named[0], type) else None
        return kind if kind is not None and field_names(kind) is not None else None

    def render(
        self,
        *params: object,
        values: Mapping[str, object] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> RenderedPrompt:
        """Return the text and the tools.

        Args:
            params: attrs objects or dataclasses; each fills the sections that take its class.
            values: More values by name, for all sections; they win.
            overrides: Other templates, by the section's key.

        Raises:
            PromptRefused: a name without a value, two tools of one name, an override of a section
                that is not there or accepts none.
        """
        given = dict(overrides or {})
        open_keys = [section.key for section in self.sections if section.accepts_overrides]
        if refused := sorted(given.keys() - set(open_keys)):
            known = ", ".join(open_keys) or "none"
            raise PromptRefused(f"{self.ns}/{self.key}: no override for {refused}; open: {known}")
        parts = []
        for number, section in enumerate(self.sections, 1):
            filled = section.params_in(params) | dict(values or {})
            body = section.render(filled, given.get(section.key))
            parts.append(f"## {number}. {section.title}\n\n{body}")
        return RenderedPrompt(
            ns=self.ns,
            key=self.key,
            text="\n\n".join(parts),
            tools=self._tools(),
            output_type=self.output_type,
        )

    def _tools(self) -> tuple[Tool, ...]:
        found: dict[str, Tool] = {}
        for section in self.sections:
            for tool in section.tools():
                known = found.setdefault(tool.name, tool)
                if known is not tool and known != tool:
                    raise PromptRefused(f"{self.ns}/{self.key}: two tools are named {tool.name!r}")
        return tuple(found[name] for name in sorted(found))


# --- the registry --------------------------------------------------------------------------------

PromptFactory = Callable[..., Prompt[Any]]
"""Called as `factory(session=session)`."""


class PromptRegistry:
    """Factories of prompts by namespace and key, each enabled or not."""

    def __init__(self, *, reference: Reference | None = None) -> None:
        """Make an empty registry; `reference` is how a subprocess makes the same one."""
        self.reference = reference
        self._factories: dict[tuple[str, str], PromptFactory] = {}
        self._disabled: set[tuple[str, str]] = set()

    def register(self, ns: str, key: str, factory: PromptFactory, *, enabled: bool = True) -> None:
        """Add a prompt.

        Raises:
            PromptRefused: there is one; a `ValueError`.
        """
        if (ns, key) in self._factories:
            raise PromptRefused(f"Prompt already registered for namespace={ns!r} key={key!r}")
        self._factories[ns, key] = factory
        self.enable(ns, key, enabled=enabled)

    def enable(self, ns: str, key: str, *, enabled: bool = True) -> None:
        """Let a prompt be found, or not."""
        (self._disabled.discard if enabled else self._disabled.add)((ns, key))

    def resolve(self, ns: str, key: str) -> PromptFactory | None:
        """Return the factory of a prompt that is registered and enabled, or None."""
        return None if (ns, key) in self._disabled else self._factories.get((ns, key))

    @property
    def names(self) -> tuple[str, ...]:
        """The prompts that can be found, `namespace/key`, sorted."""
        found = self._factories.keys() - self._disabled
        return tuple(sorted(f"{ns}/{key}" for ns, key in found))


# --- tools with a class of parameters ------------------------------------------------------------


@attrs.frozen
class ToolResult(Generic[V]):
    """A tool's result: a message for the model and a value for the program."""

    message: str
    value: V | None
    success: bool = True

    def render(self) -> str:
        """Return the text for people: `value.render()` if there is one, else the message."""
        render = getattr(self.value, "render", None)
        return str(render()) if callable(render) else self.message

    def as_json(self) -> dict[str, Json]:
        """Return the JSON for the log."""
        return {"message": self.message, "value": to_json(self.value), "success": self.success}


@attrs.frozen(kw_only=True)
class ToolContext:
    """The state of one tool call. Tools themselves are stateless."""

    run: Any
    """The run that calls, asynchronous or plain."""
    session: Any = None
    """Its session; None where it has none."""
    rendered_prompt: RenderedPrompt | None = None
    """The prompt that the caller is working on."""

    def lacks(self, session: Session | None) -> bool:
        """Return whether this run has neither `session`, a section's, nor one made of it."""
        own = getattr(self.session, "session", self.session)  # a child's face of a shared one
        return is_foreign(own, session)


def is_foreign(own: Any, session: Session | None) -> bool:
    """Return whether `own` is neither `session`, a section's, nor one made of it."""
    if session is None:
        return False
    family = [session]
    for one in family:
        family.extend(one.children)
    return not any(one is own for one in family)


def own_session(session: Session | SharedSession) -> Session:
    """Return the session that a section is made for; for a `SharedSession`, the underlying one.

    Raises:
        UsageError: `session` is not a session.
    """
    if not isinstance(session, Session | SharedSession):
        raise UsageError(f"session: expected a Session, found {session!r:.60}")
    return session.session if isinstance(session, SharedSession) else session


def context_of(run: Any) -> ToolContext:
    """Return the context of a call from `run`: its session, and the prompt that it uses.

    A run that has not set a prompt gets one with the key `run`: its tools (the agent's, if an agent
    calls) and the agent's system prompt.
    """
    try:
        session = run.session
    except UsageError:
        session = None
    held = _prompt_of(run)
    rendered = held[-1] if held else _unsaid(run)
    return ToolContext(run=run, session=session, rendered_prompt=rendered)


def _unsaid(run: Any) -> RenderedPrompt:
    own = caller()
    tools = tuple(tool for tool in run.tools if own.tools is None or tool.name in own.tools)
    return RenderedPrompt(ns="refold", key="run", text=own.system, tools=tools)


def use_prompt(run: Any, rendered: RenderedPrompt) -> None:
    """Say in the log which prompt the run works on from now; delegation tools build on it."""
    tools = [tool.name for tool in rendered.tools]
    said = {"ns": rendered.ns, "key": rendered.key, "text": rendered.text, "tools": tools}
    run.annotate("prompt rendered", said)
    _prompt_of(run).append(rendered)


def _prompt_of(run: Any) -> list[RenderedPrompt]:
    return memory_of(run, "rendered prompts", list)


@attrs.frozen(kw_only=True, slots=False)
class PromptTool(KernelTool):
    """A delegation tool whose parameters are a class: an `engine.ports.ports.Tool`.

    `handler(params, context=…)` returns a `ToolResult`, or an awaitable of one if it waits for
    children of an asynchronous run.
    """

    params: type
    """An attrs class; its fields are the arguments."""
    handler: Callable[..., Any]
    accepts_overrides: bool = False
    narrow: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Adds to the schema what a class cannot express, such as the registered prompts."""

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        return self._schema if self.narrow is None else self.narrow(self._schema)

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return shapes.shape_of(self.params, tool=self.name, where="parameters").schema

    @cached_property
    def _read(self) -> strict.Hook:
        return shapes.hook_for(self.params)

    def params_of(self, arguments: Mapping[str, Json]) -> Any:
        """Convert JSON arguments to the tool's parameters.

        Raises:
            ToolValidationError: lists all values that do not fit.
        """
        try:
            return self._read(dict(arguments))
        except Exception as error:  # noqa: BLE001 - what a hook raises is explained, not handled
            problems = "; ".join(map(str, strict.problems_of(error)))
            raise ToolValidationError(f"arguments: {problems}") from None

    async def delegate(self, run: Any, arguments: Mapping[str, Json], /) -> Json:
        """Run the handler in its own scope, on the session and prompt of the run that calls.

        Raises:
            ToolError: arguments or the call were refused; a model gets just the text.
        """
        try:
            result = self.handler(self.params_of(arguments), context=context_of(run))
            if inspect.isawaitable(result):
                result = await result
        except ToolValidationError as error:
            raise ToolError(self.name, str(error), REFUSED, type(error).__name__) from None
        return result.as_json()
