"""What changed in a text, so that one can act on it without opening the log (CONTRACT.md §12.5)."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from refold.replay.difference.pointer_diff import differences
from refold.replay.difference.text_diff import (
    LINES_MAX,
    TextChange,
    aligned,
    changed_lines,
    message_changes,
    text_changes,
)


@given(st.lists(st.sampled_from("ab .")), st.lists(st.sampled_from("ab .")))
def test_aligned_words_are_those_of_both_texts(before: list[str], after: list[str]) -> None:
    parts = [*aligned(before, after)]

    assert [word for sign, words in parts if sign in " -" for word in words] == before
    assert [word for sign, words in parts if sign in " +" for word in words] == after
    assert (parts[0][0], parts[-1][0]) == (" ", " ")


def test_lines_of_a_text_of_several() -> None:
    """One line of what is the same around it, and no more."""
    before = "one\ntwo\nthree\nfour\nfive"

    assert changed_lines(before, before.replace("three", "3")) == (" two", "-three", "+3", " four")


def test_words_of_a_long_line() -> None:
    """What is the same is shortened, what changed stands in brackets."""
    before = "a b c d e f g h i j k l m n o p q r s t u v w x y z"

    (line,) = changed_lines(before, before.replace("m", "EM and EN"))

    assert line == "…i j k l [-m-]{+EM and EN+} n o p q…"
    (line,) = changed_lines(before, before.replace("b", "BE").replace("x", "EX"))
    assert line == "a [-b-]{+BE+} c d e f…t u v w [-x-]{+EX+} y z"


def test_short_texts_are_left_to_their_pointer() -> None:
    """They read best as a whole."""
    assert text_changes(differences({"q": "a"}, {"q": "b"})) == ()
    (change,) = text_changes(differences({"q": "a" * 50}, {"q": "b" * 50}))
    assert change.what == "/q"


def test_a_conversation_is_told_message_by_message() -> None:
    """Index and role, what changed in the content, what came and what went."""
    before = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
    ]
    after = [
        {"role": "system", "content": "Be strict."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "And?", "name": "ada"},
    ]

    assert message_changes(before, after) == (
        TextChange("message 0 (system)", ("Be [-kind.-]{+strict.+}",)),
        TextChange("message 3 (user)", ("+And?", '+{"name":"ada"}')),
    )


def test_other_members_of_a_message_are_told_by_pointer() -> None:
    """Tool calls, ids, another role."""
    before = [{"role": "tool", "tool_call_id": "1", "content": "x"}]
    after = [{"role": "user", "tool_call_id": "2", "content": "x"}]

    (change,) = message_changes(before, after)

    assert change.what == "message 0 (tool → user)"
    assert change.lines == ('/tool_call_id: "1" → "2"',)


def test_what_is_shown_is_short_and_moves_no_cursor() -> None:
    """A text comes from a log, and may hold anything."""
    before = "\n".join(f"line {n}\x1b[31m{'x' * 500}" for n in range(100))

    lines = changed_lines(before, before.replace("line", "LINE"))

    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == f"… and {200 - LINES_MAX} lines more"
    assert all(len(line) <= 161 for line in lines)
    assert not re.search(r"[\x00-\x1f]", "".join(lines))


def test_a_long_line_among_several_is_told_by_its_words() -> None:
    """What changed in it is not in the middle that is left out."""
    line = " ".join(f"word{n}" for n in range(60))

    changed = changed_lines(f"one\n{line}", f"one\n{line.replace('word30', 'WORD')}")

    told = "…word26 word27 word28 word29 [-word30-]{+WORD+} word31 word32 word33 word34…"
    assert changed == (" one", f" {told}")


def test_a_long_line_that_became_quite_another_is_told_whole() -> None:
    """As any line of a text of several."""
    changed = changed_lines("one\n" + "a b" * 50, "one\n" + "c d" * 50)

    assert changed == (" one", "-" + "a b" * 50, "+" + "c d" * 50)


def test_what_changed_within_a_text_without_spaces_is_shown() -> None:
    """Scripts without spaces, digests and JSON of one line are one word."""
    before = "潮は月に従う。" * 40

    (line,) = changed_lines(before, before[:140] + "新しい" + before[140:])

    assert line == f"…{before[110:140]}{{+新しい+}}{before[140:170]}…"


def test_a_line_of_a_hundred_thousand_characters_takes_no_time() -> None:
    """Words are aligned where they differ alone, and not at all where that would take seconds."""
    words = [f"{('the', 'model', 'a', 'tool')[n % 4]}{n * 7919 % 500}" for n in range(15_000)]
    began = time.process_time()

    (added,) = changed_lines(" ".join(words), " ".join([*words[:9000], "new", *words[9000:]]))
    (other,) = changed_lines(" ".join(words), " ".join(reversed(words)))

    assert "{+new " in added
    assert "[-" in other
    assert "{+" in other
    assert time.process_time() - began < 5


def test_one_more_line_is_one() -> None:
    """Numbers are in words that fit them."""
    before = "\n".join(map(str, range(LINES_MAX)))

    assert changed_lines(f"{before}\n", "\n")[-1] == "… and 1 line more"


def test_texts_that_differ_in_how_a_line_ends_are_told() -> None:
    """Their lines are equal, one by one."""
    told = changed_lines("a", "a\n"), changed_lines("a\nb", "a\r\nb")

    assert told == (
        (" the same 1 line, with different line ends",),
        (" the same 2 lines, with different line ends",),
    )
