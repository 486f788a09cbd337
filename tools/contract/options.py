"""The options that all delegation tools have: what their children run on, and what bounds them.

A subclass adds what only its own tool has. Options are recorded at the tool's first use in a run,
but for code and the runner, so a replay needs no tool that is set up the same. Rules: CONTRACT.md
§10.4.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Self

import attrs
from attrs.converters import optional

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.parameters import tool_names
from refold.engine.errors import LimitRefused, ProgramNotFound, UsageError
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Children, Delegation, Policy, Program, Reference, Tool
from refold.engine.ports.programs import found_program, load, reference_of
from refold.engine.program.agent import caller
from refold.engine.program.run import memory_of
from refold.tools.contract.policy import POLICIES, with_companions


@attrs.frozen(kw_only=True)
class ChildOptions:
    """How a delegation tool is set up.  The model that calls it can change none of it."""

    program: Program | Reference | str = "agent"
    """The child's program; its input is {"agent": {"name", "system", …}, "task", …}."""
    model: str = ""
    """The child's model, by a name given to `record(models=…)`; empty for the caller's."""
    parameters: Mapping[str, Json] = {}
    """Parameters of the child's model, such as `max_tokens`, over the caller's own if the
    child has the caller's model."""
    tools: tuple[str, ...] | None = attrs.field(default=None, converter=optional(tool_names))
    """Names of the tools offered to the child, among the run's own; `None` for all of the
    caller's."""
    levels: int | None = None
    """Levels below the caller that may exist; `None` for no cap of its own."""
    limits: Limits | None = None
    """A child's limits, in addition to the caller's."""
    policy: Policy = Policy()
    """Caps on what comes back, and the kinds of artifacts allowed."""
    runner: str = ""
    """The child's runner; empty for the run's default."""
    request_bytes: int | None = 256 * 1024
    """The most that one argument of a call may have, or one task of a list, in bytes of UTF-8; a
    call with more starts nothing.  `None` for no cap of the tool's own."""
    missing: str = ""
    """Why the program cannot be had; found out at the first call of a run."""

    def __attrs_post_init__(self) -> None:
        for name, kinds, expected in _KINDS:
            if not isinstance(value := getattr(self, name), kinds):
                raise UsageError(f"{name}: expected {expected}; found {shown(value)}")
        for name, least in {"levels": 0, "request_bytes": 1}.items():
            self.check_integer(name, least, optional=True)

    def check_integer(self, name: str, least: int, *, optional: bool = False) -> None:
        """Check a number.

        Raises:
            LimitRefused: it is not an integer of at least `least`.
        """
        value = getattr(self, name)
        if (type(value) is not int or value < least) and not (optional and value is None):
            raise LimitRefused(name, f"an integer of at least {least}", repr(value))

    @classmethod
    def of(cls, options: Self | None, changes: Mapping[str, Any]) -> Self:
        """Return options with changes.

        Raises:
            UsageError: `options` are not of this class.
            TypeError: a change is not an option.
        """
        if options is not None and not isinstance(options, cls):
            raise UsageError(f"expected {cls.__name__}, or keywords; found {shown(options)}")
        return attrs.evolve(options or cls(), **changes)

    @property
    def children(self) -> Children:
        """What all children need."""
        return Children(
            program=self.program,
            tools=self.tools,
            models=(self.model,) if self.model else (),
            levels=self.levels,
            runner=self.runner,
        )

    def delegation(self, tool: str, agent: str, task: str, **more: Any) -> Delegation:
        """Return a child; `more` are attributes that the tool itself sets.

        Of these, `name`, `system`, `model`, `parameters` and `agent_tools` belong to the child's
        agent; `given` are more members of its input.
        """
        own = caller().child(
            name=more.pop("name", agent),
            system=more.pop("system", ""),
            model=more.pop("model", "") or self.model,
            parameters={**self.parameters, **more.pop("parameters", {})},
        )
        if "agent_tools" in more:
            own["tools"] = more.pop("agent_tools")
        given = {"agent": own, "task": task, **more.pop("given", {})}
        usual: dict[str, Any] = {
            "program": self.program,
            "input": given,
            "brief": task,
            "levels": self.levels,
            "limits": self.limits,
        }
        return Delegation(
            agent=agent, tool=tool, policy=self.policy, runner=self.runner, **(usual | more)
        )

    def offered(self, run: Any, own: Iterable[Tool | str] | None) -> tuple[str, ...] | None:
        """Return the names of a child's tools, none that its depth forbids; `None` for all.

        `own` are the tools of its caller.
        """
        given = own if self.tools is None else self.tools
        if may_delegate(run, self.levels):
            return None if given is None else _names(given)
        return tuple(n for n in _names(run.tools if given is None else given) if n not in _STARTERS)

    # -- in a log, and in another process -----------------------------------------------------

    def as_json(self) -> dict[str, Json]:
        """Return the options as a log has them: without code, and without the runner."""
        return attrs.asdict(
            self,
            filter=lambda field, _: field.name not in (*_CODE, "runner"),
            value_serializer=lambda _, __, value: value.name if isinstance(value, Enum) else value,
        )

    def with_json(self, plain: Mapping[str, Json]) -> Self:
        """Return these options with values that `as_json` gave."""
        return attrs.evolve(
            self, **{name: _value(getattr(self, name), plain[name], name) for name in plain}
        )

    def recorded(self, run: Any, tool: str) -> Self:
        """Return the options as recorded in this run, from the tool's first use on.

        But for the program, because a log never determines the code to import.
        """
        return self.with_json(settings_of(run, tool, self._logged))

    def _logged(self) -> dict[str, Json]:
        missing = why_missing(self.program)
        return self.as_json() | ({"missing": missing} if missing else {})

    def remaking(self, make: Callable[[Any], Tool], **more: Json) -> Reference | None:
        """Return the reference by which another process makes the tool: `make` of these options.

        `None` if that process could not import the children's program.
        """
        try:
            found = attrs.asdict(reference_of(self.program))
        except ProgramNotFound:
            return None
        plain = {**self.as_json(), "runner": self.runner, **more}
        plain |= {} if self.program == "agent" else {"program": found}
        places = [[each.__module__, each.__qualname__] for each in (make, type(self))]
        return Reference(__name__, "remade", {"places": places, "options": plain})


