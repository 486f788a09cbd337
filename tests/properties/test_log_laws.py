"""Laws of the log: whatever is written is read back, and whatever is read is handled.

Any event survives the log; any alteration is noticed; any bytes at all give a typed answer.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.encoding.canonical import loads
from refold.engine.errors import LogError, LogMissing, RefoldError
from refold.engine.events.data_digest import DataDigest
from refold.engine.events.events import NoteAdded, ToolReturned
from refold.engine.log.blobs import BlobBroken, digest_only, encode_data, externalised, resolved
from refold.engine.log.line import NO_HASH, TRAILER, stored_hash, trailer
from refold.engine.log.pack import opened
from refold.engine.log.reader import read_entries, read_events, scan
from refold.engine.log.writer import LogWriter
from refold.replay.audit.verify import verify
from tests.support.started import STARTED

texts = st.text(st.characters(exclude_categories=["Cs"]))
names = st.one_of(texts, st.sampled_from(["$blob", "$esc", "$", "bytes", "$blob$"]))
numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(names, inner)),
    max_leaves=10,
)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Give a folder for one example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.usefixtures("many_times")
@settings(max_examples=25)
@given(st.lists(values, max_size=5))
def test_what_is_written_is_read_back(items: list[Any]) -> None:
    """Any JSON value, wherever users put it, comes back as it was, and the chain holds."""
    with folder() as place:
        path = place / "audit.jsonl"
        with LogWriter.create(path, STARTED, durability="fast") as log:
            for item in items:
                log.append(ToolReturned("ok", item))
        events = [entry.event for entry in read_entries(path, resolve=True)]

        assert events[1:] == [ToolReturned("ok", item) for item in items]
        assert scan(path).damage is None


@pytest.mark.usefixtures("many_times")
@settings(max_examples=25)
@given(st.dictionaries(names, values, max_size=5))
def test_putting_elsewhere_can_always_be_undone(data: dict[str, Any]) -> None:
    """Whatever `$` members a user has, and however they are nested."""

    def none_is_needed(name: str, _: int) -> str:
        raise AssertionError(name)

    assert resolved(loads(encode_data(data)), none_is_needed) == data
    assert resolved(externalised(data, digest_only), none_is_needed) == data


@pytest.mark.usefixtures("many_times")
@settings(max_examples=25)
@given(values)
def test_resolving_anything_gives_a_value_or_says_why_not(value: Any) -> None:
    """Markers in a log may have been forged."""
    with contextlib.suppress(BlobBroken):
        resolved(value, lambda _name, _size: "")


@given(st.permutations([("tool.called", f"0#{n}", b'{"a":%d}' % n) for n in range(1, 6)]))
def test_the_data_digest_knows_no_order(entries: list[tuple[str, str, bytes]]) -> None:
    """All interleavings of the same entries have one digest."""
    digest, again = DataDigest(), DataDigest()
    for entry in entries:
        digest.add(*entry)
    for entry in sorted(entries):
        again.add(*entry)

    assert digest.hexdigest() == again.hexdigest()


# --- any bytes -----------------------------------------------------------------------------------


def sound() -> bytes:
    """Return the bytes of a small sound log."""
    with folder() as place:
        path = place / "audit.jsonl"
        with LogWriter.create(path, STARTED, durability="fast") as log:
            for at in range(4):
                log.append(NoteAdded("n", {"$at": at}), f"0#{at + 1}")
        return path.read_bytes()


SOUND = sound()

pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [*SOUND.splitlines(keepends=True), b"\0" * 512, b"\n", b"[" * 2000, b'"hash":"']
    ),
    st.builds(lambda a, b: SOUND[min(a, b) : max(a, b)], *[st.integers(0, len(SOUND))] * 2),
)


def answers(log: bytes) -> None:
    """Read a file of these bytes in every way; anything but a typed answer fails the test."""
    with folder() as place:
        path = place / "audit.jsonl"
        path.write_bytes(log)
        try:
            scan(path)
            verify(path).as_json()
            with opened(path) as root:
                list(read_entries(root, resolve=True, torn_ok=True))
        except (LogError, LogMissing):
            pass
        assert path.read_bytes() == log


@given(st.lists(pieces, max_size=8).map(b"".join))
@pytest.mark.usefixtures("many_times")
@settings(max_examples=50)
def test_any_bytes_give_a_typed_answer(log: bytes) -> None:
    """A report or an error of ours, and the file as it was."""
    answers(log)


TAILS = [
    *[line[line.index(b",") + 1 : -TRAILER] for line in SOUND.splitlines(keepends=True)],
    b'"kind":"tool.returned","call":"0#1","cause":1,"data":{"status":"ok","result":[1]},"meta":{}',
    b'"kind":"note.added","data":{"text":"n"}',
    b'"kind":"x-own","data":{"$blob":"00","bytes":1},"meta":{}',
    b'"kind":"note.added","data":{"text":{"$blob":"%b","bytes":2}},"meta":{}' % (b"0" * 64),
]
tails = st.one_of(
    st.sampled_from(TAILS),
    st.builds(
        lambda tail, at, size, other: tail[:at] + other + tail[at + size :],
        st.sampled_from(TAILS),
        st.integers(0, 400),
        st.integers(0, 30),
        st.sampled_from([b"", b"{", b"}", b"[]", b"1", b'"', b'{"$', b"x", b",", b'"meta":', b" "]),
    ),
)


def chained(tails: list[bytes]) -> bytes:
    """Return lines that begin with their numbers and end as these, with valid hashes."""
    previous, log = NO_HASH, b""
    for seq, tail in enumerate(tails):
        body = b'{"seq":%d,%b' % (seq, tail)
        log += body + trailer(previous, body)
        previous = stored_hash(log) or b""
    return log


def outcome(facts: Iterator[Any]) -> list[Any]:
    """Return what is yielded, and the error at its end."""
    found: list[Any] = []
    try:
        found.extend(facts)
    except RefoldError as error:
        found.append((type(error), error.args))
    return found


@given(st.lists(tails, max_size=6), st.binary(max_size=3))
@pytest.mark.usefixtures("many_times")
@settings(max_examples=100)
def test_events_are_read_as_entries_are(ends: list[bytes], rest: bytes) -> None:
    """The same facts up to the same error, whatever is in lines whose hashes are valid."""
    with folder() as place:
        path = place / "audit.jsonl"
        path.write_bytes(chained([TAILS[0], *ends]) + rest)
        entries = read_entries(path, resolve=True, torn_ok=True)

        assert outcome(read_events(path)) == outcome(
            (entry.event, entry.call, entry.seq) for entry in entries
        )


@given(st.data())
@pytest.mark.usefixtures("many_times")
@settings(max_examples=50)
def test_no_alteration_goes_unnoticed(data: st.DataObject) -> None:
    """Some span of a sound log replaced by any bytes: noticed, or nothing but its tail is gone."""
    begin = data.draw(st.integers(0, len(SOUND)))
    end = data.draw(st.integers(begin, len(SOUND)))
    altered = SOUND[:begin] + data.draw(st.binary(max_size=20)) + SOUND[end:]
    with folder() as place:
        path = place / "audit.jsonl"
        path.write_bytes(altered)
        found = scan(path)

    if found.damage is None and found.torn is None:
        assert SOUND.startswith(altered)
