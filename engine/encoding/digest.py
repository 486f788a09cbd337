"""The one place that hashes.

SHA-256 throughout, under a domain for each purpose, so that no value of one kind can ever pass for
another (CONTRACT.md §3.3, §6).  Digests are 64 lower-case hex digits.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from refold.engine.encoding.canonical import Json, encode_key, encode_sorted

HEADER: Final = b"refold/1 header\n"
EVENT: Final = b"refold/1 event\n"
BLOB: Final = b"refold/1 blob\n"
DATA: Final = b"refold/1 data\n"
STATE: Final = b"refold/1 state\n"
MESSAGE: Final = b"refold/1 message\n"
VALUE: Final = b"refold/1 value\n"
IDENTITY: Final = b"refold/1 identity\n"
LEAF: Final = b"refold/1 leaf\n"
NODE: Final = b"refold/1 node\n"
TREE: Final = b"refold/1 tree\n"
FOLDER: Final = b"refold/1 folder\n"

DATA_MODULUS: Final = 1 << 256
NO_CHILDREN: Final = sha256(LEAF).hexdigest()
"""The Merkle root of a run that has joined no child's log."""


def of_bytes(domain: bytes, content: bytes) -> str:
    """Return the digest of `content` under `domain`."""
    return sha256(domain + content).hexdigest()


def of_value(domain: bytes, value: Json) -> str:
    """Return the digest of a JSON value, for any order of its members.

    Raises:
        NotCanonical: the value is not one.
    """
    return of_bytes(domain, encode_sorted(value))


def of_key(key: Json) -> str:
    """Return the digest of a key made of values that a log holds, in any order."""
    return of_bytes(VALUE, encode_key(key))


def chained(previous: str, value: Json) -> str:
    """Return the digest of a conversation `previous` with the message `value` added (§2.4)."""
    return of_bytes(MESSAGE, f"{previous}{of_value(MESSAGE, value)}".encode())


def child_leaf(run: str, head: str, events: int) -> str:
    """Return the Merkle leaf that binds one joined child: run id, head, entries."""
    return f"{run} {head} {events}"


def merkle_root(leaves: Sequence[str]) -> str:
    """Return the Merkle root over children, in start order (RFC 6962; an odd node is promoted).

    Each leaf is the text that binds one child: run id, head and number of entries.  An empty
    sequence has the digest of nothing under the leaf domain.
    """
    if not leaves:
        return NO_CHILDREN
    level = [of_bytes(LEAF, leaf.encode()) for leaf in leaves]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [
            of_bytes(NODE, "".join(pair).encode()) if len(pair) > 1 else pair[0] for pair in pairs
        ]
    return level[0]
