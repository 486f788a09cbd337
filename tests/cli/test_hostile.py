"""Whatever a log holds, a terminal gets printable characters only: no escape, no markup."""

import hashlib
import random
import re
import shutil
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from refold.engine.encoding import digest
from refold.engine.ports.ports import Delegation
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool
from tests.support import fault_programs
from tests.support.fault_programs import PROGRAMS
from tests.support.loops import some

Invoke = Callable[..., Result]

EVIL = (
    "a\x1b[2J\x1b]0;pwned\x07\x1b]8;;http://x\x1b\\b\x9b31m\x85\x7f\r\n\x08"
    "\u202e\u2066\u200b\u2028\ufeff\U000e0041[bold red]m[/]"
)


@tool(effect="pure")
def echo(text: str) -> str:
    """Say it again."""
    return text


async def child(_: Any, __: Any) -> str:
    """Fail with a message that nobody should print as it is."""
    raise ValueError(EVIL)


async def hostile(run: Any, given: Any) -> Any:
    """Put the text wherever a program can put text."""
    run.annotate(EVIL, {EVIL: EVIL})
    await run.tool(echo, text=EVIL)
    await run.delegate(Delegation(program=child, brief=EVIL, agent=EVIL, tool=EVIL, input=EVIL))
    return [EVIL, given]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return record(hostile, EVIL, log=tmp_path / "evil.jsonl").log


def _is_safe(text: str) -> bool:
    return all(each == "\n" or unicodedata.category(each)[0] != "C" for each in text) and not (
        {"\u2028", "\u2029"} & set(text)
    )


