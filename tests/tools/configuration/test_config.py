"""`refold.yaml` is read strictly: errors name the file, the line and the nearest known name."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import ConfigRefused
from refold.engine.events.limits import Limits
from refold.engine.secrets.redaction import Redaction
from refold.tools.agents.profiles import SpawnProfile, SpawnSettings
from refold.tools.configuration.config import Config, Pool, load_config, spawn_settings
from tests.support.loops import for_each

WHOLE = """
tools:
  enabled: [read_file, subagent, spawn, run_command]
  disabled: [subagent]
  spawn:
    enabled: true
    profiles:
      sage:
        system_prompt: Be wise.
        bootstrap_files: [SOUL.md]
        tools: [read_file]
        pool: fast
        parameters: {max_tokens: 8000}
  run_command: {allow: [git], environment: [EDITOR]}
agents: team
llm:
  default_pool: fast
  pools:
    fast: openai:gpt-4o-mini
    local: {model: "openai:llama3:70b", base_url: "http://localhost:8000/v1"}
limits: {max_depth: 3, timeout_seconds: 60.5}
"""


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "refold.yaml").write_text(WHOLE)

    config = load_config(tmp_path)

    profile = SpawnProfile(
        system_prompt="Be wise.",
        bootstrap_files=("SOUL.md",),
        tools=("read_file",),
        pool="fast",
        parameters={"max_tokens": 8000},
    )
    assert config == Config(
        enabled=("read_file", "subagent", "spawn", "run_command"),
        disabled=("subagent",),
        spawn=SpawnSettings(enabled=True, profiles={"sage": profile}),
        commands=("git",),
        environment=("EDITOR",),
        agents=tmp_path / "team",
        default_pool="fast",
        pools={
            "fast": Pool(model="openai:gpt-4o-mini"),
            "local": Pool(model="openai:llama3:70b", base_url="http://localhost:8000/v1"),
        },
        limits=Limits(max_depth=3, timeout_seconds=60.5),
        folder=tmp_path,
    )
    assert config.allows("read_file")
    assert not config.allows("subagent")
    assert not config.allows("write_file")


def test_a_table_of_pyproject_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.refold.tools]\ndisabled = ['spawn']\n[tool.refold.limits]\nmax_depth = 2\n"
    )

    config = load_config(tmp_path)

    assert config == Config(disabled=("spawn",), limits=Limits(max_depth=2), folder=tmp_path)


def test_a_folder_without_either_has_nothing(tmp_path: Path) -> None:
    assert load_config(tmp_path) == Config(folder=tmp_path)
    assert load_config(tmp_path).spawn is None


@for_each(
    "text, line, pointer, why",
    [
        ("tols: {}\n", 1, "tols", "did you mean 'tools'?"),
        ("tools:\n  spwan: {}\n", 2, "tools.spwan", "did you mean 'spawn'?"),
        ("tools:\n  spawn:\n    enabled: yes please\n", 3, "tools.spawn.enabled", "true or false"),
        ("tools:\n  spawn:\n    enabled: 1\n", 3, "tools.spawn.enabled", "found 1"),
        (
            "tools:\n  spawn:\n    profiles:\n      a:\n        tool: [x]\n",
            5,
            "tools.spawn.profiles.a.tool",
            "did you mean 'tools'?",
        ),
        (
            "tools: {spawn: {profiles: {a: {bootstrap_files: [../x]}}}}\n",
            1,
            "tools.spawn.profiles.a.bootstrap_files",
            "below the workspace",
        ),
        (
            "tools: {spawn: {profiles: {a: {system_prompt_file: /etc/passwd}}}}\n",
            1,
            "tools.spawn.profiles.a.system_prompt_file",
            "below the workspace",
        ),
        ("tools:\n  disabled: spawn\n", 2, "tools.disabled", "a list of strings"),
        ("limits:\n  max_deph: 3\n", 2, "limits.max_deph", "did you mean 'max_depth'?"),
        ("limits:\n  max_depth: -1\n", 2, "limits.max_depth", "at least 0"),
        ("llm:\n  pools:\n    a: {base_url: x}\n", 3, "llm.pools.a", "expected a model"),
        ("llm:\n  pools: [a]\n", 2, "llm.pools", "expected an object"),
        ("llm:\n  default_pool: a\n", 2, "llm.default_pool", "is not defined in llm.pools"),
        ("- a\n", 0, "", "expected an object"),
        ("limits:\n  3: 4\n", 2, "limits.3", "a name that is text"),
    ],
)
def test_what_it_may_not_say_is_refused_with_its_place(
    tmp_path: Path, text: str, line: int, pointer: str, why: str
) -> None:
    file = tmp_path / "refold.yaml"
    file.write_text(text)

    with pytest.raises(ConfigRefused) as refused:
        load_config(file)

    error = refused.value
    assert (error.path, error.line, error.pointer) == (str(file), line, pointer)
    assert why in str(error)
    assert str(error).startswith(f"{file}:{line}: " if line else f"{file}: ")


def test_members_of_an_inline_table_count_as_their_table(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.refold]\n\nlimits = {max_deph = 3}\n")

    with pytest.raises(ConfigRefused) as refused:
        load_config(file)

    assert (refused.value.line, refused.value.pointer) == (3, "limits.max_deph")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("tools: {disabled: [red_file]}\n", "read_file"),
        ("tools: {spawn: {profiles: {a: {tools: [red_file]}}}}\n", "read_file"),
    ],
)
def test_tools_that_nobody_has_are_refused_where_the_names_are_known(
    tmp_path: Path, text: str, near: str
) -> None:
    (tmp_path / "refold.yaml").write_text(text)

    load_config(tmp_path)
    with pytest.raises(ConfigRefused, match=f"did you mean '{near}"):
        load_config(tmp_path, known_tools=["read_file", "subagent"])


def test_a_pool_has_to_exist_where_there_are_pools(tmp_path: Path) -> None:
    """Without `llm`, pools name models that the program passes."""
    text = "tools: {spawn: {profiles: {a: {pool: smart}}}}\n"
    (tmp_path / "refold.yaml").write_text(text)
    load_config(tmp_path)

    (tmp_path / "refold.yaml").write_text(f"{text}llm: {{pools: {{smarter: 'openai:x'}}}}\n")
    with pytest.raises(ConfigRefused) as refused:
        load_config(tmp_path)

    message = "tools.spawn.profiles.a.pool 'smart' not found in llm.pools; did you mean 'smarter'? "
    message += "there are: smarter"
    assert refused.value.why == message
    assert refused.value.line == 1


@pytest.mark.parametrize("values", [{"enable": True}, {"profiles": []}])
def test_settings_by_themselves_are_as_strict(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigRefused, match=rf"^settings: tools\.spawn\.{next(iter(values))}: "):
        spawn_settings(values)


@for_each("text", ["tools:\n", "tools:\n  enabled:\n", "redaction: {}\n"])
def test_a_member_with_nothing_says_nothing(tmp_path: Path, text: str) -> None:
    """As if it did not stand there."""
    (tmp_path / "refold.yaml").write_text(text)

    assert load_config(tmp_path) == Config(folder=tmp_path)


def test_redaction_and_volatile_paths_are_read(tmp_path: Path) -> None:
    """§3.9, §12.7: names and paths; a value has no place in a file."""
    (tmp_path / "refold.yaml").write_text(
        "redaction:\n"
        "  environment: [SHOP_KEY]\n"
        "  paths: {'tool:fetch': [/result/token]}\n"
        "  tools: [login]\n"
        "volatile: ['tool:fetch/arguments/ts']\n"
    )

    config = load_config(tmp_path)

    assert config.redaction == Redaction(
        environment=["SHOP_KEY"], paths={"tool:fetch": ["/result/token"]}, tools=["login"]
    )
    assert config.volatile == ("tool:fetch/arguments/ts",)


@for_each(
    "text, line, pointer",
    [
        ("redaction: {secrets: [abc]}", 1, "redaction.secrets"),
        ("agents: a\nredaction: {paths: {fetch: [/result]}}", 2, "redaction.paths"),
        ("agents: a\nvolatile: [fetch/ts]", 2, "volatile"),
        ("volatile: fetch/ts", 1, "volatile"),
    ],
)
def test_rules_that_name_nothing_are_refused_with_their_line(
    text: str, line: int, pointer: str, tmp_path: Path
) -> None:
    """Nobody believes that something is taken out which is not."""
    (tmp_path / "refold.yaml").write_text(f"{text}\n")

    with pytest.raises(ConfigRefused) as refused:
        load_config(tmp_path)

    assert (refused.value.line, refused.value.pointer) == (line, pointer)


@pytest.mark.parametrize(
    ("rules", "pointer"),
    [
        ("{tools: [raed_file]}", "redaction.tools"),
        ("{paths: {'tool:raed_file': [/result]}}", "redaction.paths.tool:raed_file"),
    ],
)
def test_redaction_names_tools_that_there_are(tmp_path: Path, rules: str, pointer: str) -> None:
    """§3.9: or it would take out nothing; a pattern need not be there."""
    file = tmp_path / "refold.yaml"
    file.write_text(f"redaction: {rules}\n")

    with pytest.raises(ConfigRefused, match="read_file") as refused:
        load_config(file, known_tools=["read_file"])
    assert refused.value.pointer == pointer
    file.write_text("redaction: {tools: ['get_*'], paths: {'tool:*': [/result]}}\n")
    assert load_config(file, known_tools=["read_file"]).redaction is not None


def test_tools_may_be_asked_for(tmp_path: Path) -> None:
    """§10.18: by name; an unknown name is refused."""
    file = tmp_path / "refold.yaml"
    file.write_text("tools: {approval: [write_file]}\n")

    assert load_config(file, known_tools=["write_file"]).approval == ("write_file",)
    with pytest.raises(ConfigRefused):
        load_config(file, known_tools=["read_file"])


def test_caps_of_watched_commands_are_read(tmp_path: Path) -> None:
    """§16.19: under `record`."""
    (tmp_path / "refold.yaml").write_text("record: {max_requests: 3, timeout: 2.5}\n")

    assert load_config(tmp_path).record == {"max_requests": 3, "timeout": 2.5}


@for_each(
    "text, found",
    [
        ("max_requests: 0", "above 0, found 0"),
        ("timeout: yes", "found True"),
        ("max_reqests: 1", "max_requests"),
    ],
)
def test_a_cap_that_is_none_is_refused(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "refold.yaml").write_text(f"record:\n  {text}\n")

    with pytest.raises(ConfigRefused, match=found):
        load_config(tmp_path)


def test_two_configurations_in_one_folder_are_refused(tmp_path: Path) -> None:
    """One of them would win without a word."""
    (tmp_path / "refold.yaml").write_text("limits: {max_depth: 2}\n")
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "x"\n')
    assert load_config(tmp_path).limits.max_depth == 2

    project.write_text('[project]\nname = "x"\n\n[tool.refold]\nagents = "agents"\n')
    with pytest.raises(ConfigRefused) as refused:
        load_config(tmp_path)

    assert (refused.value.line, refused.value.path) == (5, str(project))
    assert "found both [tool.refold] and refold.yaml" in str(refused.value)
