"""Logs for readers of the format to be tried with: whole ones, and what can become of them.

`tests.support.fixtures` writes the set of `fixtures/conformance`: `expected.json` says what
`refold verify` says of each.
"""

import asyncio
import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from refold.engine.log.line import NO_HASH, stored_hash, trailer
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.replay.audit.verify import verify
from refold.tools.contract.tool_types import tool

ROOT: Final = "a.jsonl"
SET: Final = Path(__file__).parents[2] / "fixtures" / "conformance"
Change = Callable[[Path], object]
"""Changes the logs of a folder."""


@tool(effect="reads")
async def search(query: str) -> str:
    """Return what was asked, after a turn; of `slow`, much later."""
    await asyncio.sleep(60 if query == "slow" else 0)
    return f"found {query}"


async def leaf(run: Run, word: str) -> str:
    return str(await run.tool(search, query=word))


async def branch(run: Run, word: str) -> str:
    outcome = await run.delegate(Delegation(program=leaf, input=word))
    return f"{word} {outcome.output}"


async def plain(run: Run, words: list[str]) -> list[str]:
    """Do one of most things, without children."""
    run.annotate("began", {"at": run.now().isoformat(), "$odd": run.uuid()})
    slow = asyncio.create_task(run.tool(search, query="slow"))
    await asyncio.sleep(0.001)
    slow.cancel()
    return [await run.tool(search, query=word) for word in words]


async def tree(run: Run, words: list[str]) -> list[str]:
    """Start children, of which one has a child, and cancel none."""
    programs = [branch, *[leaf] * (len(words) - 1)]
    kids = [
        await run.start(Delegation(program=p, input=w))
        for p, w in zip(programs, words, strict=True)
    ]
    return [str(outcome.output) for outcome in await run.join(*kids)]


def large(run: PlainRun, text: str) -> int:
    run.annotate(text)
    return len(text)


BASES: Final[dict[str, tuple[Any, Any]]] = {
    "plain": (plain, ["x", "y"]),
    "tree": (tree, ["x", "y", "z"]),
    "large": (large, "a" * 33_000),
}


def recorded(folder: Path) -> None:
    """Record the logs that all others are made of, in a folder each."""
    for name, (program, given) in BASES.items():
        record(program, given, log=folder / name / ROOT, durability="fast")


# --- what can become of a log --------------------------------------------------------------------


def bytes_of(change: Callable[[bytes], bytes], log: str = ROOT) -> Change:
    """Return what changes the bytes of a log."""

    def made(folder: Path) -> None:
        (folder / log).write_bytes(change((folder / log).read_bytes()))

    return made


def lines_of(change: Callable[[list[bytes]], list[bytes]], log: str = ROOT) -> Change:
    """Return what changes the lines of a log, whose hashes stay."""
    return bytes_of(lambda content: b"".join(change(content.splitlines(keepends=True))), log)


def rehashed(change: Callable[[list[dict[str, Any]]], object], log: str = ROOT) -> Change:
    """Return what changes the entries of a log and hashes all: the work of who knows the rules."""

    def made(content: bytes) -> bytes:
        rows = [json.loads(line) for line in content.splitlines()]
        changed = change(rows)
        rows = changed if isinstance(changed, list) else rows
        previous, lines = NO_HASH, []
        for row in rows:
            body = json.dumps(
                {name: row[name] for name in row if name != "hash"},
                ensure_ascii=False,
                separators=(",", ":"),
            ).encode(errors="surrogatepass")[:-1]
            lines.append(body + trailer(previous, body))
            previous = stored_hash(lines[-1]) or b""
        return b"".join(lines)

    return bytes_of(made, log)


def _at(
    kind: str, change: Callable[[dict[str, Any]], object]
) -> Callable[[list[dict[str, Any]]], None]:
    """Return what changes the first entry of a kind."""

    def made(rows: list[dict[str, Any]]) -> None:
        change(next(row for row in rows if row["kind"] == kind))

    return made


