"""`refold schema`: describe the documents of `--json` and the lines of a log."""

import click

from refold.cli.arguments.options import argument, declared, option
from refold.cli.output import output
from refold.cli.output.exit_codes import FINE
from refold.cli.schema.documents import DOCUMENTS, schema


@declared("schema", has_json=False)
def command(
    *,
    name: str | None = argument(click.Choice([*DOCUMENTS]), "[NAME]", required=False),
    as_json: bool = option("Print the list of names as JSON.", "--json"),
) -> int:
    """Print the JSON schema NAME, or list all schemas.

    Examples:
      refold schema
      refold schema replay
      refold schema event > event.schema.json
    """
    if name is not None:
        output.document(schema(name))
    elif as_json:
        output.document({each: title for each, (title, _) in DOCUMENTS.items()})
    else:
        rows: list[list[output.Part]] = [[each, title] for each, (title, _) in DOCUMENTS.items()]
        output.table([["name", "describes"], *rows])
    return FINE
