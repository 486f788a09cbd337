"""Sessions, and items that programs of several files dispatch to them."""

from typing import Any

import attrs

from refold.engine.session import Session, append_all


@attrs.frozen
class Finding:
    """Something that a child found."""

    text: Any


def findings() -> Session:
    """Return a session that keeps what was found."""
    session = Session()
    session.register(Finding, Finding, append_all)
    return session
