"""One place hashes, under a domain for each purpose (CONTRACT.md §2.4, §3.3, §5.4)."""

from hashlib import sha256

import pytest

from refold.engine.encoding import digest
from refold.engine.errors import NotCanonical

DOMAINS = [
    digest.HEADER,
    digest.EVENT,
    digest.BLOB,
    digest.DATA,
    digest.STATE,
    digest.MESSAGE,
    digest.VALUE,
    digest.IDENTITY,
    digest.LEAF,
    digest.NODE,
]


def hashed(domain: bytes, content: str) -> str:
    """Return what the contract says a digest is."""
    return sha256(domain + content.encode()).hexdigest()


def test_no_domain_is_the_beginning_of_another() -> None:
    """So that no value of one kind can pass for one of another."""
    assert len(set(DOMAINS)) == len(DOMAINS)
    assert all(each.startswith(b"refold/1 ") and each.endswith(b"\n") for each in DOMAINS)
    assert all(each.count(b"\n") == 1 for each in DOMAINS)


def test_a_value_has_one_digest_whatever_the_order_of_its_members() -> None:
    """Of its canonical bytes, sorted."""
    one, other = {"a": 1, "b": [2]}, {"b": [2], "a": 1}

    assert digest.of_value(digest.VALUE, one) == digest.of_value(digest.VALUE, other)
    assert digest.of_value(digest.VALUE, one) == hashed(digest.VALUE, '{"a":1,"b":[2]}')


def test_a_value_that_no_log_holds_has_no_digest() -> None:
    """Refused, as in a log."""
    with pytest.raises(NotCanonical):
        digest.of_value(digest.VALUE, float("nan"))


def test_conversations_chain() -> None:
    """§2.4: the digest before and the message's own, both as hex text."""
    message = {"role": "user", "content": "é"}
    own = digest.of_value(digest.MESSAGE, message)

    first = digest.chained("", message)

    assert first == hashed(digest.MESSAGE, own)
    assert digest.chained(first, message) == hashed(digest.MESSAGE, first + own)


def test_children_have_a_merkle_root() -> None:
    """§5.4: RFC 6962, an odd node is promoted, nothing has the digest of nothing."""
    texts = [digest.child_leaf(run, "0" * 64, 7) for run in ("one", "two", "three")]
    leaves = [hashed(digest.LEAF, text) for text in texts]
    pair = hashed(digest.NODE, leaves[0] + leaves[1])

    assert texts[0] == f"one {'0' * 64} 7"
    assert digest.merkle_root([]) == hashed(digest.LEAF, "")
    assert digest.merkle_root(texts[:1]) == leaves[0]
    assert digest.merkle_root(texts[:2]) == pair
    assert digest.merkle_root(texts) == hashed(digest.NODE, pair + leaves[2])
    assert digest.merkle_root(texts[::-1]) != digest.merkle_root(texts)
