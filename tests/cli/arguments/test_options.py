"""The parameters of a command declare its arguments and options, each once."""

from pathlib import Path
from typing import Literal

import attrs
import click
import pytest
from click.testing import CliRunner

from refold.cli.arguments.options import UserPath, argument, chosen, declared, option, with_options
from refold.cli.arguments.run_names import RUN
from refold.cli.group import COMMANDS, refold
from tests.support.loops import for_each


class Apart(click.Option):
    """Another group."""


@attrs.frozen(kw_only=True, field_transformer=with_options)
class Group:
    """Options that are passed on as one."""

    tools: tuple[str, ...] = option("Tools.", "NAME")
    root: Path | None = option("Folder.", "-r", "--root DIR")
    is_left: bool = option("Not chosen.")
    edits: dict[str, str] = option("Values.", "--set KEY=JSON")
    labels: dict[str, str] = option("Texts.", "--label NAME=TEXT")


SOME: Group = chosen(Apart, "tools", "root", "edits", "labels", root=click.Option)


@declared("try", has_json=False)
def command(
    *,
    log: str = argument(click.STRING, "LOG"),
    is_dry: bool = option("Do nothing."),
    match: Literal["a", "b"] = option("How.", default="b"),
    last: int | None = option("How many."),
    text: str = option("What.", "--search TEXT"),
    group: Group = SOME,
) -> None:
    """Print what the parameters get."""
    click.echo((log, is_dry, match, last, text, group))


def test_the_type_of_a_parameter_is_that_of_its_option() -> None:
    said = CliRunner().invoke(
        command,
        ["x", "--dry", "--last", "3", "--tools", "t", "--tools", "u", "-r", "f", "--search", "s"],
    )

    group = Group(tools=("t", "u"), root=Path("f"))
    assert said.output == f"{('x', True, 'b', 3, 's', group)}\n"
    assert CliRunner().invoke(command, ["x", "--match", "c"]).exit_code == 2
    assert "--is-left" not in CliRunner().invoke(command, ["--help"]).output


def test_what_is_not_given_is_as_in_a_class_made_without_it() -> None:
    said = CliRunner().invoke(command, ["x"])

    assert said.output == f"{('x', False, 'b', None, '', Group())}\n"
    assert attrs.astuple(Group()) == ((), None, False, {}, {})


def test_values_are_given_by_name() -> None:
    """Everything behind the first `=`; only one that may be any text can be empty."""
    said = CliRunner().invoke(command, ["x", "--set", "a > b=c=d", "--set", "e = ", "--set", "f="])

    group = Group(edits={"a > b": "c=d", "e": " ", "f": ""})
    assert said.output == f"{('x', False, 'b', None, '', group)}\n"


@for_each("given", [["k"], ["=v"], ["k="], ["k=v", "k=v"], ["k=v", "k =w"]])
def test_a_value_without_a_name_or_given_twice_is_refused(given: list[str]) -> None:
    said = CliRunner().invoke(
        command, ["x", *(word for each in given for word in ("--label", each))]
    )

    assert said.exit_code == 2
    assert f"'{given[-1]}': expected NAME=TEXT, and each NAME once" in said.output


def test_the_class_of_an_option_is_its_group() -> None:
    kinds = {each.name: type(each) for each in command.params}

    assert (kinds["tools"], kinds["root"], kinds["last"]) == (Apart, click.Option, click.Option)


def test_every_path_of_the_command_line_may_begin_at_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Shells leave `~` as it is in `--log=~/x`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    commands = [refold.get_command(click.Context(refold), name) for name in COMMANDS]
    kinds = {
        param.type
        for command in commands
        if command is not None
        for param in command.params
        if isinstance(param.type, click.Path) and param.type is not RUN  # a folder is its run
    }

    assert len(kinds) > 4
    assert all(isinstance(kind, UserPath) for kind in kinds)
    assert {Path(str(kind.convert("~/", None, None))) for kind in kinds} == {tmp_path}
