"""A captured stream says whether anything of it was dropped (CONTRACT.md §7.3)."""

import pytest

from refold.engine.process.bounds import Captured


@pytest.mark.parametrize(("seen", "truncated"), [(3, False), (4, True)])
def test_a_stream_is_truncated_when_more_was_seen_than_kept(*, seen: int, truncated: bool) -> None:
    assert Captured(kept=b"abc", head_bytes=2, seen_bytes=seen).truncated is truncated
