import asyncio
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, assert_type

import attrs
import pytest

from refold.engine.errors import ArgumentsRefused, LimitRefused, NotCanonical, ToolRefused
from refold.engine.ports.offers import offer_of
from refold.engine.ports.ports import CallContext, Tool
from refold.engine.ports.programs import load
from refold.tools.contract.tool_types import (
    DelegationTool,
    FunctionTool,
    as_tool,
    place_of,
    remade,
    tool,
    with_approval,
)
from refold.tools.delegation.subagent import subagent_tool
from tests.support.loops import for_each

CONTEXT = CallContext(call="0#1", run_id="r", depth=0, origin="0" * 64)


@attrs.frozen
class Count:
    path: Path
    words: int


@tool(effect="reads")
def word_count(path: Path, at_least: int = 1) -> Count:
    """Count the words of a file.

    More than a model needs.

    Args:
        path: Where it is.
        at_least: Shorter words
            do not count.
    """
    return Count(path, at_least)


@tool
async def fetch(url: str) -> dict[str, Any]:
    """Fetch."""
    return {"url": url}


def plain(text: str) -> str:
    return text


def test_a_decorated_function_is_still_the_function() -> None:
    """Called directly it is typed and behaves as it did; name and docstring stay."""
    result = word_count(Path("a"), at_least=2)

    assert_type(result, Count)
    assert result == Count(Path("a"), 2)
    assert word_count.__name__ == "word_count"
    assert (word_count.__doc__ or "").startswith("Count the words")
    assert word_count.__wrapped__(Path("b")) == Count(Path("b"), 1)
    assert asyncio.run(fetch("x")) == {"url": "x"}


