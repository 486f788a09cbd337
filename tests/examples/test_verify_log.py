"""The readers of logs that are not Refold say of each log what `refold verify` says."""

import ast
import importlib.util
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs
import pytest
from click.testing import CliRunner

from refold.cli.group import refold
from refold.engine.encoding.digest import chained, child_leaf, merkle_root
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import COMPLETES, KINDS, TAILS, UNDIGESTED
from refold.engine.log.blobs import digest_only
from refold.engine.log.line import hash_of
from tests.support.conformance import CASES, ROOT, SET, damage, recorded, said_of
from tests.support.loops import some

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
EXPECTED: Final[dict[str, Any]] = json.loads((SET / "expected.json").read_text())
NODE: Final = shutil.which("node")
_LINES_MAX: Final = 225


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    """The reader in Python."""
    spec = importlib.util.spec_from_file_location("verify_log", EXAMPLES / "verify_log.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_python(reader: ModuleType, logs: list[Path]) -> list[dict[str, Any]]:
    return [_answers(reader.verify(str(log))) for log in logs]


def by_node(logs: list[Path]) -> list[dict[str, Any]]:
    """In one process: to start it takes longer than to read a log."""
    assert NODE is not None
    words = [NODE, str(EXAMPLES / "verify_log.mjs"), *map(str, logs)]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return [_answers(json.loads(line)) for line in said.splitlines()]


def _answers(said: dict[str, Any]) -> dict[str, Any]:
    first = said["first"] and [*said["first"][:2]]
    return {"intact": said["intact"], "complete": said["complete"], "first": first}


def test_the_set_is_as_verify_says() -> None:
    assert len(EXPECTED) >= 60
    assert {name: said_of(SET / name) for name in EXPECTED} == EXPECTED
    assert sorted(EXPECTED) == sorted(path.name for path in SET.iterdir() if path.is_dir())
    assert EXPECTED.keys() <= CASES.keys()


def test_python_agrees_on_the_set(reader: ModuleType) -> None:
    said = by_python(reader, [SET / name / ROOT for name in EXPECTED])

    assert dict(zip(EXPECTED, said, strict=True)) == EXPECTED


@pytest.mark.long
@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_node_agrees_on_the_set() -> None:
    said = by_node([SET / name / ROOT for name in EXPECTED])

    assert dict(zip(EXPECTED, said, strict=True)) == EXPECTED


@pytest.mark.parametrize("count", [25, pytest.param(1_000, marks=pytest.mark.long)])
def test_both_agree_on_damages(tmp_path: Path, reader: ModuleType, count: int) -> None:
    """Of bytes, of lines, and of entries whose hashes were made anew."""
    recorded(tmp_path / "bases")
    done, logs = [], []
    for number in range(count):
        draw = random.Random(number)
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "bases" / draw.choice(("plain", "tree", "tree")), folder)
        done.append(f"{number} {damage(folder, draw)}")
        logs.append(folder / ROOT)
    expected = dict(zip(done, map(said_of, (log.parent for log in logs)), strict=True))

    assert dict(zip(done, by_python(reader, logs), strict=True)) == expected
    if NODE is not None:
        assert dict(zip(done, by_node(logs), strict=True)) == expected
    assert len({str(each) for each in expected.values()}) > 5


def test_a_link_or_a_line_that_is_too_long_is_no_log(tmp_path: Path, reader: ModuleType) -> None:
    """What a set that is copied everywhere cannot have."""
    recorded(tmp_path)
    long, linked = tmp_path / "plain" / ROOT, tmp_path / "tree" / ROOT
    lines = long.read_bytes().splitlines(keepends=True)
    long.write_bytes(b"".join([*lines[:2], b" " * 2**20 + lines[2], *lines[3:]]))
    CASES["child-linked"][1](linked.parent)
    expected = [said_of(each.parent) for each in (long, linked)]

    assert [each["first"] for each in expected] == [[ROOT, 3], ["a.1.jsonl", 1]]
    assert by_python(reader, [long, linked]) == expected
    if NODE is not None:
        assert by_node([long, linked]) == expected


@pytest.mark.parametrize(
    "command", some(1, [[sys.executable, "verify_log.py"], [NODE, "verify_log.mjs"]])
)
def test_the_exit_codes_are_those_of_verify(tmp_path: Path, command: list[str | None]) -> None:
    """A script in CI sees only these."""
    if (program := command[0]) is None:
        pytest.skip("node is not installed")
    whole, cut, damaged = (
        str(SET / name / ROOT) for name in ("whole-plain", "cut-at-a-line", "line-deleted")
    )
    none = str(tmp_path / "none.jsonl")
    given = {
        (whole,): 0,
        (whole, cut): 3,
        (damaged, whole): 3,
        (none,): 2,
        (none, damaged): 2,
        (): 2,
    }

    def code_of(*words: str) -> int:
        return subprocess.run([program, *words], capture_output=True, check=False).returncode

    assert {logs: code_of(str(EXAMPLES / str(command[1])), *logs) for logs in given} == given
    said = CliRunner().invoke(refold, ["verify", whole, damaged])
    assert said.exit_code == given[damaged, whole]


def test_the_tables_are_those_of_the_code() -> None:
    rules = json.loads((EXAMPLES / "log_rules.json").read_text())

    for kind, event in KINDS.items():
        fields = attrs.fields(event)
        names = [f"{each.name}{'?' * (each.default is not attrs.NOTHING)}" for each in fields]
        assert [*rules["kinds"][kind]] == names, kind
    assert rules["kinds"].keys() == KINDS.keys()
    assert rules["completes"] == COMPLETES
    assert rules["tails"] == TAILS
    assert {*rules["undigested"]} == UNDIGESTED


def test_the_readers_are_short_and_need_nothing() -> None:
    for name in ("verify_log.py", "verify_log.mjs"):
        assert len((EXAMPLES / name).read_text().splitlines()) <= _LINES_MAX
    tree = ast.parse((EXAMPLES / "verify_log.py").read_text())
    imported = {
        each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    } | {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names
    assert 'from "node:' in (EXAMPLES / "verify_log.mjs").read_text()


def test_the_page_has_an_example_of_each_digest() -> None:
    """Its program asserts what it says, and the code says the same."""
    page = (EXAMPLES.parent / "docs" / "reading.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}

    exec(program, names)

    counted = DataDigest()
    counted.add("tool.called", "0#1", names["called"])
    counted.add("child.started", "0#2", names["started"])
    counted.add("timer.fired", "0@1", b'{"virtual_us":5,"nth":1}')
    assert counted.hexdigest() == names["data_digest"]
    counted.add_child("0#2", names["data_digest"])
    assert counted.tree_hexdigest() == names["tree_digest"]
    leaves = [child_leaf(name, names["first"], 5) for name in ("r1", "r2", "r3")]
    digest = names["digest"]
    assert merkle_root(leaves[:1]) == names["leaves"][0]
    assert merkle_root(leaves) == digest("node", (names["pair"] + names["leaves"][2]).encode())
    assert merkle_root(()) == digest("leaf", b"")
    assert digest_only(b"a" * 32_768) in program
    assert chained("", {"role": "user", "content": "hi"}) in program
    body = b'{"seq":1,"kind":"note.added","data":{},"meta":{}'
    assert hash_of(names["first"].encode(), body) == names["second"]
