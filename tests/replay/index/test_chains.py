"""What a chain digest stands for (CONTRACT.md §2.4)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.replay.index.chains import Chains

_MESSAGES: Any = st.lists(st.fixed_dictionaries({"content": st.text(max_size=3)}), max_size=8)


@given(_MESSAGES, st.integers(0, 8))
def test_the_messages_after_a_digest_are_all_before_it_and_it(messages: Any, at: int) -> None:
    chains = Chains()

    end = chains.after(chains.after("", messages[:at]), messages[at:])

    assert chains.messages(end) == tuple(messages)


def test_a_digest_that_the_log_lacks_is_refused() -> None:
    with pytest.raises(KeyError):
        Chains().messages("a")
