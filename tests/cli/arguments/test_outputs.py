"""Every option that names a file to be written: no log is touched, nothing is half written.

A new option of type path fails here until it has a row (CONTRACT.md §4.1, §4.9).
"""

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import Result

from refold.cli.group import COMMANDS, refold
from refold.engine.log.pack import pack
from refold.engine.runners.recording import record
from refold.exports.parquet import FILES
from refold.replay.audit.verify import verify
from tests.support.loops import some

Invoke = Callable[..., Result]
Row = Callable[[Path, Path | str], list[object]]
"""Returns the words of a command in a folder that writes to a file."""

_PROGRAM: Final = """
from refold import Delegation

async def child(run, given):
    return given

async def main(run, given):
    run.annotate("{said}" + "x" * 40_000)
    await run.delegate(Delegation(program=child, brief="", agent="child", tool="t", input=1))
"""
_AGENT: Final = "---\nname: a\ndescription: b\n---\nYou wait.\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of logs of all sorts."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("same", "other"):
        (folder / f"{name}.py").write_text(_PROGRAM.replace("{said}", name))
        record(f"{folder / name}.py:main", log=folder / f"{name}.jsonl")
    pack(folder / "same.jsonl", folder / "packed.refold")
    (folder / "same.jsonl.torn-7-0a1b2c3d").write_bytes(b'{"seq":9')
    (folder / "same.1.ray").write_bytes(b"")
    (folder / "AGENT.md").write_text(_AGENT)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of it, the working directory of the test."""
    copied = tmp_path / "runs"
    shutil.copytree(made, copied)
    (copied / "notes.txt").write_text("mine")
    monkeypatch.chdir(copied)
    return copied


# --- which options write ---------------------------------------------------------------------


def _export(kind: str) -> Row:
    return lambda folder, out: ["export", folder / "same.jsonl", "--to", kind, "-o", out]


def _again(command: str, option: str, program: str) -> Row:
    given = [option, "--program", f"{program}.py:main"]
    return lambda folder, out: [command, folder / "same.jsonl", given[0], out, *given[1:]]


REPORTS: Final[dict[tuple[str, str, str], Row]] = {
    ("export", "--out", "html"): _export("html"),
    ("export", "--out", "markdown"): _export("markdown"),
    ("export", "--out", "perfetto"): _export("perfetto"),
    ("export", "--out", "otlp"): _export("otlp"),
    ("export", "--out", "atif"): _export("atif"),
    ("verify", "--write-heads", "heads"): lambda folder, out: [
        "verify",
        folder / "same.jsonl",
        "--write-heads",
        out,
    ],
    ("replay", "--junit", "junit"): _again("replay", "--junit", "same"),
}
"""Options that replace what they wrote before, with what they write."""


def _packed(folder: Path, out: object) -> list[object]:
    return ["export", folder / "same.jsonl", "--to", "refold", "-o", out]


LOGS: Final[dict[tuple[str, str], Row]] = {
    ("verify", "--salvage"): lambda folder, out: [
        "verify", folder / "same.jsonl", "--salvage", out,
    ],
    ("fork", "--into"): lambda folder, out: [
        "fork", folder / "same.jsonl", "--at", 1, "--into", out, "--program", "same.py:main",
    ],
    ("resume", "--into"): lambda folder, out: [
        "resume", folder / "same.jsonl", "--into", out, "--", sys.executable, "-c", "pass",
    ],
    ("replay", "--into"): lambda folder, out: [
        "replay", folder / "same.jsonl", "--into", out, "--", sys.executable, "-c", "pass",
    ],
    ("record", "--log"): lambda _, out: [
        "record", "--workspace=none", "--log", out, "--", sys.executable, "-c", "",
    ],
    ("run", "--log"): lambda folder, out: [
        "run", folder / "AGENT.md", "--task", "t", "--model", "scripted:none.yaml", "--log", out,
    ],
    ("demo", "--log"): lambda folder, out: ["demo", folder, "--log", out],
    ("mcp-proxy", "--log"): lambda _, out: [
        "mcp-proxy", "--log", out, "--", sys.executable, "-c", "pass",
    ],
}  # fmt: skip
"""Options that make a log, and replace nothing."""

READ: Final = {
    ("explore", "log"), ("export", "logs"), ("export", "--diff"), ("fork", "log"),
    ("replay", "logs"), ("resume", "log"),
    ("show", "logs"), ("verify", "logs"),
    ("verify", "--trust"), ("why", "log"),
    ("files", "log"),
    ("sign", "--key"),
    ("diff", "a"), ("diff", "b"), ("ls", "--diff"), ("ls", "places"), ("push", "runs"),
    ("push", "store"), ("pull", "store"), ("view", "place"), ("mcp", "folder"), ("demo", "path"),
    ("mcp-proxy", "--replay"), ("run", "agent"), ("run", "--root"),
    ("run", "--config"), ("mcp", "--root"), ("mcp", "--config"),
    ("resume", "--agent"), ("resume", "--root"), ("resume", "--config"),
}  # fmt: skip
"""Parameters that name what is only read; what `run` and `resume` do in `--root` its tools do."""

ELSEWHERE: Final = {
    ("pull", "--to"): "tests/store/test_pull.py: files are linked to their names, never replaced",
    ("sign", "logs"): "tests/engine/signing/test_signature.py: replaces a signature alone",
    ("files", "--out"): "tests/cli/commands/inspect/test_files.py: an empty folder, or a new one",
    ("rm", "logs"): "tests/cli/commands/more/test_rm.py: removes what it names",
}


def _parameters() -> Iterator[tuple[str, str]]:
    """Yield (command, name) of all parameters that take a path, options by their longest name."""
    waiting = [(name, refold.get_command(click.Context(refold), name)) for name in COMMANDS]
    for name, command in waiting:
        assert command is not None
        if isinstance(command, click.Group):
            waiting += [(f"{name} {each}", below) for each, below in command.commands.items()]
        for param in command.params:
            is_path = isinstance(param.type, click.Path | click.File)
            if is_path or param.metavar in ("FILE", "DIR", "FOLDER", "OUT"):
                is_option = isinstance(param, click.Option)
                yield name, max(param.opts, key=len) if is_option else param.name or ""


def test_each_parameter_that_takes_a_path_has_a_row() -> None:
    """One that is new writes, and is tested below; or reads."""
    found = set(_parameters())

    rows = {*[each[:2] for each in REPORTS], *LOGS, *READ, *ELSEWHERE}
    assert found == rows


# --- what they are pointed at ----------------------------------------------------------------


def _made_by(write: Callable[[Path], object], name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write(folder / name)
        return folder / name

    return make


def _named(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / name


def _blob(folder: Path) -> Path:
    return next((folder / "same.blobs").glob("??/*"))


def _through_a_linked_folder(folder: Path) -> Path:
    (folder / "pages").symlink_to(_blob(folder).parent)
    return folder / "pages" / "new.html"


NEVER: Final[dict[str, Callable[[Path], Path]]] = {
    "the log": _named("same.jsonl"),
    "the log, by its folder": lambda folder: folder / ".." / folder.name / "same.jsonl",
    "a child's log": _named("same.1.jsonl"),
    "another log": _named("other.jsonl"),
    "a log's name in capitals": _named("SAME.JSONL"),
    "a log's name where cases fold": _named("new.j\u017fonl"),
    "a free log's name": _named("new.jsonl"),
    "a packed log": _named("packed.refold"),
    "a torn tail": _named("same.jsonl.torn-7-0a1b2c3d"),
    "a mark of a node": _named("same.1.ray"),
    "a folder of large texts": _named("same.blobs"),
    "a free folder of large texts": _named("new.blobs"),
    "a large text": _blob,
    "a new file among them": lambda folder: folder / "same.blobs" / "page.html",
    "a new file, through a link": _through_a_linked_folder,
    "a link to a log": _made_by(lambda path: path.symlink_to("same.jsonl"), "link.html"),
    "a link to a free log's name": _made_by(lambda path: path.symlink_to("n.jsonl"), "link.html"),
    "a link to another file": _made_by(lambda path: path.symlink_to("notes.txt"), "link.html"),
    "a link to nothing": _made_by(lambda path: path.symlink_to("nothing.txt"), "link.html"),
    "a hard link to a log": _made_by(
        lambda path: path.hardlink_to(path.with_name("same.jsonl")), "hard.html"
    ),
    "a hard link to a packed log": _made_by(
        lambda path: path.hardlink_to(path.with_name("packed.refold")), "hard.zip"
    ),
    "a copy of a log": _made_by(
        lambda path: shutil.copyfile(path.with_name("same.jsonl"), path), "copy.txt"
    ),
    "a folder": _made_by(lambda path: path.mkdir(), "pages"),
    "a missing folder": lambda folder: folder / "none" / "page.html",
    "a folder that takes no file": lambda _: Path("/proc/page.html"),
    "a file as a folder": lambda folder: folder / "notes.txt" / "page.html",
    "a name that is too long": _named(f"{'x' * 300}.html"),
    "a full device": lambda _: Path("/dev/full"),
}
"""Nothing is written there, with `--force` or without."""

FORCED: Final[dict[str, Callable[[Path], Path]]] = {
    "a text": _named("notes.txt"),
    "a program": _named("same.py"),
    "another page": _made_by(
        lambda path: path.write_text('<!doctype html>\n<html lang="en">\n'), "page.html"
    ),
    "another report": _made_by(
        lambda path: path.write_text("<?xml version='1.0'?>\n<testsuites tests=\"1\">"), "r.xml"
    ),
}
"""It is replaced with `--force` alone."""

FREE: Final[dict[str, Callable[[Path], Path]]] = {
    "a free name": _named("new.out"),
    "the longest name": _named("x" * 255),
    "an empty file": _made_by(lambda path: path.touch(0o644), "empty.out"),
}

_Entry = tuple[str, int, int, bytes | str]


def _all(folder: Path) -> dict[str, _Entry]:
    """Return what lies in a folder: kind, mode, inode and content of each path."""
    found: dict[str, _Entry] = {}
    for path in folder.rglob("*"):
        state = path.lstat()
        content: bytes | str = str(path.readlink()) if path.is_symlink() else ""
        if stat.S_ISREG(state.st_mode):
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (
            stat.filemode(state.st_mode), stat.S_IMODE(state.st_mode), state.st_ino, content,
        )  # fmt: skip
    return {name: each for name, each in found.items() if "__pycache__" not in name}


_HALVES: Final = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
"""Each target is tried with each second option, and each option with each second target."""


@pytest.mark.parametrize(
    "force",
    [pytest.param((), id="", marks=pytest.mark.long), pytest.param(("--force",), id="forced")],
)
@_HALVES
@pytest.mark.parametrize("name", NEVER)
def test_4_9_nothing_is_written_in_the_place_of_a_log(
    folder: Path, invoke: Invoke, name: str, half: int, force: tuple[str, ...]
) -> None:
    out = NEVER[name](folder)
    before = _all(folder)

    for row, words in [*REPORTS.items()][(half + [*NEVER].index(name)) % 2 :: 2]:
        said = invoke(*words(folder, out), *(force if row[0] != "replay" else ()))

        assert said.exit_code == 2, (row, said.output)
        assert said.stderr.startswith("refold: "), row
        assert _all(folder) == before, row
    assert verify(folder / "same.jsonl").intact


@pytest.mark.parametrize("target", FORCED.values(), ids=FORCED)
def test_4_9_another_file_is_replaced_by_force_alone(
    folder: Path, invoke: Invoke, target: Callable[[Path], Path]
) -> None:
    out = target(folder)
    mine, before = out.read_bytes(), _all(folder)

    for row, words in REPORTS.items():
        refused = invoke(*words(folder, out))
        assert (refused.exit_code, _all(folder)) == (2, before), row
        assert ("--force" in refused.stderr) == (row[0] != "replay"), row

    _, words = next(iter(REPORTS.items()))
    assert invoke(*words(folder, out), "--force").exit_code == 0
    assert out.read_bytes() != mine
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert {**_all(folder), out.name: before[out.name]} == before


@pytest.mark.parametrize(
    ("row", "target"),
    [
        (row, target)
        for row in REPORTS
        for target in FREE
        if row[:2] != ("replay", "--junit") or target == "a free name"  # it starts processes
    ],
)
def test_4_9_a_report_is_private_and_replaces_an_earlier_one_of_its_kind(
    folder: Path, invoke: Invoke, row: tuple[str, str, str], target: str
) -> None:
    out = FREE[target](folder)
    before = _all(folder)
    words = REPORTS[row](folder, out.name)  # from the working directory

    first = invoke(*words)
    made = _all(folder)
    second = invoke(*words)

    assert (first.exit_code, second.exit_code) == (0, 0), first.output
    assert made.pop(out.name)[0] == "-rw-------"
    before.pop(out.name, None)
    assert made == before
    for (command, option, kind), other in REPORTS.items():
        if kind != row[2]:
            assert invoke(*other(folder, out)).exit_code == 2, (command, option)


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "forced"])
def test_4_9_tables_go_into_a_new_or_an_empty_folder_alone(
    folder: Path, invoke: Invoke, force: tuple[str, ...]
) -> None:
    """Whatever has the name stays as it is, or a folder is made with four private files."""
    (folder / "full").mkdir()
    (folder / "full" / "runs.parquet").write_text("mine")
    refused = {**NEVER, **FORCED, "an empty file": FREE["an empty file"], "full": _named("full")}
    del refused["a folder"]
    for name, target in refused.items():
        out = target(folder)
        before = _all(folder)

        said = invoke("export", folder / "same.jsonl", "--to", "parquet", "-o", out, *force)

        assert (said.exit_code, said.stderr[:8]) == (2, "refold: "), (name, said.output)
        assert _all(folder) == before, name
        if "link" in name:  # the next has the same name
            out.unlink(missing_ok=True)

    (folder / "empty").mkdir()
    for made_in in ("new", "empty"):
        said = invoke("export", folder / "same.jsonl", "--to", "parquet", "-o", made_in, *force)

        made = {
            path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder / made_in).iterdir()
        }
        assert said.exit_code == 0, said.output
        assert made == dict.fromkeys(FILES, 0o600)
    assert invoke("export", "same.jsonl", "--to", "parquet", "-o", "-").exit_code == 2


def test_4_9_without_a_name_the_same_holds(folder: Path, invoke: Invoke) -> None:
    """`same.html` of one's own is there; and a log whose name ends so is not its own page."""
    (folder / "same.html").write_text("mine")
    (folder / "odd.html").write_bytes((folder / "same.jsonl").read_bytes())
    before = _all(folder)

    for log in ("same.jsonl", "odd.html"):
        for force in ((), ("--force",))[: 1 if log == "same.jsonl" else 2]:
            assert invoke("export", log, "--to", "html", *force).exit_code == 2
    assert _all(folder) == before
    assert invoke("export", "same.jsonl", "--to", "html", "--force").exit_code == 0
    assert (folder / "same.html").read_text().startswith("<!doctype html>")


