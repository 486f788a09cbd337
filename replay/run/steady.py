"""Removes text that changes on every run from the texts of a watched run, for snapshots.

A snapshot has no current values to bind recorded values to (CONTRACT.md §16.17), so these are
removed: the folders of the recording, the values that its profile names, and dates, times, versions
and ids anywhere. A replay compares all of them. Pure. Rules: CONTRACT.md §13.10.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from refold.engine.observed.binding import FOLDERS, Bindings, places_of
from refold.engine.observed.profile import Profile
from refold.replay.run.tree_text import MODELS

_EXACT: Final = ("model", "models")
_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? "
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?"
_CHANGING: Final = re.compile(
    rf"(?P<date>\b\d{{4}}-\d\d-\d\d(?!\d)(?:[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)?"
    rf"|(?:{_DAY})?\b{_MONTH} \d{{1,2}}(?:,? {_CLOCK})?,? \d{{4}}\b"
    rf"|\b{_DAY}\d{{1,2}} {_MONTH} \d{{4}}\b)"
    rf"|(?P<time>\b\d{{1,2}}:\d\d:\d\d\b)"
    r"|(?P<id>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{16,64}\b)"
    r"|(?P<version>\bv?\d+\.\d+\.\d+(?:[.+-]\w+)*)"
)


class Steady:
    """Knows what changes in the texts of one recording."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        """Take the rules of its first entry."""
        folders = rules.get(FOLDERS)
        was = {k: v for k, v in folders.items() if isinstance(v, str)} if folders else {}
        profile = Profile.in_rules(rules)
        places, _ = places_of(profile.places)
        self._profile = profile
        self._bound = Bindings(places, was, {name: f"/<{name}>" for name in was})
        self._digests: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Return a text with `<date>`, `<folder>` and the like for what changes."""
        moved = str(self._bound.as_now(text))
        return _CHANGING.sub(lambda found: f"<{found.lastgroup}>", moved)

    def value(self, value: Any) -> Any:
        """Likewise, a JSON value; names of models are as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {k: v if k in _EXACT else self.value(v) for k, v in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def tree(self, text: str) -> str:
        """Likewise, the text of a tree: names of models are as they are."""
        lines = text.splitlines(keepends=True)
        return "".join(
            line if line.lstrip().startswith(MODELS) else self.text(line) for line in lines
        )

    def digest(self, system: str) -> str:
        """Return 12 hex digits for a system prompt; empty for none."""
        if system not in self._digests:
            plain = self._bound.plain_text(self._profile.plain(system), "system")
            found = sha256(self.text(plain).encode(errors="surrogatepass")).hexdigest()
            self._digests[system] = found[:12] if plain else ""
        return self._digests[system]
