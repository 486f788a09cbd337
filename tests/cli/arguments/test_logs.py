"""A LOG argument is a plain log or a packed one; its files are named as it was named."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from refold.cli.arguments.logs import opened_log, started
from refold.cli.arguments.run_names import PLACE
from refold.cli.group import refold
from refold.cli.output.exit_codes import DAMAGED, code_of
from refold.engine.errors import EventMalformed, LogDamaged, LogUnsupported
from refold.engine.log.line import FIRST, NO_HASH, TRAILER, header_hash, stored_hash, trailer
from refold.engine.log.pack import pack
from refold.engine.log.reader import read_entries
from refold.engine.program.run import PlainRun
from refold.engine.runners.recording import record
from refold.store.place import StoredRun
from refold.tools import tool
from tests.support import watched
from tests.support.loops import for_each, some
from tests.support.schemas import validate


def test_a_plain_log_is_read_where_it_is(survey_log: Path) -> None:
    with opened_log(survey_log) as log:
        assert log.path == survey_log
        assert log.shown(survey_log.with_name("survey.1.jsonl")).endswith("survey.1.jsonl")


def test_a_packed_log_is_unpacked_for_as_long_as_it_is_read(
    survey_log: Path, tmp_path: Path
) -> None:
    packed = pack(survey_log, tmp_path / "s.refold")

    with opened_log(packed) as log:
        inside = log.path
        assert inside.exists()
        assert log.shown(inside) == f"{packed}:survey.jsonl"

    assert not inside.exists()


def test_the_first_entry_says_which_program_it_was(survey_log: Path) -> None:
    assert started(survey_log).program == "survey_tree"


def test_a_log_without_a_first_entry_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")

    with pytest.raises(LogDamaged):
        started(tmp_path / "a.jsonl")


def test_a_first_entry_of_other_data_is_refused(survey_log: Path, tmp_path: Path) -> None:
    """Its hash holds, for whoever made it could hash; its data is not what its kind says."""
    first = json.loads(survey_log.read_bytes().splitlines()[0])
    del first["hash"]
    first["data"]["depth"] = "none"
    body = json.dumps(first, separators=(",", ":")).encode()[:-1]
    assert body.startswith(FIRST)
    (tmp_path / "a.jsonl").write_bytes(b'%b,"hash":"%b"}\n' % (body, header_hash(1, body).encode()))

    with pytest.raises(EventMalformed):
        started(tmp_path / "a.jsonl")


def test_what_fails_over_a_sound_log_is_a_fault_and_no_damage(survey_log: Path) -> None:
    with pytest.raises(TypeError), opened_log(survey_log):
        raise TypeError("ours")


def test_what_fails_over_a_log_that_is_nonsense_is_told_as_damage(
    survey_log: Path, tmp_path: Path
) -> None:
    log = tmp_path / "survey.jsonl"
    log.write_bytes(survey_log.read_bytes().replace(b'"path"', b'"htap"', 1))

    with pytest.raises(LogDamaged, match="hash"), opened_log(log):
        raise TypeError("over an entry")


@for_each("bytes_kept", [0, 2, 300])
def test_a_packed_log_that_was_cut_is_refused_like_any_damaged_log(
    bytes_kept: int, survey_log: Path, tmp_path: Path
) -> None:
    """Wherever it was cut; of two LOGs, by its own name alone."""
    whole, cut = pack(survey_log, tmp_path / "a.refold"), tmp_path / "z.refold"
    cut.write_bytes(whole.read_bytes()[:bytes_kept])

    with pytest.raises(LogUnsupported, match="copy it again") as refused, opened_log(whole):
        opened_log(cut).__enter__()

    assert refused.value.path == str(cut)
    assert code_of(refused.value) == DAMAGED


def test_damage_in_a_packed_log_is_told_by_the_name_of_the_packed_one(
    survey_log: Path, tmp_path: Path
) -> None:
    """Never by where it was unpacked, which is gone by the time that it is read."""
    bad = tmp_path / "a.jsonl"
    bad.write_bytes(survey_log.read_bytes().replace(b"tool.called", b"tool.callex", 1))
    packed = pack(bad, tmp_path / "a.refold")

    with pytest.raises(LogDamaged) as damaged, opened_log(packed) as log:
        list(read_entries(log.path))

    assert damaged.value.path == f"{packed}:a.jsonl"
    assert str(damaged.value).startswith(f"{packed}:a.jsonl:2 ")


PATHS = {
    "replay": [
        "--live",
        "--source=tools=recorded",
        "--source=model=recorded",
        "--source=children=recorded",
    ],
    "fork": ["--at", "2", "--into", "forked.jsonl"],
    "explore": [],
}


@pytest.mark.parametrize("name", PATHS)
def test_nothing_is_said_by_a_record_that_is_not_intact(
    name: str, survey_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it the log of a child that is not even read: what it holds is no evidence."""
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "runs" / survey_log.name
    shutil.copytree(survey_log.parent, log.parent)
    assert _call(name, str(log), *PATHS[name]).exit_code == 0
    Path("forked.jsonl").unlink(missing_ok=True)
    child = log.with_name("survey.2.jsonl")
    child.write_bytes(child.read_bytes().replace(b'"seq":2', b'"seq":3'))

    said = _call(name, str(log), *PATHS[name])

    assert said.exit_code == 3
    assert "survey.2.jsonl:3 " in said.stderr
    assert not Path("forked.jsonl").exists()


