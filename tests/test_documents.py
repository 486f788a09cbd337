"""README.md and the pages of docs/ are true: every block runs, and prints what it says it prints.

Each section of README, and each page, has a folder of its own.  A block after ``Save this as
`name`:`` becomes that file; any other Python block is run.  Lines of a console block that begin
with `$` are run by a shell; the lines below one are looked for in its output, in order, `…`
standing for anything.  One that ends in `# fails` has to end with 1, and one that ends in
`# until Ctrl-C` is interrupted as soon as it has said something.  The two commands that set
everything up are run by `.ci/run`, as are the pages of docs/, which take long; those that enter
their environment have nothing to do here.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import pytest
import yaml
from markdown_it import MarkdownIt

import refold
from refold.engine import models
from tests.support.screenshots import SHOTS
from tests.support.upstream import Upstream

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES: Final = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")
}

_SAVED_AS: Final = re.compile(r"save\s+this\s+as\s+`(?P<name>[\w.]+)`:\s*\Z", re.IGNORECASE)
_SET_UP: Final = "$ python3 -m venv"
_ENTER: Final = "$ source .venv/bin/activate && "
_MEMBERS: Final = ("seq", "kind", "call", "cause", "data", "meta", "hash")
_DIFFER: Final = ("refold replay", "refold explore", "refold diff", "refold drift ")
"""Commands that may end with 1: a difference was found."""
_RECORD: Final = re.compile(r"^(refold rm .+ && )?refold record |^pytest -q --refold-record=")
"""Commands that need a model: there is one for as long as they run, and for no other."""
_WITHOUT: Final = "-p no:hypothesispytest -p no:xdist -p no:anyio"
"""Plugins that are slow to load, and of no use in what the documents show."""
_FAILS: Final = "# fails"
"""How a command ends that is to fail."""
_UNTIL: Final = "# until Ctrl-C"
"""How a command ends that serves until it is interrupted."""


@attrs.frozen
class Block:
    """One fenced block and the file that it is saved as, if it is."""

    language: str
    text: str
    name: str


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", README, flags=re.MULTILINE)
    return dict(zip(["(start)", *parts[1::2]], [parts[0], *parts[2::2]], strict=True))


def _blocks(section: str) -> Iterator[Block]:
    before = ""
    for token in MarkdownIt().parse(section):
        if token.type == "fence" and not token.info.startswith("{"):  # else for Sphinx
            saved = _SAVED_AS.search(before)
            yield Block(token.info, token.content, saved["name"] if saved else "")
        if token.content:
            before = token.content


SECTIONS: Final = {
    title: blocks
    for title, text in {**_sections(), **PAGES}.items()
    if (blocks := list(_blocks(text)))
}


def _is_long(title: str) -> bool:
    """Whether it is a page, or has commands, each in a process of its own."""
    return title in PAGES or any(block.language == "console" for block in SECTIONS[title])


@pytest.mark.parametrize(
    "title",
    [pytest.param(each, marks=pytest.mark.long if _is_long(each) else ()) for each in SECTIONS],
)
def test_every_block_of_a_section_runs(title: str, tmp_path: Path) -> None:
    """Case 107: in order, in one fresh folder, with the commands of this environment."""
    _run_blocks(title, tmp_path)


def test_the_pictures_of_the_page_are_those_that_its_script_takes() -> None:
    """`python -m tests.support.screenshots` makes each; none is large, and each is shown."""
    shown = re.findall(r"\]\(images/([\w.-]+)\)", PAGES["viewer.md"])
    taken = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}

    assert sorted({*shown}) == sorted(taken) == sorted(f"{shot.name}.png" for shot in SHOTS)
    assert max(taken.values()) < 150_000


def test_the_api_page_has_every_public_name() -> None:
    """Those of `refold`, and the models."""
    listed = set(re.findall(r"^\.\. auto\w+:: (\w+)$", PAGES["api.md"], re.MULTILINE))

    assert {*dir(refold), *dir(models)} - {"__version__"} == listed


@pytest.mark.long
@pytest.mark.parametrize("title", [each for each in SECTIONS if each not in PAGES])
def test_the_first_hour_can_be_had_twice(title: str, tmp_path: Path) -> None:
    """In one folder: what the first time has left is in the way of nothing, nor is it changed."""
    for _ in range(2):
        _run_blocks(title, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("title", [each for each in SECTIONS if each not in PAGES])
def test_each_command_of_the_first_hour_can_be_repeated(title: str, tmp_path: Path) -> None:
    """Twice in a row, as printed."""
    _run_blocks(title, tmp_path, times=2)


def _run_blocks(title: str, tmp_path: Path, *, times: int = 1) -> None:
    for block in SECTIONS[title]:
        if block.name:
            (tmp_path / block.name).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            (tmp_path / "_block.py").write_text(block.text, encoding="utf-8")
            _run("python _block.py", [], tmp_path)
            (tmp_path / "_block.py").unlink()
        elif block.language == "yaml":
            assert yaml.safe_load(block.text)["jobs"], "a workflow"
        elif block.language == "console":
            for command, expected in (each for each in _commands(block.text) for _ in range(times)):
                if _RECORD.match(command):
                    with Upstream() as upstream:
                        _run(command, expected, tmp_path, upstream.environment())
                else:
                    _run(command, expected, tmp_path)
        elif block.language == "bash":
            subprocess.run(["bash", "-n", "-c", block.text], check=True)  # of a shell's own file
        else:
            assert block.language == "json", f"a block without a known language in {title}"
            _check_lines(block.text)


def test_the_two_commands_do_all_the_set_up() -> None:
    """One ends in `refold demo`, one in the tests; `.ci/run` finds both by how they begin."""
    found = [line for line in README.splitlines() if line.startswith(_SET_UP)]

    demo, tests = found
    assert demo.endswith("/refold demo")
    assert "/pytest" in tests.rpartition("&&")[2]


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.replace("\\\n", " ").splitlines()
        if not f"$ {command}".startswith((_SET_UP, _ENTER)):
            yield command, expected


def _run(
    command: str, expected: list[str], folder: Path, more: Mapping[str, str] | None = None
) -> None:
    binaries = Path(sys.executable).parent
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    environment = inherited | {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "80",
        "PYTHONIOENCODING": "utf-8",
        "PYTEST_ADDOPTS": _WITHOUT,
        **(more or {}),
    }
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        encoding="utf-8",
    ) as started:
        assert started.stdout is not None
        first = ""
        if command.endswith(_UNTIL):
            first = started.stdout.readline()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGINT)
        said = first + started.stdout.read()
    assert started.returncode in _codes(command), said
    lines = iter(said.splitlines())
    for pattern in (_pattern(line) for line in expected if line.strip("… ")):
        assert any(pattern.fullmatch(line) for line in lines), f"{pattern.pattern} in\n{said}"


def _codes(command: str) -> tuple[int, ...]:
    if command.endswith(_FAILS):
        return (1,)
    if command.endswith(_UNTIL):
        return (0, 130, -signal.SIGINT)
    return (0, 1) if command.startswith(_DIFFER) else (0,)


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in line.split("…")))


def _check_lines(text: str) -> None:
    """A line of a log that is shown has the members of one, in their order."""
    for line in text.splitlines():
        assert tuple(json.loads(line)) == _MEMBERS


def test_the_first_hour_is_short() -> None:
    """README is read to its end; what is more stands in docs/."""
    assert len(README.splitlines()) <= 250


_ANSWER: Final = re.compile(r"^\| (.+\?) \| \[.+\]\(([\w-]+\.md)(?:#([\w-]+))?\) \|$", re.MULTILINE)


def test_every_question_is_answered_where_the_table_says() -> None:
    """By a page, and a heading on it."""
    answers = _ANSWER.findall(PAGES["questions.md"])

    assert len(answers) >= 20
    assert len(answers) == PAGES["questions.md"].count("?")
    for question, page, anchor in answers:
        headings = re.findall(r"^#+ (.+)$", PAGES[page], re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
        assert not anchor or anchor in anchors, f"{question}: {page} has no #{anchor}"


@pytest.mark.parametrize("page", sorted(PAGES.keys() - {"index.md"}))
def test_every_page_is_found_from_the_first(page: str) -> None:
    """The table of contents has it."""
    assert re.search(rf"^(\w.*<)?{page.removesuffix('.md')}>?$", PAGES["index.md"], re.MULTILINE)


_MYPY: Final = ("mypy", "--no-error-summary", "--cache-dir", "../cache", ".")
_PYRIGHT: Final = ("basedpyright", "--level", "error", "--pythonpath", sys.executable)


@pytest.mark.long
def test_type_checkers_accept_every_program(tmp_path: Path) -> None:
    """Those that are saved and those that are run, beside each other as the pages have them."""
    folders = []
    for number, blocks in enumerate(SECTIONS.values()):
        folder = tmp_path / f"section_{number:02}"
        folder.mkdir()
        for place, block in enumerate(blocks):
            if block.language == "python":
                (folder / (block.name or f"block_{place:02}.py")).write_text(block.text)
                folders.append(folder)

    assert len(folders) > 20
    assert [said for folder in sorted(set(folders)) if (said := _refused(_MYPY, folder))] == []
    roots = [{"root": folder.name} for folder in sorted(set(folders))]
    settings = {"typeCheckingMode": "standard", "executionEnvironments": roots}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    assert _refused(_PYRIGHT, tmp_path) == ""


def _refused(checker: tuple[str, ...], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *checker], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""
