"""Whose files a copy gets: a decision on states, path by path."""

import itertools

import attrs
from hypothesis import given
from hypothesis import strategies as st

from refold.proxy.copies.whose import Files, PathStates, fate_of, fates_of, is_own
from tests.support.loops import for_each

FILES: tuple[Files, ...] = ("recorded", "own", "edits", "today")
STATES = st.sampled_from(["", "a", "b", "c"])
PATHS = st.builds(
    PathStates,
    now=STATES,
    known=st.frozensets(STATES, min_size=1),
    **{
        each.name: st.booleans()
        for each in attrs.fields(PathStates)
        if each.name not in ("now", "known", "is_bulky")
    },
)
NAMES = st.sampled_from(["x", "x/y", "x/y/z", "x/w", "v"])


@given(path=PATHS, files=st.sampled_from(FILES))
def test_what_the_record_knows_or_left_out_is_no_edit(path: PathStates, files: Files) -> None:
    """And nothing else is passed over in silence."""
    silent = fate_of(path, files) in ("known", "lent")

    assert silent is (path.is_left_out or path.now in path.known)


@given(path=PATHS)
def test_by_hand_all_edits_are_used_or_none(path: PathStates) -> None:
    if not path.is_left_out and path.now not in path.known:
        assert fate_of(path, "today") == "used"
    assert fate_of(path, "recorded") != "used"


@given(path=PATHS)
def test_an_agents_own_files_are_used_wherever_any_edit_is(path: PathStates) -> None:
    """An agent that works on the folder gets no other."""
    own, edits = (fate_of(path, files) for files in ("own", "edits"))

    assert own == edits or (edits, own, path.is_own) == ("used", "unused", False)


@given(path=PATHS)
def test_what_the_run_changed_begins_as_recorded(path: PathStates) -> None:
    changed = attrs.evolve(path, is_changed=True)

    assert fate_of(changed, "edits") in ("known", "lent", "missing", "kept")


@for_each(
    "states, expected",
    [
        (PathStates(now="new", known=["old"]), "used"),
        (PathStates(now="", known=["old"], is_committed=True, in_git=True), "used"),
        (PathStates(now="", known=["old"], in_git=True), "missing"),
        (PathStates(now="", known=["old"]), "used"),
        (PathStates(now="new", known=["old", "end"], is_changed=True), "kept"),
        (PathStates(now="end", known=["old", "end"], is_changed=True), "known"),
        (PathStates(now="new", known=[""]), "new"),
        (PathStates(now="new", known=[""], is_own=True), "used"),
        (PathStates(now="new", known=[""], is_tracked=True), "used"),
        (PathStates(now="new", known=[""], is_tracked=True, is_written=True), "new"),
        (PathStates(now="new", known=["", "committed"], is_committed=True), "used"),
        (PathStates(now="new", known=[""], is_own=True, is_bulky=True), "new"),
    ],
)
def test_fates(states: PathStates, expected: str) -> None:
    assert fate_of(states, "edits") == expected


@given(
    paths=st.dictionaries(NAMES, PATHS, max_size=5), start=st.sets(NAMES),
    files=st.sampled_from(FILES),
)  # fmt: skip
def test_no_file_is_used_below_or_above_another(
    paths: dict[str, PathStates], start: set[str], files: Files
) -> None:
    """The start itself has no file below another."""
    start = {path for path in start if not any(f"{path}/" in f"{one}/" for one in start - {path})}

    fates = fates_of(paths, files, start)

    used = {path: paths[path] for path, fate in fates.items() if fate == "used"}
    made = {path for path, states in used.items() if states.now}
    whole = made | (start - used.keys())
    pairs = itertools.product(made, whole)
    assert not any(a != b and (f"{b}/".startswith(f"{a}/") or f"{a}/".startswith(f"{b}/"))
                   for a, b in pairs)  # fmt: skip


@for_each(
    "path, expected",
    [("CLAUDE.md", True), ("a/AGENTS.md", True), (".claude/agents/r.md", True), ("x.py", False),
     ("b/.mcp.json", True), ("named.md", True), ("claude.py", False),
     (".github/copilot-instructions.md", True)],
)  # fmt: skip
def test_own_files(path: str, *, expected: bool) -> None:
    assert is_own(path, {"named.md"}) is expected