def remade(*, places: Sequence[Sequence[str]], options: Mapping[str, Json]) -> Tool:
    """Return the tool that a reference of `ChildOptions.remaking` describes."""
    make, kind = (load(Reference(source, name)) for source, name in places)
    return make(kind().with_json(options))  # type: ignore[no-any-return]  # a tool's maker


def settings_of(run: Any, name: str, make: Callable[[], Json]) -> Any:
    """Return how the tool `name` is set up in this run: recorded once, at its first use.

    So a replay needs neither the files that it was read from nor the tool as it was set up.
    """
    return memory_of(run, f"settings of {name}", lambda: run.settings(name, make))


def may_delegate(run: Any, levels: int | None) -> bool:
    """Return whether a child of `run` may start children itself."""
    caps = (run.limits.max_depth, None if levels is None else run.depth + levels)
    return all(cap is None or run.depth + 2 <= cap for cap in caps)


def why_missing(program: Program | Reference | str) -> str:
    """Return why a child's program cannot be had; empty where it can.

    Without the places that were searched: they are this machine's, and models read this.
    """
    try:
        found_program(program)
    except UsageError as error:
        return str(error).partition("; sys.path ")[0]
    return ""


def _names(tools: Iterable[Tool | str]) -> tuple[str, ...]:
    return tuple(each if isinstance(each, str) else each.name for each in tools)


def _value(now: Any, plain: Any, name: str) -> Any:
    if isinstance(now, Enum):
        return type(now)[plain]
    if isinstance(plain, dict) and name in _CLASSES:
        return _CLASSES[name](**plain)
    return tuple(plain) if isinstance(plain, list) else plain


_KINDS: Final[Sequence[tuple[str, Any, str]]] = (
    ("program", Callable | Reference | str, "a function, or a text: module:name, file.py:name"),
    ("model", str, "a name given to record(models=…)"),
    ("parameters", Mapping, "a dict, such as {'max_tokens': 8000}"),
    ("limits", Limits | None, "refold.Limits(…)"),
    ("policy", Policy, "refold.tools.Policy(…)"),
    ("runner", str, 'a runner\'s name, such as "subprocess"'),
)
_STARTERS: Final = frozenset(with_companions(POLICIES))
"""Tools that start children, and those that are of no use without them."""
_CLASSES: Final[Mapping[str, type]] = {"program": Reference, "limits": Limits, "policy": Policy}
_CODE: Final = ("program", "prompts", "session", "missing")
"""Options that are code, and the reason why that code is unavailable."""