@for_each(
    "old, new, words",
    [
        (b'"outcome":{', b'"outcome":{"$x":1,', ["show"]),
        (b'"mono_us":', b'"mono_us":"1","m":', ["resume", "--list"]),
        (b'"call":"0', b'"call":[1],"x":"0', ["resume", "--program", "survey_tree"]),
        (b'"call":"0', b'"call":[1],"x":"0', ["why", "-1", "--all"]),
        (b'"tool":"', b'"tool":1,"t":"', ["show", "--at", "-1"]),
        (
            b'tool.called"(.*)"data":{',
            rb'note.added"\1"data":{"text":[[1]],',
            ["why", "-1", "--all"],
        ),
        (b'"tool.called"', b'"tool.cried"', ["show", "--at", "-1"]),
    ],
)
def test_nonsense_whose_hashes_hold_is_damage_and_no_fault(
    old: bytes, new: bytes, words: list[str], survey_log: Path, tmp_path: Path
) -> None:
    """Whoever can hash can write it (CONTRACT.md §14.3)."""
    log = tmp_path / "a.jsonl"
    previous, out = NO_HASH, []
    for line in survey_log.read_bytes().splitlines(keepends=True)[:-1]:
        body = line[:-TRAILER] if not previous else re.sub(old, new, line[:-TRAILER])
        out.append(body + trailer(previous, body))
        previous = stored_hash(out[-1]) or b""
    log.write_bytes(b"".join(out))

    said = _call(words[0], str(log), *words[1:])

    assert said.exit_code == 3
    assert "fault" not in said.stderr
    assert f"{log}:" in said.stderr


def _call(*words: str) -> Result:
    return CliRunner().invoke(refold, list(words))


