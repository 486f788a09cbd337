"""The JSON schema of one divergence: `refold schema divergence` (CONTRACT.md §12.5).

Part of the documents of `refold replay`; members are explained, because it is what others build
their own reports from.
"""

from typing import Final

from refold.cli.schema.derived import ANY, TEXT, derived, list_of
from refold.cli.schema.events import Schema, record
from refold.replay.difference.pointer_diff import Difference
from refold.replay.explain.divergence import HEADLINES, LATER_MAX, Divergence, Later

_KIND: Final[Schema] = {"enum": ["changed", "added", "removed"]}
DIFFERENCE: Final = record({"pointer": TEXT, "kind": _KIND}, {"before": ANY, "after": ANY})


def divergence_schema() -> Schema:
    """Return the schema of a divergence."""
    known: dict[type, Schema] = {Difference: DIFFERENCE}
    meanings = "; ".join(f"{name}: {said}" for name, said in HEADLINES.items())
    return derived(
        Divergence,
        known,
        category={"enum": list(HEADLINES), "description": meanings},
        later={**list_of(derived(Later, known)), "maxItems": LATER_MAX},
    )
