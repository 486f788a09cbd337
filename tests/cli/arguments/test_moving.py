"""What became of runs that were moved: in lines, or as one document (§14.17)."""

import json

import click
import pytest

from refold.cli.arguments.moving import tell_moved
from refold.cli.output import output
from refold.engine.errors import LogMissing, RefoldError, StoreDamaged
from refold.store.push import Moved

_OUTCOMES: list[tuple[str, Moved | RefoldError]] = [
    ("a.jsonl", Moved("a.jsonl", "pushed", "0" * 64, 3, 2000, 1000)),
    ("b.jsonl", StoreDamaged("s3://b/runs/b.json", "one", "an\x1b[31mother")),
    ("c.jsonl", LogMissing("s3://b/c.jsonl")),
]


def test_each_run_and_a_sum_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Refusals on standard error; nothing of them reaches a terminal but what it can show."""
    code = tell_moved(iter(_OUTCOMES), "s3://b", 3, "pushing")

    said = capsys.readouterr()
    assert code == 3
    assert "s3://b: 1 pushed, 2 refused; 1 kB moved" in said.out
    assert r"s3://b/runs/b.json: expected one, found an\x1b[31mother" in said.err


def test_the_document_has_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(click.Command("push")) as context:
        output.note_json(context, click.Option(["--json"]), is_asked=True)
        tell_moved(iter(_OUTCOMES), "s3://b", 0, "pushing")

    document = json.loads(capsys.readouterr().out)
    assert [row["status"] for row in document["runs"]] == ["pushed", "refused", "refused"]
    assert document["runs"][0]["moved_bytes"] == 1000