@pytest.mark.parametrize(
    ("command", "document"),
    [
        ("show LOG", "show"),
        ("show --events LOG", "events"),
        ("show --events -n 3 LOG", "events"),
        ("verify LOG", "verify"),
        ("verify .", "verify"),
        ("diff LOG LOG", "diff"),
        ("show --at -1 LOG", "state"),
        ("show --at 1 --to 2 LOG", "state-diff"),
        ("why LOG 2", "why"),
        ("ls .", "ls"),
    ],
)
def test_every_report_of_a_watched_log_names_its_guarantee(
    command: str, document: str, survey_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words and in the document; that of a program's log has another, which is the usual one."""
    monkeypatch.chdir(tmp_path)
    talk = watched.talk(watched.user("Hello"), watched.says("Hello yourself."))
    log = watched.record(tmp_path / "a.jsonl", talk)

    def told(path: Path) -> tuple[str, str]:
        words = [str(path) if word == "LOG" else word for word in command.split()]
        text, plain = (CliRunner().invoke(refold, [*words, *more]) for more in ((), ("--json",)))
        assert (text.exit_code, plain.exit_code) == (0, 0), text.output
        validate(json.loads(plain.stdout), document)
        return text.stdout, plain.stdout

    text, plain = told(log)
    assert "matched" in text
    assert re.search(r'"guarantee": ?"matched"', plain)
    if "LOG" in command:
        text, plain = told(survey_log)
        assert "matched" not in text
        assert '"matched"' not in plain


def test_only_what_begins_like_a_url_is_one() -> None:
    """A path may have any characters."""
    assert PLACE.convert("s3://bucket/a.jsonl", None, None) == StoredRun("s3://bucket", "a.jsonl")
    assert PLACE.convert("runs/a://b.jsonl", None, None) == Path("runs/a://b.jsonl")


_PROGRAM = """
import refold

@refold.tool
def find(q: int) -> str:
    return f"found {q} " * 9

async def child(run, n):
    return await run.tool(find, q=n)

async def top(run, n):
    for at in range(n):
        await run.tool(find, q=at)
        await run.delegate(refold.Delegation(program=child, input=at, tools=["find"]))
    return n
"""
_COUNTED = """
import contextlib, io, json, os, sys
from collections import Counter

counts = Counter()

def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
        name = os.path.basename(os.fspath(arguments[0]))
        if name.endswith(".jsonl"):
            counts[name] += 1

sys.addaudithook(hook)
import refold, main
from refold.cli import main as command_line
for name, size in (("one", 2), ("other", 3)):
    refold.record(main.top, size, log=f"{name}.jsonl", tools=[main.find], seed=1)
told = []
for way in ("held", "opened each time"):
    if way != "held":
        del os.pread
    readers, live = json.loads(sys.argv[1])
    for words in readers + live * (way == "held"):
        counts.clear()
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                command_line(words)
            except SystemExit as end:
                code = end.code
        texts = [(each.flush(), each.buffer.getvalue().decode())[1] for each in (out, err)]
        told.append([words, code, *texts, dict(counts)])
print(json.dumps(told))
"""
_READERS = (
    "show one.jsonl --details", "show one.jsonl --failed --json", "show one.jsonl --events",
    "show one.jsonl --entry 3", "show one.jsonl --at -1", "show one.jsonl --at 3 --to -1",
    "verify one.jsonl", "why one.jsonl 9", "ls . --notable",
    "ls one.jsonl other.jsonl --diff one.jsonl", "diff one.jsonl other.jsonl",
    "diff one.jsonl other.jsonl --json", "replay one.jsonl --program main.py:top",
    "export one.jsonl --to html -o - --diff other.jsonl", "export one.jsonl --to atif -o -",
    "export one.jsonl --to markdown -o -", "export one.jsonl --to perfetto -o -",
    "export one.jsonl --to otlp -o -", "explore one.jsonl --program main.py:top --orders 5",
    "explore one.jsonl --program main.py:top --tools main.py:find --results",
    "replay one.jsonl --program main.py:top --tools main.py:find --live",
)  # fmt: skip
_FORKS = (
    "fork one.jsonl --program main.py:top --at 0 --into new/again.jsonl",
    "fork one.jsonl --program main.py:top --set 0#1=5 --into new/edited.jsonl",
    "replay one.jsonl --program main.py:top --tools main.py:find --live --into new/live.jsonl",
)
"""These name a new log, which is written and read back; the record is opened once."""


@pytest.mark.long
def test_a_command_opens_each_log_once_and_says_the_same(tmp_path: Path) -> None:
    """So it reads one file, whatever happens to its name; without `pread` it opens it often."""
    (tmp_path / "main.py").write_text(_PROGRAM, encoding="utf-8")
    asked = [[each.split() for each in some] for some in (_READERS, _FORKS)]
    words = [sys.executable, "-c", _COUNTED, json.dumps(asked)]

    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
    told = json.loads(ran.stdout)
    held, opened_often = told[: len(_READERS)], told[-len(_READERS) :]
    forked = told[len(_READERS) : -len(_READERS)]
    assert [each[:4] for each in held] == [each[:4] for each in opened_often]
    assert [each[:4] for each in held if each[1] not in (0, 1)] == []
    opened = [
        (w, {at: n for at, n in c.items() if at[:2] in ("on", "ot")}) for w, *_, c in held + forked
    ]
    assert [each for each in opened if set(each[1].values()) != {1}] == []
    assert [each[1] for each in forked] == [0] * len(_FORKS), forked
    assert sum(max(each[4].values()) > 1 for each in opened_often) == len(_READERS)


@tool(effect="pure")
def echo(text: str) -> str:
    """Return the text."""
    return text


def says(run: PlainRun, count: int) -> None:
    for _ in range(count):
        run.tool(echo, text="x" * 1000)


@pytest.mark.parametrize(
    ("arguments", "name"),
    some(
        2,
        [
            (["show", "LOG", "--json"], "show"),
            (["show", "LOG", "--details"], ""),
            (["show", "LOG", "--entry", "-1"], "event"),
            (["show", "LOG", "--entry", "700"], "event"),
            (["why", "LOG", "-1", "--json"], "why"),
            (["why", "LOG", "700"], ""),
        ],
    ),
)
def test_a_long_log_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    """The next command prints the same, and says that it did not verify what it did not read."""
    log = record(says, 700, log=tmp_path / "a.jsonl", tools=[echo]).log
    asked = [str(log) if each == "LOG" else each for each in arguments]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "off"))
    (tmp_path / "off").write_bytes(b"")  # no folder can be made there
    off = CliRunner().invoke(refold, asked)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cold, warm = (CliRunner().invoke(refold, asked) for _ in "12")

    assert (cold.exit_code, cold.stdout, cold.stderr) == (0, off.stdout, off.stderr)
    if name:
        validate(json.loads(warm.stdout), name)
    assert "not verified now; to verify them: refold verify " in warm.stderr
    said = ',\n  "verified": false'
    assert warm.stdout.replace(said, "") == cold.stdout
    assert (said in warm.stdout) is (name in ("show", "why"))
    assert "intact" not in warm.output
