from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import attrs
import pytest

from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import ArgumentsRefused, ToolRefused
from refold.engine.ports.ports import CallContext
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each

if TYPE_CHECKING:
    from decimal import Decimal

CONTEXT = CallContext(call="0#1", run_id="r", depth=0, origin="")


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


@attrs.frozen
class Postponed:
    place: Path
    options: Options


def test_postponed_annotations_are_resolved() -> None:
    """`from __future__ import annotations` changes nothing, in classes neither."""

    @tool
    def look(at: Postponed, context: CallContext) -> tuple[Path, ...]:
        return (at.place, Path(context.call))

    found = look.call({"at": {"place": "a", "options": {"deep": True}}}, CONTEXT)

    assert found == (Path("a"), Path("0#1"))
    assert look.parameters["properties"]["at"]["properties"]["options"]["required"] == ["deep"]
    assert look.load(["a"]) == (Path("a"),)


def test_a_name_that_is_known_to_type_checkers_only_is_refused() -> None:
    """With what cannot be found, and what to do about it."""

    def pay(amount: Decimal) -> None:
        del amount

    with pytest.raises(ToolRefused, match=r"'Decimal' is not defined.*at run time"):
        tool(pay)


def test_a_local_type_in_a_postponed_annotation_is_refused() -> None:
    """It cannot be found by its name; the advice says where to put it."""

    @attrs.frozen
    class Local:
        x: int

    def use(local: Local) -> int:
        return local.x

    with pytest.raises(ToolRefused, match="at module level"):
        tool(use)


def _starred(*values: int) -> int:
    return sum(values)


def _keyed(**context: CallContext) -> int:
    return len(context)


def _positional(value: int, /) -> int:
    return value


def _bare(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  the point of the test
    return value


def _generating(count: int) -> Any:
    yield from range(count)


async def _streaming(count: int) -> Any:
    yield count


def _opened(path: str) -> bytes:
    return path.encode()


class Shelf:
    def take(self, title: str) -> str:
        return title


@for_each(
    "function, where, advice",
    [
        (_starred, "parameter 'values'", "name each parameter"),
        (_keyed, "parameter 'context'", "cannot be a"),
        (_positional, "parameter 'value'", "remove the `/`"),
        (_bare, "parameter 'value'", "annotate it"),
        (_generating, "return", "return a list"),
        (_streaming, "return", "return a list"),
        (_opened, "return", "Use str, int"),
        (Shelf.take, "parameter 'self'", "pass tools=[thing.method]"),
        (len, "parameter 'obj'", "remove the `/`"),
        (lambda: 1, "name", "name it"),
        (Shelf, "function", "wrap it in a function"),
        (Shelf(), "function", "wrap it in a function"),
    ],
)
def test_a_signature_that_cannot_be_offered_is_refused(
    function: Any, where: str, advice: str
) -> None:
    """At once, with the part of it and what to do."""
    with pytest.raises(ToolRefused) as refused:
        tool(function)

    assert refused.value.where == where
    assert advice in refused.value.why


def test_defaults_are_shown_where_they_are_json() -> None:
    """In their JSON form; the function still gets its own default."""
    marker = Path("here")

    @tool
    def look(
        where: Path = marker,
        count: int = 0,
        odd: int = "x",  # type: ignore[assignment]  # wrong on purpose
    ) -> bool:
        return where is marker and not count and bool(odd)

    properties = look.parameters["properties"]

    assert properties["where"] == {"type": "string", "default": "here"}
    assert properties["count"] == {"type": "integer", "default": 0}
    assert properties["odd"] == {"type": "integer"}
    assert "required" not in look.parameters
    assert look.call({}, CONTEXT) is True


def test_the_docstring_describes_tool_and_parameters() -> None:
    """First paragraph and `Args:`, types in brackets or not, until the next section."""

    @tool
    def look(where: str, how: str, why: str = "") -> str:  # noqa: D417  none for `why`
        """Look somewhere,
        and closely.

        At length.

        Args:
            where (str): A place: any
                at all.
            how: Well.

        Returns:
            why: not this one
        """  # noqa: D205  a summary of two lines is the point
        return where + how + why

    properties = look.parameters["properties"]

    assert look.description == "Look somewhere, and closely."
    assert properties["where"]["description"] == "A place: any at all."
    assert properties["how"]["description"] == "Well."
    assert "description" not in properties["why"]


@tool(effect="reads")
def _given(value: Any) -> Any:
    return value


@pytest.mark.parametrize("size", [1, 1_000])
def test_a_plain_result_shares_nothing_with_what_was_returned(size: int) -> None:
    """Small or large, it is what the log gives back, in containers of its own."""
    inner: dict[str, Any] = {"a": [1, -0.0, "é" * size, None, True], "b": {}}
    given = [inner, (1, (2,)), inner]

    dumped = _given.dump(given)

    assert dumped == loads(encode(given))
    assert repr(dumped) == repr(loads(encode(given)))
    dumped[0]["a"].append("more")
    dumped[2]["b"]["c"] = 1
    assert inner == {"a": [1, -0.0, "é" * size, None, True], "b": {}}
    assert dumped[2]["a"] == inner["a"]


@tool(effect="pure")
def label(title: str, context: CallContext, **labels: int) -> str:
    """Put labels on a thing.

    Args:
        title: The thing.
        context: Of the call.
        **labels: How often, by label.
    """
    return f"{title} {sorted(labels.items())} {context.call}"


def test_arguments_of_any_name_are_taken_with_a_type() -> None:
    """The schema says which values they may have; what is named is still the function's own."""
    assert label.parameters["additionalProperties"] == {
        "type": "integer",
        "description": "How often, by label.",
    }
    assert list(label.parameters["properties"]) == label.parameters["required"] == ["title"]
    assert label.call({"title": "a", "x": 1, "y z": 2}, CONTEXT) == "a [('x', 1), ('y z', 2)] 0#1"
    assert label.call({"title": "a"}, CONTEXT) == "a [] 0#1"


@for_each(
    "arguments, problem",
    [
        ({"title": "a", "x": "1"}, "at /x: expected an integer, found string '1'"),
        ({"title": 1, "x": 1}, "at /title: expected a string, found integer 1"),
        ({"x": 1}, "argument 'title' is missing"),
        ({"title": "a", "context": 1}, "unknown argument 'context' (it takes title)"),
    ],
)
def test_their_values_are_not_coerced_either(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentsRefused) as refused:
        label.call(arguments, CONTEXT)

    assert refused.value.problems == (problem,)
