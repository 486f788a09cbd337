"""Declares the arguments and options of commands, each once: as the default of a parameter.

    @declared("rm")
    def command(*, log: Path = argument(RUN), is_dry: bool = option("List files.", "--dry-run")):

The type of the parameter gives that of the option, unless the option has one. A parameter whose
type is a class of options adds all of them, and gets their values as one.
"""

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import attrs
import click
from click.core import ParameterSource

from refold.cli.output import output
from refold.engine.log.names import begins_at_home
from refold.engine.values import Value

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class UserPath(click.Path):
    """A path; `~/` at its beginning is HOME: shells leave it in `--log=~/x`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if isinstance(value, str) and begins_at_home(value):
            value = str(Path(value).expanduser())
        return super().convert(value, param, ctx)


LOG: Final = UserPath(path_type=Path)
"""The type of a path; the reader reports a missing file better than click."""


def by_name(_context: object, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return the values of an option by their names: the callback of `NAME=VALUE`.

    Only where a value is JSON or a text can it be empty.
    """
    found, form = dict[str, str](), option.metavar or "NAME=VALUE"
    for each in given:
        name, equals, value = each.partition("=")
        name, is_told = name.strip(), value or (equals and form.endswith("JSON"))
        if not name or not is_told or name in found:
            once = f"each {form.partition('=')[0]} once"
            raise click.BadParameter(f"{each!r:.60}: expected {form}, and {once}")
        found[name] = value
    return found


_OF_TYPES: Final[Mapping[Any, Mapping[str, Any]]] = {
    bool: {"is_flag": True, "default": False},
    tuple: {"multiple": True, "default": ()},
    dict: {"multiple": True, "default": {}, "callback": by_name},
    str: {"default": ""},
    int: {"type": int, "metavar": "N"},
    int | None: {"type": int, "metavar": "N"},
    Path: {"type": LOG, "metavar": "FILE"},
    Path | None: {"type": LOG, "metavar": "FILE"},
}


def _of_type(kind: Any) -> Mapping[str, Any]:
    """Return what the type of a parameter says of its option."""
    if get_origin(kind) is Literal:
        return {"type": click.Choice(get_args(kind))}
    return _OF_TYPES.get(get_origin(kind), _OF_TYPES.get(kind, {}))


@attrs.frozen
class _Declared(Value):
    """An argument, or an option, whose parameter is not known yet."""

    made: Callable[..., Decorator]
    names: tuple[str, ...]
    how: Mapping[str, Any]

    def typed(self, name: str, kind: Any) -> "_Declared":
        """Return it for a parameter of this name and type."""
        if self.made is click.argument:
            return attrs.evolve(self, names=(name,))
        names = self.names or (f"--{name.removeprefix('is_').replace('_', '-')}",)
        of_type = _of_type(kind)
        if self.how.get("multiple"):  # of texts, of which a callback makes what the parameter gets
            of_type = {}
        shown = {"show_default": bool(self.how.get("default"))}
        return attrs.evolve(self, names=(*names, name), how={**of_type, **shown, **self.how})

    def added(self, command: Command, **more: Any) -> Command:
        """Add it to a command."""
        return self.made(*self.names, **{**self.how, **more})(command)


def argument(kind: "click.ParamType[Any]", metavar: str | None = None, **how: Any) -> Any:
    """Declare an argument; with `nargs=-1`, it can be repeated."""
    return _Declared(click.argument, (), {"type": kind, "metavar": metavar, **how})


def option(text: str, *names: str, **how: Any) -> Any:
    """Declare an option by its help text.

    `names` are its names and what stands for its value, `-o`, `--out DIR`; without a name, it has
    that of the parameter. `how` is as for `click.option`.
    """
    found = [each for name in names for each in name.split()]
    shown = {"metavar": found.pop()} if found and found[-1][0] != "-" else {}
    return _Declared(click.option, tuple(found), {"help": text, **shown, **how})


_OPTION: Final = "refold.option"


