"""Values of a configuration file, and the line on which each member stands."""

from pathlib import Path

import pytest

from refold.engine.errors import ConfigRefused
from refold.tools.files.config_text import Setting, values_of
from tests.support.loops import for_each


def test_yaml_members_have_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "refold.yaml"
    file.write_text("# first\nlimits:\n  max_depth: 3\ntools: {disabled: [a], spawn: {}}\n")

    values, lines = values_of(file)

    assert values == {"limits": {"max_depth": 3}, "tools": {"disabled": ["a"], "spawn": {}}}
    assert lines == {
        "limits": 2,
        "limits.max_depth": 3,
        "tools": 4,
        "tools.disabled": 4,
        "tools.spawn": 4,
    }


def test_toml_members_have_theirs(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        "[project]\nname = 'a'\n[tool.other]\nlimits = 1\n[tool.refold]\nagents = 'x'\n"
        "[tool.refold.limits]  # caps\nmax_depth = 3\n[tool.refold.llm.pools.\"a\"]\nmodel = 'm'\n"
    )

    values, lines = values_of(file)

    assert values["limits"] == {"max_depth": 3}
    assert values["llm"] == {"pools": {"a": {"model": "m"}}}
    assert lines == {
        "agents": 6,
        "limits": 7,
        "limits.max_depth": 8,
        "llm.pools.a": 9,
        "llm.pools.a.model": 10,
    }


def test_empty_files_are_empty(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nothing\n")
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nx = 1\n")

    assert values_of(tmp_path / "a.yaml") == ({}, {})
    assert values_of(tmp_path / "pyproject.toml") == ({}, {})


@for_each(
    "name, text, line",
    [
        ("a.yaml", "a: 1\nb: [\n", 3),
        ("a.yaml", "a: 1\nb: 2\na: 3\n", 3),
        ("a.yaml", "x:\n  a: 1\n  a: 3\n", 3),
        ("a.toml", "[tool.refold]\nx =\n", 2),
        ("a.yaml", "!!python/object:os.system {}\n", 1),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(ConfigRefused) as refused:
        values_of(tmp_path / name)

    assert (refused.value.path, refused.value.line) == (str(tmp_path / name), line)


def test_the_nearest_name_is_told(tmp_path: Path) -> None:
    setting = Setting(tmp_path / "a.yaml", "tools", None)

    with pytest.raises(ConfigRefused, match=r"did you mean 'abcf'\? there are: abcd, abce, abcf$"):
        setting.check_known("abc", ["abcd", "abce", "abcf"], "is unknown")
    with pytest.raises(ConfigRefused, match=r"there are: none$"):
        setting.check_known("abc", [], "is unknown")


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")

    for name, why in (
        ("absent.yaml", "No such file or directory$"),
        ("latin.yaml", "'utf-8' codec"),
    ):
        with pytest.raises(ConfigRefused, match=f"cannot be read: {why}"):
            values_of(tmp_path / name)


def test_a_table_that_is_nearly_ours_is_refused(tmp_path: Path) -> None:
    """It would have no effect; those of other tools are theirs."""
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.ruff]\n[tool.rope]\n[tool.unfold]\n")
    assert values_of(file)[0] == {}

    file.write_text("[tool.reflod]\ntools = 1\n")
    with pytest.raises(ConfigRefused, match=r"tool\.reflod: expected \[tool\.refold\]"):
        values_of(file)
