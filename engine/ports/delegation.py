"""The one request to run a child (CONTRACT.md §7): imperative, does nothing itself."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.parameters import names_nearest
from refold.engine.errors import UsageError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Generic, T_co
from refold.engine.ports.ports import Policy, Program, ProgramOf, Reference, Tool
from refold.engine.values import Value


@names_nearest
@attrs.frozen(kw_only=True)
class Delegation(Value, Generic[T_co]):
    """The task of a child, and its limits."""

    program: ProgramOf[T_co] | Reference | str
    """A function, a reference, ``module:name``, ``file.py:name``, or a name that Refold ships
    (`agent`)."""
    input: Json = None
    """The second argument of the program: any value that a log can hold and that fits the
    annotation."""
    brief: str = ""
    """The task in words, for `refold show`."""
    agent: str = ""
    """The agent's name, if the child is an agent: the default `agent` of its model requests."""
    tool: str = ""
    """The delegation tool that started the child; empty for `run.start`."""
    tools: tuple[str, ...] | None = None
    """Names of the child's tools; `None` for all tools of its parent."""
    own_tools: tuple[Tool, ...] = ()
    """More tools of the child; they replace tools of its parent by name."""
    levels: int | None = None
    """The number of levels below the caller; `None` for no limit of its own."""
    limits: Limits | None = None
    """Narrower limits; `max_depth` is absolute, `levels` is relative."""
    part: int | None = None
    """The part of the caller's `model_tokens` that the child reserves at its start; `None` for all
    that is left.  It may get more later, unless `limits` cap its tokens."""
    policy: Policy = Policy()
    """Limits on the child's report."""
    session: Any = None
    """A session for the child: a fork of the caller's, or the caller's own if `shared`."""
    shared: bool = False
    """Whether the child uses the caller's session itself; in-process children only."""
    runner: str = ""
    """`in-process`, `subprocess`, or another name given to `record`; empty for the default."""

    def __attrs_post_init__(self) -> None:
        """Refuse arguments of the wrong kind while the caller's own line is in the traceback."""
        for name, kinds, expected in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kinds):
                raise _refused(name, expected, value)
        if self.part is not None and self.part < 0:
            raise _refused("part", "a number of tokens, at least 0", self.part)
        if self.session is not None and not hasattr(self.session, "bind"):
            raise _refused("session", "a session, as run.session.fork() gives", self.session)
        names: Any = self.tools
        if isinstance(names, str):
            raise _refused("tools", f"a list of names: tools=[{names!r}]", names)
        for each in names or ():
            if not isinstance(each, str):
                expected = "names of the caller's tools; pass the child's own tools in own_tools"
                raise _refused("tools", expected, each)
        for tool in self.own_tools:
            if not hasattr(tool, "parameters"):
                raise _refused("own_tools", "tools, as @refold.tool makes them", tool)

    def as_json(self, *, program: str, limits: Limits) -> dict[str, Any]:
        """Return names, plain data and the granted limits, as a log holds them."""
        asked: dict[str, Any] = {"program": program}
        for name in ("brief", "agent", "tool"):
            if value := getattr(self, name):
                asked[name] = value
        asked["input"] = self.input
        if self.tools is not None:
            asked["tools"] = list(self.tools)
        asked["limits"] = limits.as_json()
        policy = {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in attrs.fields(Policy)
            if (value := getattr(self.policy, field.name)) != field.default
        }
        if policy:
            asked["policy"] = policy
        return asked


@attrs.frozen(kw_only=True)
class Children(Value):
    """What all children of a delegation tool need: checked before a run begins (§10.4.8)."""

    program: Program | Reference | str = "agent"
    """Their program."""
    tools: tuple[str, ...] | None = None
    """Names of their tools; `None` for all of their caller's."""
    named_tools: tuple[str, ...] = ()
    """More names of tools that the run has to have: some children have them."""
    models: tuple[str, ...] = ()
    """Names of models that the run has to have."""
    files: tuple[str, ...] = ()
    """Files that have to exist."""
    levels: int | None = None
    """As in `Delegation`."""
    runner: str = ""
    """As in `Delegation`."""
    takes_session: bool = False
    """Whether they begin with their caller's session, or a fork of it."""
    shares_session: bool = False
    """Whether they act on their caller's session itself."""


def _refused(name: str, expected: str, value: object) -> UsageError:
    return UsageError(f"Delegation({name}=…): expected {expected}; found {shown(value)}")


_KINDS: Final[Sequence[tuple[str, Any, str]]] = (
    ("program", Callable | Reference | str, "a function, or a string: module:name, file.py:name"),
    ("brief", str, "a string"),
    ("agent", str, "a string"),
    ("tool", str, "a string"),
    ("tools", Iterable | None, "a list of names"),
    ("levels", int | None, "a number of levels"),
    ("limits", Limits | None, "refold.Limits(max_depth=…)"),
    ("own_tools", Iterable, "a list of tools"),
    ("part", int | None, "a number of tokens"),
    ("policy", Policy, "a refold.tools.Policy(…)"),
    ("shared", bool, "True or False"),
    ("runner", str, 'a runner\'s name, such as "subprocess"'),
)
"""Members that else fail far from the line that gave them."""
