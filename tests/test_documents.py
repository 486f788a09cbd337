"""README.md and the pages of docs/ are true: every block runs, and prints what it says it prints.

Each section of README, and each page, has a folder of its own.  A block after ``Save this as
`name`:`` becomes that file, and so does a block of another page that a link names, as in
[`name`](page.md#heading); any other Python block is run.  Lines of a console block that begin
with `$` are run by a shell; the lines below one are looked for in its output, in order, `…`
standing for anything.  One that ends in `# fails` has to end with 1, and one that ends in
`# until Ctrl-C` is interrupted as soon as it has said something.  The two commands that set
everything up are run by `.ci/run`; those that enter their environment have nothing to do here.
The pages of docs/ take long: `.ci/nightly` runs them.
"""

import contextlib
import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, get_args

import attrs
import click
import pytest
import yaml
from markdown_it import MarkdownIt

import refold
import refold.api
import refold.errors
from refold.cli.group import refold as command_line
from refold.engine import errors
from refold.engine.events.limits import CEILINGS, CHILDREN_AT_ONCE
from refold.engine.events.outcome import Status
from refold.engine.log.blobs import BLOB_MIN
from refold.engine.log.pack import UNPACKED_MAX
from refold.store.manifest import PIECE
from refold.store.push import AT_ONCE
from refold.tools.files.file_tools import NAMES as FILE_TOOLS
from tests.support.loops import for_each
from tests.support.screenshots import SHOTS
from tests.support.upstream import Upstream

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES: Final = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")
}

_SAVED_AS: Final = re.compile(r"save\s+this\s+as\s+`(?P<name>[\w.]+)`:\s*\Z", re.IGNORECASE)
_OF_A_PAGE: Final = re.compile(r"\[`(?P<name>[\w.]+)`\]\((?P<page>[\w-]+\.md)#[\w-]+\)")
_SET_UP: Final = "$ python3 -m venv"
_ENTER: Final = "$ source .venv/bin/activate && "
_MEMBERS: Final = ("seq", "kind", "call", "cause", "data", "meta", "hash")
_DIFFER: Final = ("refold replay", "refold explore", "refold diff")
"""Commands that may end with 1: a difference was found."""
_RECORD: Final = re.compile(
    r"^(refold rm .+ && )?refold record |^refold (resume|fork) .+ -- |^pytest -q --refold-record="
)
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


def blocks_of(section: str) -> Iterator[Block]:
    """Yield the fenced blocks of a section, and those of other pages that it names."""
    before = ""
    for token in MarkdownIt().parse(section):
        if token.type == "fence" and not token.info.startswith("{"):  # else for Sphinx
            saved = _SAVED_AS.search(before)
            yield Block(token.info, token.content, saved["name"] if saved else "")
        if token.content:
            before = token.content
        if token.type == "inline" and (taken := _OF_A_PAGE.search(before)):
            blocks = blocks_of(PAGES[taken["page"]])
            yield next(block for block in blocks if block.name == taken["name"])


SECTIONS: Final = {
    title: blocks
    for title, text in {**_sections(), **PAGES}.items()
    if (blocks := list(blocks_of(text)))
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
    assert max(taken.values()) < 170_000


def test_the_api_page_has_every_public_name() -> None:
    """Those of `refold`, and of other modules those that it lists; errors by their module."""
    listed: dict[str, set[str]] = {}
    for kind, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", PAGES["api.md"], re.MULTILINE):
        if kind == "currentmodule":
            module = listed.setdefault(name, set())
        elif kind != "automodule":
            module.add(name)

    shown = {name for name in dir(refold) if not hasattr(errors, name)}
    assert listed["refold"] == shown - {"__version__"}
    for home, names in listed.items():
        assert names <= {*dir(importlib.import_module(home))}, home
    assert {*vars(refold.errors)} >= {name for name in dir(refold) if hasattr(errors, name)}


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


def test_rows_of_tables_have_the_cells_of_their_heads() -> None:
    """A row that two lines were joined to loses what is in the second."""
    plain = {
        name: re.sub(r"^```.*?^```|`[^`\n]*`|\\\|", "", text, flags=re.DOTALL | re.MULTILINE)
        for name, text in (PAGES | {"README.md": README}).items()
    }
    tables = {name: re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) for name, text in plain.items()}

    assert sum(map(len, tables.values())) > 40
    assert [
        (name, row)
        for name, found in tables.items()
        for table in found
        for row in table.splitlines()
        if row.count("|") != table.splitlines()[0].count("|")
    ] == []


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


@for_each("page", sorted(PAGES.keys() - {"index.md"}))
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


# --- names and figures -----------------------------------------------------------------------

