"""Options of the public calls, checked before anything happens: each error names its argument.

`checked` takes the arguments that were passed by name, refuses those of the wrong kind, and returns
them in the engine's form: functions as tools, `openai:gpt-5` as a model. To add one: a row in
`_KINDS`. Rules: CONTRACT.md §9.6.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

import attrs

from refold.engine.encoding.canonical import name_of
from refold.engine.errors import ModelNotFound, OptionRefused
from refold.engine.events.limits import Limits
from refold.engine.log.names import NO_HOME, begins_at_home
from refold.engine.ports.ports import Durability, Tool

Tools = Sequence[Tool | Callable[..., Any] | str | Sequence[Any]]
"""Tools; functions, which become tools that are taken to change the world; names of kinds of
`refold.subagents`; and lists of these."""


@attrs.frozen
class _Kind:
    fits: Callable[[Any], bool]
    expected: str


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: all(hasattr(value, name) for name in names) and not inspect.isclass(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list) or (
        isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    )


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(each, str) for each in values)


_DURABILITIES: Final = get_args(Durability)
_MODEL: Final = (
    "a model from refold.engine.models, openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME, or an "
    "object with name and complete(request)"
)
_BOOL: Final = _Kind(lambda value: isinstance(value, bool), "True or False")
_LIST: Final = _Kind(lambda value: _is_list(value) and _are_texts(value), "a list of strings")
_MAPPING: Final = _Kind(
    lambda value: isinstance(value, Mapping) and _are_texts(value), "a dict by name or call key"
)
_PATH: Final = _Kind(lambda value: isinstance(value, str | os.PathLike), "a path")
_CALLABLE: Final = _Kind(callable, "a function")
_COUNT: Final = _Kind(lambda value: type(value) is int and value > 0, "a number of at least 1")

_KINDS: Final[Mapping[str, _Kind]] = {
    "answers": _MAPPING,
    "ask": _CALLABLE,
    "by": _Kind(lambda value: isinstance(value, str), "a text"),
    "check": _BOOL,
    "clock": _Kind(
        _has("time_us"), "a refold.testing.FixedClock(…), or an object with the same attributes"
    ),
    "compare": _MAPPING,
    "durability": _Kind(_DURABILITIES.__contains__, f"one of {', '.join(_DURABILITIES)}"),
    "edits": _MAPPING,
    "fail": _LIST,
    "into": _PATH,
    "labels": _Kind(
        lambda value: (
            isinstance(value, Mapping)
            and all(isinstance(each, str) and each for each in (*value, *value.values()))
        ),
        'a dict of strings by name: {"order": "A-117"}',
    ),
    "limits": _Kind(lambda value: isinstance(value, Limits), "refold.Limits(timeout_seconds=…)"),
    "log": _PATH,
    "max_attempts": _COUNT,
    "models": _MAPPING,
    "on_call": _CALLABLE,
    "on_order": _CALLABLE,
    "on_verdict": _CALLABLE,
    "only": _Kind(lambda value: isinstance(value, str), "a part of a call's label"),
    "orders": _COUNT,
    "redaction": _Kind(_has("secrets", "paths", "tools"), "refold.Redaction(…)"),
    "results": _MAPPING,
    "retry": _LIST,
    "runner": _Kind(lambda value: isinstance(value, str), 'a runner\'s name, such as "subprocess"'),
    "runners": _MAPPING,
    "secrets": _Kind(
        lambda value: (
            isinstance(value, Mapping) and _are_texts(value) and _are_texts(value.values())
        ),
        "a dict of strings by name",
    ),
    "seed": _Kind(lambda value: isinstance(value, str | int), "a number or a text"),
    "sign": _PATH,
    "session": _Kind(_has("bind", "snapshot", "observe"), "a refold.Session()"),
    "sources": _Kind(_has("tools", "model", "children"), "refold.Sources(…)"),
    "timers": _BOOL,
    "twice": _BOOL,
    "volatile": _LIST,
}
"""The kind of each option; `None` is the default, except for those of `_NEEDED`."""
_NEEDED: Final = ("fail", "only", "orders", "retry", "volatile", ("fork", "into"))


def checked(call: str, **options: Any) -> dict[str, Any]:
    """Return the options of `refold.<call>` as the engine takes them, without program and input.

    Raises:
        OptionRefused: an option is of the wrong kind; names it, the expected and the found value.
        ToolRefused: one of `tools` can be no tool.
        ModelNotFound: a text names no model.
    """
    for name, given in options.items():
        kind = _KINDS.get(name)
        # An iterator is read here, and again where it is used.
        value = tuple(given) if kind is _LIST and isinstance(given, Iterator) else given
        options[name] = value
        is_log = name == "log" and not call.startswith("record")
        is_default = value is None and not (is_log or (call, name) in _NEEDED or name in _NEEDED)
        if not is_default and kind is not None and not kind.fits(value):
            said = _kinds_in(value) if name == "secrets" else shown(value)
            raise OptionRefused(call, name, kind.expected, said)
        if isinstance(value, str | os.PathLike) and kind is _PATH and begins_at_home(value):
            raise OptionRefused(call, name, NO_HOME, shown(value))
    ready = {name: value for name, value in options.items() if name not in ("program", "input")}
    if "tools" in options:
        ready["tools"] = _tools(call, options["tools"])
    if options.get("model") is not None:
        ready["model"] = _model(call, "model", options["model"])
    if options.get("models") is not None:
        ready["models"] = {
            name: _model(call, f"models[{name!r}]", model)
            for name, model in options["models"].items()
        }
    return ready


def _kinds_in(secrets: object) -> str:
    """Return the kind of an argument, and of its first member that is not text; never a value."""
    members = secrets.items() if isinstance(secrets, Mapping) else ()
    wrong = (
        f" with {type(of).__name__} for {name!r}"
        for name, of in members
        if not _are_texts((name, of))
    )
    return f"{type(secrets).__name__}{next(wrong, '')}"


def shown(value: object) -> str:
    """Return the kind and the text of an argument, in at most 80 characters."""
    if isinstance(value, type):
        return f"the class {name_of(value)}"[:80]
    if type(value).__repr__ is object.__repr__:  # a private module and an address
        return name_of(type(value))
    return f"{type(value).__name__} {value!r}"[:80]


def _tools(call: str, tools: Any) -> list[Tool]:
    if tools == ():
        return []
    from refold.tools.contract.tool_types import as_tool, is_tool  # noqa: PLC0415 - not by default

    if is_tool(tools) or callable(tools):
        name = getattr(tools, "name", getattr(tools, "__name__", "…"))
        raise OptionRefused(call, "tools", f"a list: tools=[{name}]", "one tool")
    if not _is_list(tools):
        raise OptionRefused(call, "tools", "a list of tools and functions", shown(tools))
    ready: dict[str, Tool] = {}
    for each in _flat(call, tools):
        tool = as_tool(each)
        if ready.setdefault(tool.name, tool) is not tool:
            raise OptionRefused(
                call,
                "tools",
                "unique names: to change a tool's name, use @refold.tool(name=…)",
                f"two tools with the name {tool.name!r}",
            )
    return list(ready.values())


def _flat(call: str, tools: Iterable[Any]) -> Iterator[Any]:
    """Yield the tools of lists within lists, and those that a name stands for.

    Raises:
        OptionRefused: a name of nothing, None, or a function that makes tools.
    """
    for each in tools:
        if isinstance(each, str):
            from refold.tools.contract.policy import POLICIES  # noqa: PLC0415 - few names
            from refold.tools.delegation.shipped import subagents  # noqa: PLC0415 - the same

            if each not in POLICIES:
                expected = f"tools, functions, or kinds of subagents: {', '.join(POLICIES)}"
                near = get_close_matches(each, POLICIES, 1)
                found = shown(each) + (f"; did you mean {near[0]!r}?" if near else "")
                raise OptionRefused(call, "tools", expected, found)
            yield from subagents(each)  # type: ignore[arg-type]  # one of them
        elif _is_list(each):
            yield from _flat(call, each)
        elif each is None:
            expected = "tools; a call that found no agents or settings makes none"
            raise OptionRefused(call, "tools", expected, "None")
        elif inspect.isfunction(each) and each.__module__.startswith("refold.tools."):
            name = each.__name__
            raise OptionRefused(call, "tools", f"the result of {name}(…)", f"{name} itself")
        else:
            yield each


def _model(call: str, place: str, model: Any) -> Any:
    if isinstance(model, str):
        from refold.engine.models.parse import model_from  # noqa: PLC0415 - few name one by a text

        try:
            return model_from(model)
        except ModelNotFound as error:
            raise OptionRefused(call, place, _MODEL, shown(model)) from error.__cause__
    if not _has("complete", "name")(model):
        raise OptionRefused(call, place, _MODEL, shown(model))
    return model