# --- pipes and devices -----------------------------------------------------------------------


@pytest.mark.parametrize("row", [each for each in REPORTS if each[0] != "replay"], ids=" ".join)
def test_4_9_a_pipe_gets_all_of_it_and_stays(
    folder: Path, invoke: Invoke, row: tuple[str, str, str]
) -> None:
    os.mkfifo(folder / "pipe")
    reader, writer = os.pipe()
    got: dict[str, bytes] = {}

    def read(name: str, place: Path | int) -> None:
        with open(place, "rb") as file:  # noqa: PTH123 - or a descriptor
            got[name] = file.read()

    for name, place, out in (
        ("named", folder / "pipe", folder / "pipe"),
        ("substituted", reader, Path(f"/dev/fd/{writer}")),
    ):
        reading = threading.Thread(target=read, args=(name, place))
        reading.start()
        invoke(*REPORTS[row](folder, out))
        if name == "substituted":
            os.close(writer)
        reading.join()
    invoke(*REPORTS[row](folder, "/dev/null"))

    assert len(got["named"]) > 100
    assert len(got["substituted"]) > 100
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_4_9_a_descriptor_is_written_where_it_stands(folder: Path, invoke: Invoke) -> None:
    """As a shell opened it, to append; a log is refused even so."""
    (folder / "page.md").write_text("mine\n")
    before = (folder / "same.jsonl").read_bytes()
    with (folder / "page.md").open("ab") as page, (folder / "same.jsonl").open("ab") as log:
        made = invoke(*_export("markdown")(folder, f"/dev/fd/{page.fileno()}"))
        refused = invoke(*_export("markdown")(folder, f"/dev/fd/{log.fileno()}"), "--force")

    assert (made.exit_code, refused.exit_code) == (0, 2)
    assert (folder / "page.md").read_text().startswith("mine\n### ")
    assert (folder / "same.jsonl").read_bytes() == before


