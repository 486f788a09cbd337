"""Diffs to read."""

from refold.engine.workspace import diffs


def test_a_diff_to_read() -> None:
    """With names, and a last line that has no end."""
    assert diffs.unified(b"one\ntwo", b"one\nthree\n", "x") == [
        "--- a/x", "+++ b/x", "@@ -1,2 +1,2 @@", " one", "-two", "\\ No newline at end of file",
        "+three",
    ]  # fmt: skip
    assert diffs.unified(None, b"new\n", "x")[:2] == ["--- /dev/null", "+++ b/x"]
    assert diffs.unified(b"a\0", b"b", "x") == ["Binary files a/x and b/x differ"]
