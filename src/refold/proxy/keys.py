"""Which values that pass are secret: keys in headers and queries, and of the environment.

Each becomes an exact secret of the recording's vault, so that it is taken out of whatever is
written, in every form that `engine.redaction` knows.  Rules: CONTRACT.md §16.8.
"""

import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from refold.engine.vault import Vault
from refold.proxy.turns import Incoming

_LENGTH_MIN: Final = 8
"""Characters; what is shorter stands in for a key that nobody needs."""
_HEADERS: Final = re.compile(r"authorization|cookie|.*(?:key|token|secret|auth|password)")
_QUERY: Final = re.compile(r"(?i).*(?:key|token|secret|signature|password)|sig|auth")
_VARIABLES: Final = re.compile(
    r"(?i).*(?:_|^)(?:(?:api)?key|token|secret|passw(?:or)?d|credentials?)(?:_.*)?"
)


def learn_environment(vault: Vault, environment: Mapping[str, str] | None = None) -> None:
    """Make secrets of the values of variables whose names say so."""
    for name, value in (os.environ if environment is None else environment).items():
        if _VARIABLES.fullmatch(name):
            _learn(vault, name, value)


def learn_request(vault: Vault, incoming: Incoming) -> None:
    """Make secrets of what a request authorises itself with."""
    for name, value in incoming.headers:
        if _HEADERS.fullmatch(name):
            scheme, _, rest = value.partition(" ")
            _learn(vault, name, rest if rest and scheme.isalpha() else value)
    for name, value in parse_qsl(urlsplit(incoming.target).query):
        if _QUERY.fullmatch(name):
            _learn(vault, name, value)


def _learn(vault: Vault, name: str, value: str) -> None:
    if len(value.strip()) >= _LENGTH_MIN:
        vault.learn(name, value.strip())