@pytest.mark.long
def test_4_9_standard_output_may_be_a_file(folder: Path) -> None:
    words = _export("markdown")(folder, "/dev/stdout")
    for name, code in (("page.md", 0), ("same.jsonl", 2)):
        with (folder / name).open("ab") as file:
            command = [sys.executable, "-m", "refold", *map(str, words)]
            assert subprocess.run(command, stdout=file, check=False).returncode == code

    assert (folder / "page.md").read_text().startswith("### ")
    assert verify(folder / "same.jsonl").intact


# --- faults ----------------------------------------------------------------------------------

_FAULTY: Final = """
import json, os, resource, signal, sys
from refold.cli import main
from refold.cli.group import refold

def strike(number):
    def strike(*_, **__):
        os.kill(os.getpid(), number)
    return strike

FAULTS = {
    "full": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
    "killed before it is synced": lambda: setattr(os, "fsync", strike(signal.SIGKILL)),
    "killed before it is renamed": lambda: (
        setattr(os, "replace", strike(signal.SIGKILL)), setattr(os, "link", strike(signal.SIGKILL))
    ),
    "stopped": lambda: setattr(os, "fsync", strike(signal.SIGTERM)),
}
fault, *words = sys.argv[1:]
FAULTS[fault]()
main(words)
"""
"""Runs a command with a fault: of the system's calls, one ends the process."""


