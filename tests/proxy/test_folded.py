"""Standard error passes through, but for a traceback over a refused request."""

from hypothesis import given
from hypothesis import strategies as st

from refold.proxy.folded import FoldedTracebacks

REFUSED = (
    b"Traceback (most recent call last):\n"
    b'  File "a.py", line 4, in <module>\n'
    b"    ask()\n"
    b"KeyError: 1\n"
    b"\n"
    b"During handling of the above exception, another exception occurred:\n"
    b"\n"
    b"Traceback (most recent call last):\n"
    b'  File "sdk.py", line 9, in ask\n'
    b"openai.BadRequestError: Error code: 400 - refold replay: no recorded answer to this request\n"
)
OTHER = b'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n'


def _folded(parts: list[bytes]) -> bytes:
    out = list[bytes]()
    folded = FoldedTracebacks(out.append)
    for part in parts:
        folded(part)
    folded.close()
    return b"".join(out)


@given(st.data())
def test_only_a_refused_request_is_folded_however_it_comes(data: st.DataObject) -> None:
    blocks = st.sampled_from([REFUSED, OTHER, b"50 %\r", b"done\n", b"\n", b"Trace me\n"])
    blocks_given = data.draw(st.lists(blocks))
    text = b"".join(blocks_given)
    at = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    parts = [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]

    found = _folded(parts)

    if REFUSED not in blocks_given:
        assert found == text
    assert b"refold replay" not in found
    assert found.count(b"the command then failed: BadRequestError\n") <= text.count(REFUSED)


def test_a_prompt_is_not_held() -> None:
    out = list[bytes]()

    FoldedTracebacks(out.append)(b"Go on? ")

    assert out == [b"Go on? "]
