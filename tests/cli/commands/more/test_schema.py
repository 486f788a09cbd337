"""`refold schema` lists the schemas, and prints one; an unknown name is usage."""

import json
from collections.abc import Callable

from click.testing import Result

from refold.cli.schema.documents import DOCUMENTS

Invoke = Callable[..., Result]


def test_without_a_name_it_says_which_there_are(invoke: Invoke) -> None:
    listed = invoke("schema")

    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == list(DOCUMENTS)
    assert list(json.loads(invoke("schema", "--json").stdout)) == list(DOCUMENTS)


def test_a_schema_is_one_document_on_standard_output(invoke: Invoke) -> None:
    said = invoke("schema", "verify")

    assert json.loads(said.stdout)["title"] == "refold verify --json"
    assert said.stderr == ""


def test_a_name_that_is_not_there_is_usage(invoke: Invoke) -> None:
    assert invoke("schema", "nothing").exit_code == 2