@pytest.mark.parametrize(
    ("fault", "code"),
    some(
        1,
        [
            ("full", 2),
            ("killed before it is synced", -9),
            ("killed before it is renamed", -9),
            ("stopped", -15),
        ],
    ),
)
def test_4_9_what_cannot_be_written_whole_leaves_nothing(
    folder: Path, invoke: Invoke, fault: str, code: int
) -> None:
    """Or, of a process that was killed, a file that the next one in this folder removes."""
    rows = {
        "page.html": REPORTS["export", "--out", "html"],
        "new.refold": _packed,
    }
    assert invoke(*rows["page.html"](folder, "page.html")).exit_code == 0  # an earlier one stays
    before = _all(folder)

    running = [
        subprocess.Popen(
            [sys.executable, "-B", "-c", _FAULTY, fault, *map(str, words(folder, out))],
            stderr=subprocess.PIPE,
        )
        for out, words in rows.items()
    ]
    said = [each.communicate()[1].decode() for each in running]

    assert [each.returncode for each in running] == [code] * len(rows), said
    left = {name for name in _all(folder) if name.startswith(".refold-unfinished.")}
    assert {name: each for name, each in _all(folder).items() if name not in left} == before
    assert bool(left) is (code == -9)
    if fault == "full":
        assert all(f"{out}: File too large" in each for out, each in zip(rows, said, strict=True))
    assert invoke(*rows["page.html"](folder, "page.html")).exit_code == 0
    assert not list(folder.glob(".refold-unfinished.*"))


