"""The data digest (CONTRACT.md §6.2)."""

from refold.engine.events.data_digest import DataDigest

ENTRIES = [
    ("tool.called", "0/1#1", b'{"a":1}'),
    ("tool.called", "0/2#1", b'{"a":1}'),
    ("note.added", None, b'{"text":"x"}'),
]


def _digest(entries: list[tuple[str, str | None, bytes]]) -> str:
    digest = DataDigest()
    for kind, call, data in entries:
        digest.add(kind, call, data)
    return digest.hexdigest()


def test_interleaving_does_not_matter_and_everything_else_does() -> None:
    """Any order gives the same; another kind, key or datum, or a missing entry, another."""
    digest = _digest(ENTRIES)

    assert _digest(ENTRIES[::-1]) == digest
    assert len(digest) == 64
    others = [
        ENTRIES[1:],
        [("tool.asked", *ENTRIES[0][1:]), *ENTRIES[1:]],
        [(ENTRIES[0][0], "0/1#2", ENTRIES[0][2]), *ENTRIES[1:]],
        [(*ENTRIES[0][:2], b'{"a":2}'), *ENTRIES[1:]],
        [*ENTRIES, ENTRIES[0]],
    ]
    assert len({digest, *map(_digest, others)}) == len(others) + 1


def test_clocks_and_late_results_are_left_out() -> None:
    """They differ between runs that did the same."""
    volatile = [("clock.read", None, b'{"time_us":1}'), ("effect.late", "0#1", b"{}")]

    assert _digest(ENTRIES + volatile) == _digest(ENTRIES)


def test_what_waits_to_be_counted_counts() -> None:
    """Whenever the digest is asked for, and however large the entries are."""
    entries: list[tuple[str, str | None, bytes]] = [
        ("tool.called", f"0#{at}", b"x" * (at * 100)) for at in range(150)
    ]
    at_once = DataDigest()
    now_and_then = DataDigest()

    for at, entry in enumerate(entries):
        at_once.add(*entry)
        now_and_then.add(*entry)
        if at % 7 == 0:
            now_and_then.hexdigest()

    assert at_once.hexdigest() == now_and_then.hexdigest()
    assert at_once.hexdigest() != _digest(entries[:-1])


def test_a_call_counts_as_its_two_entries() -> None:
    """Told together or one by one, few or many."""
    together = DataDigest()
    one_by_one = DataDigest()

    for at in range(150):
        call, called, returned = f"0#{at}", b'{"tool":"a"}', b'{"status":"ok"}'
        together.add_call(call.encode(), called, returned)
        one_by_one.add("tool.called", call, called)
        one_by_one.add("tool.returned", call, returned)

    assert together.hexdigest() == one_by_one.hexdigest()