def _data(of: str, /, **members: Any) -> Change:
    return rehashed(_at(of, lambda row: row["data"].update(members)))


def _row(of: str, /, **members: Any) -> Change:
    return rehashed(_at(of, lambda row: row.update(members)))


def _without(kind: str, member: str) -> Change:
    return rehashed(_at(kind, lambda row: row["data"].pop(member)))


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "seq": at} for at, row in enumerate(rows)]


def _moved(rows: list[bytes], at: int, to: int) -> list[bytes]:
    rows.insert(to, rows.pop(at))
    return rows


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _blob(folder: Path) -> Path:
    return next((folder / "a.blobs").glob("*/*"))


def _linked(folder: Path) -> None:
    (folder / "a.1.jsonl").rename(folder / "other")
    (folder / "a.1.jsonl").symlink_to("other")


def _swapped(folder: Path) -> None:
    one, other = folder / "a.2.jsonl", folder / "a.3.jsonl"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


CASES: Final[dict[str, tuple[str, Change]]] = {
    "whole-plain": ("plain", lambda _: None),
    "whole-tree": ("tree", lambda _: None),
    "whole-large": ("large", lambda _: None),
    "cut-at-a-line": ("plain", lines_of(lambda rows: rows[:-1])),
    "cut-to-one-line": ("plain", lines_of(lambda rows: rows[:1])),
    "cut-in-a-line": ("plain", bytes_of(lambda all_: all_[:-40])),
    "cut-of-its-last-newline": ("plain", bytes_of(lambda all_: all_[:-1])),
    "cut-in-the-first-line": ("plain", bytes_of(lambda all_: all_[:60])),
    "cut-to-a-few-bytes": ("plain", bytes_of(lambda all_: all_[:9])),
    "empty": ("plain", bytes_of(lambda _: b"")),
    "zeros-alone": ("plain", bytes_of(lambda _: bytes(700))),
    "zeros-behind": ("plain", bytes_of(lambda all_: all_ + bytes(1200))),
    "zeros-behind-a-cut": ("plain", bytes_of(lambda all_: all_[:-30] + bytes(1200) + b"\n")),
    "zeroed-sector-amid": ("plain", bytes_of(lambda all_: all_[:512] + bytes(512) + all_[1024:])),
    "zeroed-sector-at-the-end": (
        "plain",
        bytes_of(lambda all_: all_[: len(all_) // 512 * 512 - 512] + bytes(512) + b"x\n"),
    ),
    "text-behind": ("plain", bytes_of(lambda all_: all_ + b"more")),
    "line-behind": ("plain", bytes_of(lambda all_: all_ + b"more\n")),
    "another-file": ("plain", bytes_of(lambda _: b"# notes\n")),
    "another-file-without-newline": ("plain", bytes_of(lambda _: b"# notes")),
    "byte-order-mark": ("plain", bytes_of(lambda all_: b"\xef\xbb\xbf" + all_)),
    "carriage-returns": ("plain", bytes_of(lambda all_: all_.replace(b"\n", b"\r\n"))),
    "blank-line": ("plain", lines_of(lambda rows: [*rows[:3], b"\n", *rows[3:]])),
    "flipped-in-data": (
        "plain",
        bytes_of(lambda all_: _flipped(all_, all_.index(b'"found x"') + 3)),
    ),
    "flipped-in-meta": (
        "plain",
        bytes_of(lambda all_: _flipped(all_, all_.rindex(b'"mono_us"') + 12)),
    ),
    "flipped-in-a-hash": ("plain", bytes_of(lambda all_: _flipped(all_, len(all_) - 20))),
    "flipped-in-the-first-line": ("plain", bytes_of(lambda all_: _flipped(all_, 60))),
    "flipped-newline": ("plain", bytes_of(lambda all_: _flipped(all_, all_.index(b"\n")))),
    "line-deleted": ("plain", lines_of(lambda rows: [*rows[:4], *rows[5:]])),
    "first-line-deleted": ("plain", lines_of(lambda rows: rows[1:])),
    "line-duplicated": ("plain", lines_of(lambda rows: [*rows[:5], rows[4], *rows[5:]])),
    "lines-swapped": ("plain", lines_of(lambda rows: _moved(rows, 4, 5))),
    "two-on-one-line": ("plain", bytes_of(lambda all_: all_.replace(b"}\n", b"}", 1))),
    "unknown-kind": ("plain", _row("note.added", kind="note.changed")),
    "extension-kind": ("plain", _row("note.added", kind="x-note")),
    "member-missing": ("plain", _without("tool.called", "effect")),
    "member-unknown": ("plain", _data("tool.called", more=1)),
    "member-of-another-type": ("plain", _data("tool.called", tool=7)),
    "word-unknown": ("plain", _data("tool.called", effect="harmless")),
    "members-of-an-entry-unknown": ("plain", _row("note.added", more=1)),
    "marker-unknown": ("plain", _data("note.added", data={"$odd": 1})),
    "seq-twice": ("plain", _row("note.added", seq=1)),
    "cause-of-later": ("plain", _row("tool.returned", cause=10_000)),
    "call-key-skipped": ("plain", _row("note.added", call="0#9")),
    "call-key-of-a-timer": ("plain", _row("note.added", call="0@1")),
    "answer-without-a-request": (
        "plain",
        rehashed(lambda rows: [row for row in rows if row["kind"] != "tool.called"]),
    ),
    "clock-read-twice": (
        "plain",
        rehashed(
            lambda rows: _numbered(
                [again for row in rows for again in [row] * (1 + (row["kind"] == "clock.read"))]
            )
        ),
    ),
    "started-twice": ("plain", rehashed(lambda rows: _numbered([rows[0], *rows]))),
    "line-after-the-end": ("plain", rehashed(lambda rows: _numbered([*rows, rows[-2]]))),
    "data-changed": ("plain", _data("tool.called", arguments={"query": "z"})),
    "entries-miscounted": ("plain", _data("run.finished", entries=3)),
    "data-digest-changed": ("plain", _data("run.finished", data_digest="0" * 64)),
    "children-root-changed": ("tree", _data("run.finished", children_root="0" * 64)),
    "tree-digest-changed": ("tree", _data("run.finished", tree_digest="0" * 64)),
    "child-missing": ("tree", lambda folder: (folder / "a.2.jsonl").unlink()),
    "child-linked": ("tree", _linked),
    "child-cut": ("tree", lines_of(lambda rows: rows[:-1], "a.1.1.jsonl")),
    "child-torn": ("tree", bytes_of(lambda all_: all_ + b"x", "a.2.jsonl")),
    "child-changed-and-hashed": (
        "tree",
        rehashed(_at("tool.called", lambda row: row["data"].update(tool="find")), "a.2.jsonl"),
    ),
    "children-swapped": ("tree", _swapped),
    "child-unnamed": (
        "tree",
        lambda folder: shutil.copy(folder / "a.3.jsonl", folder / "a.4.jsonl"),
    ),
    "parent-cut-before-its-children": ("tree", lines_of(lambda rows: rows[:1])),
    "parent-cut-before-the-joins": ("tree", lines_of(lambda rows: rows[:5])),
    "blob-missing": ("large", lambda folder: _blob(folder).unlink()),
    "blob-damaged": ("large", lambda folder: _blob(folder).write_bytes(b"b" * 33_000)),
    "blob-linked": ("large", lambda folder: _blob(folder).parent.rename(folder / "other").exists()),
}


def said_of(folder: Path) -> dict[str, Any]:
    """Return what `verify` says of the root's log in a folder, as the readers of examples/ do."""
    found = verify(folder / ROOT)
    bad = next((log.damage for log in found.logs if log.damage), ())
    first = min(bad, key=lambda one: one.line, default=None)
    place = None if first is None else [Path(first.path).name, first.line]
    return {"intact": found.intact, "complete": found.complete, "first": place}


INNER: Final[tuple[Any, ...]] = (
    None, True, -1, 0.5, 1.0, 10**18, 2**63, 2**64, 10**30, 10**400, math.nan, "", "\x1b", "\ud800",
)  # fmt: skip
"""Members of data: values of each type, and what is JSON to some."""
STRANGE: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0.5,
    10**18,
    "",
    "\x1b",
    [],
    [[]],
    {},
    {"a": 1},
    {"$blob": 1},
)
"""Values of every type, for members that expect another."""


def damage(folder: Path, draw: random.Random) -> str:
    """Do something to one of the logs in a folder, and return what."""
    log = draw.choice(sorted(path.name for path in folder.glob("*.jsonl")))
    content = (folder / log).read_bytes()
    rows = content.splitlines(keepends=True)
    at, line, other = (draw.randrange(len(each)) for each in (content, rows, rows))
    size, call = draw.choice((1, 3, 511, 512, 513, 1300)), draw.choice(("0#1", "0#2", "0@1", "0#7"))
    member, strange = draw.choice(("kind", "call", "cause", "data", "meta")), draw.choice(STRANGE)
    inner = draw.choice(INNER)
    before, after, rest = content[:at], content[at:], content[at + size :]

    def entry(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Change:
        return rehashed(lambda all_: change(all_[line], all_[other]) and None, log)

    ways: dict[str, Change] = {
        f"flip {at}": bytes_of(lambda _: _flipped(content, at), log),
        f"cut {at}": bytes_of(lambda _: before, log),
        f"cut from line {line}": lines_of(lambda _: rows[: max(1, line)], log),
        f"zero {size} at {at}": bytes_of(lambda _: before + bytes(size) + rest, log),
        f"zeros of {size} from {at} on": bytes_of(lambda _: before + bytes(size), log),
        f"remove {size} at {at}": bytes_of(lambda _: before + rest, log),
        f"insert {size} at {at}": bytes_of(lambda _: before + b"\n" * (size % 3) + after, log),
        f"delete line {line}": lines_of(lambda _: [*rows[:line], *rows[line + 1 :]], log),
        f"double line {line}": lines_of(lambda _: [*rows[: line + 1], *rows[line:]], log),
        f"move line {line} to {other}": lines_of(lambda _: _moved([*rows], line, other), log),
        f"hash without line {line}": rehashed(
            lambda all_: _numbered([*all_[:line], *all_[line + 1 :]]) or all_[:1], log
        ),
        f"hash with line {line} again": rehashed(
            lambda all_: _numbered([*all_[: line + 1], *all_[line:]]), log
        ),
        f"hash line {line} without its last member": entry(lambda row, _: row["data"].popitem()),
        f"hash line {line} as {call}": entry(lambda row, _: row.update(call=call)),
        f"hash line {line} as of kind {other}": entry(lambda row, to: row.update(kind=to["kind"])),
        f"hash line {line} with the data of {other}": entry(
            lambda row, to: row.update(data=to["data"])
        ),
        f"hash line {line} as caused by {other}": entry(lambda row, _: row.update(cause=other)),
        f"hash line {line} with {strange!r} as its {member}": entry(
            lambda row, _: row.update({member: strange})
        ),
        f"hash line {line} with {inner!r:.40} as a member of its data": entry(
            lambda row, _: row["data"].update({draw.choice([*row["data"]]): inner})
        ),
        "remove it": lambda _: None if log == ROOT else (folder / log).unlink(),
    }
    way = draw.choice(sorted(ways))
    ways[way](folder)
    return f"{log}: {way}"


def write(target: Path) -> None:
    """Write the set."""
    recorded(target / "bases")
    expected = {}
    for name, (base, change) in CASES.items():
        if name == "child-linked":  # no link goes into a repository
            continue
        shutil.copytree(target / "bases" / base, target / name)
        change(target / name)
        expected[name] = said_of(target / name)
    shutil.rmtree(target / "bases")
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
