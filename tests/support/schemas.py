"""Checks documents of the command line against their schemas, each of which is prepared once.

`jsonschema.validate` checks the schema itself each time, for a tenth of a second.
"""

import functools
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from refold.cli.schema.documents import schema


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


def validate(document: Any, name: str) -> None:
    """Raise ValidationError unless a document is as the schema of that name says."""
    if (error := best_match(_validator(name).iter_errors(document))) is not None:
        raise error