def test_a_tool_says_what_it_is() -> None:
    """Name, description, effect class, schema; an undeclared effect `changes` the world."""
    assert word_count.name == "word_count"
    assert word_count.description == "Count the words of a file."
    assert (word_count.effect, fetch.effect) == ("reads", "changes")
    assert (word_count.is_async, fetch.is_async) == (False, True)
    assert (word_count.typed, fetch.typed) == (True, False)
    assert word_count.timeout_seconds is None
    assert word_count.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it is."},
            "at_least": {
                "type": "integer",
                "description": "Shorter words do not count.",
                "default": 1,
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_options_replace_what_the_function_says() -> None:
    """Name, description and timeout may be given."""
    other = tool(name="count-it", description="Counts.", timeout_seconds=2.5)(plain)

    assert (other.name, other.description, other.timeout_seconds) == ("count-it", "Counts.", 2.5)


def test_a_call_takes_json_arguments_and_gives_typed_ones() -> None:
    """Absent ones are left to the function's own defaults."""
    assert word_count.call({"path": "a/b"}, CONTEXT) == Count(Path("a/b"), 1)
    assert asyncio.run(fetch.call({"url": "x"}, CONTEXT)) == {"url": "x"}


def test_arguments_that_do_not_fit_are_all_named() -> None:
    """Pointer, expected, found; the nearest name where one is unknown."""
    with pytest.raises(ArgumentsRefused) as refused:
        word_count.call({"pth": "a", "at_least": "2"}, CONTEXT)

    assert refused.value.tool == "word_count"
    assert refused.value.problems == (
        "argument 'path' is missing",
        "unknown argument 'pth', did you mean 'path'? (it takes path, at_least)",
        "at /at_least: expected an integer, found string '2'",
    )


def test_a_result_travels_as_json_and_comes_back_typed() -> None:
    """`load` gives what the function returned."""
    written = word_count.dump(Count(Path("a"), 3))

    assert written == {"path": "a", "words": 3}
    assert word_count.load(written) == Count(Path("a"), 3)


def test_an_integer_result_of_a_float_tool_is_a_float() -> None:
    """So that the record holds what the annotation says, and reading it needs no types."""

    @tool
    def ratio() -> float:
        return 1

    written = ratio.dump(ratio())

    assert type(written) is float
    assert not ratio.typed
    assert ratio.load(written) is written


@for_each(
    "function, result, pointer",
    [
        (word_count, Count(Path("a"), "3"), "/words"),  # type: ignore[arg-type]  # wrong on purpose
        (word_count, {"path": "a"}, "/words"),
        (word_count, None, ""),
        (fetch, {"a": Count(Path("a"), 3)}, "/a"),
        (fetch, [1], ""),
        (fetch, {"a": float("nan")}, "/a"),
    ],
)
def test_a_result_that_is_not_what_was_annotated_is_refused(
    function: Tool, result: object, pointer: str
) -> None:
    """With its place, before anything is written."""
    with pytest.raises(NotCanonical) as refused:
        function.dump(result)

    assert refused.value.pointer == pointer


def test_without_a_return_annotation_a_result_is_plain_json() -> None:
    """Classes are not flattened behind the author's back."""

    @tool
    def anything():  # type: ignore[no-untyped-def]  # noqa: ANN202  the point of the test
        return [1]

    assert anything.dump([1, "x"]) == [1, "x"]
    with pytest.raises(NotCanonical, match="expected a JSON value"):
        anything.dump(Count(Path("a"), 1))


def test_a_record_that_no_longer_fits_is_refused() -> None:
    """The annotation may have changed since it was written."""
    with pytest.raises(NotCanonical) as refused:
        word_count.load({"path": "a", "words": "3"})

    assert refused.value.pointer == "/words"


def test_the_call_context_is_filled_and_not_offered() -> None:
    """A parameter annotated with it is no argument."""

    @tool
    def keyed(name: str, context: CallContext) -> str:
        return f"{name} {context.call}"

    @tool
    def perhaps(context: CallContext | None = None) -> str:
        return context.call if context else ""

    assert perhaps.parameters["properties"] == {}
    assert perhaps.call({}, CONTEXT) == "0#1"
    assert perhaps() == ""
    assert list(keyed.parameters["properties"]) == ["name"]
    assert keyed.call({"name": "a"}, CONTEXT) == "a 0#1"
    with pytest.raises(ArgumentsRefused, match="unknown argument 'context'"):
        keyed.call({"name": "a", "context": {}}, CONTEXT)


def test_bound_methods_and_partials_are_tools() -> None:
    """What is bound already is not offered."""

    class Shelf:
        def take(self, title: str) -> str:
            return f"{self.__class__.__name__}:{title}"

    def add(left: int, right: int) -> int:
        return left + right

    taken = as_tool(Shelf().take)
    added = as_tool(functools.partial(add, right=2))

    assert (taken.name, list(taken.parameters["properties"])) == ("take", ["title"])
    assert taken.call({"title": "x"}, CONTEXT) == "Shelf:x"
    assert (added.name, list(added.parameters["properties"])) == ("add", ["left"])
    assert added.call({"left": 1}, CONTEXT) == 3
    assert taken.reference is None
    assert added.reference is None


def test_as_tool_takes_tools_and_functions_only() -> None:
    """A function is taken to `change` the world; anything else is refused."""
    assert as_tool(word_count) is word_count
    assert as_tool(plain).effect == "changes"
    for thing in (3, "word_count", object()):
        with pytest.raises(ToolRefused, match="neither a tool nor a function"):
            as_tool(thing)  # type: ignore[arg-type]  # wrong on purpose

    class Half:
        """A tool of one's own has a name as well; this one's class was passed."""

        name = "half"
        call = plain

    for kind in (Count, Half):
        with pytest.raises(ToolRefused, match="found a class"):
            as_tool(kind)


@for_each("name", ["", "1st", "a b", "ä", "-x", "a" * 65, "a\n"])
def test_a_name_that_models_cannot_use_is_refused(name: str) -> None:
    """One name, good for every provider."""
    with pytest.raises(ToolRefused) as refused:
        tool(name=name)(plain)

    assert refused.value.where == "name"


@for_each("seconds", [0, -1, float("nan"), float("inf"), True, "3"])
def test_a_timeout_that_is_none_is_refused(seconds: Any) -> None:
    """A positive, finite number of seconds."""
    with pytest.raises(LimitRefused, match="timeout_seconds"):
        tool(timeout_seconds=seconds)(plain)


def test_what_is_decorated_twice_or_approved_by_a_word_is_refused() -> None:
    """Both were taken, or told in words that say nothing to do."""
    with pytest.raises(ToolRefused, match="a tool already: decorate it once"):
        tool(effect="reads")(word_count)
    with pytest.raises(ToolRefused, match="approval: expected True or False; found 'yes'"):
        tool(approval="yes")(int.bit_count)  # type: ignore[call-overload]


def test_each_call_has_a_default_of_its_own() -> None:
    """What one call does to a default list is not there in the next, nor in the function's own."""

    @tool(effect="reads")
    def gather(item: str, into: list[str] = []) -> list[str]:  # noqa: B006 - the mistake itself
        """Gather."""
        into.append(item)
        return into

    found = [gather.call({"item": each}, CONTEXT) for each in "ab"]

    assert found == [["a"], ["b"]]


def test_an_effect_class_that_is_none_is_refused() -> None:
    """The closed set is named."""
    with pytest.raises(ToolRefused, match="pure, idempotent, reads, changes"):
        tool(effect="read")(plain)  # type: ignore[call-overload]  # wrong on purpose


def test_a_leaf_tool_runs_no_program_code() -> None:
    """`delegate` belongs to delegation tools, and `call` to leaf tools."""
    with pytest.raises(ToolRefused):
        word_count.delegate(None, {})  # type: ignore[arg-type]  # it has no run


def test_a_delegation_tool_runs_its_handler() -> None:
    """It is given `run` and its own copy of the arguments."""

    async def handler(run: Any, arguments: dict[str, Any]) -> Any:
        return [run, arguments]

    delegating = DelegationTool(
        name="ask", description="Asks.", parameters={"type": "object"}, handler=handler
    )
    as_port: Tool = delegating
    arguments = {"a": 1}

    async def through_the_port() -> Any:
        return await as_port.delegate("run", arguments)

    result = asyncio.run(through_the_port())

    assert as_port.delegates
    assert result == ["run", arguments]
    assert result[1] is not arguments
    assert as_port.load(as_port.dump(result)) == result
    with pytest.raises(ToolRefused):
        as_port.call({}, CONTEXT)
    with pytest.raises(ToolRefused, match="expected 1 to 64"):
        DelegationTool(name="a b", description="", parameters={}, handler=handler)


def test_the_offer_changes_with_what_a_model_is_told() -> None:
    """Two tools that read the same to a model and do the same to the world have one digest."""

    def named(description: str, effect: Any = "reads") -> str:
        made = tool(name="x", description=description, effect=effect)(plain)
        digest = offer_of(made)["digest"]
        assert re.fullmatch("[0-9a-f]{64}", digest)
        return str(digest)

    assert named("a") == named("a")
    assert len({named("a"), named("b"), named("a", "pure")}) == 3


def test_a_tool_is_remade_from_where_its_function_stands() -> None:
    """What a reference to an undecorated function names."""
    made = remade(source=__name__, function="plain", effect="pure", name="other")

    assert isinstance(made, FunctionTool)
    assert (made.name, made.effect, made("x")) == ("other", "pure", "x")


def test_an_annotated_description_goes_before_the_docstring() -> None:
    """The nearest word counts."""

    @tool
    def look(where: Annotated[str, "a place"]) -> str:
        """Look.

        Args:
            where: somewhere
        """
        return where

    assert look.parameters["properties"]["where"]["description"] == "a place"


@tool(effect="reads")
def approvable(n: int) -> int:
    """Give a number back."""
    return n


def test_a_tool_can_be_made_one_that_is_asked_for() -> None:
    """§9.9: the same in all else; another process makes the asking one, too."""
    asking = with_approval(approvable)
    found = asking.reference

    assert getattr(asking, "approval", False)
    assert not approvable.approval
    assert (asking.name, asking.parameters) == (approvable.name, approvable.parameters)
    assert found is not None
    again = load(found)
    assert again.approval
    assert again(3) == 3


def test_so_can_a_delegation_tool() -> None:
    """§9.9."""
    asking = with_approval(subagent_tool())

    assert getattr(asking, "approval", False)
    assert asking.delegates
    assert asking.reference is not None
    assert load(asking.reference).approval


def test_a_tool_of_another_kind_cannot() -> None:
    """It says itself whether it asks."""

    class Other:
        name = "other"
        reference = None

    with pytest.raises(ToolRefused, match="other"):
        with_approval(Other())  # type: ignore[arg-type]  # that is the point


def test_a_tool_of_ones_own_that_lacks_a_member_is_refused_with_its_name() -> None:
    """Not as something that is no tool at all."""

    class Own:
        name = "own"
        description = "It is mine."
        parameters: ClassVar[dict[str, Any]] = {"type": "object"}
        delegates = is_async = typed = False
        timeout_seconds = reference = None

        def call(self, _arguments: Any, _context: Any, /) -> int:
            return 1

        def dump(self, result: Any, /) -> Any:
            return result

    with pytest.raises(ToolRefused, match=r"own.*it lacks effect, delegate, load"):
        as_tool(Own())  # type: ignore[arg-type]  # that is the point


@tool(effect="reads")
def decorated(text: str) -> str:
    return text


renamed = tool(effect="pure", name="other", timeout_seconds=3)(plain)


def test_a_decorated_function_is_found_by_its_name() -> None:
    """What stands there is the tool itself."""
    assert decorated.reference is not None
    assert decorated.reference.arguments is None
    assert load(decorated.reference) is decorated


def test_a_wrapped_function_is_wrapped_again() -> None:
    """With the same options."""
    assert renamed.reference is not None
    again = load(renamed.reference)

    assert isinstance(again, FunctionTool)
    assert again is not renamed
    assert (again.name, again.effect, again.timeout_seconds) == ("other", "pure", 3)
    assert again.reference == renamed.reference


def test_what_no_import_reaches_has_no_reference() -> None:
    """Closures, lambdas, partials, bound methods, and a name that now means something else."""

    def inner(text: str) -> str:
        return text

    def impostor(text: str) -> str:
        return text

    impostor.__qualname__ = "plain"

    assert as_tool(inner).reference is None
    assert as_tool(impostor).reference is None
    assert place_of(lambda: 1) is None
    assert place_of(functools.partial(plain)) is None
    assert place_of("".upper) is None


def test_a_tool_of_the_main_file_is_found_by_that_file(tmp_path: Path) -> None:
    """Another process imports the file, under whatever name."""
    script = tmp_path / "script.py"
    script.write_text(
        "import refold.tools, sys\n"
        "from refold.engine.ports.programs import load\n"
        "@refold.tools.tool\n"
        "def look(path: str) -> str:\n"
        "    return path\n"
        "if __name__ == '__main__':\n"
        "    print(look.reference.source, look.reference.name)\n"
        "    again = load(look.reference)\n"
        "    assert load(again.reference) is again\n"
    )

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.split() == [str(script), "look"]


@pytest.mark.long
def test_the_package_loads_nothing_until_a_name_is_used() -> None:
    """`import refold.tools` is light, and its names are those of `__all__`."""
    code = (
        "import sys, refold.tools as t\n"
        "assert not {'attrs', 'cattrs', 'orjson'} & set(sys.modules)\n"
        "assert [getattr(t, name) for name in t.__all__] and dir(t) == sorted(t.__all__)\n"
        "assert not hasattr(t, 'nothing')\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stderr == ""