@pytest.mark.parametrize(
    "words",
    [
        ["show", "LOG"],
        ["show", "LOG", "--details"],
        ["show", "LOG", "--events"],
        ["show", "LOG", "--json"],
        ["show", "LOG", "--entry", "1"],
        ["show", "LOG", "--events", "-n", "9", "--json"],
        ["show", "LOG", "--at", "-1"],
        ["show", "LOG", "--at", "-2"],
        ["show", "LOG", "--at", "-1", "--json"],
        ["verify", "LOG"],
        ["ls", "FOLDER"],
        ["diff", "LOG", "OTHER"],
        ["diff", "LOG", "OTHER", "--json"],
        ["replay", "LOG", "--program", "PROGRAM"],
        ["replay", "LOG", "--program", "PROGRAM", "--json"],
        ["replay", "LOG"],
        pytest.param(["replay", "FOLDER", "--program", "PROGRAM"], marks=pytest.mark.long),
        ["replay", "FOLDER", "--program", "PROGRAM", "--all"],
        ["replay", "FOLDER", "--json"],
        ["why", "LOG", "-1"],
        ["why", "LOG", "-1", "--all"],
        ["why", "LOG", "-1", "--json"],
        ["show", "LOG", "--at", "0", "--to", "-1"],
        ["show", "LOG", "--at", "0", "--to", "-1", "--json"],
    ],
)
def test_no_control_character_of_a_log_reaches_the_terminal(
    words: list[str], log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    other = record(hostile, [EVIL], log=tmp_path / "other.jsonl").log
    (tmp_path / "now.py").write_text(
        f"async def hostile(run, x):\n    run.annotate({EVIL + '!'!a})\n"
    )
    places = {
        "LOG": str(log),
        "FOLDER": str(tmp_path),
        "OTHER": str(other),
        "PROGRAM": f"{tmp_path / 'now.py'}:hostile",
    }

    said = invoke(*(places.get(word, word) for word in words))

    assert said.exit_code in (0, 1, 2)
    assert _is_safe(said.stdout)
    assert _is_safe(said.stderr)


def test_markup_of_a_log_is_shown_as_it_is(log: Path, invoke: Invoke) -> None:
    assert "[bold red]m[/]" in invoke("show", log).stdout


def test_a_path_is_shown_safely_too(tmp_path: Path, invoke: Invoke) -> None:
    log = record(hostile, 1, log=tmp_path / "a\x1b[2Jb.jsonl").log

    for words in (
        ["verify", log],
        ["show", log, "--details"],
        ["ls", tmp_path],
        ["why", log, "-1"],
        ["replay", tmp_path, "--limit", "jobs=1"],
        ["show", f"{log}x"],
    ):
        said = invoke(*words)
        assert _is_safe(said.stdout)
        assert _is_safe(said.stderr)


# --- logs whose lines are not what their program wrote ------------------------------------------

SECONDS = 60.0
"""What any command may take on a log of a few lines: one that hangs takes for ever."""

COMMANDS = [
    ["verify", "LOG"],
    ["show", "LOG", "--events"],
    ["show", "LOG", "--at", "-1"],
    ["why", "LOG", "-1"],
    ["ls", "FOLDER"],
    ["diff", "LOG", "SOUND"],
    ["replay", "LOG", "--program", "PROGRAM"],
    ["replay", "LOG", "--live", "--program", "PROGRAM", "--tools", "TOOLS"],
    ["fork", "LOG", "--at", "3", "--program", "PROGRAM", "--into", "INTO"],
    ["explore", "LOG", "--results", "--program", "PROGRAM"],
    ["explore", "LOG", "--program", "PROGRAM", "--orders", "3"],
    ["resume", "LOG", "--program", "PROGRAM", "--tools", "TOOLS"],
]
"""`resume` is the last: it goes on with the log."""

_SEQ = re.compile(rb'^\{"seq":[0-9]+,')
_HASH = re.compile(rb',"hash":"[0-9a-f]{64}"\}\n$')


def _chained(lines: list[bytes]) -> bytes:
    """Return lines as a log whose seqs and hashes are right, whatever they say."""
    previous, whole = b"", b""
    for seq, line in enumerate(lines):
        body = _HASH.sub(b"", _SEQ.sub(b'{"seq":%d,' % seq, line))
        own = hashlib.sha256((digest.EVENT if seq else digest.HEADER) + previous + body)
        previous = own.hexdigest().encode()
        whole += b'%b,"hash":"%b"}\n' % (body, previous)
    return whole


def _value(line: bytes, draw: random.Random) -> bytes:
    """Return a line in which one value is another, of any type."""
    found = list(re.finditer(rb'":(-?[0-9]+|"[^"\\]*"|null|true|false|\[\]|\{\})', line))
    one = draw.choice(found[1:-1])  # the seq is renumbered, the hash made anew
    other = draw.choice([b"null", b"-1", b"9" * 18, b'"x"', b"[]", b"{}", b"1.5", b"true", b'""'])
    return line[: one.start() + 2] + other + line[one.end() :]


def _altered(lines: list[bytes], draw: random.Random) -> bytes:
    """Return a log with one hostile change; of most, the chain holds."""
    at, other = draw.randrange(1, len(lines)), draw.randrange(1, len(lines))
    match draw.randrange(7):
        case 0:
            return _chained(lines[:at])
        case 1:
            return _chained(lines[:at] + lines[at + 1 :])
        case 2:
            return _chained([*lines[:at], lines[other], *lines[at:]])
        case 3:
            lines[at], lines[other] = lines[other], lines[at]
            return _chained(lines)
        case 4:
            whole = b"".join(lines)
            return whole[: draw.randrange(1, len(whole))]
        case 5:
            flipped = bytearray(b"".join(lines))
            flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
            return bytes(flipped)
        case _:
            lines[at - 1] = _value(lines[at - 1], draw)
            return _chained(lines)


def _answers(words: list[str], invoke: Invoke) -> Result:
    """Return what a command says; on a thread, for it might never end."""
    said: list[Result] = []
    thread = threading.Thread(target=lambda: said.append(invoke(*words)), daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert said, f"{words} did not end"
    return said[0]


def _all_answer(tmp_path: Path, name: str, seeds: range, invoke: Invoke) -> None:
    program = f"{Path(fault_programs.__file__)}:{name}"
    sound = record(PROGRAMS[name], 2, log=tmp_path / "sound.jsonl", tools=fault_programs.TOOLS).log
    logs = sorted(tmp_path.glob("*.jsonl"))
    for seed in seeds:
        draw = random.Random(f"{name} {seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        for log in logs:
            shutil.copy(log, folder / log.name)
        chosen = folder / draw.choice(logs).name
        chosen.write_bytes(_altered(chosen.read_bytes().splitlines(keepends=True), draw))
        places = {
            "LOG": str(folder / sound.name),
            "FOLDER": str(folder),
            "SOUND": str(sound),
            "PROGRAM": program,
            "TOOLS": f"{Path(fault_programs.__file__)}:TOOLS",
            "INTO": str(folder / "into" / "fork.jsonl"),
        }
        for words in COMMANDS:
            said = _answers([places.get(word, word) for word in words], invoke)

            assert said.exit_code in (0, 1, 2, 3, 4, 5), (name, seed, words, said.output[-2000:])


@pytest.mark.parametrize("name", some(1, ["plain_joins", "async_leaves"]))
def test_every_command_answers_on_a_hostile_log(name: str, tmp_path: Path, invoke: Invoke) -> None:
    """It ends, and what it complains of is an error of its own."""
    _all_answer(tmp_path, name, range(3), invoke)


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_command_answers_on_many_hostile_logs(
    name: str, tmp_path: Path, invoke: Invoke
) -> None:
    """The same of every program, plain or asynchronous, with children or without."""
    _all_answer(tmp_path, name, range(100, 140), invoke)