CONTRACT: Final = (ROOT / "CONTRACT.md").read_text(encoding="utf-8")
DOCUMENTS: Final = PAGES | {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
}
_FOREIGN: Final = {
    "--snapshot-update", "--lf", "--check", "--env-file", "--address", "--head", "--agents",
    "--format", "--output-format", "--way", "--from", "--group",
}  # fmt: skip
"""Options of syrupy, pytest, ruff, docker, ray, uvx, pip, agents, and what tries agents."""


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from _options(inner, click.Context(inner))


def _clauses() -> set[str]:
    clauses = re.findall(r"^(?:\*\*|### )§(\d+\.\d+)\b", CONTRACT, re.MULTILINE)
    return {*clauses, *re.findall(r"^## §(\d+) ", CONTRACT, re.MULTILINE)}


_CONTEXT: Final = click.Context(command_line)
_PLUGIN: Final = (ROOT / "src/refold/pytest_plugin.py").read_text(encoding="utf-8")
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_ATTRIBUTES: Final = re.findall(
    r'"refold\.(\w+)', (ROOT / "src/refold/exports/spans.py").read_text("utf-8")
)
"""Attributes of spans that are Refold's own (CONTRACT.md §14.19)."""
NAMES: Final[dict[str, tuple[str, set[str]]]] = {
    "option": (
        r"(?<![\w-])(--[a-z][\w-]+)",
        {*_options(command_line, _CONTEXT), *re.findall(r'"(--[\w-]+)"', _PLUGIN), *_FOREIGN},
    ),
    "command": (
        r"(?:`|^\$ )refold\s+([a-z][\w-]*)",
        {*command_line.list_commands(_CONTEXT)},
    ),
    "name of the package": (
        r"\brefold\.([A-Za-z_]\w*)",
        {
            *dir(refold),
            *_ATTRIBUTES,
            "yaml",
            "adapters",
            "cli",
            "engine",
            "errors",
            "replay",
            "testing",
            "tools",
        },
    ),
    "method of a run": (
        r"\brun\.(?:session\.)?(\w+)\(",
        {*dir(refold.Run), *dir(refold.Session)},
    ),
    "extra": (r"\bextras? `([\w-]+)`", {*_PROJECT["optional-dependencies"]}),
    "list of extras": (
        r"\.\[([\w,-]+)\]",
        {*_PROJECT["optional-dependencies"], "proxy,pytest"},
    ),
    "clause": (r"§ ?(\d+(?:\.\d+)?)", _clauses()),
}
"""How a kind of name is written in a document, and those that there are."""


@for_each("kind", NAMES)
def test_every_name_in_a_document_exists(kind: str) -> None:
    """Options, commands, extras and clauses are there, in whatever sentence they stand."""
    pattern, known = NAMES[kind]

    found = {
        (document, name)
        for document, text in DOCUMENTS.items()
        for name in re.findall(pattern, text, re.MULTILINE)
        if name not in known
    }

    assert found == set()


@for_each("document", sorted(DOCUMENTS))
def test_every_path_and_module_in_a_document_exists(document: str) -> None:
    """Of this repository."""
    text = DOCUMENTS[document]
    roots = r"engine|tools|replay|src|tests|docs|examples|fixtures|\.ci"

    paths = re.findall(rf"`((?:{roots})/[\w./-]*)`", text)
    modules = re.findall(r"python -m (tests[\w.]*)", text)

    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [name for name in modules if find_spec(name) is None] == []


def _listed(names: tuple[str, ...]) -> str:
    """Return names as a sentence has them: `a`, `b` or `c`."""
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} or {last}"


FIGURES: Final = [
    ("subagents.md", f"the root is 0 (default: {CEILINGS.max_depth})"),
    ("subagents.md", f"that one run may start (default: {CEILINGS.max_children:,})"),
    ("subagents.md", f"of each child (default: {CEILINGS.join_seconds})"),
    ("subagents.md", f"Up to {CHILDREN_AT_ONCE} children of one run work at the same time"),
    ("troubleshooting.md", f"a run may start {CEILINGS.max_children:,} children"),
    ("troubleshooting.md", f"nest {CEILINGS.max_depth} levels deep"),
    ("troubleshooting.md", f"{CHILDREN_AT_ONCE} of them work at the same time"),
    ("format.md", f"texts of {BLOB_MIN // 1024} KiB and more"),
    ("scale.md", f"of more than {BLOB_MIN // 1024} KiB"),
    ("scale.md", f"run that has a single log of at most {PIECE // 2**20} MiB"),
    ("scale.md", f"pieces of {PIECE // 2**20} MiB at the same time"),
    ("scale.md", f"larger than {UNPACKED_MAX // 2**30} GiB"),
    ("scale.md", "eight runs at a time" if AT_ONCE == 8 else "another number"),
    ("agents-with-models.md", ", ".join(f"`{name}`" for name in FILE_TOOLS)),
    ("README.md", f"Python {_PROJECT['requires-python'].removeprefix('>=')} or newer"),
    *((page, _listed(get_args(Status))) for page in ("README.md", "concepts.md", "subagents.md")),
]


