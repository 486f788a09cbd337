"""Lines added and removed, and diffs to read."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.workspace import diffs

TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "ä\n"])).map("".join)


@given(TEXTS, TEXTS)
def test_lines_counted_are_those_of_the_diff(before: str, after: str) -> None:
    """As many more as there are more lines after; none where nothing changed; never too many."""
    found = diffs.counted(before.encode(), after.encode())

    assert found is not None
    added, removed = found
    assert added - removed == after.count("\n") - before.count("\n")
    assert ((added, removed) == (0, 0)) == (before == after)
    told = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    assert added <= sum(line.startswith("+ ") for line in told) + before.count("\n")


def test_long_and_binary_contents() -> None:
    """What took minutes is counted; what is no text is not."""
    before = "".join(f"{number}\n" for number in range(50_000)).encode()
    after = before.replace(b"\n25000\n", b"\nnew\n").replace(b"\n10\n", b"\n")

    assert diffs.counted(before, after) == (1, 2)
    assert diffs.counted(b"a\0", b"b") is None
    assert diffs.counted(b"a", b"\xff") is None
    assert diffs.unified(b"a\0", b"b", "x") == ["Binary files a/x and b/x differ"]


def test_a_diff_to_read() -> None:
    """With names, and a last line that has no end."""
    assert diffs.unified(b"one\ntwo", b"one\nthree\n", "x") == [
        "--- a/x", "+++ b/x", "@@ -1,2 +1,2 @@", " one", "-two", "\\ No newline at end of file",
        "+three",
    ]  # fmt: skip
    assert diffs.unified(None, b"new\n", "x")[:2] == ["--- /dev/null", "+++ b/x"]
