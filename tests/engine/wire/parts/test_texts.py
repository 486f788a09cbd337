"""Texts and counts that a server sent, as a log or a message can hold them."""

from refold.engine.wire.parts.texts import short, text_of


def test_half_a_surrogate_pair_is_replaced() -> None:
    """A log holds no lone surrogates, and whole pairs stay."""
    assert text_of("a\ud83cb") == "a\ufffdb"
    assert text_of("\U0001f319") == "\U0001f319"


def test_messages_are_short_and_hold_no_key() -> None:
    """One line, 300 characters; keys by shape and by value."""
    told = short("no\n sk-abcdef123 Bearer abcdefghijklmnop, not hush; bearer token", ["hush"])

    assert told == "no … …, not …; bearer token"
    assert len(short("x" * 1000)) == 300