def with_options(_class: type, fields: list[Any]) -> list[Any]:
    """Let the defaults of a class declare options: a `field_transformer` of attrs."""
    found = list[Any]()
    for field in fields:
        if isinstance(declared := field.default, _Declared):
            typed = declared.typed(field.name, field.type)
            default = typed.how.get("default") or _of_type(field.type).get("default")
            found.append(field.evolve(default=default, metadata={_OPTION: typed}))
        else:
            found.append(field)
    return found


@attrs.frozen
class _Chosen(Value):
    """Which of the options of a class a command has, and in which group of its help."""

    kind: type[click.Option] = click.Option
    names: tuple[str, ...] = ()
    kinds: Mapping[str, type[click.Option]] = attrs.field(factory=dict)


def chosen(kind: type[click.Option], *names: str, **kinds: type[click.Option]) -> Any:
    """Choose options of the class of a parameter, by default all; `kind` is their group.

    `kinds` are the groups of single ones.
    """
    return _Chosen(kind, names, kinds)


def declared(
    name: str, *, has_json: bool = True, cls: type[click.Command] = click.Command, **how: Any
) -> Callable[[Command], click.Command]:
    """Make a command of a function, whose parameters declare its arguments and options.

    Unless `has_json` is false, it has the option `--json`. `how` is as for `click.command`.
    """

    def made(function: Command) -> click.Command:
        whole = _with_parameters(function)
        return click.command(name, cls, **how)(json_option(whole) if has_json else whole)

    return made


def _with_parameters(command: Command) -> Command:
    """Add the arguments and options that the parameters of a command declare."""
    groups = dict[str, tuple[type, list[str]]]()
    added = list[Decorator]()
    for name, parameter in inspect.signature(command).parameters.items():
        given, kind = parameter.default, parameter.annotation
        if isinstance(given, _Declared):
            added.append(given.typed(name, kind).added)
        elif attrs.has(kind):
            which = given if isinstance(given, _Chosen) else _Chosen()
            fields = {each.name: each.metadata[_OPTION] for each in attrs.fields(kind)}
            groups[name] = kind, [each for each in fields if each in (which.names or fields)]
            for each in groups[name][1]:
                group = which.kinds.get(each, which.kind)
                added.append(functools.partial(fields[each].added, cls=group))

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        for name, (kind, fields) in groups.items():
            given[name] = kind(**{each: given.pop(each) for each in fields})
        return command(**given)

    made: Command = called
    for add in reversed(added):
        made = add(made)
    return made


def given_options(
    context: click.Context | None = None, kind: type[click.Option] = click.Option
) -> list[str]:
    """Return the names of options of a kind that the command line has, `--json` apart."""
    context = context or click.get_current_context()
    return [
        each.opts[0]
        for each in context.command.params
        if isinstance(each, kind) and each.expose_value
        and context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
    ]  # fmt: skip


json_option: Final[Decorator] = click.option(
    "--json", "as_json", is_flag=True, expose_value=False, callback=output.note_json,
    help="Print one JSON document instead (see refold schema).",
)  # fmt: skip
log_option: Final[Any] = option("Log of the run; by default a new file in runs/.")
heads_option: Final[Any] = option("Second store, which contains the heads.", "URL")
PORT: Final = click.IntRange(0, 65535)
POSITIVE: Final = click.IntRange(min=1)


def limit_option(names: Collection[str], text: str, **how: Any) -> Any:
    """Declare `--limit NAME=N`; the parameter gets the numbers by name."""

    def made(context: object, option: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
        limits = dict[str, Any]()
        for name, value in by_name(context, option, given).items():
            if name not in names:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(names)}")
            try:
                is_whole = not name.endswith(("usd", "timeout", "seconds"))
                number = int(value) if is_whole else float(value)
            except ValueError:
                number = -1
            if not number >= (0 if name == "max_depth" else 1 if is_whole else math.ulp(0)):
                what = "a whole number" if is_whole else "a positive number"
                raise click.BadParameter(f"{name}={value}: expected {what}")
            limits[name] = number
        return limits

    return option(text, "--limit NAME=N", multiple=True, callback=made, **how)


label_option: Final[Any] = option(
    "Label of the run, to search for with `refold ls --text`.", "--label NAME=TEXT"
)
