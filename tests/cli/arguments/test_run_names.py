"""A run is named by its file, by its place in a folder, or by how its name begins."""

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from refold.cli.arguments.run_names import RUN, RUNS
from refold.cli.group import COMMANDS, refold
from refold.engine.runners.recording import record
from tests.cli.conftest import Invoke
from tests.support.loops import half
from tests.support.stores import leading, record_run


@pytest.fixture
def three(survey_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with three runs below `runs/`, recorded in this order, and a broken file."""
    monkeypatch.chdir(tmp_path)
    for name in ("beta", "alpha", "alto"):
        record(_nothing, log=tmp_path / "runs" / f"{name}.jsonl")
    (tmp_path / "runs" / "broken.jsonl").write_text("no log")
    shutil.copy(survey_log, tmp_path / "runs" / "zero.3.jsonl")
    return tmp_path


async def _nothing(_run: Any, _input: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("@last", "runs/alto.jsonl"),
        ("@-1", "runs/alto.jsonl"),
        ("@-3", "runs/beta.jsonl"),
        ("runs/@-2", "runs/alpha.jsonl"),
        ("be", "runs/beta.jsonl"),
        ("runs/alp", "runs/alpha.jsonl"),
        ("alpha.jsonl", "runs/alpha.jsonl"),
        ("zero", "zero"),
        ("runs/gone", "runs/gone"),
        ("none/@last", "none/@last"),
    ],
)
def test_a_run_is_named_by_its_place_or_the_beginning_of_its_name(
    said: str, meant: str, three: Path
) -> None:
    assert RUN.convert(said, None, None) == Path(meant), three


def test_a_file_of_that_name_comes_first(three: Path) -> None:
    (three / "@last").touch()
    (three / "be").touch()

    assert [RUN.convert(name, None, None) for name in ("@last", "be")] == [
        Path("@last"),
        Path("be"),
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("@-4", "@-4: runs has 3 runs"),
        ("./@last", "./@last: . has no run"),
        ("al", "al is ambiguous, 2 runs match: alpha.jsonl"),
        ("@lst", "@lst: no such run; did you mean @last, or @-2 for the one before it?"),
        ("runs/alhpa.jsonl", "runs/alhpa.jsonl: no such run; did you mean runs/alpha.jsonl?"),
        ("alhpa", "alhpa: no such run; did you mean runs/alpha.jsonl?"),
        ("", "an empty text names no run: is a variable unset?"),
        ("p.py:main", "p.py:main: no such run; did you mean --program p.py:main?"),
    ],
)
def test_what_names_no_run_or_several_is_refused(said: str, why: str, three: Path) -> None:
    assert three.is_dir()
    with pytest.raises(click.UsageError, match=re.escape(why)):
        RUN.convert(said, None, None)


def test_commands_read_what_is_meant(three: Path) -> None:
    """And say on standard error which run that is."""
    shown, listed, removed = (
        CliRunner().invoke(refold, words.split())
        for words in ("show @last", "ls --last 2", "rm be")
    )

    assert shown.stderr == "@last is runs/alto.jsonl\n"
    assert shown.exit_code == 0
    assert [line.split()[3] for line in listed.stdout.splitlines()[1:3]] == ["alpha", "alto"]
    assert removed.exit_code == 2, "a typing mistake is not to remove a run"
    assert (three / "runs" / "beta.jsonl").is_file()


_PROGRAM = f"--program {leading.__module__}:{leading.__name__}"
_ON_A_LOG = (
    "ls audit.jsonl --diff {log}", "diff {log} {log}",
    f"replay {{log}} --live {_PROGRAM} --source tools=recorded",
    f"explore {{log}} {_PROGRAM}", "export {log} --to markdown -o -",
    "export {log} --to markdown --diff {log} -o -",
    f"fork {{log}} --at 2 {_PROGRAM} --into f.jsonl",
    "verify {log} --write-heads h.txt", "export {log} --to refold", "push {log} {to}",
    "show {log} --effects", f"replay {{log}} {_PROGRAM}",
 f"explore {{log}} --results {_PROGRAM}", "show {log}",
    "show {log} --events", "show {log} --entry -1", "show {log} --at -1",
    "show {log} --at 0 --to -1", "show {log} --events -f", "verify {log}",
)  # fmt: skip
_MANY = f"replay {{log}} {_PROGRAM} --limit timeout=60"
"""It starts another process."""
_REFUSING = (
    "files {log}", "resume {log}", f"resume {{log}} {_PROGRAM}", "resume {log} -- true",
    "replay {log} -- true", "verify {log} --salvage s.txt", "fork {log} -- true",
    "explore {log} -- true", "why {log} 99", "show {log} --entry 99",
    "show {log} --events -n x",
)  # fmt: skip
"""Commands that refuse this log, wherever it is."""
_APART = {
    "ls": "DIR|URL", "view": "serves until Ctrl-C", "mcp": "serves its client", "sign": "changes",
    "rm": "changes",
}  # fmt: skip


def _lines(text: str) -> list[str]:
    """Return the lines, without what two runs of a command never have in common."""
    text = re.sub(r"[0-9.]+ (ms|s|min)\b|[0-9a-f]{16,}|\d+\.\d\d", "…", text)
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, `audit.jsonl`, which is in the store `new/store`, too."""
    folder = tmp_path_factory.mktemp("audits")
    record_run(folder / "audit.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_DIR", raising=False)
        words = ["push", str(folder / "audit.jsonl"), (folder / "new" / "store").as_uri()]
        pushed = CliRunner().invoke(refold, words)
    assert pushed.exit_code == 0, pushed.output
    return folder


@pytest.fixture
def stored(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the run in the store; copies of it are made below `private`."""
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "private"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "private").mkdir()
    return (store / "new" / "store" / "audit.jsonl").as_uri()


@pytest.mark.parametrize(
    "line", [*half(_ON_A_LOG), *half(_REFUSING), pytest.param(_MANY, marks=pytest.mark.long)]
)
def test_a_url_is_read_like_the_file(
    line: str, store: Path, stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§4.8: the answer is the same, it names the URL, and no private copy is left."""

    def answer(log: str, name: str) -> Result:
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for each in store.glob("audit.*"):
            (shutil.copytree if each.is_dir() else shutil.copy)(each, each.name)
        words = line.format(log=log, to=(tmp_path / name / "to").as_uri())
        return CliRunner().invoke(refold, shlex.split(words))

    expected, found = answer("audit.jsonl", "here"), answer(stored, "there")

    assert (found.exit_code == 0) == (line in (*_ON_A_LOG, _MANY)), found.output
    assert found.exit_code == expected.exit_code
    above = stored.removesuffix("audit.jsonl")
    shown = found.output.replace(above, "").replace("there/to", "here/to")
    assert _lines(shown) == _lines(expected.output)
    assert "private" not in found.output
    assert list((tmp_path / "private").iterdir()) == []


def test_every_command_with_a_log_is_tested() -> None:
    commands = {
        each: command
        for each in COMMANDS
        if (command := refold.get_command(click.Context(refold), each)) is not None
    }
    taking = {
        name
        for name, command in commands.items()
        for each in command.params
        if isinstance(each.type, type(RUNS)) and name != "pull"
    }

    assert taking == {line.split()[0] for line in (*_ON_A_LOG, *_REFUSING)} | _APART.keys()


@pytest.mark.parametrize("line", ["sign {log} --key k", "rm {log}", "rm -f {log}"])
def test_what_changes_a_log_refuses_a_url(line: str, stored: str) -> None:
    found = CliRunner().invoke(refold, shlex.split(line.format(log=stored)))

    assert found.exit_code == 2
    assert f"`refold pull {stored.rpartition('/')[0]} audit.jsonl`" in found.output


@pytest.mark.parametrize("command", ["verify", "show", "replay", "diff", "ls", "explore", "why"])
def test_a_link_to_a_run_is_read_as_the_run(
    command: str, survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """The logs of its children and its large texts lie beside it, and not beside the link."""
    link = tmp_path / "elsewhere" / "latest.jsonl"
    link.parent.mkdir()
    link.symlink_to(os.path.relpath(survey_log, link.parent))
    of: dict[str, list[Any]] = {"diff": [survey_log], "why": ["-1"]}

    asked, plain = (
        invoke(command, log, *of.get(command, []), "--json") for log in (link, survey_log)
    )

    assert (asked.exit_code, plain.exit_code) == (0, 0), asked.stderr
    assert _without_times(asked.stdout) == _without_times(plain.stdout)


def _without_times(document: str) -> str:
    return re.sub(r'"(\w*_ms|seconds)": ?[\d.]+', "", document)