# --- options that make a log -----------------------------------------------------------------

TAKEN: Final[dict[str, Callable[[Path], Path]]] = {
    **{name: NEVER[name] for name in ("the log", "another log", "a packed log", "a large text",
       "a torn tail", "a link to another file", "a hard link to a log", "a folder")},
    "a log's name in capitals": NEVER["a log's name in capitals"],
    "a link": _made_by(lambda path: path.symlink_to("other.jsonl"), "link.jsonl"),
    "a link to nothing": _made_by(lambda path: path.symlink_to("nothing.jsonl"), "link.jsonl"),
    "a hard link": _made_by(
        lambda path: path.hardlink_to(path.with_name("other.jsonl")), "hard.jsonl"
    ),
    "a folder named so": _made_by(lambda path: path.mkdir(), "folder.jsonl"),
    "a pipe": _made_by(os.mkfifo, "pipe.jsonl"),
    "a text": _made_by(lambda path: path.write_text("mine"), "text.jsonl"),
    "an empty file": _made_by(lambda path: path.touch(), "empty.jsonl"),
    "a packed one": _made_by(lambda path: path.write_text("mine"), "text.refold"),
    "a link, packed": _made_by(lambda path: path.symlink_to("nothing"), "link.refold"),
    "a child's": _named("same.1.jsonl"),
    "a device": lambda _: Path("/dev/null"),
}  # fmt: skip


@_HALVES
@pytest.mark.parametrize("row", LOGS, ids=" ".join)
def test_4_1_no_option_makes_a_log_where_something_is(
    folder: Path, invoke: Invoke, row: tuple[str, str], half: int
) -> None:
    for name, target in [*TAKEN.items()][(half + [*LOGS].index(row)) % 2 :: 2]:
        out = target(folder)
        before = _all(folder)

        said = invoke(*LOGS[row](folder, out))

        assert said.exit_code in (2, 3), (name, said.output)
        assert _all(folder) == before, name
        if "link" in name:  # the next has the same name
            out.unlink()


def test_4_9_a_dash_is_no_file(folder: Path, invoke: Invoke) -> None:
    """The report has standard output; a file of that name would surprise."""
    said = invoke("replay", folder / "a.jsonl", "--junit", "-")

    assert said.exit_code == 2
    assert "/dev/stdout" in said.stderr