@for_each("document, figure", FIGURES)
def test_figures_and_lists_are_those_of_the_code(document: str, figure: str) -> None:
    assert figure in re.sub(r"\s+", " ", DOCUMENTS[document])


def test_the_page_of_commands_has_the_exit_codes_of_the_contract() -> None:
    """Word for word."""
    rows = re.findall(r"^\| (?:exit code|[0-9]+) \|.*", PAGES["commands.md"], re.MULTILINE)

    assert len(rows) == 9
    assert "\n".join(rows[1:]) in CONTRACT


# --- plain English ---------------------------------------------------------------------------

_IDIOMS: Final = (
    r"\b(?:told|tells?|telling)\b",
    r"\b(?:said|says?)\b",
    r"\b(?:stands?|stood)\b",
    r"\b(?:is|are|was|were) (?:no|none)\b|\bthere is none\b",
    r"\b[Ww](?:hoever|hatever)\b",
    r"\b[Ww]hat\s+(?:is|was|are|were|has|had|it|they|an?|the|of)\b",
    r", where\b|(?:^|[.:;]\s+)Where\b",
    r"\b(?:is|are|was|were) (?:another|otherwise)\b|\bends otherwise\b",
    r"\b(?:go|goes|going|went) on\b",
    r"\b(?:that|those) of\b",
    r"\bgiv(?:es?|en|ing) up\b",
    r"\b(?:as such|besides|thereby|wherein|therein)\b",
)
"""Phrases that are rare in English documentation, and frequent in text that reads as translated."""
IDIOMS_PER_1000: Final = 5
"""Phrases that 1,000 words may have, as in the documents of well-kept projects."""


def _prose(document: str) -> str:
    return re.sub(r"(?ms)^```.*?^```|`[^`]*`", " ", DOCUMENTS[document])


def idioms_of(text: str) -> list[str]:
    return [found[0] for idiom in _IDIOMS for found in re.finditer(idiom, text)]


@for_each("document", sorted(DOCUMENTS))
def test_every_document_is_in_plain_english(document: str) -> None:
    """At most five phrases per 1,000 words; one on a short page."""
    prose = _prose(document)

    allowed = math.ceil(len(prose.split()) * IDIOMS_PER_1000 / 1000)

    assert len(idioms_of(prose)) <= allowed, idioms_of(prose)


def test_readme_and_pages_together_are_in_plain_english() -> None:
    prose = "\n".join(_prose(document) for document in ("README.md", *PAGES))

    assert 1000 * len(idioms_of(prose)) / len(prose.split()) <= IDIOMS_PER_1000


def _help_pages(command: click.Command, context: click.Context) -> Iterator[str]:
    yield command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _help_pages(inner, click.Context(inner, info_name=name, parent=context))


def test_help_pages_are_in_plain_english() -> None:
    """Of all commands together."""
    pages = "\n".join(_help_pages(command_line, _CONTEXT))

    found = idioms_of(pages)

    assert 1000 * len(found) / len(pages.split()) <= IDIOMS_PER_1000, found


def test_the_contract_is_in_plain_english() -> None:
    """At most twice as many phrases as in a page, for its clauses are dense."""
    prose = re.sub(r"(?ms)^```.*?^```|`[^`]*`", " ", CONTRACT)

    found = idioms_of(prose)

    assert 1000 * len(found) / len(prose.split()) <= 2 * IDIOMS_PER_1000, found


def test_docstrings_of_the_public_names_are_in_plain_english() -> None:
    """Those of the API reference."""
    names = [name for name in dir(refold) if hasattr(refold.api, name)]
    written = "\n".join(getattr(refold.api, name).__doc__ for name in names)

    found = idioms_of(written)

    assert 1000 * len(found) / len(written.split()) <= IDIOMS_PER_1000, found


def test_the_phrases_are_found() -> None:
    """Each pattern finds one of these, and none finds two."""
    text = (
        "he told me; she says; it stands; it is no log; whoever; what\nis it; a log, where it is;"
    )

    found = idioms_of(f"{text} it is another; it goes on; that of a log; he gives up; as such")

    assert len(found) == len(_IDIOMS)
