import functools
import subprocess
import sys
from pathlib import Path

import pytest

from refold.engine.ports.programs import load
from refold.tools.contract.references import place_of
from refold.tools.contract.tool_types import FunctionTool, as_tool, tool


def plain(text: str) -> str:
    return text


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
